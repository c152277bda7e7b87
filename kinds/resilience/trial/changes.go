package trial

import (
	"context"
	"fmt"
	"slices"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// Changes implements [Kind]. It returns the levers that trials set and what steps change elsewhere.
func (trials) Changes(ctx context.Context, o *runner.Options, plan *study.Plan) ([]journal.Planned, error) {
	var out []journal.Planned
	if o.Control != nil {
		var all []mesh.Levers
		for _, cell := range plan.Cells {
			all = append(all, mesh.LeversOf(cell))
		}
		levers, err := o.Control.Plan(ctx, all)
		if err != nil {
			return nil, err
		}
		out = levers
	}
	apply, err := lab.NewApplier(o.Lab.RESTConfig())
	if err != nil {
		return nil, err
	}
	for _, step := range resilience.Of(plan.Study).Timeline.Steps {
		out = append(out, planStep(step, slices.ContainsFunc(plan.Cells, study.Ambient))...)
		config, ok := step.Action.(*fault.Config)
		if !ok {
			continue
		}
		objects, err := planConfig(ctx, apply, step.Name, config)
		if err != nil {
			return nil, err
		}
		out = append(out, objects...)
	}
	return out, nil
}

// own stands for the run's namespace in an object without a namespace.
const own = site.NamespacePrefix + "own"

// planConfig returns the objects outside the run's namespace that a step changes: those in other
// namespaces and cluster-scoped ones.
func planConfig(ctx context.Context, apply *lab.Applier, step string, c *fault.Config) (out []journal.Planned, err error) {
	add := func(o *unstructured.Unstructured, gone bool) error {
		at, err := apply.Open(ctx, o, own)
		switch {
		case meta.IsNoMatchError(err):
			return nil // an earlier step creates the kind; otherwise the step itself fails
		case err != nil:
			return err
		case o.GetNamespace() == own:
			return nil
		}
		if kind := o.GetKind(); gone && (kind == "Namespace" || kind == "CustomResourceDefinition") {
			return errs.WithHint(errs.Usage("step %s deletes %s %s with everything in it, which cannot be reverted", step, kind, o.GetName()), "delete the individual objects")
		}
		planned := journal.Planned{Object: journal.ObjectOf(o).String(), Done: journal.Removed}
		if !gone {
			if planned, err = planApply(ctx, at, o); err != nil {
				return err
			}
		}
		planned.Note = fmt.Sprintf("by step %s, until it ends", step)
		out = append(out, planned)
		return nil
	}
	for _, object := range c.Apply {
		o, err := objectOf(object, "")
		if err != nil {
			return nil, err
		}
		if err := add(o, false); err != nil {
			return nil, err
		}
	}
	for _, r := range c.Delete {
		if err := add(journal.Object(r).Bare(), true); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// planApply returns what applying an object would change, using a dry run of the API server.
func planApply(ctx context.Context, at dynamic.ResourceInterface, o *unstructured.Unstructured) (journal.Planned, error) {
	name := journal.ObjectOf(o)
	live, err := at.Get(ctx, o.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return journal.Planned{Object: name.String(), Done: journal.Made}, nil
	}
	if err != nil {
		return journal.Planned{}, err
	}
	wanted, err := at.Apply(ctx, o.GetName(), o.DeepCopy(), metav1.ApplyOptions{FieldManager: journal.FieldManager, Force: true, DryRun: []string{metav1.DryRunAll}})
	if err != nil { // a step may expect this, and reports it itself
		return journal.Planned{Object: name.String(), Done: journal.Changed}, nil
	}
	planned, _ := journal.Plan(name, live.Object, []map[string]any{wanted.Object})
	return planned, nil
}

// planStep returns what a step changes outside the run's namespace; ambient means that node proxies
// carry requests of a cell.
func planStep(step fault.Step, ambient bool) (out []journal.Planned) {
	const untilEnd = ", until it ends"
	add := func(object string, done journal.Done, note, wide string) {
		out = append(out, journal.Planned{Object: object, Done: done, Note: "by step " + step.Name + note, Wide: []string{"step " + step.Name + ": " + wide}})
	}
	switch a := step.Action.(type) {
	case *fault.Restart:
		if a.Of == fault.OfZtunnel {
			add(ztunnel, "restarted by its DaemonSet", ", and once more when that is reverted after the trial; "+staysRestarted, "all connections of pods in the ambient mesh end, twice")
		}
	case *fault.Move:
		if ambient && a.To != fault.Installed {
			add(ztunnel, "moved by its DaemonSet to revision "+journal.Done(a.To), ", until a later step or the trial's end moves it back; "+staysRestarted, "all connections of pods in the ambient mesh end, twice")
		}
	case *fault.Drain:
		nodes := "the node of a pod of " + a.Service
		if a.Pick > 1 {
			nodes = fmt.Sprintf("the nodes of %d pods of %s", a.Pick, a.Service)
		}
		add(nodes, "cordoned", untilEnd+"; others' pods stay there, and none are scheduled there; if this program is killed, the next run or `meshtrial cluster restore` reverts it",
			"no pods are scheduled there meanwhile")
	case *fault.Process:
		switch {
		case a.Of == fault.OfZtunnel && a.Do == fault.DoPause:
			add(ztunnel, "paused", untilEnd+", on nodes of the trial's pods", "meanwhile pods in the ambient mesh there have no connections")
		case a.Of == fault.OfZtunnel:
			add(ztunnel, "killed", " on nodes of the trial's pods, and its pods there recreated after the trial; if this program is killed they are not, and Kubernetes delays their next restart", "all connections of pods in the ambient mesh there end, twice")
		case a.Of != fault.OfControlPlane:
		case a.Do == fault.DoPause: // the fault role ends pauses
			add(controlPlane, "paused", untilEnd, untold)
		default:
			add(controlPlane, "killed, and scaled to 0 replicas while the step lasts", untilEnd+"; "+staysAway, untold)
		}
	case *fault.Certificates:
		if expires(&fault.Timeline{Steps: []fault.Step{step}}) {
			add(controlPlane, "scaled to 0 replicas", untilEnd+"; "+staysAway, "if it stays away for long, certificates of the whole mesh expire; "+untold)
		}
	}
	return out
}

// Names of what steps change, and notes on it.
const (
	controlPlane = "the mesh's control plane"
	ztunnel      = "ztunnel"
	untold       = "meanwhile no proxy receives changes and no pod is injected"
	staysAway    = "if this program is killed, it stays away until the next run or `meshtrial cluster restore`"
	// staysRestarted is the note for ztunnel.
	staysRestarted = "if this program is killed, the next run or `meshtrial cluster restore` does that"
)
