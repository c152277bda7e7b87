package linkerd

import (
	"context"
	"slices"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/study"
)

// Namespace is where the control plane runs: its charts' and its own tools' default.
const Namespace = "linkerd"

// Kit is the kit of Linkerd.
var Kit = mesh.Kit{
	Name:    study.MeshLinkerd,
	New:     func(lab.Images) mesh.Mesh { return &Mesh{} },
	Flags:   flags,
	Resolve: resolve,
	Extras:  extras,
	Fits:    fits,
	Supply:  supply,
	Rights: map[string][]rights.Row{
		rights.Resilience: {{Verbs: rights.Open, Name: rights.PortForward, Where: rights.InMesh, Why: "the policies that Linkerd's proxies are told"}},
	},
}

// Settings of Linkerd.
const (
	setCharts = "set"
	setImages = "images" // Istio's, which applies to a release by default
	edge      = "edge"
)

var flags = append(sources.Flags(),
	mesh.Flag{Name: "linkerd-set", As: setCharts, Commands: mesh.LabUp, Kind: mesh.Repeated, Usage: "setting of Linkerd's installation, `NAME=VALUE` as in helm install --set; may be repeated"},
	mesh.Flag{Name: setImages, Commands: mesh.LabUp})

func resolve(_ mesh.Command, installed bool, s mesh.Settings) (mesh.Settings, error) {
	if !installed && s[setCharts] != nil {
		return nil, sources.NotInstalled("linkerd-set")
	}
	fallback := ""
	if s.Get(setImages) == "official" {
		fallback = edge
	}
	return sources.Resolve(installed, s, fallback)
}

func extras(plan *study.Plan) []mesh.Extra {
	if !slices.Contains(rights.Meshes(plan), study.MeshLinkerd) {
		return nil
	}
	return []mesh.Extra{{Name: study.MeshLinkerd, Words: "Linkerd: --linkerd DIR in a lab on this machine"}}
}

func fits(_ context.Context, plan *study.Plan, s mesh.Settings, has map[string]string) error {
	if slices.Contains(rights.Meshes(plan), study.MeshLinkerd) {
		return sources.Fits(s, has)
	}
	if s[study.MeshLinkerd] == nil {
		return nil
	}
	hint := map[study.Kind]string{study.DataPlane: ", or --set mesh=linkerd --set sidecars=[none,both]", resilience.Kind: ", or --set mesh=[none,istio,linkerd]"}
	return errs.WithHint(errs.Usage("--linkerd requires cells with Linkerd, and the study has none"), "omit it%s", hint[plan.Study.Kind])
}

func supply(_ context.Context, s mesh.Settings, installed bool) (lab.Supply, error) {
	if !installed {
		return lab.Supply{Mesh: study.MeshLinkerd}, nil
	}
	o := order{source: s.Get(study.MeshLinkerd), set: s[setCharts]}
	return sources.Supply(o.source, o.render)
}
