package carrying

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/stat/sizing"
)

// points returns points at two rates in three units, on lines with a separate idle part for
// each unit.
func points(slope float64, idle ...float64) []stat.FitPoint {
	var out []stat.FitPoint
	for unit, a := range idle {
		for _, rate := range []float64{100, 1000} {
			out = append(out, stat.FitPoint{X: rate, Y: a + slope*rate, Level: rate, Unit: unit})
		}
	}
	return out
}

// A described mesh uses what was measured at the rates that its proxies carry, even if the
// first requests per second cost the most, and idle node proxies use what was observed.
func TestMeasureBent(t *testing.T) {
	measured := func(uses map[float64]float64) (out []stat.FitPoint) {
		for unit := range 4 {
			for rate, use := range uses {
				out = append(out, stat.FitPoint{X: rate * 1.01, Y: use, Level: rate, Unit: unit}, stat.FitPoint{X: rate * 0.99, Y: use, Level: rate, Unit: unit})
			}
		}
		return out
	}
	sidecars := &Way{Name: "sidecars", Lowest: 20, Highest: 1000, Proxies: []Proxies{{Place: record.PlaceSidecar, Count: 2, Passes: 2}}}
	ambient := &Way{Name: "ambient", Lowest: 20, Highest: 1000, Proxies: []Proxies{{Place: record.PlaceNode, Count: 1, Passes: 1}}}
	for way, uses := range map[*Way]map[float64]float64{sidecars: {20: 0.04, 200: 0.2, 1000: 0.6}, ambient: {20: 0.02, 200: 0.08, 1000: 0.24}} {
		way.Measure(Uses[0], 4, func(record.Place) []stat.FitPoint { return measured(uses) })
	}
	idle := map[string][]stat.FitPoint{record.SizedCPU: {{Y: 0.003, Unit: 0}, {Y: 0.005, Unit: 0}, {Y: 0.004, Unit: 1}, {Y: 0.004, Unit: 2}, {Y: math.NaN(), Unit: 2}, {Y: 0.004, Unit: 3}}}
	z := &Ways{All: []*Way{sidecars, ambient}, Idle: idle}
	z.combine()
	for _, c := range []struct {
		pods, nodes, rps, sidecars, ambient float64
	}{
		{100, 10, 1000, 100 * 0.02, 10 * (0.02 + 80*0.06/180)}, // 20 at each sidecar, 100 on each node
		{100, 10, 10_000, 100 * 0.1, 10 * 0.24},                // 200 and 1,000
		{100, 10, 0, 100 * (0.02 - 20*0.08/180), 10 * 0.004},
	} {
		m := sizing.Mesh{Pods: c.pods, Nodes: c.nodes, RPS: c.rps}
		for way, want := range map[*Way]float64{sidecars: c.sidecars, ambient: c.ambient} {
			if got := stat.Mean(way.by[record.SizedCPU].At(m), stat.Options{}).Value; math.Abs(got/want-1) > 0.01 {
				t.Errorf("%g requests a second: %s take %g cores, want %g", c.rps, way.Name, got, want)
			}
		}
	}
	use := ambient.use(Uses[0], ambient.by[record.SizedCPU], sizing.Mesh{Pods: 100, Nodes: 10, RPS: 10_000}, record.Priced{})
	if got := use.Idle[record.PlaceNode].Estimate; math.Abs(got/0.004-1) > 0.01 {
		t.Errorf("a node's proxy takes %g cores without requests", got)
	}
	if got := use.Request.Estimate; math.Abs(got/236-1) > 0.01 { // (0.24 - 0.004) / 1,000
		t.Errorf("a request adds %g us", got)
	}
	notes := func(rps float64) string {
		return note.Words(z.notes(sizing.Mesh{Pods: 100, Nodes: 10, RPS: rps}))
	}
	const below = "With sidecars each sidecar would carry 2 requests per second; at least 20 were measured, and the line below is extrapolated."
	if got := notes(100); !strings.Contains(got, below) || strings.Contains(got, "With ambient each node's") || !strings.Contains(got, "are extrapolated for a sidecar: ") {
		t.Error(got)
	}
	if got := notes(1000); strings.Contains(got, "the line below") {
		t.Error(got)
	}
}

