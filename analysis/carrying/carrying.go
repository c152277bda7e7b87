// Package carrying compares ways of carrying requests in a mesh that a study states: sidecars,
// proxies on nodes, those with waypoints. A kind of study provides what its trials have of
// each way ([Way], by [Way.Measure]); this package computes what the stated mesh uses, where
// two ways change places, and the words for both, by the arithmetic of package stat/sizing. It
// is pure.
package carrying

import (
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/stat/sizing"
	"github.com/meshtrial/meshtrial/study"
)

// Use is a resource by which ways are compared.
type Use struct {
	Of      string // record.SizedCPU or another
	Measure string // of the study that must have it
	finding string
	words   string
	total   string  // unit of what a mesh takes
	unit    string  // of what a request adds
	one     float64 // of the total's unit for each request per second, in that unit
}

// Uses are all such resources.
var Uses = []Use{
	{record.SizedCPU, study.MeasureCPU, study.FindingSizedCores, "CPU", finding.UnitCores, finding.UnitPerRequest, 1e6},
	{record.SizedMemory, study.MeasureMemory, study.FindingSizedMemory, "memory", finding.UnitBytes, finding.UnitBytesPerRate, 1},
}

// Places are those of proxies of which a stated mesh has a number.
var Places = []record.Place{record.PlaceSidecar, record.PlaceNode, record.PlaceWaypoint}

// Proxies are those of a way at one place.
type Proxies struct {
	Place record.Place
	Count float64 // whose use was measured together
	// Passes is how often a request passes one of them.
	Passes float64
}

// Way is a way of carrying requests, as measured by cells of several rates.
type Way struct {
	Name    string
	Cell    record.Cell // of its findings: what these cells share
	Proxies []Proxies
	// Highest is the highest rate of its valid trials, in requests per second.
	Highest float64
	// Lowest is the lowest, likewise.
	Lowest float64
	// Machine is what a request costs the whole machine, in microseconds, by unit; nil if
	// unknown.
	Machine []float64
	// NeedsAgent says that the way's pods need the mesh's agent on each node.
	NeedsAgent bool
	// PlainText says that its sidecars forward requests without mutual TLS.
	PlainText bool

	by    map[string]sizing.Way
	agent map[string][]float64 // what the agent takes of it, in the shares of nodes
	poor  bool                 // its use along the number of pods is no straight line
	pods  bool                 // along the number of pods
	// rested says that what its nodes' proxies use without requests was measured, for every
	// resource reported.
	rested bool
	plain  *Way // how requests go that pass no waypoint; nil: all of this way do as it says
}

func (w *Way) at(place record.Place) (Proxies, bool) {
	for _, p := range w.Proxies {
		if p.Place == place {
			return p, true
		}
	}
	return Proxies{}, false
}

// Lines are the lines of all units; NaN for a unit without points at two rates.
func Lines(units int, points []stat.FitPoint, weight func(float64) float64) []stat.UnitLine {
	out := make([]stat.UnitLine, units)
	for unit := range out {
		out[unit] = stat.UnitLine{Unit: unit, Intercept: math.NaN(), Slope: math.NaN()}
	}
	for _, line := range stat.UnitLines(points, weight) {
		out[line.Unit] = line
	}
	return out
}

// MachineSlopes are what a request costs the whole machine, in microseconds, by unit, from its
// cores by the rate. They scatter in proportion to themselves, and nearly so to the rate.
func MachineSlopes(units int, points []stat.FitPoint) []float64 {
	out := make([]float64, units)
	for unit, line := range Lines(units, points, func(rate float64) float64 { return rate }) {
		out[unit] = line.Slope * Uses[0].one
	}
	return out
}

// Ways are those of one combination of a study's other factors.
type Ways struct {
	Cell record.Cell // of the other factors
	// Bare is [Way.Machine] of requests without any proxy; nil if there are none.
	Bare []float64
	All  []*Way
	// Idle is what one proxy of a node uses in trials whose requests pass none, by resource
	// (record.SizedCPU), in cores or bytes; nil if not measured.
	Idle map[string][]stat.FitPoint
	// MostPods is the largest number of pods on a node, if ways are lines along that number
	// and not along the rate; else 0.
	MostPods float64
	// Mixed names ways that are left out because their valid trials passed different proxies,
	// so that the use of one does not follow.
	Mixed []string
	// Waypoints names ways with waypoints, which a line along the number of pods leaves out.
	Waypoints []string
}

// Of are cells that differ in the rate only.
type Of struct {
	// Other are their levels of factors other than the rate and who carries requests.
	Other record.Cell
	// Add adds their measurements to the ways that they belong with.
	Add func(*Ways)
}

