package app

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"k8s.io/client-go/dynamic"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/kinds"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/istio"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/study"
)

// chooseRevision has a run use the Istio of a revision, if it uses Istio, and refuses a plan
// that this Istio cannot carry as it stands. A resumed run uses the revision of its header.
// It notes what of other people's affects the figures, also in the run's header.
func (o *RunOptions) chooseRevision(ctx context.Context, plan *study.Plan, run *runner.Options) error {
	if !slices.Contains(rights.Meshes(plan), study.MeshIstio) {
		if o.Revision != "" {
			return errs.Usage("--revision %s: the study has no Istio", o.Revision)
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
	revision, notes, err := fitsIstio(ctx, kube, objects, name, plan)
	if err != nil {
		return err
	}
	for _, text := range notes {
		o.Progress.Note("note: %s", text)
	}
	run.Remarks = append(run.Remarks, notes...)
	if err := runner.Same(o.Resume, was, record.Header{Revision: revision.Name}); err != nil {
		return err
	}
	run.Revision = revision.Name
	var m *istio.Mesh
	for _, each := range append(slices.Collect(maps.Values(run.Meshes)), run.Mesh) {
		if each, ok := each.(*istio.Mesh); ok {
			each.Revision, m = revision, each
		}
	}
	if m == nil || !ofRevisions(plan) {
		return nil
	}
	kind := run.Lab.Kind()
	if o.OwnLab {
		kind = kindDetached
	}
	missing, err := missingRevisions(ctx, kube, objects, m, kind, plan)
	if err != nil {
		return err
	}
	run.Beside = map[string]mesh.Addition{}
	for _, name := range missing {
		if run.Beside[name], err = istioBeside(ctx, run.Lab, name); err != nil {
			return err
		}
	}
	return nil
}

// fitsIstio finds the Istio of a revision, and refuses a plan that it cannot carry as it
// stands. Notes say what of others' will be in the study's figures.
func fitsIstio(ctx context.Context, kube kubernetes.Interface, objects dynamic.Interface, revision string,
	plan *study.Plan) (istio.Revision, []string, error) {
	asked, err := kinds.Asks(plan, study.MeshIstio)
	if err != nil {
		return istio.Revision{}, nil, err
	}
	found, err := istio.ReadAsFound(ctx, kube, objects, revision, asked)
	if err == nil {
		err = found.Refuse(asked)
	}
	return found.Revision(), found.Beside(asked), err
}

// kindDetached is a local lab as a detached run has it, which installs no istiod in it.
const kindDetached = "detached"

// ofRevisions says that steps of a plan are about several revisions.
func ofRevisions(plan *study.Plan) bool {
	if resilience.Of(plan.Study) == nil {
		return false
	}
	up, _ := resilience.Of(plan.Study).Timeline.Revisions()
	return len(up) > 0 || resilience.Of(plan.Study).Timeline.Moves()
}

// missingRevisions are the revisions that steps bring up and that are not there yet. An
// error says why the plan's steps cannot be carried out with those that are.
func missingRevisions(ctx context.Context, kube kubernetes.Interface, objects dynamic.Interface, m *istio.Mesh,
	kind string, plan *study.Plan) ([]string, error) {
	if _, err := m.Plane(ctx, kube, ""); err != nil {
		return nil, err
	}
	up, to := resilience.Of(plan.Study).Timeline.Revisions()
	var missing []string
	for _, name := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(up, to)))) {
		there, has, err := istio.Revisions(ctx, kube, name)
		switch {
		case err != nil:
		case has:
			if _, _, err = fitsIstio(ctx, kube, objects, name, plan); err == nil {
				_, err = m.Plane(ctx, kube, name)
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

// lacksRevision says what to do where a revision is not there that a plan's steps are
// about; nil where a step makes it.
func lacksRevision(name string, there []string, kind string, made bool) error {
	switch {
	case kind == kindDetached:
		return errs.WithHint(errs.Usage("a step needs Istio revision %s, but the lab has the revisions %s: a detached run makes no istiod", name, strings.Join(there, ", ")),
			"run it without --detach")
	case kind != lab.KindLocal:
		return errs.WithHint(errs.Usage("a step needs Istio revision %s, but this cluster has the revisions %s: in a cluster a run installs none", name, strings.Join(there, ", ")),
			"install it beside the other, as `istioctl install --set revision=%s` does; or name an existing one in the steps of a copy of the study", name)
	case !made:
		return errs.WithHint(errs.Usage("a step moves the namespace to revision %s, but the lab has the revisions %s",
			name, strings.Join(there, ", ")),
			"have an earlier step bring it up: {name: second, at: 1s, revision: {name: %s}}", name)
	}
	return nil
}

// istioBeside is what an istiod of a revision is made of in a local lab, of the images
// that the lab's own has.
func istioBeside(ctx context.Context, where lab.Lab, revision string) (mesh.Addition, error) {
	builder, err := components.New(components.Options{Recorded: true}) // lab up read them
	if err != nil {
		return mesh.Addition{}, err
	}
	images := where.Images()
	official := len(images.Proxies) == 0 // a registry has but the Envoy that Istio ships
	options := components.ManifestOptions{Set: append(istio.ManifestSettings(), istio.RevisionSettings(revision)...),
		Official: official}
	if official {
		options.Hub, options.Tag = images.Hub, images.IstioTag
	}
	manifests, err := builder.Manifests(ctx, options)
	if err != nil {
		return mesh.Addition{}, err
	}
	installation, err := istio.Installation(manifests)
	if err != nil {
		return mesh.Addition{}, err
	}
	return istio.Beside(ctx, where.RESTConfig(), installation, revision, site.RunLabel)
}
