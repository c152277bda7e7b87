package findings

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/analysis/carrying"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

var sizingStudy = strings.NewReplacer("[latency, cpu]", "[latency, cpu, memory]", "[none, both]", "[none, client, both, ambient]").Replace(analysistest.RateStudy) + `
sizing: {pods: 100, nodes: 10, rps: 1000, l7: 20%, waypoints: 2}
`

// carryingWorld has sidecars of 15 mCPU and 200 us per request, for the two together, node proxies
// of 40 mCPU and 70 us and, in place of the client's sidecar alone, a waypoint of 20 mCPU, with
// which a request takes 420 us. more changes its trials.
func carryingWorld(more ...func(*record.Trial)) analysistest.World {
	w := analysistest.Quiet()
	plain := w.CPU
	w.CPU = func(c record.Cell, part string, rps float64) float64 {
		switch part {
		case record.PartClientNode:
			return 0.03 + 40e-6*rps
		case record.PartServerNode:
			return 0.05 + 30e-6*rps
		}
		return plain(c, part, rps)
	}
	through := func(t *record.Trial) {
		t.Way = record.Way{record.PartClientNode, record.PartWaypoint, record.PartServerNode}
		delete(t.CPU, record.PartClientProxy)
		rps, scatter := float64(t.Load.Completed)/t.Window.Seconds, 1+0.01*float64(t.Block%3-1)
		for part, cores := range map[string]float64{record.PartClientNode: 0.04 + 60e-6*rps, record.PartServerNode: 0.04 + 60e-6*rps, record.PartWaypoint: 0.02 + 300e-6*rps} {
			t.CPU[part] = record.CPU{UserS: cores * scatter * t.Window.Seconds}
			t.Memory[part] = record.Memory{PSSBytes: 40e6 + int64(t.Block)*1e5}
		}
	}
	w.Spoil = func(t *record.Trial) {
		if t.Cell["sidecars"] == "client" {
			through(t)
		}
		for _, change := range more {
			change(t)
		}
	}
	return w
}

// The needs of a stated mesh follow from measurements: the number of idle sidecars or nodes, and
// the number of requests.
func TestSizing(t *testing.T) {
	f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, sizingStudy, 6, 8, carryingWorld()))
	for level, want := range map[string]float64{
		"both": 100*0.015 + 0.2, "ambient": 10*0.04 + 0.07, "client": 10*0.04 + 2*0.02 + 0.8*0.07 + 0.2*0.42,
	} {
		x := analysistest.Get(t, f, "sized_cores", record.Cell{"sidecars": level})
		if math.Abs(x.Estimate/want-1) > 0.08 || x.Low > want || x.High < want || x.Unit != "cores" || x.Verdict != record.VerdictMeasured || x.Blocks != 6 {
			t.Errorf("%s: %+v, want %g cores", level, x, want)
		}
	}
	if x := analysistest.Get(t, f, "sized_memory", record.Cell{"sidecars": "ambient"}); math.Abs(x.Estimate/(10*40e6)-1) > 0.1 {
		t.Errorf("10 nodes of 40 MB: %+v", x)
	}
	if len(f.Sizings) != 1 || len(f.Sizings[0].Ways) != 3 {
		t.Fatalf("%+v", f.Sizings)
	}
	z := f.Sizings[0]
	var names []string
	for _, w := range z.Ways {
		names = append(names, w.Name)
		for place, p := range w.Uses[0].Idle {
			want := map[record.Place]float64{record.PlaceSidecar: 0.015, record.PlaceNode: 0.04, record.PlaceWaypoint: 0.02}[place]
			if p.Low > want || p.High < want || p.Unit != "cores" {
				t.Errorf("%s: a proxy at place %s takes %+v, want %g", w.Name, place, p, want)
			}
		}
	}
	if got := strings.Join(names, ", "); got != "ambient with waypoints, sidecars, ambient" {
		t.Errorf("the ways are %s", got)
	}
	sidecars := z.Ways[1]
	if r := sidecars.Uses[0].Request; r.Low > 200 || r.High < 200 || r.Unit != "us/request" {
		t.Errorf("a request takes %+v", r)
	}
	if m := sidecars.Machine; m == nil || m.Low > 200 || m.High < 200 {
		t.Errorf("a request takes %+v of the machine", m)
	}
	for _, want := range []string{`With ambient without waypoints \(L4 alone\) the stated mesh takes less CPU than with sidecars, by 1\.[12]\d* cores \(95% interval [\d.]+ to [\d.]+\)\.`, `With ambient with waypoints the stated mesh takes less CPU than with sidecars, by 1\.[01]\d* cores`, `takes less memory than with sidecars, by 3[\d,.]+ MB \(`} {
		if !regexp.MustCompile(want).MatchString(note.Words(z.Says)) {
			t.Errorf("%q is not in\n%s", want, note.Words(z.Says))
		}
	}
	if !less("ambient with waypoints", "takes less CPU", "sidecars")(z.Says[0]) {
		t.Errorf("the first sentence is of a way that does no L7, or of none: %s", z.Says[0])
	}
	if !strings.Contains(z.Mesh, "100 pods on 10 nodes, 1,000 requests per second between them, 20% of which need L7") {
		t.Error(z.Mesh)
	}
	for _, want := range []note.Note{carrying.NoteOwnErrorRate.Of("CPU or memory"), carrying.NoteThrough.Of("ambient with waypoints", "20%")} {
		if !slices.ContainsFunc(z.Notes, want.Like) {
			t.Errorf("%q is not in %q", want, z.Notes)
		}
	}
}

