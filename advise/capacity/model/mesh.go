package model

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/advise/capacity/push"
	"github.com/meshtrial/meshtrial/internal/errs"
)

// Mesh is a mesh to predict, with istiod's settings. Times are in seconds.
type Mesh struct {
	Proxies  int `json:"proxies"`
	Services int `json:"services"`
	// Visible is the share of the services that a proxy sees: 1 without Sidecars. Below 1,
	// proxies form groups, each of which needs its share of the changes.
	Visible float64 `json:"visible"`
	// Namespaces is the number of the proxies' namespaces: istiod caches routes separately
	// for each.
	Namespaces int `json:"namespaces"`

	Rate    float64            `json:"rate"` // changes a second
	Arrival string             `json:"arrival"`
	Mix     map[string]float64 `json:"mix"` // weights by kind of change

	Replicas int     `json:"replicas"`
	Cores    float64 `json:"cores"` // of each replica
	Throttle int     `json:"throttle,omitempty"`
	// ConnectLimit is the number of new streams that a replica serves per second; 0 means
	// istiod's default.
	ConnectLimit    float64 `json:"connect_limit,omitempty"`
	DebounceAfter   float64 `json:"debounce_after"`
	DebounceMax     float64 `json:"debounce_max"`
	DirectEndpoints bool    `json:"direct_endpoints,omitempty"`
	// ConnectionAge is the age at which istiod closes a proxy's connection, so that the
	// proxy reconnects and receives everything (keepaliveMaxServerConnectionAge); 0 means
	// never.
	ConnectionAge float64 `json:"connection_age"`

	// Beside places the simulated proxies on istiod's CPUs, as in a lab.
	Beside bool `json:"beside,omitempty"`
	// Horizon is how long changes arrive; 0 means until there are a few hundred.
	Horizon float64 `json:"horizon,omitempty"`
	// Replay holds actual changes to use instead of Rate, Arrival and Mix.
	Replay *Replay `json:"-"`
}

// Replay holds the changes that a trial made.
type Replay struct {
	Kinds   []string
	Changes []push.Change // Kind is an index into Kinds
	Window  float64       // how long CPU time and bytes were counted, seconds
	Tail    float64       // the part of it after the last acknowledgement
}

// Default returns a mesh with istiod's installed defaults and no size.
func Default() Mesh {
	return Mesh{Visible: 1, Namespaces: 10, Arrival: push.Poisson, Replicas: 1, Cores: 2, DebounceAfter: 0.1, DebounceMax: 10, ConnectionAge: 1800}
}

// Check returns an error that names the invalid field of a mesh file, or nil if the mesh can
// be predicted.
func (m Mesh) Check() error {
	if err := Within([]Bounded{
		{"proxies", float64(m.Proxies), 1, 1e6},
		{"services", float64(m.Services), 0, 1e6},
		{"visible", m.Visible, 0.001, 1},
		{"namespaces", float64(m.Namespaces), 1, 100_000},
		{"changes.rate", m.Rate, 1e-4, 1e4},
		{"istiod.replicas", float64(m.Replicas), 1, 1000},
		{"istiod.cores", m.Cores, 0.01, 1024},
		{"istiod.push_throttle", float64(m.Throttle), 0, 1e5},
		{"istiod.request_limit", m.ConnectLimit, 0, 1e6},
		{"istiod.debounce_after", m.DebounceAfter, 0, 600},
		{"istiod.debounce_max", m.DebounceMax, 0, 3600},
		{"istiod.connection_age", m.ConnectionAge, 0, 1e9},
		{"horizon", m.Horizon, 0, 86400},
	}); err != nil {
		return err
	}
	if m.Arrival != push.Poisson && m.Arrival != push.Uniform {
		return fmt.Errorf("changes.arrival is %q: must be %s or %s", m.Arrival, push.Poisson, push.Uniform)
	}
	if m.Replay != nil {
		return nil
	}
	total := 0.0
	for _, name := range slices.Sorted(maps.Keys(m.Mix)) {
		if _, ok := KindOf(name); !ok {
			return fmt.Errorf("changes.mix: unknown kind of change %q: %s", name, errs.Suggest(name, KindNames()))
		}
		if w := m.Mix[name]; !(w >= 0) || w > 1e9 {
			return fmt.Errorf("changes.mix.%s is %g: must be from 0 to 1e+09", name, w)
		}
		total += m.Mix[name]
	}
	if !(total > 0) {
		return errors.New("changes.mix has no kind of change with a weight above 0")
	}
	return nil
}

// Bounded is a field of a mesh file with the values that it may have.
type Bounded struct {
	Name             string
	Value, Low, High float64
}

// Within returns an error that names the first field out of bounds.
func Within(fields []Bounded) error {
	for _, f := range fields {
		if math.IsNaN(f.Value) || f.Value < f.Low || f.Value > f.High {
			return fmt.Errorf("%s is %g: must be from %g to %g", f.Name, f.Value, f.Low, f.High)
		}
	}
	return nil
}

