package istio

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/mesh"
)

// Beside is an istiod of a revision for a lab that has another, of the images that the lab's
// own has, out of the charts' objects for it: what the two share is there already, and stays
// as it is. What has the label of an earlier run goes, and is made anew.
func (m *Mesh) Beside(ctx context.Context, config *rest.Config, revision, label string) (mesh.Addition, error) {
	b, err := components.New(components.Options{Recorded: true}) // lab up read them
	if err != nil {
		return mesh.Addition{}, err
	}
	o := order{official: !builtHere(m.images), hub: m.images[factHub], tag: m.images[factTag],
		set: append(ManifestSettings(), "revision="+revision)}
	i, err := o.installation(ctx, b)
	if err != nil {
		return mesh.Addition{}, err
	}
	applier, err := lab.NewApplier(config)
	if err != nil {
		return mesh.Addition{}, err
	}
	objects, err := applier.Missing(ctx, slices.Concat(i.Stages...), label)
	if err != nil {
		return mesh.Addition{}, fmt.Errorf("istio: revision %s: look for what is there: %w", revision, err)
	}
	var leases []*unstructured.Unstructured
	for _, election := range ownElections {
		leases = append(leases, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
			"metadata": map[string]any{"name": election + "-" + revision, "namespace": Namespace}}})
	}
	return mesh.Addition{Objects: objects, Leaves: leases}, nil
}

// ownElections begin the names of the Leases that each revision has for itself
// (pilot/pkg/leaderelection, NewPerRevisionLeaderElection).
var ownElections = []string{"istio-gateway-deployment", "istio-gateway-status-leader", "istio-gateway-inferencepool"}

// awaitOthers waits until the istiods are gone that runs made for themselves, by their
// label, and what the API server asks in their name: of a run that was killed the cluster's
// garbage collector takes them away, once its namespace is gone. A namespace whose owner
// cannot be seen stays until somebody says that it may go. wait is told that there is
// something to wait for.
func awaitOthers(ctx context.Context, kube kubernetes.Interface, label string, wait func()) error {
	ctx, cancel := context.WithTimeoutCause(ctx, othersLimit, fmt.Errorf("they are still there after %v", othersLimit))
	defer cancel()
	for looks := 0; ; looks++ {
		deployments, err := kube.AppsV1().Deployments(Namespace).List(ctx, metav1.ListOptions{LabelSelector: istiodLabel + "," + label})
		if err != nil {
			return fmt.Errorf("istio: look for istiods of earlier runs: %w", err)
		}
		hooks, err := kube.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{LabelSelector: injectorLabel + "," + label})
		if err != nil {
			return fmt.Errorf("istio: look for injectors of earlier runs: %w", err)
		}
		run := ""
		switch {
		case len(deployments.Items) > 0:
			run = deployments.Items[0].Labels[label]
		case len(hooks.Items) > 0:
			run = hooks.Items[0].Labels[label]
		default:
			return nil
		}
		if looks == 0 {
			wait()
		}
		if err := wake.Pause(ctx, othersEvery); err != nil {
			return errs.WithHint(fmt.Errorf("istio: wait for the end of the istiod of run %s: %w", run, context.Cause(ctx)),
				"if that run is over: meshtrial cluster restore --run %s", run)
		}
	}
}

// How long, and how often, is looked for istiods of earlier runs; and how long one may take
// to end.
const (
	othersLimit = 2 * time.Minute
	othersEvery = 200 * time.Millisecond
	endTime     = 30 * time.Second
)

// sweepElections deletes what istiods of revisions that are no more elected themselves by:
// nobody owns these Leases, and a run that is killed leaves them. It is for a lab of ours.
func sweepElections(ctx context.Context, kube kubernetes.Interface, leases dynamic.ResourceInterface) error {
	living, err := revisionsLeft(ctx, kube)
	if err != nil {
		return err
	}
	all, err := leases.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("istio: look for Leases of earlier istiods: %w", err)
	}
	for _, lease := range all.Items {
		for _, election := range ownElections {
			revision, own := strings.CutPrefix(lease.GetName(), election+"-")
			if !own || living[revision] {
				continue
			}
			if err := leases.Delete(ctx, lease.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("istio: delete the Lease of an earlier istiod: %w", err)
			}
		}
	}
	return nil
}

// revisionsLeft are those that have an istiod, once the pods have ended of those that have
// none any more: they would make their Leases anew.
func revisionsLeft(ctx context.Context, kube kubernetes.Interface) (map[string]bool, error) {
	for began := time.Now(); ; {
		deployments, err := kube.AppsV1().Deployments(Namespace).List(ctx, metav1.ListOptions{LabelSelector: istiodLabel})
		if err != nil {
			return nil, fmt.Errorf("istio: look for istiods: %w", err)
		}
		pods, err := kube.CoreV1().Pods(Namespace).List(ctx, metav1.ListOptions{LabelSelector: istiodLabel})
		if err != nil {
			return nil, fmt.Errorf("istio: look for pods of istiods: %w", err)
		}
		living := map[string]bool{}
		for _, d := range deployments.Items {
			living[d.Labels[revisionLabel]] = true
		}
		ending := false
		for _, p := range pods.Items {
			ending = ending || !living[p.Labels[revisionLabel]]
		}
		if !ending {
			return living, nil
		}
		if time.Since(began) >= endTime { // of a dead node, perhaps
			for _, p := range pods.Items {
				living[p.Labels[revisionLabel]] = true
			}
			return living, nil
		}
		if err := wake.Pause(ctx, othersEvery); err != nil {
			return nil, err
		}
	}
}
