package study

import (
	"fmt"
	"slices"

	"github.com/meshtrial/meshtrial/record"
)

// Plane says what of a mesh a study is about. A study with a section control
// is one of the control plane, one with a timeline is one of resilience, every
// other one is one of the data plane.
type Plane string

// What studies are about.
const (
	PlaneData       Plane = "data plane"    // requests through sidecars
	PlaneControl    Plane = "control plane" // configuration on its way to sidecars
	PlaneResilience Plane = "resilience"    // requests while things break
)

// Planes lists all of them.
func Planes() []Plane { return []Plane{PlaneData, PlaneControl, PlaneResilience} }

// sections are the parts of a file that make a study one of a plane.
var sections = map[Plane]string{PlaneControl: "control", PlaneResilience: "timeline"}

func only(p ...Plane) []Plane { return p }

// Plane returns what the study is about.
func (s *Study) Plane() Plane {
	switch {
	case s.Control != nil:
		return PlaneControl
	case s.Scenario != nil:
		return PlaneResilience
	}
	return PlaneData
}

// PlaneOf returns the plane of a full cell, by the factors it has.
func PlaneOf(cell record.Cell) Plane {
	if _, ok := cell[FactorProxies]; ok {
		return PlaneControl
	}
	if _, ok := cell[FactorRetries]; ok {
		return PlaneResilience
	}
	return PlaneData
}

// planeOf finds the plane of a file that has been read into a tree.
func planeOf(root *node) Plane {
	for _, p := range Planes() {
		if s := sections[p]; s != "" && root.get(s) != nil {
			return p
		}
	}
	return PlaneData
}

// FactorsOf returns the table of a plane's factors, in the order reports use.
// The caller must not change it.
func FactorsOf(p Plane) []Factor {
	switch p {
	case PlaneControl:
		return controlFactors
	case PlaneResilience:
		return scenarioFactors
	}
	return factors
}

// allFactors are those of all planes, each once, and the one that chooses a
// variant.
func allFactors() []Factor {
	var out []Factor
	for _, p := range Planes() {
		for _, f := range FactorsOf(p) {
			if !slices.ContainsFunc(out, func(o Factor) bool { return o.Name == f.Name }) {
				out = append(out, f)
			}
		}
	}
	return append(out, variantFactor)
}

// words name a plane in a sentence.
func (p Plane) words() string {
	if p == PlaneResilience {
		return string(p)
	}
	return "the " + string(p)
}

// foreign is the complaint about something that belongs to another plane.
func foreign(what string, of, here Plane) *complaint {
	hint := "leave it out"
	switch s := sections[of]; {
	case s != "" && here == PlaneData:
		hint = fmt.Sprintf("leave it out, or add the section %s, which makes this a study of %s", s, of.words())
		if of == PlaneControl {
			hint = "leave it out, or add the section control: {}, which makes this a study of the control plane"
		}
	case s == "":
		hint = fmt.Sprintf("leave it out; a study without the section %s is one of the data plane", sections[here])
	}
	return complain(hint, "%s belongs to %s, and this study is one of %s", what, of.words(), here.words())
}

// notHere says of a name in a mapping whether it belongs to other planes only.
func (d *decoder) notHere(name string, of []Plane, pos Pos) bool {
	if len(of) == 0 || slices.Contains(of, d.plane) {
		return false
	}
	d.complain(pos, foreign(fmt.Sprintf("%q", name), of[0], d.plane))
	return true
}