// The node agent is part of a node's cost with ambient, and of sidecars only if they rely on it for
// redirection.
func TestSizingWithTheNodeAgent(t *testing.T) {
	of := func(agents int, forSidecars bool) record.Findings {
		w := carryingWorld(func(t *record.Trial) {
			if agents == 0 {
				return
			}
			t.NodeAgents, t.AgentForSidecars = agents, forSidecars
			t.CPU[record.PartNodeAgent] = record.CPU{UserS: 0.002 * float64(agents) * t.Window.Seconds}
			t.Memory[record.PartNodeAgent] = record.Memory{PSSBytes: int64(agents) * 78e6}
		})
		return analysistest.Analyze(t, kinds, analysistest.Simulate(t, sizingStudy, 6, 5, w))
	}
	without, with, served := of(0, false), of(2, false), of(2, true)
	for level, nodes := range map[string]float64{"ambient": 10, "client": 10, "both": 0} {
		for name, each := range map[string]float64{"sized_cores": 0.002, "sized_memory": 78e6} {
			cell := record.Cell{"sidecars": level}
			got := analysistest.Get(t, with, name, cell).Estimate - analysistest.Get(t, without, name, cell).Estimate
			if want := nodes * each; math.Abs(got-want) > 1e-6*each {
				t.Errorf("%s: the agents are %g of %s, want %g", level, got, name, want)
			}
			got = analysistest.Get(t, served, name, cell).Estimate - analysistest.Get(t, without, name, cell).Estimate
			if want := 10 * each; math.Abs(got-want) > 1e-6*each {
				t.Errorf("%s, which serve sidecars: the agents are %g of %s, want %g", level, got, name, want)
			}
		}
	}
	for _, c := range []struct {
		f    record.Findings
		want note.Note
	}{{with, carrying.NoteAgent.Of("ambient with waypoints (2.0 mCPU, 78 MB) and ambient (2.0 mCPU, 78 MB)")}, {without, carrying.NoteNoAgent.Of("ambient with waypoints (CPU, memory) and ambient (CPU, memory)")},
		{served, carrying.NoteAgent.Of("ambient with waypoints (2.0 mCPU, 78 MB), sidecars (2.0 mCPU, 78 MB) and ambient (2.0 mCPU, 78 MB)")}} {
		if notes := c.f.Sizings[0].Notes; !slices.ContainsFunc(notes, c.want.Like) {
			t.Errorf("%q is not in %q", c.want, notes)
		}
	}
}

