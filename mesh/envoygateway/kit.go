// Package envoygateway is the adapter for Envoy Gateway, an ingress without a mesh.
//
// Its program and chart come from a folder, or its image and chart from a registry. The proxies of
// its Gateways run the Envoy that Istio's proxies in the same lab run, so that a comparison of the
// two ingresses compares control planes and configuration. Each Gateway names an EnvoyProxy in its
// own namespace, which makes its gateway one pod behind a Service of type ClusterIP.
package envoygateway

import (
	"context"
	"os"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/ingress"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/study"
)

// Name is the name of the kit, and its level of the factor ingress.
const Name = ingress.EnvoyGateway

// Namespace is where the control plane and the proxies run: its chart's default.
const Namespace = "envoy-gateway-system"

// Kit is the kit of Envoy Gateway.
var Kit = mesh.Kit{
	Name:    Name,
	Ingress: func(lab.Images) mesh.Ingress { return &Gateways{} },
	Flags:   flags,
	Resolve: resolve,
	Extras:  extras,
	Fits:    fits,
	Supply:  supply,
	Rights: map[string][]rights.Row{
		rights.Ingress: {
			{Verbs: "list", Name: "gatewayclasses.gateway.networking.k8s.io", Where: rights.Everywhere, Why: "the class of its Gateways", When: used},
			{Verbs: "create", Name: "envoyproxies.gateway.envoyproxy.io", Where: rights.InRun, Why: "the pod and Service of a gateway", When: used},
		},
	},
}

func used(plan *study.Plan) bool { return ingress.Uses(plan, Name) }

// Setting of Envoy Gateway, and the environment variable with its source, which the flag
// overrides.
const (
	setSource = "envoy-gateway"
	variable  = "MESHTRIAL_ENVOY_GATEWAY"
)

var flags = []mesh.Flag{
	{Name: setSource, Commands: mesh.LabUp, Adds: true, Usage: "also install Envoy Gateway, from a `DIR` with its program and chart, or from a release by name (default $" + variable + ")"},
	{Name: setSource, Commands: mesh.Run, Usage: "source of Envoy Gateway if a lab with it must be started: a folder or a release (default $" + variable + ")"},
}

func resolve(_ mesh.Command, installed bool, s mesh.Settings) (mesh.Settings, error) {
	if !installed {
		if s[setSource] != nil {
			return nil, errs.WithHint(errs.Usage("--envoy-gateway requires Envoy Gateway, but --mesh does not include it"), "--mesh istio,envoy-gateway installs both")
		}
		return s, nil
	}
	from := s.Get(setSource)
	if from == "" {
		from = os.Getenv(variable)
	}
	if from == "" {
		return nil, errs.WithHint(errs.Usage("Envoy Gateway is not built here: give a source"), "%s", sourceHint)
	}
	if _, err := sources.IsFolder(from); err != nil {
		return nil, err
	}
	return s.With(setSource, from), nil
}

func extras(plan *study.Plan) []mesh.Extra {
	if !used(plan) {
		return nil
	}
	return []mesh.Extra{{Name: setSource, Words: "Envoy Gateway: --envoy-gateway DIR in a lab on this machine"}}
}

// fits rejects a missing or unreadable source before anything starts, and one that a run would not
// use.
func fits(_ context.Context, plan *study.Plan, s mesh.Settings, has map[string]string) error {
	from := s.Get(setSource)
	switch {
	case from != "" && !used(plan):
		return errs.WithHint(errs.Usage("--envoy-gateway requires cells with ingress %s, and the study has none", Name), "omit it")
	case !used(plan) || from == "" && has != nil:
		return nil
	case from == "":
		s, err := resolve(mesh.Run, true, s)
		if err != nil {
			return err
		}
		from = s.Get(setSource)
	}
	same, err := isFrom(has[lab.Status], from)
	if err != nil || has == nil || same {
		return err
	}
	return mesh.OtherThan("Envoy Gateway", has[lab.Status], "--envoy-gateway "+from)
}

func supply(_ context.Context, s mesh.Settings, installed bool) (lab.Supply, error) {
	out := lab.Supply{Mesh: Name}
	if !installed {
		return out, nil
	}
	out.Components = []string{components.GatewayAPI}
	var made *rendered
	out.Images = func(ctx context.Context, b *components.Builder) ([]components.Image, map[string]string, error) {
		var err error
		if made, err = render(ctx, b, s.Get(setSource)); err != nil {
			return nil, nil, err
		}
		return made.images, map[string]string{lab.Status: made.version}, nil
	}
	out.Install = func(context.Context, *components.Builder) (lab.Installation, error) { return made.Installation, nil }
	return out, nil
}
