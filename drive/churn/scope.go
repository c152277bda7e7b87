package churn

import (
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/drive/population"
)

// Scope says whose configuration a change is in.
type Scope struct {
	Sidecars bool `json:"sidecars,omitempty"` // sidecars need it
	Gateways bool `json:"gateways,omitempty"` // gateways need it
	// Ztunnels say that ztunnels need it, all of them: what they hold is the whole mesh.
	Ztunnels bool `json:"ztunnels,omitempty"`
	// Namespaces whose proxies need it; nil: all.
	Namespaces []string `json:"namespaces"`
	// Owner is the namespace of the Service or host that it is about, which a
	// Sidecar's egress hosts and exportTo may keep from a proxy; "" for what
	// they do not touch (policies of the proxy itself).
	Owner string `json:"owner,omitempty"`
}

// Visibility is what the levers let proxies see. The zero value lets all see
// everything.
type Visibility struct {
	// EgressHosts are the egress hosts ("./*", "istio-system/*") of the Sidecar
	// resource that applies to a sidecar, nil for none. Gateways have none.
	// Only the namespaces of these hosts count here.
	EgressHosts func(p population.Identity) []string
	// ExportTo is the mesh's default for Services, VirtualServices and
	// DestinationRules: "*" (or ""), "." or "~".
	ExportTo string
}

// Needs tells whether a proxy's configuration must show the change.
func (c Change) Needs(p population.Identity, v Visibility) bool {
	if p.Type == population.Ztunnel {
		return c.Scope.Ztunnels
	}
	gateway := p.Type == population.Router
	if gateway && !c.Scope.Gateways || !gateway && !c.Scope.Sidecars {
		return false
	}
	if c.Scope.Namespaces != nil && !slices.Contains(c.Scope.Namespaces, p.Namespace) {
		return false
	}
	if c.Scope.Owner == "" {
		return true
	}
	switch v.ExportTo {
	case "~":
		return false
	case ".":
		if c.Scope.Owner != p.Namespace {
			return false
		}
	}
	if gateway || v.EgressHosts == nil {
		return true
	}
	hosts := v.EgressHosts(p)
	return hosts == nil || slices.ContainsFunc(hosts, func(h string) bool {
		namespace, _, _ := strings.Cut(h, "/")
		return namespace == "*" || namespace == c.Scope.Owner || namespace == "." && c.Scope.Owner == p.Namespace
	})
}
