package cli

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sort"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/istio"
	"github.com/meshtrial/meshtrial/mesh/linkerd"
	"github.com/meshtrial/meshtrial/mesh/none"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/study"
)

// envoyVersions are the versions of Envoy that the plan names.
func envoyVersions(plan *study.Plan) []string {
	seen := map[string]bool{}
	for _, cell := range plan.Cells {
		if v := cell[study.FactorEnvoy]; v != "" && v != study.EnvoyDefault && v != study.NotApplicable {
			seen[v] = true
		}
	}
	if plan.Study.Kind == study.Resilience {
		for _, step := range plan.Study.Scenario.Timeline.Steps {
			if r, ok := step.Action.(*fault.Restart); ok && r.Proxy != "" {
				seen[r.Proxy] = true
			}
		}
	}
	versions := make([]string, 0, len(seen))
	for v := range seen {
		versions = append(versions, v)
	}
	sort.Strings(versions)
	return versions
}

// adapters make the adapter of each mesh, by its name.
var adapters = map[string]func(lab.Images) mesh.Mesh{
	study.MeshNone:    func(lab.Images) mesh.Mesh { return none.Mesh{} },
	study.MeshIstio:   func(images lab.Images) mesh.Mesh { return &istio.Mesh{ProxyImage: images.ProxyFor} },
	study.MeshLinkerd: func(lab.Images) mesh.Mesh { return &linkerd.Mesh{} },
}

// newMesh makes the adapter that a study names.
func newMesh(name string, images lab.Images) mesh.Mesh { return adapters[name](images) }

// meshesOf makes the adapters of the meshes that a plan's cells name.
func meshesOf(plan *study.Plan, images lab.Images) map[string]mesh.Mesh {
	out := map[string]mesh.Mesh{}
	for _, cell := range plan.Cells {
		if name := cell[study.FactorMesh]; name != "" && out[name] == nil {
			out[name] = newMesh(name, images)
		}
	}
	return out
}

// openControl finds the control plane under test: istiod of a revision.
func openControl(ctx context.Context, o *runner.Options) (*istio.ControlPlane, error) {
	return istio.NewControlPlane(ctx, o.Lab.RESTConfig(), o.Revision, o.Journal)
}

// chooseRevision has a run use the Istio of a revision, where it uses Istio. One
// that is gone on with uses that of its header. What of others' will be in the
// figures is said, and kept with the run.
func chooseRevision(ctx context.Context, p *progress, f runFlags, plan *study.Plan, o *runner.Options) error {
	if !slices.Contains(rights.Meshes(plan), study.MeshIstio) {
		if f.revision != "" {
			return errs.Usage("--revision %s: the study has no Istio", f.revision)
		}
		return nil
	}
	name := f.revision
	var was record.Header
	if f.resume != "" {
		contents, err := store.Read(f.resume)
		if err != nil {
			return err
		}
		was = contents.Header
		name = cmp.Or(name, was.Revision)
	}
	revision, notes, err := fitIstio(ctx, o.Lab.RESTConfig(), name, plan)
	if err != nil {
		return err
	}
	for _, text := range notes {
		p.Note("note: %s", text)
	}
	o.Remarks = append(o.Remarks, notes...)
	if err := runner.Same(f.resume, was, record.Header{Revision: revision.Name}); err != nil {
		return err
	}
	o.Revision = revision.Name
	for _, m := range append(slices.Collect(maps.Values(o.Meshes)), o.Mesh) {
		if m, ok := m.(*istio.Mesh); ok {
			m.Revision = revision
		}
	}
	return chooseOthers(ctx, f, plan, o)
}
