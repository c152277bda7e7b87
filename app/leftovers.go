package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/kinds"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh/meshes"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study"
)

// removeLeftovers removes what killed runs left and waits for the pods of runs that have just
// ended. The caller holds the cluster's Lease, so the runs that made these objects are dead.
func removeLeftovers(ctx context.Context, p Progress, where lab.Lab) error {
	kube, err := kubernetes.NewForConfig(where.RESTConfig())
	if err != nil {
		return err
	}
	left, err := site.Leftovers(ctx, kube)
	if err != nil {
		if where.Kind() == lab.KindCluster && apierrors.IsForbidden(err) {
			return nil // studies do not require this right
		}
		return err
	}
	for _, l := range left {
		if l.Dead {
			p.Say("removing namespace %s of a run that was killed", l.Namespace)
		} else {
			p.Note("%s", leftoverWarning(l))
		}
	}
	if err := removeDead(ctx, where.RESTConfig(), kube, left); err != nil {
		return err
	}
	still, err := site.AwaitEnding(ctx, kube, func(namespaces []string) {
		p.Say("waiting for an earlier run's pods to terminate (%s)", strings.Join(namespaces, ", "))
	})
	for _, namespace := range still {
		p.Note("warning: pods of an earlier run in namespace %s are not terminating; they are measured too\n  to see why: kubectl -n %s get pods", namespace, namespace)
	}
	if err != nil || where.Kind() != lab.KindLocal { // in a cluster runs create no control plane
		return err
	}
	for _, kit := range meshes.Kits {
		if kit.AwaitDead == nil {
			continue
		}
		wait := func() { p.Say("waiting for an earlier run's %s control plane to terminate", kit.Name) }
		if err := kit.AwaitDead(ctx, where.RESTConfig(), kube, site.RunLabel, wait); err != nil {
			return err
		}
	}
	return nil
}

// removeNamespaces removes what dead runs made and returns the names of their namespaces. If run
// is set, it removes what that run made, whether or not that run is dead.
func removeNamespaces(ctx context.Context, p Progress, config *rest.Config, run string) ([]string, error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	left, err := site.Leftovers(ctx, kube)
	if apierrors.IsForbidden(err) { // the journal was reverted without this right
		p.Note("note: namespaces of dead runs are not removed: this user may not list namespaces")
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var mine []site.Leftover
	var names []string
	for _, l := range left {
		if run != "" && l.Run != run {
			continue
		}
		if l.Dead = l.Dead || run != ""; !l.Dead {
			p.Note("%s", leftoverWarning(l))
			continue
		}
		mine, names = append(mine, l), append(names, l.Namespace)
	}
	if err := removeDead(ctx, config, kube, mine); err != nil {
		return nil, err
	}
	return names, nil
}

// removeDead removes what the dead runs in all made.
func removeDead(ctx context.Context, config *rest.Config, kube kubernetes.Interface, all []site.Leftover) error {
	remains := map[study.Kind]bool{}
	for _, l := range all {
		if l.Dead {
			remains[study.Kind(l.Kind)] = true
		}
	}
	for name := range remains {
		if kind, ok := kinds.Named(name); ok {
			if err := kind.Trial.Remains(ctx, config); err != nil {
				return fmt.Errorf("remove what a dead run created: %w", err)
			}
		}
	}
	return site.RemoveLeftovers(ctx, kube, all)
}

// leftoverWarning returns a warning about a namespace whose run may still be under way elsewhere.
func leftoverWarning(l site.Leftover) string {
	whose := "owner unknown"
	if l.Owner != "" {
		whose = "of " + l.Owner + ", which is not on this machine"
	}
	return fmt.Sprintf("warning: namespace %s, from %s, may be left over from an earlier run (%s); its idle pods are measured too\n  if that run is over: meshtrial cluster restore --run %s",
		l.Namespace, l.Since.Local().Format(time.DateTime), whose, l.Run)
}
