package study

import (
	"fmt"

	"github.com/meshmark/meshmark/record"
)

// Plane says which half of a mesh a study is about. A study with a section
// control is one of the control plane, every other one of the data plane.
type Plane string

// Planes of a mesh.
const (
	PlaneData    Plane = "data plane"    // requests through sidecars
	PlaneControl Plane = "control plane" // configuration on its way to sidecars
)

// Plane returns the half of the mesh that the study is about.
func (s *Study) Plane() Plane {
	if s.Control != nil {
		return PlaneControl
	}
	return PlaneData
}

// PlaneOf returns the plane of a full cell, by the factors it has.
func PlaneOf(cell record.Cell) Plane {
	if _, ok := cell[FactorProxies]; ok {
		return PlaneControl
	}
	return PlaneData
}

// FactorsOf returns the table of a plane's factors, in the order reports use.
// The caller must not change it.
func FactorsOf(p Plane) []Factor {
	if p == PlaneControl {
		return controlFactors
	}
	return factors
}

// allFactors are those of both planes, and the one that chooses a variant.
func allFactors() []Factor {
	out := append([]Factor(nil), factors...)
	return append(append(out, controlFactors...), variantFactor)
}

// foreign is the complaint about something that belongs to the other plane.
func foreign(what string, of, here Plane) *complaint {
	if here == PlaneControl {
		return complain("leave it out; a study without the section control is one of the data plane",
			"%s belongs to the %s, and this study is one of the %s", what, of, here)
	}
	return complain("leave it out, or add the section control: {}, which makes this a study of the control plane",
		"%s belongs to the %s, and this study is one of the %s", what, of, here)
}

// notHere says of a name in a mapping whether it belongs to the other plane.
func (d *decoder) notHere(name string, of Plane, pos Pos) bool {
	if of == "" || of == d.plane {
		return false
	}
	d.complain(pos, foreign(fmt.Sprintf("%q", name), of, d.plane))
	return true
}
