package model

import (
	"slices"

	"github.com/meshtrial/meshtrial/advise/capacity/push"
)

// ChangeKind is a kind of change, as studies name it.
type ChangeKind struct {
	Name string
	// Types are the types pushed to a sidecar that needs the change, as istiod 1.31
	// decides by the kinds that do not concern a type (skippedCdsConfigs,
	// skippedEdsConfigs, skippedLdsConfigs, skippedRdsConfigs in pilot/pkg/xds;
	// Gateways never concern sidecars).
	Types push.TypeSet
	// Bare are those of the types in which the change has no part of its own. With
	// a VirtualService, cds contains only differences in the visible services
	// (deltaFromServiceDiff in pilot/pkg/networking/core), mostly none; and nobody
	// watches the endpoints of a new Service yet.
	Bare push.TypeSet
	// Asks are types that proxies request for new resources: the endpoints of a new
	// cluster, including those of a DestinationRule's subsets.
	Asks push.TypeSet
	// Spoils are types that a push merging this change sends whole: all endpoints,
	// if any change is of a kind that eds cannot send as a difference
	// (canSendPartialFullPushes in pilot/pkg/xds, which considers all changes, not
	// only those relevant to eds).
	Spoils push.TypeSet
	// Configuration means that the push context's indexes are rebuilt.
	Configuration bool
}

var (
	onlyEndpoints = ChangeKind{Types: push.SetOf(push.EDS)}
	aService      = ChangeKind{Types: push.SetOf(push.CDS, push.EDS, push.LDS, push.RDS), Bare: push.SetOf(push.EDS), Asks: push.SetOf(push.EDS), Configuration: true}
	aRule         = ChangeKind{Types: push.SetOf(push.CDS, push.EDS, push.LDS, push.RDS), Asks: push.SetOf(push.EDS), Configuration: true}
	aRoute        = ChangeKind{Types: push.SetOf(push.CDS, push.LDS, push.RDS), Bare: push.SetOf(push.CDS), Spoils: push.SetOf(push.EDS), Configuration: true}
	aListener     = ChangeKind{Types: push.SetOf(push.LDS), Spoils: push.SetOf(push.EDS), Configuration: true}
)

var changeKinds = []ChangeKind{
	onlyEndpoints.named("endpoints-scale"),
	onlyEndpoints.named("endpoints-replace"),
	onlyEndpoints.named("endpoints-flap"),
	onlyEndpoints.named("rolling-restart"),
	onlyEndpoints.named("pod-labels"),
	aService.named("service"),
	aService.named("serviceentry"),
	aRule.named("destinationrule"),
	aRoute.named("virtualservice"),
	aRoute.named("sidecar"),
	aListener.named("authorizationpolicy"),
	aListener.named("telemetry"),
	ChangeKind{Configuration: true}.named("gateway"),
	ChangeKind{Configuration: true}.named("gateway-route"),
	ChangeKind{Configuration: true}.named("httproute"),
	ChangeKind{}.named("namespace-labels"),
	ChangeKind{}.named("no-op"),
}

func (k ChangeKind) named(name string) ChangeKind {
	k.Name = name
	return k
}

// Names for several kinds together.
const (
	MixEndpoints     = "endpoints"     // pods come and go
	MixConfiguration = "configuration" // Services and what belongs to them
)

// KindOf finds a kind by its name, or the typical kind for the name of several.
func KindOf(name string) (ChangeKind, bool) {
	switch name {
	case MixEndpoints:
		name = "endpoints-replace"
	case MixConfiguration:
		name = "service"
	}
	i := slices.IndexFunc(changeKinds, func(k ChangeKind) bool { return k.Name == name })
	if i < 0 {
		return ChangeKind{}, false
	}
	return changeKinds[i], true
}

// KindNames returns the names of all kinds, those for several kinds first.
func KindNames() []string {
	out := []string{MixEndpoints, MixConfiguration}
	for _, k := range changeKinds {
		out = append(out, k.Name)
	}
	return out
}
