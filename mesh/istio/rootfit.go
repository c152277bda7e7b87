package istio

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/study"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// refuseRoot is the part of Refuse for what others have laid down mesh-wide.
func (f AsFound) refuseRoot(asked mesh.Asked) error {
	if asked.Served {
		if _, err := f.authorizes(); err != nil {
			return err
		}
	}
	partsVary := slices.ContainsFunc(asked.Proxies, func(p mesh.Proxy) bool { return p.Set(study.FactorFilters) != "" })
	for _, o := range f.others {
		switch {
		case o.kind == kindSidecar && asked.Sent && !imports(o.spec()):
			return errs.WithHint(fmt.Errorf("istio: the egress hosts of %s keep the Services of a run's namespace from its sidecars", o),
				"add ./* to its egress hosts: each namespace's own Services")
		case o.kind == kindDestination && asked.Sent && o.misleads(asked.Plain):
			return errs.WithHint(fmt.Errorf("istio: %s sets the TLS of requests to every Service, which the factor mtls is to set", o),
				"leave its trafficPolicy.tls out: Istio's clients find out by themselves which servers take mutual TLS (enableAutoMtls)")
		case partsVary && o.touches == yes && slices.Contains(partKinds, o.kind) && !o.tries():
			return errs.WithHint(fmt.Errorf("istio: %s puts a part of its own into the study's sidecars, beside those of the factor filters", o),
				"say in its spec.selector which workloads it is for, at least while the study runs")
		}
	}
	return nil
}

// partKinds are those whose objects put a part into sidecars that a study of parts
// would take for one of its own; see verifyFilters.
var partKinds = []string{kindAuthorization, kindRequest}

// imports says whether a mesh-wide Sidecar lets a pod call Services of its own
// namespace.
func imports(spec map[string]any) bool {
	egress, _, _ := unstructured.NestedSlice(spec, "egress")
	for _, one := range egress {
		listener, _ := one.(map[string]any)
		hosts, _, _ := unstructured.NestedStringSlice(listener, "hosts")
		if slices.ContainsFunc(hosts, func(h string) bool {
			namespace, host, _ := strings.Cut(h, "/")
			return (namespace == "." || namespace == "*") && covers(host)
		}) {
			return true
		}
	}
	return len(egress) == 0 // everything
}

// misleads says whether a DestinationRule has clients speak TLS as the cells of a
// study do not: plain is whether some servers take no mutual TLS.
func (o rooted) misleads(plain bool) bool {
	mode, _, _ := unstructured.NestedString(o.spec(), "trafficPolicy", "tls", "mode")
	return mode != "" && (mode != "ISTIO_MUTUAL" || plain)
}

// reported is what mesh-wide Telemetries of others have sidecars report: the first
// provider of metrics that one names, and whether spans.
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

// Beside says what of others' holds for the sidecars of a study too, and is in its
// figures or may hinder it. It is for a plan that is not refused.
func (f AsFound) Beside(asked mesh.Asked) []string {
	var out, holds []string
	for _, o := range f.others {
		text := o.String()
		if o.touches == maybe {
			text += " (by the labels of pods)"
		}
		holds = append(holds, text)
	}
	if len(holds) > 0 {
		out = append(out, "mesh-wide objects of others hold for the study's sidecars too, and are in its figures: "+strings.Join(holds, ", "))
	}
	if asked.Served {
		doubts, _ := f.authorizes() // a plan with an error has been refused
		out = append(out, doubts...)
	}
	if len(f.unread) > 0 {
		out = append(out, fmt.Sprintf("mesh-wide objects of others in namespace %s are not known, as they may not be listed: %s", f.root, strings.Join(f.unread, ", ")))
	}
	return out
}