// On nearly empty nodes sidecars take less, until each pod sends enough.
func TestSizingBorder(t *testing.T) {
	text := strings.Replace(sizingStudy, "nodes: 10", "nodes: 100", 1)
	f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, text, 6, 5, carryingWorld()))
	seen := 0
	for _, b := range f.Sizings[0].Borders {
		if b.Of != record.SizedCPU || strings.Join(b.Between, " ") != "sidecars ambient" {
			continue
		}
		seen++
		switch b.Along {
		case "requests per second of each pod": // 100*0.015 + x*100*200e-6 = 100*0.04 + x*100*70e-6
			want := 2.5 / 0.013
			if b.Outcome != "lies" || b.First != "sidecars" || b.Last != "ambient" || b.At == nil || math.Abs(*b.At/want-1) > 0.15 || *b.From > want || *b.To < want ||
				b.Says.Code != "border_lies" {
				t.Errorf("want a border at %g: %+v", want, b)
			}
		case "pods on each node": // 1.5 + 0.2 = 4/x + 0.07
			if want := 4 / 1.63; b.Outcome != "lies" || b.First != "sidecars" || math.Abs(*b.At/want-1) > 0.15 {
				t.Errorf("want a border at %g: %+v", want, b)
			}
		default:
			t.Errorf("neither has waypoints: %+v", b)
		}
	}
	if seen != 2 {
		t.Errorf("%d borders", seen)
	}
	says := f.Sizings[0].Says
	i := slices.IndexFunc(says, less("sidecars", "takes less CPU", "ambient without waypoints (L4 alone)"))
	if i < 0 || i+1 >= len(says) || !says[i+1].Is(carrying.SaysBorder) {
		t.Errorf("no sentence with the border follows the comparison in %q", says)
	}
}

// Trials of one way whose pods were on one node in some blocks and on two in others are not
// combined.
func TestSizingOfTrialsThatWentSeveralWays(t *testing.T) {
	w := carryingWorld(func(t *record.Trial) {
		if t.Cell["sidecars"] == "ambient" && t.Block == 0 {
			t.Way = record.Way{record.PartNode, record.PartNode}
		}
	})
	f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, sizingStudy, 6, 5, w))
	for _, way := range f.Sizings[0].Ways {
		if way.Name == "ambient" {
			t.Errorf("%+v", way)
		}
	}
	warnings := note.Words(f.Warnings)
	for _, want := range []string{"Where each wins: ambient is left out", "so what one proxy takes is unknown; --set placement=same-node or placement=other-node makes all trials alike", "requests passed the node's proxy in 1, and the proxy of the client's node and the proxy of the server's node in 5 trials"} {
		if !strings.Contains(warnings, want) {
			t.Errorf("%q is not in\n%s", want, warnings)
		}
	}
}

// Without an interval there is no winner, and what was not measured is named.
func TestSizingThatCannotSay(t *testing.T) {
	f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, sizingStudy, 1, 5, carryingWorld()))
	if x := analysistest.Get(t, f, "sized_cores", record.Cell{"sidecars": "both"}); x.Verdict != record.VerdictInvalid {
		t.Errorf("of one block: %+v", x)
	}
	z := f.Sizings[0]
	for _, b := range z.Borders {
		if b.Outcome != "unknown" || b.First != "" || b.From != nil {
			t.Errorf("of one block: %+v", b)
		}
	}
	for _, says := range z.Says {
		if !says.Is(carrying.SaysUnknown) {
			t.Error(says)
		}
	}
	text := strings.NewReplacer("none, client, both, ambient", "none, both, ambient", "rps: 1000", "rps: 900000").Replace(sizingStudy)
	z = analysistest.Analyze(t, kinds, analysistest.Simulate(t, text, 4, 5, carryingWorld())).Sizings[0]
	for _, want := range []note.Note{carrying.NoteNoWaypoint.Of("20%"), carrying.NoteBeyondRate.Of("sidecars", "sidecar", "18,000", "3,000")} {
		if !slices.ContainsFunc(z.Notes, want.Like) {
			t.Errorf("%q is not in %q", want, z.Notes)
		}
	}
}

// Borders are searched for within the range of a way's valid trials; the range of other ways, or of
// the plan, does not count.
func TestSizingReachesAsFarAsTrialsAreValid(t *testing.T) {
	w := carryingWorld(func(t *record.Trial) {
		if t.Cell["sidecars"] == "both" && t.Cell["rate"] == "3000" {
			t.Validity = record.Validity{}
		}
	})
	text := strings.NewReplacer("nodes: 10", "nodes: 100", "rps: 1000", "rps: 60000").Replace(sizingStudy)
	z := analysistest.Analyze(t, kinds, analysistest.Simulate(t, text, 6, 5, w)).Sizings[0]
	seen := 0
	for _, b := range z.Borders {
		if b.Of == record.SizedCPU && strings.Join(b.Between, " ") == "sidecars ambient" && b.Along == "requests per second of each pod" {
			if seen++; b.High != 500 { // half of the 1,000 at which both of a request's sidecars were measured
				t.Errorf("looked up to %g", b.High)
			}
		}
	}
	if want := carrying.NoteBeyondRate.Of("sidecars", "sidecar", "1,200", "1,000"); seen != 1 || !slices.ContainsFunc(z.Notes, want.Like) {
		t.Errorf("%d borders, %q", seen, z.Notes)
	}
}

