package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/kinds"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/runner"
	"github.com/meshtrial/meshtrial/site"
	"github.com/meshtrial/meshtrial/study"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// sweepLeftovers removes from the local lab what runs left that were killed,
// and waits for the pods of runs that have just ended.
// In a user's cluster it removes nothing and says what to look at: a run
// that is at work on another machine looks the same from here.
func sweepLeftovers(ctx context.Context, p *progress, where lab.Lab) error {
	kube, err := kubernetes.NewForConfig(where.RESTConfig())
	if err != nil {
		return err
	}
	left, err := site.Leftovers(ctx, kube)
	if err != nil {
		if where.Kind() == lab.KindCluster && apierrors.IsForbidden(err) {
			return nil // a study does not need this right
		}
		return err
	}
	remove := where.Kind() == lab.KindLocal
	for _, l := range left {
		if remove && l.Dead {
			p.say("removing namespace %s of a run that was killed", l.Namespace)
			continue
		}
		p.note("%s", leftoverWarning(l))
	}
	if remove {
		err := site.RemoveLeftovers(ctx, kube, left, func(ctx context.Context, l site.Leftover) error {
			return restore(ctx, where, kube, l)
		})
		if err != nil {
			return err
		}
	}
	still, err := site.AwaitEnding(ctx, kube, func(namespaces []string) {
		p.say("waiting for the end of an earlier run's pods (%s)", strings.Join(namespaces, ", "))
	})
	for _, namespace := range still {
		p.note("warning: pods of namespace %s, of an earlier run, do not end; they are measured along\n  what holds them: kubectl -n %s get pods", namespace, namespace)
	}
	return err
}

// restore puts back what a dead run changed outside its namespace, as its
// kind does.
func restore(ctx context.Context, where lab.Lab, kube kubernetes.Interface, l site.Leftover) (err error) {
	kind, ok := kinds.Named(study.Kind(l.Kind))
	if !ok {
		return nil // of no study
	}
	return kind.Trial.Restore(ctx, runner.Remains{
		Config: where.RESTConfig(), Kube: kube, Run: l.Run, Annotations: l.Annotations,
		Control: func(ctx context.Context) (mesh.ControlPlane, func() error, error) {
			plane, err := openControl(ctx, where)
			if err != nil {
				return nil, nil, err
			}
			return plane, plane.Close, nil
		},
	})
}

// leftoverWarning says what a namespace is that this program leaves alone.
func leftoverWarning(l site.Leftover) string {
	whose := "owner unknown"
	switch {
	case l.Dead:
		whose = l.Owner + " is dead"
	case l.Owner != "":
		whose = "of " + l.Owner + ", which cannot be seen from here"
	}
	return fmt.Sprintf("warning: namespace %s, from %s, may be left over from an earlier run (%s); its idle pods are measured along\n  if that run is over: kubectl delete namespace %s",
		l.Namespace, l.Since.Local().Format(time.DateTime), whose, l.Namespace)
}
