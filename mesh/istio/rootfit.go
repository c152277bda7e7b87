package istio

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/mesh"
)

// refuseRoot is the part of Refuse for mesh-wide objects of others.
func (f AsFound) refuseRoot(asked mesh.Asked) error {
	if asked.Served {
		if _, err := f.authorizes(); err != nil {
			return err
		}
	}
	partsVary := slices.ContainsFunc(asked.Proxies, func(p mesh.Proxy) bool { return p.Set(dataplane.FactorFilters) != "" })
	for _, o := range f.others {
		switch {
		case o.kind == kindSidecar && asked.Sent && !imports(o.spec(), asked.Ports):
			return errs.WithHint(fmt.Errorf("istio: the egress hosts of %s hide the Services of a run's namespace from its sidecars", o),
				"add ./* (each namespace's own Services) to its egress hosts")
		case o.kind == kindDestination && asked.Sent && o.misleads(asked.Plain, asked.Ports):
			return errs.WithHint(fmt.Errorf("istio: %s sets TLS for requests to every Service, which factor mtls must control", o),
				"remove tls from its trafficPolicy and portLevelSettings: with enableAutoMtls, Istio's clients detect which servers accept mutual TLS")
		case partsVary && o.touches == yes && slices.Contains(partKinds, o.kind) && !o.tries():
			return errs.WithHint(fmt.Errorf("istio: %s adds a part of its own to the study's sidecars, besides those of factor filters", o),
				"restrict it with spec.selector to the workloads it is for, at least while the study runs")
		}
	}
	return nil
}

// partKinds are the kinds whose objects add a part to sidecars that a study of parts
// would mistake for its own; see verifyFilters.
var partKinds = []string{kindAuthorization, kindRequest}

// imports reports whether a mesh-wide Sidecar lets a pod call Services of its own
// namespace on each of these ports.
func imports(spec map[string]any, ports []int) bool {
	egress, _, _ := unstructured.NestedSlice(spec, "egress")
	if len(egress) == 0 { // everything
		return true
	}
	for _, port := range orAny(ports) {
		hosts, _, _ := unstructured.NestedStringSlice(listenerOf(egress, port), "hosts")
		if !slices.ContainsFunc(hosts, func(h string) bool {
			namespace, host, _ := strings.Cut(h, "/")
			return (namespace == "." || namespace == "*") && covers(host)
		}) {
			return false
		}
	}
	return true
}

// anyPort is a port that no object names.
const anyPort = 0

func orAny(ports []int) []int {
	if len(ports) == 0 {
		return []int{anyPort}
	}
	return ports
}

// listenerOf returns the egress listener of a Sidecar for requests to a port: the
// port's own, or the only one without a port.
func listenerOf(egress []any, port int) map[string]any {
	var rest map[string]any
	for _, one := range egress {
		listener, _ := one.(map[string]any)
		switch number, bound := portOf(listener); {
		case !bound && rest == nil:
			rest = listener
		case bound && number == port:
			return listener
		}
	}
	return rest
}

// portOf returns the port that a part of an object applies to; false for any.
func portOf(part map[string]any) (int, bool) {
	of, bound, _ := unstructured.NestedMap(part, "port")
	switch n := of["number"].(type) {
	case int64:
		return int(n), bound
	case float64: // decoded from JSON
		return int(n), bound
	}
	return anyPort, bound
}

// misleads reports whether a DestinationRule makes clients use TLS differently than
// the cells of a study, on one of these ports. plain means that some servers do not
// accept mutual TLS.
func (o rooted) misleads(plain bool, ports []int) bool {
	return slices.ContainsFunc(orAny(ports), func(port int) bool {
		policy, _, _ := unstructured.NestedMap(o.spec(), "trafficPolicy")
		settings, _, _ := unstructured.NestedSlice(policy, "portLevelSettings")
		for _, one := range settings {
			of, _ := one.(map[string]any)
			if number, _ := portOf(of); number == port && port != anyPort { // overrides everything else
				policy = of
				break
			}
		}
		mode, _, _ := unstructured.NestedString(policy, "tls", "mode")
		return mode != "" && (mode != "ISTIO_MUTUAL" || plain)
	})
}

// reported returns what mesh-wide Telemetries of others make sidecars report: the
// first named metrics provider, and whether there are spans.
func (f AsFound) reported() (metrics string, traces bool) {
	for _, o := range f.others {
		if o.kind != kindTelemetry {
			continue
		}
		tracing, _, _ := unstructured.NestedSlice(o.spec(), "tracing")
		traces = traces || len(tracing) > 0
		all, _, _ := unstructured.NestedSlice(o.spec(), "metrics")
		for _, one := range all {
			of, _ := one.(map[string]any)
			providers, _, _ := unstructured.NestedSlice(of, "providers")
			if len(providers) > 0 && metrics == "" {
				provider, _ := providers[0].(map[string]any)
				metrics, _, _ = unstructured.NestedString(provider, "name")
			}
		}
	}
	return metrics, traces
}

// Beside describes objects of others that also apply to the sidecars of a study, and
// affect its figures or may interfere with it. The plan must not have been refused.
func (f AsFound) Beside(asked mesh.Asked) []string {
	var out, holds []string
	for _, o := range f.others {
		text := o.String()
		if o.touches == maybe {
			text += " (depending on the pods' labels)"
		}
		holds = append(holds, text)
	}
	if len(holds) > 0 {
		out = append(out, "existing mesh-wide objects also apply to the study's sidecars, and affect its figures: "+strings.Join(holds, ", "))
	}
	if asked.Served {
		doubts, _ := f.authorizes() // a plan with an error has been refused
		out = append(out, doubts...)
	}
	if asked.Ambient {
		out = append(out, f.withoutDead()...)
	}
	if len(f.unread) > 0 {
		text := fmt.Sprintf("existing mesh-wide objects in namespace %s are unknown, because this user may not list them: %s", f.root, strings.Join(f.unread, ", "))
		if f.root != Namespace { // which the table of rights cannot know in advance
			var resources []string
			for _, kind := range f.unread {
				resources = append(resources, rootKinds[kind].resource.GroupResource().String())
			}
			text += fmt.Sprintf(" (cluster check covers namespace %s only; here: kubectl -n %s create role mesh-wide --verb=list --resource=%s, and a rolebinding)", Namespace, f.root, strings.Join(resources, ","))
		}
		out = append(out, text)
	}
	return out
}