// With prices for both, CPU and memory have one sum, a value per block, by which two ways are
// compared first.
func TestSizingWithPrices(t *testing.T) {
	text := sizingStudy + "money: {core_month: 40, gb_month: 4, utilisation: 50%, currency: EUR}\n"
	f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, text, 6, 5, carryingWorld()))
	for level, want := range map[string]float64{"both": 1.7*80 + 4*4, "ambient": 0.47*80 + 0.4*4} {
		x := analysistest.Get(t, f, "sized_month", record.Cell{"sidecars": level})
		if math.Abs(x.Estimate/want-1) > 0.08 || x.Low >= x.Estimate || x.High <= x.Estimate || x.Unit != "EUR/month" || x.Verdict != record.VerdictMeasured || x.Blocks != 6 {
			t.Errorf("%s: %+v, want %g EUR", level, x, want)
		}
	}
	ofMoney := func(f record.Findings) bool {
		return slices.ContainsFunc(f.Findings, func(x record.Finding) bool { return strings.HasPrefix(x.Name, "money_") })
	}
	if ofMoney(f) || f.Money != "" {
		t.Errorf("the prices are of a second mesh as well: %q", f.Money)
	}
	other := analysistest.Analyze(t, kinds, analysistest.Simulate(t, sizingStudy+"money: {rps: 5000, gb_month: 4}\n", 2, 5, carryingWorld()))
	if !ofMoney(other) || !strings.HasPrefix(other.Money, "5,000 requests per second") {
		t.Errorf("section money states a mesh of its own, and has no findings: %q", other.Money)
	}
	z := f.Sizings[0]
	if got := z.Says[0]; !less("ambient with waypoints", "costs less", "sidecars")(got) || !strings.Contains(got.String(), " EUR per month (95% interval ") {
		t.Errorf("the first sentence is %q", got)
	}
	priced := slices.ContainsFunc(z.Borders, func(b record.SizedBorder) bool { return b.Of == record.SizedMonth })
	if !priced || !slices.ContainsFunc(z.Notes, carrying.NotePrice.Of("40", "EUR", "50%", "4", "EUR").Like) || !slices.ContainsFunc(z.Notes, carrying.NoteOwnErrorRate.Of("price, CPU or memory").Like) {
		t.Errorf("%+v, %q", z.Borders, z.Notes)
	}
	const prices = "money: {core_month: 40, gb_month: 4}\n"
	onlyCPU := strings.Replace(sizingStudy, "[latency, cpu, memory]", "[latency, cpu]", 1)
	for without, why := range map[string]string{sizingStudy: "", sizingStudy + "money: {core_month: 40}\n": "section money has no gb_month", sizingStudy + "money: {core_month: 0, gb_month: 4}\n": "section money has no core_month",
		onlyCPU + prices: "the study does not measure memory"} {
		z := analysistest.Analyze(t, kinds, analysistest.Simulate(t, without, 2, 5, carryingWorld())).Sizings[0]
		if strings.Contains(note.Words(z.Says), "cost") || carrying.NotePrice.In(z.Notes) || carrying.NoteUnpriced.In(z.Notes) != (why != "") || why != "" && !slices.ContainsFunc(z.Notes, carrying.NoteUnpriced.Of(why).Like) {
			t.Errorf("%s: %q\n%q", without, z.Says, z.Notes)
		}
	}
}

// less matches the sentence that one way needs less than another.
func less(way, does, than string) func(note.Note) bool {
	return func(n note.Note) bool {
		return n.Is(carrying.SaysLess) && slices.Equal(n.Args[:3], []any{way, does, than})
	}
}

