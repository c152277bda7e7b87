package cli

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/istio"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study"
	"k8s.io/client-go/dynamic"
)

// chooseOthers finds the Istios of other revisions that steps of a plan are about, or in
// a lab of ours what they can be made of. Nothing is made yet.
func chooseOthers(ctx context.Context, f runFlags, plan *study.Plan, o *runner.Options) error {
	m := istioOf(o)
	if m == nil || !ofRevisions(plan) {
		return nil
	}
	config := o.Lab.RESTConfig()
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	kind := o.Lab.Kind()
	if f.own {
		kind = kindDetached
	}
	missing, err := missingRevisions(ctx, kube, objects, m, kind, plan)
	if err != nil {
		return err
	}
	o.Beside = map[string]mesh.Addition{}
	for _, name := range missing {
		if o.Beside[name], err = istioBeside(ctx, o.Lab, name); err != nil {
			return err
		}
	}
	return nil
}

// kindDetached is a lab of ours as a detached run has it, which makes no istiod in it.
const kindDetached = "detached"

// ofRevisions says that steps of a plan are about several revisions.
func ofRevisions(plan *study.Plan) bool {
	if plan.Study.Scenario == nil {
		return false
	}
	up, _ := plan.Study.Scenario.Timeline.Revisions()
	return len(up) > 0 || plan.Study.Scenario.Timeline.Moves()
}

// missingRevisions are the revisions that steps bring up and that are not there yet. An
// error says why the plan's steps cannot be carried out with those that are.
func missingRevisions(ctx context.Context, kube kubernetes.Interface, objects dynamic.Interface, m *istio.Mesh, kind string, plan *study.Plan) ([]string, error) {
	if _, err := m.Plane(ctx, kube, ""); err != nil {
		return nil, err
	}
	up, to := plan.Study.Scenario.Timeline.Revisions()
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
		return errs.WithHint(errs.Usage("a step moves the namespace to revision %s, but the lab has the revisions %s", name, strings.Join(there, ", ")),
			"have an earlier step bring it up: {name: second, at: 1s, revision: {name: %s}}", name)
	}
	return nil
}

// istioOf is the run's adapter for Istio; nil without one.
func istioOf(o *runner.Options) *istio.Mesh {
	for _, m := range append(slices.Collect(maps.Values(o.Meshes)), o.Mesh) {
		if m, ok := m.(*istio.Mesh); ok {
			return m
		}
	}
	return nil
}

// istioBeside is what an istiod of a revision is made of in a lab of ours, of the images
// that the lab's own has.
func istioBeside(ctx context.Context, where lab.Lab, revision string) (mesh.Addition, error) {
	builder, err := components.New(components.Options{Recorded: true}) // lab up read them
	if err != nil {
		return mesh.Addition{}, err
	}
	images := where.Images()
	official := len(images.Proxies) == 0 // a registry has but the Envoy that Istio ships
	options := components.ManifestOptions{Set: append(istio.ManifestSettings(), istio.RevisionSettings(revision)...), Official: official}
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
