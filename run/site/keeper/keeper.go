package keeper

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab/journal"
)

// Options of a keeper.
type Options struct {
	Kube      kubernetes.Interface
	Run       string    // the expected holder of the Lease
	Namespace string    // deleted when the run is over
	UID       types.UID // of the namespace: another one with the same name stays
	Log       *slog.Logger
}

// Run watches until ctx ends. Once the run is over it deletes the namespace,
// including this process's pod.
func Run(ctx context.Context, o Options) error {
	k := keeper{
		log:   o.Log,
		watch: watch{run: o.Run},
		read:  func(ctx context.Context) (*Lease, error) { return Read(ctx, o.Kube) },
		remove: func(ctx context.Context) error {
			background := metav1.DeletePropagationBackground
			return o.Kube.CoreV1().Namespaces().Delete(ctx, o.Namespace, metav1.DeleteOptions{
				PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &o.UID}})
		},
	}
	k.run(ctx)
	return nil
}

type keeper struct {
	log     *slog.Logger
	watch   watch
	read    func(context.Context) (*Lease, error)
	remove  func(context.Context) error
	trouble string // last logged API server problem
}

func (k *keeper) run(ctx context.Context) {
	for !k.look(ctx) {
		if wake.Pause(ctx, Every) != nil {
			return
		}
	}
	<-ctx.Done() // the namespace is being deleted, and this pod with it
}

// look reads the Lease once, and reports whether the namespace is being deleted.
func (k *keeper) look(ctx context.Context) (done bool) {
	ctx, cancel := context.WithTimeout(ctx, Every)
	defer cancel()
	lease, err := k.read(ctx)
	if err != nil {
		k.watch.unanswered()
		k.say("the Lease cannot be read", err)
		return false
	}
	k.say("", nil)
	why := k.watch.saw(time.Now(), lease)
	if why == "" {
		return false
	}
	k.log.Info("the run is over", "why", why)
	err = k.remove(ctx)
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // conflict: another namespace has its name
		return true
	}
	k.log.Error("the namespace cannot be removed", "error", err)
	return false
}

// say logs a problem when it starts, changes or ends.
func (k *keeper) say(what string, err error) {
	text := ""
	if err != nil {
		text = what + ": " + err.Error()
	}
	if text == k.trouble {
		return
	}
	if k.trouble = text; text == "" {
		k.log.Info("the Lease can be read again")
		return
	}
	k.log.Warn(what, "error", err)
}

// Read reads the cluster's Lease; nil if there is none.
func Read(ctx context.Context, kube kubernetes.Interface) (*Lease, error) {
	path := "/apis/coordination.k8s.io/v1/namespaces/" + journal.Namespace + "/leases/" + journal.LeaseName
	data, err := kube.CoreV1().RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Lease %s/%s: %w", journal.Namespace, journal.LeaseName, err)
	}
	var lease struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Spec struct {
			HolderIdentity string `json:"holderIdentity"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(data, &lease); err != nil {
		return nil, fmt.Errorf("read Lease %s/%s: %w", journal.Namespace, journal.LeaseName, err)
	}
	return &Lease{Holder: lease.Spec.HolderIdentity, Version: lease.Metadata.ResourceVersion}, nil
}
