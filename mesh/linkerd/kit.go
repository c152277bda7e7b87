package linkerd

import (
	"context"
	"os"
	"slices"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
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

// Settings of Linkerd, and the environment variable with its source, which a flag
// overrides.
const (
	setSource = "linkerd"
	setCharts = "set"
	setImages = "images" // Istio's, which applies to a release by default
	variable  = "MESHTRIAL_LINKERD"
	edge      = "edge"
)

var flags = []mesh.Flag{
	{Name: setSource, Commands: mesh.LabUp, Adds: true, Usage: "also install Linkerd, from a `DIR` with its programs and charts, or from a release by name (default $" + variable + ")"},
	{Name: setSource, Commands: mesh.Run, Usage: "source of Linkerd if a lab with it must be started: a folder or a release (default $" + variable + ")"},
	{Name: "linkerd-set", As: setCharts, Commands: mesh.LabUp, Kind: mesh.Repeated, Usage: "setting of Linkerd's installation, `NAME=VALUE` as in helm install --set; may be repeated"},
	{Name: setImages, Commands: mesh.LabUp},
}

func resolve(c mesh.Command, installed bool, s mesh.Settings) (mesh.Settings, error) {
	if !installed {
		if s[setSource] != nil || s[setCharts] != nil {
			return nil, errs.WithHint(errs.Usage("--linkerd and --linkerd-set require Linkerd, but --mesh does not include it"), "--mesh istio,linkerd installs both")
		}
		return s, nil
	}
	from := s.Get(setSource)
	if from == "" {
		from = os.Getenv(variable)
	}
	if from == "" && s.Get(setImages) == "official" {
		from = edge
	}
	if from == "" {
		return nil, errs.WithHint(errs.Usage("Linkerd is not built here: give a source"),
			"--linkerd DIR names a folder with its programs and charts, --linkerd edge a release to pull; so does %s in the environment", variable)
	}
	return s.With(setSource, from), nil
}

func extras(plan *study.Plan) []mesh.Extra {
	if !slices.Contains(rights.Meshes(plan), study.MeshLinkerd) {
		return nil
	}
	return []mesh.Extra{{Name: setSource, Words: "Linkerd: --linkerd DIR in a lab on this machine"}}
}

func fits(_ context.Context, plan *study.Plan, s mesh.Settings, has map[string]string) error {
	from := s.Get(setSource)
	if from == "" {
		return nil
	}
	if !slices.Contains(rights.Meshes(plan), study.MeshLinkerd) {
		hint := map[study.Kind]string{study.DataPlane: ", or --set mesh=linkerd --set sidecars=[none,both]", resilience.Kind: ", or --set mesh=[none,istio,linkerd]"}
		return errs.WithHint(errs.Usage("--linkerd requires cells with Linkerd, and the study has none"), "omit it%s", hint[plan.Study.Kind])
	}
	same, err := isFrom(has[lab.Status], from)
	if err != nil || has == nil || same {
		return err
	}
	return mesh.OtherThan("Linkerd", has[lab.Status], "--linkerd "+from)
}

func supply(_ context.Context, s mesh.Settings, installed bool) (lab.Supply, error) {
	out := lab.Supply{Mesh: study.MeshLinkerd}
	if !installed {
		return out, nil
	}
	var made *rendered // of one installation: its keys are not stored
	out.Images = func(ctx context.Context, b *components.Builder) ([]components.Image, map[string]string, error) {
		var err error
		if made, err = (order{source: s.Get(setSource), set: s[setCharts]}).render(ctx, b); err != nil {
			return nil, nil, err
		}
		return made.images, map[string]string{"controller": made.controller, "proxy": made.proxy, lab.Status: made.version}, nil
	}
	out.Install = func(context.Context, *components.Builder) (lab.Installation, error) { return made.Installation, nil }
	return out, nil
}
