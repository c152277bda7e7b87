// Package envoygateway is the adapter for Envoy Gateway, an ingress without a mesh.
//
// Its program and chart come from a folder, or its image and chart from a registry. The proxies of
// its Gateways run the Envoy that Istio's proxies in the same lab run, so that a comparison of the
// two ingresses compares control planes and configuration. Each Gateway names an EnvoyProxy in its
// own namespace, which makes its gateway one pod behind a Service of type ClusterIP.
package envoygateway

import (
	"context"

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
	Flags:   sources.Flags(),
	Resolve: func(_ mesh.Command, installed bool, s mesh.Settings) (mesh.Settings, error) {
		return sources.Resolve(installed, s, "")
	},
	Extras: extras,
	Fits:   fits,
	Supply: supply,
	Rights: map[string][]rights.Row{
		rights.Ingress: {
			{Verbs: "list", Name: "gatewayclasses.gateway.networking.k8s.io", Where: rights.Everywhere, Why: "the class of its Gateways", When: used},
			{Verbs: "create", Name: "envoyproxies.gateway.envoyproxy.io", Where: rights.InRun, Why: "the pod and Service of a gateway", When: used},
		},
	},
}

func used(plan *study.Plan) bool { return ingress.Uses(plan, Name) }

func extras(plan *study.Plan) []mesh.Extra {
	if !used(plan) {
		return nil
	}
	return []mesh.Extra{{Name: Name, Words: "Envoy Gateway: --envoy-gateway DIR in a lab on this machine"}}
}

func fits(_ context.Context, plan *study.Plan, s mesh.Settings, has map[string]string) error {
	switch {
	case used(plan):
		return sources.Fits(s, has)
	case s[Name] != nil:
		return errs.WithHint(errs.Usage("--envoy-gateway requires cells with ingress %s, and the study has none", Name), "omit it")
	}
	return nil
}

func supply(_ context.Context, s mesh.Settings, installed bool) (lab.Supply, error) {
	if !installed {
		return lab.Supply{Mesh: Name}, nil
	}
	from := s.Get(Name)
	out, err := sources.Supply(from, func(ctx context.Context, b *components.Builder) (*mesh.Rendered, error) { return render(ctx, b, from) })
	out.Components = []string{components.GatewayAPI}
	return out, err
}
