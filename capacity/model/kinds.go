package model

import (
	"slices"

	"github.com/meshtrial/meshtrial/capacity/push"
)

// ChangeKind is a kind of change as studies call it.
type ChangeKind struct {
	Name string
	// Types are what a sidecar that needs it is sent, as istiod 1.31 decides by
	// the kinds that do not concern a type (skippedCdsConfigs, skippedEdsConfigs,
	// skippedLdsConfigs, skippedRdsConfigs in pilot/pkg/xds; Gateways are nothing
	// to sidecars at all).
	Types push.TypeSet
	// Configuration says that the push context's indexes are made again.
	Configuration bool
}

var changeKinds = []ChangeKind{
	{"endpoints-scale", push.SetOf(push.EDS), false},
	{"endpoints-replace", push.SetOf(push.EDS), false},
	{"endpoints-flap", push.SetOf(push.EDS), false},
	{"rolling-restart", push.SetOf(push.EDS), false},
	{"pod-labels", push.SetOf(push.EDS), false},
	{"service", push.SetOf(push.CDS, push.EDS, push.LDS, push.RDS), true},
	{"serviceentry", push.SetOf(push.CDS, push.EDS, push.LDS, push.RDS), true},
	{"destinationrule", push.SetOf(push.CDS, push.EDS, push.LDS, push.RDS), true},
	{"virtualservice", push.SetOf(push.CDS, push.LDS, push.RDS), true},
	{"sidecar", push.SetOf(push.CDS, push.LDS, push.RDS), true},
	{"authorizationpolicy", push.SetOf(push.LDS), true},
	{"telemetry", push.SetOf(push.LDS), true},
	{"gateway", 0, true},
	{"namespace-labels", 0, false},
	{"no-op", 0, false},
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