// If a block has not observed a node's proxy without requests, or only one of CPU and memory
// was measured, the value is extrapolated in all blocks, and a note says so.
func TestRestOfSomeBlocks(t *testing.T) {
	seen := func(units ...int) (out []stat.FitPoint) {
		for _, unit := range units {
			out = append(out, stat.FitPoint{Y: 0.004, Unit: unit})
		}
		return out
	}
	for _, c := range []struct {
		name        string
		cpu, memory []stat.FitPoint
		idle        float64 // in cores
		told        bool
	}{
		{"all", seen(0, 1, 2), seen(0, 1, 2), 0.004, false},
		{"not in a block", seen(0, 2), seen(0, 1, 2), 0.05, true},
		{"of CPU alone", seen(0, 1, 2), nil, 0.004, true},
		{"of neither", nil, nil, 0.05, true},
	} {
		w := &Way{Name: "ambient", Lowest: 100, Highest: 1000, Proxies: []Proxies{{Place: record.PlaceNode, Count: 1, Passes: 1}}}
		for _, u := range Uses { // a fourth block has one rate, and requires nothing
			w.Measure(u, 4, func(record.Place) []stat.FitPoint {
				return append(points(1e-4, 0.04, 0.06, 0.05), stat.FitPoint{X: 100, Y: 7, Level: 100, Unit: 3})
			})
		}
		z := &Ways{All: []*Way{w}, Idle: map[string][]stat.FitPoint{record.SizedCPU: c.cpu, record.SizedMemory: c.memory}}
		z.combine()
		m := sizing.Mesh{Pods: 100, Nodes: 10}
		if got := w.use(Uses[0], w.by[record.SizedCPU], m, record.Priced{}).Idle[record.PlaceNode]; math.Abs(got.Estimate/c.idle-1) > 1e-6 || got.Blocks != 3 {
			t.Errorf("%s: a node's proxy takes %+v without requests, want %g cores", c.name, got, c.idle)
		}
		if got := note.Words(z.notes(m)); strings.Contains(got, "are extrapolated for a node's proxy: ") != c.told {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}

// Cells for which a factor has no meaning belong to each of its levels, and stand alone if no
// other cell has the factor.
func TestSort(t *testing.T) {
	add := func(name string) func(*Ways) {
		return func(z *Ways) { z.All = append(z.All, &Way{Name: name}) }
	}
	names := func(all []*Ways) (out string) {
		for _, z := range all {
			out += "|"
			for _, w := range z.All {
				out += w.Name + " "
			}
		}
		return out
	}
	of := func(level string) record.Cell { return record.Cell{"telemetry": level} }
	if got := names(Sort([]Of{{of("off"), add("quiet")}, {of("-"), add("ambient")}, {of("log"), add("logs")}})); got != "|quiet ambient |ambient logs " {
		t.Error(got)
	}
	if got := names(Sort([]Of{{of("-"), add("ambient")}})); got != "|ambient " {
		t.Error(got)
	}
}

// Each outcome of a border has words, and those of the share of L7 are in percent.
func TestBorderWords(t *testing.T) {
	at, from, to := 0.5, 0.25, 0.75
	for _, c := range []struct {
		b    record.SizedBorder
		want string
	}{
		{record.SizedBorder{Along: sizing.AlongL7, Outcome: "lies", First: "a", Last: "b", At: &at, From: &from, To: &to}, "a below 50% (25%–75%), b above"},
		{record.SizedBorder{Outcome: "none", First: "a", Last: "a", High: 110}, "no border: a from 0 to 110"},
		{record.SizedBorder{Between: []string{"a", "b"}, Outcome: "between", First: "a", Last: "a", From: &from, To: &to}, "a up to 0.25 and from 0.75 on, b in between"},
		{record.SizedBorder{Between: []string{"a", "b"}, Outcome: "between", First: "b", Last: "b", From: &from, To: &to}, "b up to 0.25 and from 0.75 on, a in between"},
		{record.SizedBorder{Outcome: "beyond", First: "a", From: &from}, "a up to 0.25, cannot say above"},
		{record.SizedBorder{Outcome: "beyond", Last: "b", From: &from}, "b from 0.25 on, cannot say below"},
		{record.SizedBorder{Outcome: "unknown"}, "cannot say: the interval of the difference includes zero"},
	} {
		if got := borderWords(c.b).String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// A border with a position has a sentence too, whatever its quantity.
func TestBorderSentences(t *testing.T) {
	at, from, to := 2.5, 2.0, 3.1
	share, least, most := 0.86, 0.8, 0.9
	for _, c := range []struct {
		b    record.SizedBorder
		u    Use
		want string
	}{
		{record.SizedBorder{Along: sizing.AlongPods, Outcome: "lies", First: "sidecars", Last: "ambient", At: &at, From: &from, To: &to}, Uses[0],
			"All else as stated, the mesh takes less CPU with sidecars where each node has fewer than 2.5 pods (95% interval 2.0 to 3.1), and with ambient where it has more."},
		{record.SizedBorder{Along: sizing.AlongRate, Outcome: "lies", First: "sidecars", Last: "ambient", At: &at, From: &from, To: &to}, Uses[1],
			"All else as stated, the mesh takes less memory with sidecars where each pod sends fewer than 2.5 requests per second (95% interval 2.0 to 3.1), and with ambient where it sends more."},
		{record.SizedBorder{Along: sizing.AlongL7, Outcome: "lies", First: "ambient with waypoints", Last: "sidecars", At: &share, From: &least, To: &most}, Uses[0],
			"All else as stated, the mesh takes less CPU with ambient with waypoints where less than 86% of the requests need L7 (95% interval 80% to 90%), and with sidecars where more do."},
	} {
		if got := borderSentence(c.b, c.u).String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// If ambient without waypoints was not measured, all requests pass a waypoint, whatever needs
// L7: figures, notes and borders assume that. For a way without a valid trial, no measured
// range is stated.
func TestAllThroughWaypoints(t *testing.T) {
	w := &Way{Name: "waypoint", Lowest: 20, Highest: 1000, Proxies: []Proxies{{Place: record.PlaceNode, Count: 1, Passes: 1}, {Place: record.PlaceWaypoint, Count: 1, Passes: 1}}}
	w.Measure(Uses[0], 3, func(record.Place) []stat.FitPoint { return points(1e-4, 0.04, 0.06, 0.05) })
	z := &Ways{All: []*Way{w}}
	z.combine()
	m := sizing.Mesh{Pods: 1000, Nodes: 50, RPS: 20_000, L7: 0.2, Waypoints: 10}
	if got, want := w.by[record.SizedCPU].At(m)[0], 50*0.04+2+10*0.04+2; math.Abs(got/want-1) > 1e-6 {
		t.Errorf("%g cores, want %g", got, want)
	}
	if got := note.Words(z.notes(m)); !strings.Contains(got, "With waypoint each waypoint would carry 2,000 requests per second; up to 1,000 were measured") {
		t.Error(got)
	}
	if got := z.reach(w, m); got != 10 { // 1,000 at each of 10 waypoints
		t.Errorf("it reaches %g", got)
	}
	for _, rps := range []float64{1, 20_000} {
		m.RPS, w.Lowest, w.Highest = rps, math.Inf(1), 0
		if got := note.Words(z.notes(m)); strings.Contains(got, "were measured, and the line") {
			t.Error(got)
		}
	}
}

// The saving of one way over another has the unit of both values, once, and is readable
// without knowing which end the difference was taken from.
func TestCompareWords(t *testing.T) {
	for _, c := range []struct {
		u    Use
		e    stat.Estimate
		most float64
		want string
	}{
		{Uses[0], stat.Estimate{Value: 0.903, Low: 0.537, High: 1.269}, 2.6, "With b the stated mesh takes less CPU than with a, by 0.90 cores (95% interval 0.54 to 1.27)."},
		{Uses[1], stat.Estimate{Value: -8.281e9, Low: -8.3352e9, High: -8.2262e9}, 12e9, "With a the stated mesh takes less memory than with b, by 8.281 GB (95% interval 8.226 to 8.335)."},
		{Uses[1], stat.Estimate{Value: 5e8, Low: -12e8, High: 22e8}, 12e9, "Whether the stated mesh takes less memory with a or with b is inconclusive: the difference lies between -1.2 and 2.2 GB."},
		{Uses[0], stat.Estimate{Value: math.NaN(), Low: math.NaN(), High: math.NaN()}, 0, "Whether the stated mesh takes less CPU with a or with b is unknown: too few blocks have both."},
	} {
		if got := compareWords("a", "b", c.u, c.e, c.most).String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// Borders are searched only within the measured range of proxies: not at a rate, or with a
// number of pods on a node, that a proxy would exceed.
func TestReach(t *testing.T) {
	z := &Ways{}
	sidecars := &Way{Highest: 1000, Proxies: []Proxies{{Place: record.PlaceSidecar, Count: 2, Passes: 2}}}
	ambient := &Way{Highest: 1000, Proxies: []Proxies{{Place: record.PlaceNode, Count: 1, Passes: 2}}}
	m := sizing.Mesh{Pods: 100, Nodes: 5, RPS: 2000}
	if got := z.reach(sidecars, m); got != 500 { // each pod sends half of what its sidecar carries
		t.Errorf("sidecars reach %g", got)
	}
	if got := z.reach(ambient, m); got != 50 { // 20 pods share a node's 1,000
		t.Errorf("ztunnel reaches %g", got)
	}
	if got := z.reachOnNode(ambient, m); got != 50 { // of 20 requests per second each
		t.Errorf("ztunnel reaches %g pods", got)
	}
	// The way without waypoints was measured less far, and carries most requests.
	through := &Way{Highest: 1000, Proxies: ambient.Proxies, plain: &Way{Highest: 100, Proxies: ambient.Proxies}}
	if got, onNode := z.reach(through, m), z.reachOnNode(through, m); got != 5 || onNode != 5 {
		t.Errorf("with waypoints ztunnel reaches %g, and %g pods", got, onNode)
	}
}

// The share of requests that need L7 is searched only as far as a waypoint was measured.
func TestReachOfWaypoints(t *testing.T) {
	z := &Ways{All: []*Way{
		{Name: "sidecars", Highest: 1000, Proxies: []Proxies{{Place: record.PlaceSidecar, Count: 2, Passes: 2}}},
		{Name: "ambient", Highest: 1000, Proxies: []Proxies{{Place: record.PlaceNode, Count: 1, Passes: 2}}},
		{Name: "waypoint", Highest: 1000, Proxies: []Proxies{{Place: record.PlaceNode, Count: 1, Passes: 2}, {Place: record.PlaceWaypoint, Count: 1, Passes: 1}}},
	}}
	for _, w := range z.All {
		w.Measure(Uses[0], 3, func(record.Place) []stat.FitPoint { return points(1e-4, 0.04, 0.06, 0.05) })
	}
	z.combine()
	for _, c := range []struct{ waypoints, want float64 }{{4, 0.4}, {20, 1}, {0, 0}} { // of 10,000 requests per second
		high := 0.0
		for _, b := range z.borders(record.SizedCPU, z.All[0], z.All[2], sizing.Mesh{Pods: 100, Nodes: 10, RPS: 10_000, L7: 0.1, Waypoints: c.waypoints}) {
			if b.Along == sizing.AlongL7 {
				high = b.High
			}
		}
		if math.Abs(high-c.want) > 1e-9 {
			t.Errorf("%g waypoints: looked up to a share of %g, want %g", c.waypoints, high, c.want)
		}
	}
}

// If requests need L7, ways that support it are compared first, and one that does not is
// labelled as such.
func TestPairs(t *testing.T) {
	z := &Ways{All: []*Way{
		{Name: "sidecars", Proxies: []Proxies{{Place: record.PlaceSidecar, Count: 2, Passes: 2}}},
		{Name: "ambient", Proxies: []Proxies{{Place: record.PlaceNode, Count: 1, Passes: 2}}},
		{Name: "waypoint", Proxies: []Proxies{{Place: record.PlaceNode, Count: 1, Passes: 2}, {Place: record.PlaceWaypoint, Count: 1, Passes: 1}}},
	}}
	z.combine()
	l4 := noteOnlyL4.Of("20%", "ambient")
	for _, c := range []struct {
		l7   float64
		want string
	}{
		{0.2, "sidecars/ambient with waypoints, sidecars/ambient without waypoints (L4 alone)"},
		{0, "sidecars/ambient, sidecars/ambient with waypoints"},
	} {
		m := sizing.Mesh{Pods: 100, Nodes: 10, RPS: 1000, L7: c.l7, Waypoints: 2}
		var got []string
		for _, pair := range z.pairs(m) {
			got = append(got, z.called(pair[0], m)+"/"+z.called(pair[1], m))
		}
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("%g: %s, want %s", c.l7, got, c.want)
		}
		if notes := z.notes(m); slices.ContainsFunc(notes, l4.Like) != (c.l7 > 0) {
			t.Errorf("%g: %q", c.l7, notes)
		}
	}
	z.All = z.All[:2] // no way has waypoints: another note says so
	if got := z.called(z.All[1], sizing.Mesh{L7: 0.2}); got != "ambient" {
		t.Error(got)
	}
}

// Notes say what was not measured: more requests at a proxy, waypoints without measurements.
func TestNotes(t *testing.T) {
	z := &Ways{All: []*Way{{Name: "ambient", Highest: 1000, rested: true, Proxies: []Proxies{{Place: record.PlaceNode, Count: 1, Passes: 2}}}}}
	got := note.Words(z.notes(sizing.Mesh{Pods: 100, Nodes: 1, RPS: 1500, L7: 0.1}))
	for _, want := range []string{"With ambient each node's proxy would carry 3,000 requests per second; up to 2,000 were measured", "10% of the requests need L7"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	if got := note.Words(z.notes(sizing.Mesh{Pods: 100, Nodes: 1, RPS: 1000.1})); strings.Contains(got, "is extrapolated") { // 2,000.2 are written as 2,000
		t.Error(got)
	}
	if got := z.notes(sizing.Mesh{Pods: 100, Nodes: 2, RPS: 1000}); len(got) != 1 || !got[0].Is(noteOthersPods) {
		t.Errorf("%q", got)
	}
	z.All = append(z.All, &Way{Name: "sidecars", Highest: 1000, Proxies: []Proxies{{Place: record.PlaceSidecar, Count: 2, Passes: 2}}})
	for _, plain := range []bool{false, true} {
		z.All[1].PlainText = plain
		got := note.Words(z.notes(sizing.Mesh{Pods: 100, Nodes: 2, RPS: 1000}))
		if strings.Contains(got, "Figures of sidecars are without mutual TLS (mtls off); ztunnel always encrypts") != plain {
			t.Errorf("sidecars in plain text: %t, and the notes are %q", plain, got)
		}
	}
	z.All = z.All[1:] // the others do not encrypt
	if got := note.Words(z.notes(sizing.Mesh{Pods: 100, Nodes: 2, RPS: 1000})); strings.Contains(got, "mtls") {
		t.Errorf("%q", got)
	}
}

// A node's agent is part of the node's idle share. It counts for sidecars only if they need
// it, and not at all if some block did not measure it. It shifts the border.
func TestMeasureAgent(t *testing.T) {
	agent := func(units ...int) (out []stat.FitPoint) {
		for _, unit := range units {
			for _, rate := range []float64{100, 1000} {
				out = append(out, stat.FitPoint{X: rate, Y: 78e6 + rate/100 - 5.5, Level: rate, Unit: unit})
			}
		}
		return out
	}
	m := sizing.Mesh{Pods: 1000, Nodes: 50}
	world := func(sidecarsNeedIt bool, read []stat.FitPoint) *Ways {
		sidecars := &Way{Name: "sidecars", Highest: 1000, NeedsAgent: sidecarsNeedIt, Proxies: []Proxies{{Place: record.PlaceSidecar, Count: 1, Passes: 2}}}
		ambient := &Way{Name: "ambient", Highest: 1000, NeedsAgent: true, Proxies: []Proxies{{Place: record.PlaceNode, Count: 1, Passes: 2}}}
		for way, idle := range map[*Way]float64{sidecars: 62e6, ambient: 20e6} {
			way.Measure(Uses[1], 3, func(record.Place) []stat.FitPoint { return points(1, idle, idle+1e4, idle-1e4) })
			way.MeasureAgent(Uses[1], read)
		}
		return &Ways{All: []*Way{sidecars, ambient}}
	}
	for _, c := range []struct {
		name          string
		z             *Ways
		both, ambient float64 // bytes
		border        float64 // pods on a node; 0: there is none
		note          string
	}{
		{"ambient's", world(false, agent(0, 1, 2)), 1000 * 62e6, 50 * 98e6, 98.0 / 62, "is included in what each node takes with ambient (78 MB)."},
		{"of both", world(true, agent(0, 1, 2)), 1000*62e6 + 50*78e6, 50 * 98e6, 0, "is included in what each node takes with sidecars (78 MB) and ambient (78 MB)."},
		{"not read", world(false, nil), 1000 * 62e6, 50 * 20e6, 0, "missing from the figures of ambient (memory)"},
		{"not read in a block", world(false, agent(0, 1)), 1000 * 62e6, 50 * 20e6, 0, "missing from the figures of ambient (memory)"},
	} {
		sidecars, ambient := c.z.All[0], c.z.All[1]
		for way, want := range map[*Way]float64{sidecars: c.both, ambient: c.ambient} {
			if got := stat.Mean(way.by[record.SizedMemory].At(m), stat.Options{}).Value; math.Abs(got/want-1) > 1e-3 {
				t.Errorf("%s: %s take %g bytes, want %g", c.name, way.Name, got, want)
			}
		}
		idle, told := sidecars.use(Uses[1], sidecars.by[record.SizedMemory], m, record.Priced{}).Idle[record.PlaceNode]
		if told != sidecars.NeedsAgent || told && math.Abs(idle.Estimate/78e6-1) > 1e-3 {
			t.Errorf("%s: with sidecars a node takes %+v", c.name, idle)
		}
		for _, b := range c.z.borders(record.SizedMemory, sidecars, ambient, m) {
			if b.Along == sizing.AlongPods && (b.At != nil) != (c.border > 0) || b.Along == sizing.AlongPods && c.border > 0 && math.Abs(*b.At/c.border-1) > 0.01 {
				t.Errorf("%s: the border is %+v, want %g", c.name, b, c.border)
			}
		}
		if notes := note.Words(c.z.notes(m)); !strings.Contains(notes, c.note) {
			t.Errorf("%s: %q is not in %q", c.name, c.note, notes)
		}
	}
}

// By the number of pods, a node proxy uses a fixed amount plus an amount per pod; there are
// as many sidecars as pods.
func TestMeasurePods(t *testing.T) {
	line := func(bare, each float64) (out []stat.FitPoint) {
		for unit := range 4 {
			for _, pods := range []float64{2, 6, 11} {
				out = append(out, stat.FitPoint{X: pods, Y: bare + each*pods*(1+0.01*float64(unit%2)), Level: pods, Unit: unit})
			}
		}
		return out
	}
	sidecars := &Way{Name: "sidecars", Proxies: []Proxies{{Place: record.PlaceSidecar, Count: 1, Passes: 2}}}
	sidecars.MeasurePods(Uses[1], 4, line(3e6, 50e6))
	ambient := &Way{Name: "ambient", Proxies: []Proxies{{Place: record.PlaceNode, Count: 1, Passes: 2}}}
	ambient.MeasurePods(Uses[1], 4, line(120e6, 1e6))
	m := sizing.Mesh{Pods: 100, Nodes: 10}
	for _, c := range []struct {
		way  *Way
		want float64
	}{{sidecars, 100 * 50e6}, {ambient, 10*120e6 + 100*1e6}} {
		if got := c.way.by[record.SizedMemory].At(m)[0]; math.Abs(got/c.want-1) > 1e-6 {
			t.Errorf("%s: %g bytes, want %g", c.way.Name, got, c.want)
		}
	}
	z := &Ways{MostPods: 11, All: []*Way{sidecars, ambient}}
	borders := z.borders(record.SizedMemory, sidecars, ambient, m)
	if len(borders) != 1 || borders[0].Along != sizing.AlongPods || borders[0].High != 11 || borders[0].First != "sidecars" || borders[0].Last != "ambient" {
		t.Fatalf("%+v", borders)
	}
	if at := *borders[0].At; math.Abs(at/(120.0/49)-1) > 0.02 { // 120 + x = 50 x
		t.Errorf("the border is at %g pods", at)
	}
	use := ambient.use(Uses[1], ambient.by[record.SizedMemory], m, record.Priced{})
	if p := use.Pod; p == nil || math.Abs(p.Estimate/1e6-1) > 0.02 || use.Idle[record.PlaceNode].Estimate < 119e6 || use.Request.Verdict != record.VerdictInvalid {
		t.Errorf("%+v", use)
	}
	const beyond = "pods on each node; up to 11 were measured, and the line beyond is extrapolated."
	if notes := note.Words(z.notes(m)); !strings.Contains(notes, "only up to 11 pods on a node") {
		t.Error(notes)
	}
	for _, c := range []struct {
		pods, nodes float64
		ways        []*Way
		told        bool
	}{
		{100, 10, z.All, false},
		{400, 20, z.All, true},
		{1104, 100, z.All, false},   // 11.04 are written as 11
		{400, 20, z.All[:1], false}, // there are as many sidecars as pods, on any number of nodes
	} {
		z.All = c.ways
		if notes := note.Words(z.notes(sizing.Mesh{Pods: c.pods, Nodes: c.nodes})); strings.Contains(notes, beyond) != c.told {
			t.Error(notes)
		}
	}
}
