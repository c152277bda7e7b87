package churn

import (
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/drive/population"
)

// Scope is the set of proxies that need a change in their configuration.
type Scope struct {
	Sidecars bool `json:"sidecars,omitempty"`
	Gateways bool `json:"gateways,omitempty"`
	Ztunnels bool `json:"ztunnels,omitempty"` // all of them: each holds the whole mesh
	// Namespaces are the namespaces whose proxies need it; nil: all.
	Namespaces []string `json:"namespaces"`
	// Owner is the namespace of the Service or host, which egress hosts of a
	// Sidecar and exportTo may hide from a proxy; "" for policies of the proxy
	// itself, which they do not affect.
	Owner string `json:"owner,omitempty"`
}

// Visibility describes what proxies can see. The zero value hides nothing.
type Visibility struct {
	// EgressHosts returns the egress hosts ("./*", "istio-system/*") of the Sidecar
	// resource that applies to a sidecar; nil for none. Only their namespaces
	// matter here. Gateways have none.
	EgressHosts func(p population.Identity) []string
	// ExportTo is the mesh's default for Services, VirtualServices and
	// DestinationRules: "*" (or ""), "." or "~".
	ExportTo string
}

// Needs reports whether a proxy's configuration must show the change.
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
