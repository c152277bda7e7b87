package istio

import (
	"cmp"
	"context"
	"os"
	"slices"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/kinds/ingress"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/study"
)

// Kit is the kit of Istio.
var Kit = mesh.Kit{
	Name:    study.MeshIstio,
	New:     func(images lab.Images) mesh.Mesh { return New(images) },
	Ingress: func(images lab.Images) mesh.Ingress { return New(images) },
	Flags:   kitFlags,
	Resolve: resolve,
	Needs:   needs,
	Extras:  extras,
	Fits:    fits,
	Supply:  supply,
	Rights:  kitRights,
	AwaitDead: func(ctx context.Context, config *rest.Config, kube kubernetes.Interface, label string, wait func()) error {
		if err := awaitOthers(ctx, kube, label, wait); err != nil {
			return err
		}
		objects, err := dynamic.NewForConfig(config)
		if err != nil {
			return err
		}
		return sweepElections(ctx, kube, objects.Resource(leaseResource).Namespace(Namespace))
	},
}

// Settings of Istio.
const (
	setImages     = "images"
	setHub        = "hub"
	setTag        = "tag"
	setEnvoy      = "envoy"
	setCharts     = "set"
	setAmbient    = "ambient"
	setZtunnel    = "ztunnel"
	setGatewayAPI = "gateway-api"
	setSecond     = "second-istio"
	needSecond    = "second-needed" // a step of the plan starts it; no flag

	built, official = "built", "official"
)

// ztunnelVariable is the environment variable with the location of ztunnel, which a flag
// overrides.
const ztunnelVariable = "MESHTRIAL_ZTUNNEL"

var kitFlags = []mesh.Flag{
	{Name: setImages, Commands: mesh.LabUp | mesh.LabImages, Default: built, Usage: "where Istio's images come from: built (here) or official (from a registry)"},
	{Name: setHub, Commands: mesh.LabUp | mesh.LabImages, Usage: "registry and folder of Istio's official images (default " + components.IstioHub + ")"},
	{Name: setTag, Commands: mesh.LabUp | mesh.LabImages, Usage: "tag of Istio's official images, or `TAG@sha256:PILOT,sha256:PROXYV2` to pin them"},
	{Name: setEnvoy, Commands: mesh.LabUp | mesh.LabImages, Kind: mesh.List, Usage: "additional Envoy `versions` to build sidecar images for"},
	{Name: setCharts, Commands: mesh.LabUp, Kind: mesh.Repeated, Usage: "setting of Istio's installation, `NAME=VALUE` as in istioctl install --set; may be repeated"},
	{Name: setAmbient, Commands: mesh.LabUp, Kind: mesh.Switch, Usage: "also install Istio's ambient mode: its node agent, and ztunnel on each node"},
	{Name: setZtunnel, Commands: mesh.LabUp, Usage: "`DIR` with the ztunnel binary for an ambient mesh (default $" + ztunnelVariable + "); implies --ambient"},
	{Name: setZtunnel, Commands: mesh.Run, Usage: "`DIR` with the ztunnel binary, if a lab with an ambient mesh must be started (default $" + ztunnelVariable + ")"},
	{Name: setSecond, Commands: mesh.LabUp, Usage: "also offer another version of Istio to steps that start a revision of it: a `DIR` with its programs and charts, or a release"},
	{Name: setSecond, Commands: mesh.Run, Usage: "the second Istio if a lab with it must be started: a folder or a release (default $MESHTRIAL_SECOND_ISTIO)"},
	{Name: setGatewayAPI, Commands: mesh.LabUp, Kind: mesh.Switch, Usage: "also install the Gateway API CRDs, from which Istio's gateways then take routes"},
}

func resolve(c mesh.Command, installed bool, s mesh.Settings) (mesh.Settings, error) {
	images := cmp.Or(s.Get(setImages), built)
	switch {
	case images != built && images != official:
		return nil, errs.WithHint(errs.Usage("--images must be built or official, not %q", images), "official pulls Istio's images from a registry, built builds them here")
	case images == built && (s[setHub] != nil || s[setTag] != nil):
		return nil, errs.WithHint(errs.Usage("--hub and --tag require --images official"), "add --images official, or omit them")
	case images == official && s[setEnvoy] != nil:
		return nil, errs.WithHint(errs.Usage("--envoy requires --images built"), "omit --envoy or --images official")
	case images == official && s[setZtunnel] != nil:
		return nil, errs.Usage("--ztunnel requires --images built: the official images have a ztunnel of their own")
	}
	if _, err := parseRelease(s.Get(setTag)); err != nil {
		return nil, err
	}
	s = s.With(setImages, images)
	if s[setZtunnel] != nil {
		s = s.With(setAmbient, "true")
	}
	for _, of := range []string{setAmbient, setGatewayAPI, setSecond} {
		if s[of] != nil && !installed {
			return nil, errs.WithHint(errs.Usage("--%s requires Istio, but --mesh does not include it", of), "--mesh istio, or with others istio,linkerd")
		}
	}
	if dir := os.Getenv(ztunnelVariable); s[setAmbient] != nil && s[setZtunnel] == nil && images == built && dir != "" {
		s = s.With(setZtunnel, dir)
	}
	if s[needSecond] != nil && s[setSecond] == nil {
		from := os.Getenv(secondOrigin.Variable)
		if from == "" {
			return nil, errs.WithHint(errs.Usage("a step of the study starts an istiod of a second version, and none is given"), "%s", secondOrigin.Hint)
		}
		s = s.With(setSecond, from)
	}
	return s, nil
}

