package model

import (
	"slices"

	"github.com/meshtrial/meshtrial/advise/capacity/push"
)

// ChangeKind is a kind of change as studies call it.
type ChangeKind struct {
	Name string
	// Types are what a sidecar that needs it is sent, as istiod 1.31 decides by
	// the kinds that do not concern a type (skippedCdsConfigs, skippedEdsConfigs,
	// skippedLdsConfigs, skippedRdsConfigs in pilot/pkg/xds; Gateways are nothing
	// to sidecars at all).
	Types push.TypeSet
	// Bare are those of them in which the change has no part of its own: a
	// VirtualService brings cds only what differs in the services that are seen
	// (deltaFromServiceDiff in pilot/pkg/networking/core), mostly nothing; and the
	// endpoints of a new Service nobody watches yet.
	Bare push.TypeSet
	// Asks are types of which proxies ask for what is new to them: the endpoints of
	// a new cluster, also of a DestinationRule's subsets.
	Asks push.TypeSet
	// Spoils are types that a push which merges it sends whole: all endpoints, if
	// any change is of a kind that eds cannot tell by difference
	// (canSendPartialFullPushes in pilot/pkg/xds, which looks at all that changed,
	// not at what concerns eds alone).
	Spoils push.TypeSet
	// Configuration says that the push context's indexes are made again.
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

// Words for several kinds at once.
const (
	MixEndpoints     = "endpoints"     // pods come and go
	MixConfiguration = "configuration" // Services and what belongs to them
)

// KindOf finds a kind by its name, or by a word for several of which it is
// typical.
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

// KindNames are the names of all kinds, words for several first.
func KindNames() []string {
	out := []string{MixEndpoints, MixConfiguration}
	for _, k := range changeKinds {
		out = append(out, k.Name)
	}
	return out
}
