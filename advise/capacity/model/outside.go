package model

import (
	"maps"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/advise/capacity/push"
)

// Outside compares a mesh with the measured range.
type Outside struct {
	// Times is how many times the mesh exceeds the measured range; 1 within it. Beyond lists
	// the relevant respects.
	Times  float64   `json:"times_beyond"`
	Beyond []Respect `json:"beyond,omitempty"`
	// Below lists respects in which the mesh is smaller than everything measured. They do not
	// widen intervals.
	Below []Respect `json:"below,omitempty"`
}

// A Respect is one way in which a mesh lies outside the measured range.
type Respect struct {
	Code     RespectCode `json:"code"`
	Value    float64     `json:"value,omitempty"`
	Measured [2]float64  `json:"measured,omitzero"`
	Times    float64     `json:"times,omitempty"` // factor beyond the range, or below it for CPUs
	Kinds    []string    `json:"kinds,omitempty"` // kinds of change that no run had
}

// RespectCode identifies a respect.
type RespectCode string

// The respects in which meshes are compared.
const (
	RespectProxies  RespectCode = "proxies" // of the replica with the most
	RespectServices RespectCode = "services"
	RespectVisible  RespectCode = "visible_services"
	RespectRate     RespectCode = "rate"
	RespectCores    RespectCode = "cores"
	RespectFewCores RespectCode = "few_cores"
	RespectKinds    RespectCode = "kinds"
)

// noticed is the factor from which a mesh counts as outside.
const noticed = 1.05

// Extrapolates reports whether the mesh lies beyond the measured range.
func (o Outside) Extrapolates() bool { return o.Times > noticed }

// newKind is the factor for a kind of change that no run had. The model's error there is
// unknown; a doubling is the smallest step that counts.
const newKind = 2

// Outside compares a mesh with the measured range: proxies of the largest replica, all
// services (push contexts and memory also grow with those that no proxy sees), the rate and
// the kinds of changes, and CPUs, of which fewer are no easier than more.
func (m *Model) Outside(mesh Mesh) Outside {
	out := Outside{Times: 1}
	beyond := func(r Respect) {
		if out.Times = math.Max(out.Times, r.Times); r.Times > noticed {
			out.Beyond = append(out.Beyond, r)
		}
	}
	s := m.Measured
	respects := []Respect{
		{Code: RespectProxies, Value: mesh.each(), Measured: s.Proxies},
		{Code: RespectServices, Value: float64(mesh.Services), Measured: s.Services},
		{Code: RespectVisible, Value: float64(mesh.Services) * mesh.Visible, Measured: s.Services},
		{Code: RespectRate, Value: mesh.Rate, Measured: s.Rate},
		{Code: RespectCores, Value: mesh.Cores, Measured: s.Cores},
	}
	for _, r := range respects {
		low, high := r.Measured[0], r.Measured[1]
		switch {
		case r.Code == RespectVisible && mesh.Visible == 1:
		case high > 0 && r.Value > high:
			r.Times = r.Value / high
			beyond(r)
		case r.Code == RespectCores:
			if r.Value > 0 && r.Value < low {
				r.Code, r.Times = RespectFewCores, low/r.Value
				beyond(r)
			}
		case r.Value < low/noticed:
			out.Below = append(out.Below, r)
		}
	}
	if names := m.unseen(mesh); len(names) > 0 {
		beyond(Respect{Code: RespectKinds, Kinds: names, Times: newKind})
	}
	return out
}

// unseen returns the mesh's kinds of change that istiod handles unlike any kind in the runs.
func (m *Model) unseen(mesh Mesh) []string {
	var seen []ChangeKind
	for name, weight := range m.Mix {
		if k, ok := KindOf(name); ok && weight > 0 {
			seen = append(seen, k.named(""))
		}
	}
	var out []string
	for _, name := range mesh.kinds() {
		if k, ok := KindOf(name); ok && len(seen) > 0 && !slices.Contains(seen, k.named("")) {
			out = append(out, name)
		}
	}
	return out
}

// kinds returns the kinds of change in a mesh, sorted.
func (m Mesh) kinds() []string {
	if m.Replay != nil {
		return slices.Sorted(slices.Values(m.Replay.Kinds))
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(m.Mix)), func(name string) bool { return !(m.Mix[name] > 0) })
}

// types returns the types of resource that a mesh's changes push.
func (m Mesh) types() (types push.TypeSet) {
	for _, name := range m.kinds() {
		k, _ := KindOf(name)
		types |= k.Types
	}
	return types
}