// Sort groups cells by their other factors. A way to which a factor means nothing belongs to
// all of the factor's levels.
func Sort(all []Of) (out []*Ways) {
	for _, whole := range []bool{true, false} {
		for _, a := range all {
			idle := false
			for _, level := range a.Other {
				idle = idle || level == study.NotApplicable
			}
			if whole == idle || slices.ContainsFunc(out, func(z *Ways) bool { return agree(z.Cell, a.Other) }) {
				continue
			}
			out = append(out, &Ways{Cell: a.Other})
		}
	}
	for _, z := range out {
		for _, a := range all {
			if agree(z.Cell, a.Other) {
				a.Add(z)
			}
		}
		z.combine()
	}
	return slices.DeleteFunc(out, func(z *Ways) bool { return len(z.All) == 0 && len(z.Mixed) == 0 && len(z.Waypoints) == 0 })
}

// agree reports that two cells differ in no factor that means something in both.
func agree(a, b record.Cell) bool {
	for factor, level := range a {
		if other, ok := b[factor]; ok && level != other && level != study.NotApplicable && other != study.NotApplicable {
			return false
		}
	}
	return true
}

// Units are the units of a run's blocks.
func Units(o *analysis.Observations) map[int]int {
	out := map[int]int{}
	for i, blocks := range o.Units {
		for _, block := range blocks {
			out[block] = i
		}
	}
	return out
}

// combine gives ways with waypoints, which only some of a mesh's requests pass, the way of the
// others: that of proxies on nodes alone, as another way has it.
func (z *Ways) combine() {
	for _, w := range z.All {
		w.rest(z.Idle)
	}
	for _, w := range z.All {
		if _, through := w.at(record.PlaceWaypoint); !through {
			continue
		}
		for _, p := range z.All {
			_, through := p.at(record.PlaceWaypoint)
			if _, node := p.at(record.PlaceNode); node && !through {
				w.plain, w.Name = p, p.Name+" with waypoints"
			}
		}
		if w.plain == nil {
			continue // all requests pass one
		}
		for of, through := range w.by {
			w.by[of] = sizing.Way{Plain: w.plain.by[of].Plain, Through: through.Plain}
		}
	}
}

// Tell returns what each way uses in a mesh, and how they compare, with the findings.
func (z *Ways) Tell(o *analysis.Observations, m sizing.Mesh) (out record.Sizing, found []record.Finding) {
	out = record.Sizing{Cell: z.Cell, Mesh: meshWords(m, z.has(record.PlaceWaypoint))}
	if z.MostPods > 0 {
		out.Along = "numbers of pods"
	}
	z.price(o.Plan.Study)
	uses := z.uses(o.Plan.Study)
	largest := map[string]float64{} // that a way takes, by what it is of
	for _, w := range z.All {
		one := record.SizedWay{Name: w.Name, Machine: z.machine(w)}
		for _, u := range uses {
			way, ok := w.by[u.Of]
			if !ok {
				continue
			}
			total := o.Named(u.finding, w.Cell)
			p := pricedMean(way.At(m), u.total)
			total.Estimate, total.Low, total.High, total.Blocks, total.Verdict = p.Estimate, p.Low, p.High, p.Blocks, p.Verdict
			if p.Verdict == record.VerdictInvalid {
				total = analysis.Invalid(total, p.Blocks)
			}
			largest[u.Of] = max(largest[u.Of], math.Abs(p.Low), math.Abs(p.High))
			found = append(found, total)
			one.Uses = append(one.Uses, w.use(u, way, m, record.PricedOf(total)))
		}
		out.Ways = append(out.Ways, one)
	}
	compared := 0
	for _, u := range uses {
		for _, pair := range z.pairs(m) {
			a, b := pair[0], pair[1]
			_, ofA := a.by[u.Of]
			if _, ofB := b.by[u.Of]; !ofA || !ofB {
				continue
			}
			compared++
			called := map[string]string{a.Name: z.called(a, m), b.Name: z.called(b, m)}
			out.Says = append(out.Says, compareWords(called[a.Name], called[b.Name], u, sizing.Compare(a.by[u.Of], b.by[u.Of], m), largest[u.Of]))
			for _, border := range z.borders(u.Of, a, b, m) {
				out.Borders = append(out.Borders, border)
				border.First, border.Last = called[border.First], called[border.Last]
				if sizing.Outcome(border.Outcome) == sizing.Lies {
					out.Says = append(out.Says, borderSentence(border, u))
				}
			}
		}
	}
	out.Notes = append(z.notes(m), comparisonNotes(o.Plan.Study, uses, compared)...)
	return out, found
}