// maxGroups is the maximum number of groups of proxies that see different services.
const maxGroups = 20

// Input converts a mesh to the input of package push, without changes.
func (v *Values) Input(m Mesh) push.Input {
	in := push.Input{
		Settings: push.Settings{DebounceAfter: m.DebounceAfter, DebounceMax: m.DebounceMax, DirectEndpoints: m.DirectEndpoints,
			Throttle: m.Throttle, ConnectLimit: m.ConnectLimit, Replicas: m.Replicas, Cores: m.Cores},
		Costs: push.Costs{Watch: v[Watch], Change: v[ChangeCPU], Skip: v[SkipCPU], Parallel: math.Max(1, v[Parallel]),
			Idle: v.idle(m)},
		Kinds: v.Kinds(m),
	}
	groups := 1
	if m.Visible < 1 {
		groups = min(max(2, int(math.Round(1/m.Visible))), maxGroups, max(m.Proxies, 1))
	}
	seen := float64(m.Services) * m.Visible
	for i := range groups {
		class := v.class(fmt.Sprintf("group %d", i+1), seen)
		class.Proxies = m.Proxies*(i+1)/groups - m.Proxies*i/groups
		class.Needs, class.Variants = m.Visible, max(1, min(m.Namespaces, m.Proxies)/groups)
		if m.Beside {
			class.Beside, class.BesideByte = v[Beside], v[BesidePerByte]
		}
		in.Classes = append(in.Classes, class)
	}
	return in
}

// idle returns the cores that a replica uses without changes: its measured idle use, and
// serving connections that were closed because of their age.
func (v *Values) idle(m Mesh) float64 {
	proxies := m.each()
	out := v[IdleCores] + v[IdleCoresPerProxy]*proxies
	if m.ConnectionAge > 0 && m.Replay == nil { // trials are too short for it
		out += v.class("", float64(m.Services)*m.Visible).Connect * proxies / m.ConnectionAge
	}
	return out
}

// Kinds returns the kinds of change in a mesh's mix, with their push contexts.
func (v *Values) Kinds(m Mesh) []push.Kind {
	names := slices.Sorted(maps.Keys(m.Mix))
	if m.Replay != nil {
		names = m.Replay.Kinds
	}
	var out []push.Kind
	for _, name := range names {
		weight := 1.0
		if m.Replay == nil {
			weight = m.Mix[name]
		}
		out = append(out, v.kind(name, weight, m.Services))
	}
	return out
}

// kind returns one kind of change in a mesh with a number of services.
func (v *Values) kind(name string, weight float64, services int) push.Kind {
	k, _ := KindOf(name)
	context := v[Context]
	if k.Configuration {
		context += v[ContextPerService] * float64(services)
	}
	return push.Kind{Name: name, Weight: weight, Types: k.Types, Bare: k.Bare, Asks: k.Asks, Spoils: k.Spoils, Context: context}
}

// class returns a proxy that sees some services and needs all their changes.
func (v *Values) class(name string, seen float64) push.Class {
	c := push.Class{Name: name, Needs: 1, Apply: v[Apply], ApplyByte: v[ApplyPerByte], Connect: v[ConnectCPU] + v[ConnectPerService]*seen}
	for t := range push.Types {
		c.CPU[t].Base = v[CPUOf(t)] + v[CPUPerServiceOf(t)]*seen
		c.Bytes[t].Base = v[BytesOf(t)] + v[BytesPerServiceOf(t)]*seen
		if ByDifference(t) {
			c.CPU[t].Each, c.Bytes[t].Each = v[CPUPerChangeOf(t)], v[BytesPerChangeOf(t)]
		}
	}
	c.CPU[push.EDS].Whole, c.Bytes[push.EDS].Whole = v[EDSCPUWhole]*seen, v[EDSBytesWhole]*seen
	c.CPU[push.RDS].Anew = v[RDSCPUAnew] * seen
	return c
}

// each returns the number of proxies per replica.
func (m Mesh) each() float64 { return float64(m.Proxies) / float64(m.Replicas) }

// CPUs returns the total of all replicas.
func (m Mesh) CPUs() float64 { return m.Cores * float64(m.Replicas) }

// fewest is the minimum number of changes in a simulation, however rare they are.
const fewest = 30

// lasting returns the time until this number of changes has arrived.
func (m Mesh) lasting(changes float64) float64 { return changes / m.Rate }

// MemoryOf returns the memory of one replica in bytes, for a mesh in which it sends
// bytesPerSecond.
func (v *Values) MemoryOf(m Mesh, bytesPerSecond float64) float64 {
	proxies, services := m.each(), float64(m.Services)
	return v[Memory] + v[MemoryPerProxy]*proxies + v[MemoryPerService]*services + v[MemoryPerPair]*proxies*services*m.Visible +
		v[MemoryPerRate]*bytesPerSecond/float64(m.Replicas)
}

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
