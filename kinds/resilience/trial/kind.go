package trial

import (
	"context"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/drive/fault/drive"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/study"
	"k8s.io/client-go/rest"
)

// Kind runs resilience trials.
var Kind runner.Kind = trials{}

type trials struct{}

// Ending implements [runner.Ender]: steps are undone, the last counters are read, and the trial's
// pods end. Node proxies that steps ended return one by one.
func (trials) Ending(ctx context.Context, o *runner.Options, plan *study.Plan) (time.Duration, error) {
	out := drive.RevertTime + lastLookTime + clearTimeout
	at := slices.IndexFunc(plan.Cells, study.Ambient)
	if at < 0 || !slices.ContainsFunc(resilience.Of(plan.Study).Timeline.Steps, endsNodeProxies) {
		return out, nil
	}
	m, err := meshOf(o, plan.Cells[at])
	if err != nil {
		return 0, err
	}
	kube, err := kubernetes.NewForConfig(o.Lab.RESTConfig())
	if err != nil {
		return 0, err
	}
	pods, err := nodeProxies(ctx, kube, m)
	return out + settleEach + settleTime(len(pods)), err
}

// endsNodeProxies reports whether a step ends node proxies, which are recreated after the trial.
func endsNodeProxies(step fault.Step) bool {
	switch a := step.Action.(type) {
	case *fault.Restart:
		return a.Of == fault.OfZtunnel
	case *fault.Process:
		return a.Of == fault.OfZtunnel && a.Do != fault.DoPause
	case *fault.Move:
		return true
	}
	return false
}

// Remains implements [Kind]: changes that steps made elsewhere are in the journal.
func (trials) Remains(context.Context, *rest.Config) error { return nil }
