// Package carrying compares ways of carrying requests in a mesh described by a study:
// sidecars, node proxies, and node proxies with waypoints. A kind of study provides its
// trials' measurements of each way ([Way], by [Way.Measure]). This package computes what the
// described mesh uses, where the order of two ways reverses, and the words for both, with the
// arithmetic of package stat/sizing. It is pure.
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

// Use is a resource by which to compare ways.
type Use struct {
	Of      string // record.SizedCPU or another
	Measure string // measure that the study must have
	finding string
	words   string
	total   string  // unit of a mesh's total
	unit    string  // unit of the cost per request
	one     float64 // factor to it from the total's unit per request per second
}

// Uses lists all such resources.
var Uses = []Use{
	{record.SizedCPU, study.MeasureCPU, study.FindingSizedCores, "CPU", finding.UnitCores, finding.UnitPerRequest, 1e6},
	{record.SizedMemory, study.MeasureMemory, study.FindingSizedMemory, "memory", finding.UnitBytes, finding.UnitBytesPerRate, 1},
}

// Places lists the places of proxies of which a described mesh has a number.
var Places = []record.Place{record.PlaceSidecar, record.PlaceNode, record.PlaceWaypoint}

// Proxies are a way's proxies at one place.
type Proxies struct {
	Place record.Place
	Count float64 // number whose use was measured together
	// Passes is how many of them a request passes.
	Passes float64
}

// Way is a way of carrying requests, as measured by cells with several rates.
type Way struct {
	Name    string
	Cell    record.Cell // of its findings: the levels that these cells share
	Proxies []Proxies
	// Highest is the highest rate of its valid trials, in requests per second.
	Highest float64
	// Lowest is the lowest, likewise.
	Lowest float64
	// Machine is what a request costs the whole machine, in microseconds, by unit; nil if
	// unknown.
	Machine []float64
	// NeedsAgent means that the way's pods need the mesh's agent on each node.
	NeedsAgent bool
	// PlainText means that its sidecars forward requests without mutual TLS.
	PlainText bool

	by    map[string]sizing.Way
	agent map[string][]float64 // the agent's part in the shares of nodes
	poor  bool                 // its use is not linear in the number of pods
	pods  bool                 // by the number of pods
	// rested means that the use of its node proxies without requests was measured, for every
	// reported resource.
	rested bool
	plain  *Way // way of requests that pass no waypoint; nil: all requests go this way
}

func (w *Way) at(place record.Place) (Proxies, bool) {
	for _, p := range w.Proxies {
		if p.Place == place {
			return p, true
		}
	}
	return Proxies{}, false
}

// Lines fits a line to the points of each unit, with NaN for a unit without points at two
// rates.
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

// MachineSlopes returns what a request costs the whole machine, in microseconds, by unit, from
// its cores by the rate. The scatter is proportional to the value, and therefore nearly to the
// rate.
func MachineSlopes(units int, points []stat.FitPoint) []float64 {
	out := make([]float64, units)
	for unit, line := range Lines(units, points, func(rate float64) float64 { return rate }) {
		out[unit] = line.Slope * Uses[0].one
	}
	return out
}

// Ways are the ways for one combination of a study's other factors.
type Ways struct {
	Cell record.Cell // levels of the other factors
	// Bare is [Way.Machine] for requests without any proxy; nil if there are none.
	Bare []float64
	All  []*Way
	// Idle is what one node proxy uses in trials without requests through it, by resource
	// (record.SizedCPU), in cores or bytes; nil if not measured.
	Idle map[string][]stat.FitPoint
	// MostPods is the largest number of pods on a node if ways are lines over that number
	// instead of the rate; otherwise 0.
	MostPods float64
	// Mixed names ways that are left out because their valid trials passed different proxies,
	// so the use of one cannot be derived.
	Mixed []string
	// Waypoints names ways with waypoints, which a line over the number of pods omits.
	Waypoints []string
}

// Of describes cells that differ only in the rate.
type Of struct {
	// Other holds their levels of factors besides the rate and who carries requests.
	Other record.Cell
	// Add adds their measurements to the ways they belong to.
	Add func(*Ways)
}

// Sort groups cells by their other factors. A way for which a factor has no meaning belongs to
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

// agree reports whether two cells agree in all factors that have a meaning in both.
func agree(a, b record.Cell) bool {
	for factor, level := range a {
		if other, ok := b[factor]; ok && level != other && level != study.NotApplicable && other != study.NotApplicable {
			return false
		}
	}
	return true
}

// Units returns the units of a run's blocks.
func Units(o *analysis.Observations) map[int]int {
	out := map[int]int{}
	for i, blocks := range o.Units {
		for _, block := range blocks {
			out[block] = i
		}
	}
	return out
}

// combine sets, for ways with waypoints, which only some of a mesh's requests pass, the way of
// the other requests: node proxies alone, as measured by another way.
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
			continue // all requests pass a waypoint
		}
		for of, through := range w.by {
			w.by[of] = sizing.Way{Plain: w.plain.by[of].Plain, Through: through.Plain}
		}
	}
}

// Tell returns what each way uses in a mesh and how they compare, with the findings.
func (z *Ways) Tell(o *analysis.Observations, m sizing.Mesh) (out record.Sizing, found []record.Finding) {
	out = record.Sizing{Cell: z.Cell, Mesh: meshWords(m, z.has(record.PlaceWaypoint))}
	if z.MostPods > 0 {
		out.Along = "numbers of pods"
	}
	z.price(o.Plan.Study)
	uses := z.uses(o.Plan.Study)
	largest := map[string]float64{} // largest use of any way, by resource
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
			e := sizing.Compare(a.by[u.Of], b.by[u.Of], m)
			out.Differences = append(out.Differences, difference(u, a, b, e))
			called := map[string]string{a.Name: z.called(a, m), b.Name: z.called(b, m)}
			out.Says = append(out.Says, compareWords(called[a.Name], called[b.Name], u, e, largest[u.Of]))
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

// difference is what a uses more than b.
func difference(u Use, a, b *Way, e stat.Estimate) record.SizedDifference {
	more := record.Priced{Unit: u.total, Blocks: e.Blocks, Verdict: record.VerdictInvalid}
	if e.Blocks >= analysis.MinBlocks && e.Defined() {
		more.Estimate, more.Low, more.High, more.Verdict = e.Value, e.Low, e.High, record.VerdictMeasured
	}
	return record.SizedDifference{Of: u.Of, Between: []string{a.Name, b.Name}, More: more, Less: map[int]string{1: b.Name, -1: a.Name}[sizing.Sign(e)]}
}

// Add adds what all ways use in the mesh that the study describes, if it does. A way shared by
// several combinations of other factors has one finding, though its shares are in each of
// their tables. remedy says how to make all trials of a way pass the same proxies.
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

// machine returns what a request costs the whole machine in excess of one without any proxy;
// nil if unknown.
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

// podsOnNode is the largest number of pods on a node to consider for borders: a kubelet's
// default limit.
const podsOnNode = 110

// borders returns the borders between two ways along every quantity of the described mesh.
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

// reach returns the number of requests per second of each pod up to which no proxy of a way
// carries more than was measured. Another way measured the use of requests that pass no
// waypoint.
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

// reachOnNode returns the number of pods on a node up to which its proxy does not exceed the
// measurements; infinite if a way has no proxy there.
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

// reachL7 returns the share of requests up to which no waypoint of a way exceeds the
// measurements; 1 if a way has none.
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
