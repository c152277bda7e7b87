package app

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"k8s.io/client-go/dynamic"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/kinds"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/study"
)

// chooseRevision selects the revision of Istio for a run that uses Istio, and returns an error if
// that Istio cannot run the plan in its present state. A resumed run uses the revision in its
// header. Notes, and remarks in the run's header, name what belongs to others and affects the
// figures.
func (o *RunOptions) chooseRevision(ctx context.Context, plan *study.Plan, run *runner.Options) error {
	m, ok := adapter[mesh.Chooser](plan, run.Mesh, run.Meshes)
	if !ok {
		if o.Revision != "" {
			return errs.Usage("--revision %s: the study's mesh has no revisions", o.Revision)
		}
		return nil
	}
	name := o.Revision
	var was record.Header
	if o.Resume != "" {
		contents, err := store.Read(o.Resume)
		if err != nil {
			return err
		}
		was = contents.Header
		name = cmp.Or(name, was.Revision)
	}
	kube, err := kubernetes.NewForConfig(run.Lab.RESTConfig())
	if err != nil {
		return err
	}
	objects, err := dynamic.NewForConfig(run.Lab.RESTConfig())
	if err != nil {
		return err
	}
	asked, err := kinds.Asks(plan, m.Name())
	if err != nil {
		return err
	}
	revision, notes, err := m.Choose(ctx, kube, objects, name, asked)
	if err != nil {
		return err
	}
	for _, text := range notes {
		o.Progress.Note("note: %s", text)
	}
	run.Remarks = append(run.Remarks, notes...)
	if err := runner.Same(o.Resume, was, record.Header{Revision: revision}); err != nil {
		return err
	}
	run.Revision = revision
	if !ofRevisions(plan) {
		return nil
	}
	kind := run.Lab.Kind()
	if o.OwnLab {
		kind = kindDetached
	}
	missing, err := missingRevisions(ctx, kube, objects, m, asked, kind, plan)
	if err != nil {
		return err
	}
	run.Beside = map[string]mesh.Addition{}
	for _, name := range missing {
		made, err := m.Beside(ctx, run.Lab.RESTConfig(), name, resilience.Of(plan.Study).Timeline.Second(name), site.RunLabel)
		if err != nil {
			return err
		}
		for _, n := range made.Notes {
			o.Progress.Note("note: %s", n)
			run.Remarks = append(run.Remarks, n.String())
		}
		run.Beside[name] = made
	}
	return nil
}

// kindDetached is the kind of a local lab as a detached run sees it. The run installs no istiod
// in it.
const kindDetached = "detached"

// ofRevisions reports whether steps of a plan involve several revisions.
func ofRevisions(plan *study.Plan) bool {
	if resilience.Of(plan.Study) == nil {
		return false
	}
	up, _ := resilience.Of(plan.Study).Timeline.Revisions()
	return len(up) > 0 || resilience.Of(plan.Study).Timeline.Moves()
}

// missingRevisions returns the revisions that steps bring up and that do not exist yet. It
// returns an error if the plan's steps cannot be carried out with the existing ones.
func missingRevisions(ctx context.Context, kube kubernetes.Interface, objects dynamic.Interface, m mesh.Chooser,
	asked mesh.Asked, kind string, plan *study.Plan) ([]string, error) {
	first, err := m.Plane(ctx, kube, "")
	if err != nil {
		return nil, err
	}
	timeline := &resilience.Of(plan.Study).Timeline
	up, to := timeline.Revisions()
	other := asked // ztunnels, of the first's version, move to it
	other.Ambient, other.Ztunnels = false, asked.Ambient
	var missing []string
	for _, name := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(up, to)))) {
		there, has, err := m.Revisions(ctx, kube, name)
		switch {
		case err != nil:
		case has:
			if _, _, err = Mesh(m.Name(), lab.Images{}).(mesh.Chooser).Choose(ctx, kube, objects, name, other); err == nil {
				var plane mesh.Plane
				if plane, err = m.Plane(ctx, kube, name); err == nil {
					err = fitsInstalled(timeline, name, first, plane)
				}
			}
		default:
			missing, err = append(missing, name), lacksRevision(name, there, kind, slices.Contains(up, name))
		}
		if err != nil {
			return nil, err
		}
	}
	return missing, nil
}

// fitsInstalled rejects what steps ask of a revision that the run did not install: another version
// than it has, or its removal.
func fitsInstalled(timeline *fault.Timeline, name string, first, plane mesh.Plane) error {
	switch {
	case timeline.Second(name) && plane.Version == first.Version:
		return errs.WithHint(errs.Usage("a step needs a second version of Istio, but revision %s is installed with the version of revision %s, %s", name, first.Revision, plane.Version),
			"install another version as revision %s, or leave istio: second out of the step", name)
	case timeline.Retires(name):
		return errs.WithHint(errs.Usage("a step removes revision %s, which is installed: a run removes no istiod that it did not install", name),
			"leave for out of the step")
	}
	return nil
}

// lacksRevision returns an error that says what to do about a revision that the plan's steps need
// and that does not exist, or nil if a step creates it.
func lacksRevision(name string, there []string, kind string, made bool) error {
	switch {
	case kind == kindDetached:
		return errs.WithHint(errs.Usage("a step needs Istio revision %s, but the lab has the revisions %s: a detached run installs none", name, strings.Join(there, ", ")),
			"run it without --detach")
	case kind != lab.KindLocal:
		return errs.WithHint(errs.Usage("a step needs Istio revision %s, but this cluster has the revisions %s: in a cluster, a run installs none", name, strings.Join(there, ", ")),
			"install it alongside the other with `istioctl install --set revision=%s`; or name an existing one in the steps of a copy of the study", name)
	case !made:
		return errs.WithHint(errs.Usage("a step moves the namespace to revision %s, but the lab has the revisions %s",
			name, strings.Join(there, ", ")),
			"have an earlier step bring it up: {name: second, at: 1s, revision: {name: %s}}", name)
	}
	return nil
}