// onNodes makes a proxy on each of two nodes carry the requests of the cells with sidecars: they
// use 5 thousandths of a CPU each without requests, and 80 us more per request together.
func onNodes(t *record.Trial) {
	idle := 0.005 * t.Window.Seconds
	t.Nodes = map[string]record.NodeAt{record.PartGenerator: {Name: "a"}, record.PartWorker: {Name: "b"}}
	delete(t.CPU, record.PartClientProxy)
	delete(t.CPU, record.PartServerProxy)
	if t.Cell[study.FactorSidecars] == study.SidecarsNone {
		t.CPU[record.PartIdleNode], t.IdleNodes = record.CPU{UserS: 2 * idle}, 2
		return
	}
	t.Way = record.Way{record.PartClientNode, record.PartServerNode}
	for _, part := range t.Way {
		t.CPU[part] = record.CPU{UserS: idle + 40e-6*float64(t.Load.Completed)}
	}
}

// The idle use of node proxies is reported separately from their cost.
func TestProxiesOnNodes(t *testing.T) {
	w := analysistest.Quiet()
	w.Spoil = onNodes
	f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, analysistest.RateStudy, 6, 5, w))
	near := func(f record.Findings, name string, cell record.Cell, want float64, unit string) {
		t.Helper()
		x := analysistest.Get(t, f, name, cell)
		if math.Abs(x.Estimate-want) > 0.02*want || x.Unit != unit || x.Verdict != record.VerdictMeasured {
			t.Errorf("%s of %v: %+v, want %g %s", name, cell, x, want, unit)
		}
	}
	for _, rate := range []string{"250", "1000", "3000"} {
		near(f, dataplane.FindingIdleNode, record.Cell{"sidecars": "none", "rate": rate}, 5, "mCPU")
		near(f, dataplane.FindingNodesNet, record.Cell{"sidecars": "both", "rate": rate}, 80, "us/request")
	}
	// A waypoint connects to the pods' nodes itself: its own node has no proxy on the way.
	w.Spoil = func(t *record.Trial) {
		onNodes(t)
		if len(t.Way) > 0 {
			t.Nodes[record.PartWaypoint] = record.NodeAt{Name: "c"}
		}
	}
	through := analysistest.Analyze(t, kinds, analysistest.Simulate(t, analysistest.RateStudy, 6, 5, w))
	for _, rate := range []string{"250", "1000", "3000"} {
		near(through, dataplane.FindingNodesNet, record.Cell{"sidecars": "both", "rate": rate}, 80, "us/request")
	}
	w.Spoil = onNodes
	for _, x := range f.Findings {
		if x.Name == dataplane.FindingIdleNode && x.Cell["sidecars"] == "both" || x.Name == dataplane.FindingNodesNet && x.Cell["sidecars"] == "none" {
			t.Errorf("%+v", x)
		}
	}
	// Without a cell whose requests pass none, the idle part is unknown.
	text := strings.Replace(strings.Replace(analysistest.RateStudy, "sidecars: [none, both]", "sidecars: [both]", 1), "baseline: {sidecars: none}\n", "", 1)
	f = analysistest.Analyze(t, kinds, analysistest.Simulate(t, text, 6, 5, w))
	for _, x := range f.Findings {
		if strings.HasPrefix(x.Name, "cpu_of_") {
			t.Errorf("%+v", x)
		}
	}
}

// What a request takes of the whole machine is only reported for a single machine: of several nodes
// the trial has the server's, unless it knows that they share one.
func TestSizingOnSeveralMachines(t *testing.T) {
	for name, tt := range map[string]struct {
		nodes  map[string]record.NodeAt
		others *record.Others
		told   bool
	}{
		"one node":    {map[string]record.NodeAt{record.PartGenerator: {Name: "a"}, record.PartWorker: {Name: "a"}}, nil, true},
		"two nodes":   {map[string]record.NodeAt{record.PartGenerator: {Name: "a"}, record.PartWorker: {Name: "b"}}, nil, false},
		"one machine": {map[string]record.NodeAt{record.PartGenerator: {Name: "a"}, record.PartWorker: {Name: "b"}}, &record.Others{}, true},
		"not known":   {nil, nil, true},
	} {
		w := carryingWorld(func(t *record.Trial) { t.Nodes, t.Others = tt.nodes, tt.others })
		z := analysistest.Analyze(t, kinds, analysistest.Simulate(t, sizingStudy, 4, 5, w)).Sizings[0]
		for _, way := range z.Ways {
			if (way.Machine != nil) != tt.told {
				t.Errorf("%s, %s: %+v", name, way.Name, way.Machine)
			}
		}
	}
}