// Add adds what all ways use in the mesh that the study states, if it does. A way shared by
// several combinations of other factors has one finding, though its shares are in each of
// their tables. The remedy is how to have all trials of a way pass the same proxies.
func Add(o *analysis.Observations, f *record.Findings, remedy string, ways func(*analysis.Observations) []*Ways) {
	if o.Plan.Study.Sizing == nil {
		return
	}
	for _, z := range ways(o) {
		for _, warning := range z.left(remedy) {
			if !slices.ContainsFunc(f.Warnings, warning.Like) { // several combinations may share a way
				f.Warnings = append(f.Warnings, warning)
			}
		}
		if len(z.All) == 0 {
			continue
		}
		one, found := z.Tell(o, *o.Plan.Study.Sizing)
		f.Sizings = append(f.Sizings, one)
		for _, x := range found {
			if !slices.ContainsFunc(f.Findings, func(o record.Finding) bool { return o.Name == x.Name && o.Cell.Key() == x.Cell.Key() }) {
				f.Findings = append(f.Findings, x)
			}
		}
	}
}

// machine is what a request costs the whole machine beyond one without any proxy; nil if
// unknown.
func (z *Ways) machine(w *Way) *record.Priced {
	if z.Bare == nil || w.Machine == nil {
		return nil
	}
	values := make([]float64, len(w.Machine))
	for unit := range values {
		values[unit] = w.Machine[unit] - z.Bare[unit]
	}
	p := pricedMean(values, finding.UnitPerRequest)
	if p.Verdict == record.VerdictInvalid {
		return nil
	}
	return &p
}

// podsOnNode is the largest number of pods on a node considered for borders: a kubelet's
// default limit.
const podsOnNode = 110

// borders are those between two ways, along every quantity of the stated mesh.
func (z *Ways) borders(of string, a, b *Way, m sizing.Mesh) (out []record.SizedBorder) {
	var axes []sizing.Axis
	if high := min(z.reach(a, m), z.reach(b, m)); high > 0 && stat.Finite(high) {
		axes = append(axes, sizing.Rate(high))
	}
	if high := min(z.reachOnNode(a, m), z.reachOnNode(b, m)); high > 1 && stat.Finite(high) {
		axes = append(axes, sizing.PodsOnNode(min(high, podsOnNode)))
	}
	if high := min(z.reachL7(a, m), z.reachL7(b, m)); high > 0 && (a.plain != nil || b.plain != nil) {
		axes = append(axes, sizing.L7(high))
	}
	for _, x := range axes {
		got := x.Border(a.by[of], b.by[of], m)
		less := func(sign int) string { return map[int]string{1: b.Name, -1: a.Name}[sign] }
		one := record.SizedBorder{Of: of, Between: []string{a.Name, b.Name}, Along: x.Name, Low: x.Low, High: x.High, Outcome: string(got.Outcome),
			First: less(got.First), Last: less(got.Last), At: known(got.At), From: known(got.From), To: known(got.To)}
		one.Says = borderWords(one)
		out = append(out, one)
	}
	return out
}

// reach is the number of requests per second of each pod up to which no proxy of a way carries
// more than was measured. The use of requests that pass no waypoint was measured on another
// way.
func (z *Ways) reach(w *Way, m sizing.Mesh) float64 {
	high := math.Inf(1)
	if w.plain != nil {
		high = z.reach(w.plain, m)
	}
	for _, p := range w.Proxies {
		of, share := w.countIn(m, p.Place)
		if of > 0 && share > 0 {
			high = min(high, w.Highest/p.Count*of/(share*m.Pods))
		}
	}
	return high
}

// reachOnNode is the number of pods on a node up to which its proxy does not; infinite if a
// way has none there.
func (z *Ways) reachOnNode(w *Way, m sizing.Mesh) float64 {
	p, ok := w.at(record.PlaceNode)
	switch {
	case !ok:
		return math.Inf(1)
	case z.MostPods > 0:
		return z.MostPods
	case m.RPS == 0:
		return podsOnNode
	}
	high := w.Highest
	if w.plain != nil {
		high = min(high, w.plain.Highest)
	}
	return high / p.Count * m.Pods / m.RPS
}

// reachL7 is the share of requests up to which no waypoint of a way does; 1 if a way has none.
func (z *Ways) reachL7(w *Way, m sizing.Mesh) float64 {
	p, ok := w.at(record.PlaceWaypoint)
	if !ok || m.RPS == 0 {
		return 1
	}
	return min(1, w.Highest/p.Count*m.Waypoints/m.RPS)
}

func known(v float64) *float64 {
	if !stat.Finite(v) {
		return nil
	}
	return &v
}