// needs adds the Envoys that cells and steps name, an ambient mesh and the Gateway API.
func needs(plan *study.Plan, s mesh.Settings) mesh.Settings {
	var envoys []string
	for _, cell := range plan.Cells {
		if v := cell[study.FactorEnvoy]; v != "" && v != study.EnvoyDefault && v != study.NotApplicable {
			envoys = append(envoys, v)
		}
	}
	if plan.Study.Kind == resilience.Kind {
		for _, step := range resilience.Of(plan.Study).Timeline.Steps {
			if r, ok := step.Action.(*fault.Restart); ok && r.Proxy != "" {
				envoys = append(envoys, r.Proxy)
			}
		}
	}
	slices.Sort(envoys)
	s = s.With(setEnvoy, slices.Compact(envoys)...)
	if ambientPlan(plan) {
		s = s.With(setAmbient, "true")
	}
	if usesGatewayAPI(plan) {
		s = s.With(setGatewayAPI, "true")
	}
	if secondPlan(plan) {
		s = s.With(needSecond, "true")
	}
	return s
}

func extras(plan *study.Plan) (out []mesh.Extra) {
	if ambientPlan(plan) {
		out = append(out, mesh.Extra{Name: setAmbient, Words: "an ambient mesh: --ztunnel DIR in a lab on this machine"})
	}
	if usesGatewayAPI(plan) {
		out = append(out, mesh.Extra{Name: setGatewayAPI, Words: "the Gateway API: a lab that the run starts has it"})
	}
	if secondPlan(plan) {
		out = append(out, mesh.Extra{Name: setSecond, Words: "a second Istio: --second-istio DIR in a lab on this machine"})
	}
	return out
}

// usesGatewayAPI reports whether cells of a plan have Istio take routes from the Gateway API.
func usesGatewayAPI(plan *study.Plan) bool {
	return controlplane.GatewayAPI(plan) || ingress.Uses(plan, study.MeshIstio)
}

// ambientPlan reports whether ztunnel carries the requests of any cell of a plan.
func ambientPlan(plan *study.Plan) bool { return slices.ContainsFunc(plan.Cells, study.Ambient) }

func fits(ctx context.Context, plan *study.Plan, s mesh.Settings, has map[string]string) error {
	if err := fitsSecond(plan, s.Get(setSecond), has); err != nil {
		return err
	}
	return fitsZtunnel(plan, s.Get(setZtunnel), has, func(dir string) (string, error) {
		o := order{ambient: true, ztunnelDir: dir}
		if err := o.openZtunnel(ctx); err != nil {
			return "", err
		}
		return o.ztunnelRef(), nil
	})
}

// fitsSecond rejects a second Istio that a run would not use.
func fitsSecond(plan *study.Plan, from string, has map[string]string) error {
	if from == "" {
		return nil
	}
	if !secondPlan(plan) {
		return errs.WithHint(errs.Usage("--second-istio requires a step that starts an istiod of it, and the study has none"),
			"omit it, or add a step: {name: other, at: 2s, revision: {name: canary, istio: second}}")
	}
	s, err := openSecond(from, components.IstioHub)
	if err != nil || has == nil || s.tag == has[factSecondTag] && s.hub == has[factSecondHub] {
		return err
	}
	there := has[factSecondTag]
	if hub := has[factSecondHub]; there != "" && hub != s.hub {
		there += " of " + hub
	}
	return mesh.OtherThan("second Istio", there, "--second-istio "+from)
}

// fitsZtunnel rejects a ztunnel folder that a run would not use.
func fitsZtunnel(plan *study.Plan, dir string, has map[string]string, image func(dir string) (string, error)) error {
	if dir == "" {
		return nil
	}
	if !ambientPlan(plan) {
		hint := map[study.Kind]string{study.DataPlane: ", or --set sidecars=[none,both,ambient]", resilience.Kind: ", or --set sidecars=[both,ambient]"}
		return errs.WithHint(errs.Usage("--ztunnel requires cells whose requests pass through ztunnel, and the study has none"),
			"omit it%s", hint[plan.Study.Kind])
	}
	ref, err := image(dir)
	if err != nil || has == nil || ref == has[factZtunnel] {
		return err
	}
	return mesh.OtherThan("ztunnel", has[factZtunnel], "--ztunnel "+dir)
}

func supply(ctx context.Context, s mesh.Settings, installed bool) (lab.Supply, error) {
	o, err := orderOf(s)
	if err != nil {
		return lab.Supply{}, err
	}
	if err := o.openZtunnel(ctx); err != nil {
		return lab.Supply{}, err
	}
	if o.secondFrom != "" {
		if o.second, err = openSecond(o.secondFrom, o.hub); err != nil {
			return lab.Supply{}, err
		}
	}
	out := lab.Supply{Mesh: study.MeshIstio, Components: o.components(), NodeNetwork: o.ambient,
		Images: func(ctx context.Context, b *components.Builder) ([]components.Image, map[string]string, error) {
			images, err := o.images(ctx, b)
			return images, o.facts(installed), err
		}}
	if installed {
		out.Install = func(ctx context.Context, b *components.Builder) (lab.Installation, error) {
			return o.installation(ctx, b)
		}
	}
	return out, nil
}
