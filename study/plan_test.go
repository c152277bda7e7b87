package study

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

func plan(t *testing.T, text string, sets ...string) *Plan {
	t.Helper()
	return planOf(t, minimal+text, sets...)
}

// planOf plans a whole file.
func planOf(t *testing.T, text string, sets ...string) *Plan {
	t.Helper()
	p, err := NewPlan(parseOK(t, text, sets...), 1)
	must.OK(t, err)
	return p
}

func labels(p *Plan) string {
	var out []string
	for _, c := range p.Cells {
		out = append(out, p.Label(c))
	}
	return strings.Join(out, "; ")
}

// Cells with the same effect are one cell, shared as baseline.
func TestCollapse(t *testing.T) {
	for _, c := range []struct {
		text, want string
	}{
		{"factors: {sidecars: [none, both], telemetry: [off, access-log-text]}\n",
			"none; both · telemetry off; both · telemetry access-log-text"},
		{"factors: {sidecars: [none, client, both], mtls: [permissive, off]}\n",
			"none; client; both · mTLS permissive; both · mTLS off"},
		{"factors: {rate: [1000, max], arrival: [poisson, uniform]}\nsettings: {sidecars: both}\n",
			"1000 rps · poisson; 1000 rps · uniform; max rate"},
		{"factors: {sidecars: [none, server, both], mtls: [strict, off]}\nexclude: [{sidecars: server, mtls: strict}]\n",
			"none; server · mTLS off; both · mTLS strict; both · mTLS off"},
		{"factors: {connections: [2, 4], sidecars: [none, both]}\n",
			"2 connections · none; 2 connections · both; 4 connections · none; 4 connections · both"},
	} {
		if got := labels(plan(t, c.text)); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.text, got, c.want)
		}
	}
}

// Strict mTLS gives way if it is only the default and the client has no sidecar, and the record
// says so.
func TestEffectiveMTLS(t *testing.T) {
	p := plan(t, "factors: {sidecars: [none, server, client, both]}\n")
	want := map[string]string{"none": "-", "server": "permissive", "client": "-", "both": "strict"}
	for _, c := range p.Cells {
		if got := c[FactorMTLS]; got != want[c[FactorSidecars]] {
			t.Errorf("sidecars %s: mtls %s", c[FactorSidecars], got)
		}
		b, ok := p.BaselineOf(c)
		if !ok || b[FactorSidecars] != SidecarsNone {
			t.Errorf("sidecars %s is compared with %v", c[FactorSidecars], b)
		}
		if p.IsBaseline(c) != (c[FactorSidecars] == SidecarsNone) {
			t.Errorf("sidecars %s: baseline %v", c[FactorSidecars], p.IsBaseline(c))
		}
	}
	if p.BlockSize() != 5 {
		t.Errorf("a block of %d trials", p.BlockSize())
	}
	if got := p.Matching(record.Cell{FactorSidecars: SidecarsServer, FactorMTLS: MTLSStrict}); len(got) != 1 {
		t.Errorf("server with strict mTLS matches %v", got)
	}
	if got := p.Matching(record.Cell{FactorSidecars: SidecarsNone, FactorTelemetry: TelemetryOff}); len(got) != 1 {
		t.Errorf("none with telemetry off matches %v", got)
	}
}

// The baseline of an effective cell is found from the requested levels.
func TestBaselineOfEffectiveCell(t *testing.T) {
	p := plan(t, "factors: {sidecars: [both, server, none]}\nbaseline: {sidecars: both}\n")
	for _, c := range p.Cells {
		if b, ok := p.BaselineOf(c); !ok || b[FactorSidecars] != SidecarsBoth || b[FactorMTLS] != MTLSStrict {
			t.Errorf("%s is compared with %v", p.Label(c), b)
		}
	}
}

func TestBlockProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(rt, "connections")
		text := minimal + "factors: {connections: [" + numbers(1, n) + "], sidecars: [none, both]}\n"
		if rapid.Bool().Draw(rt, "alone") {
			text = minimal + "factors: {sidecars: [none]}\nbaseline: {sidecars: none}\n"
		}
		s, err := Parse([]byte(text), "x", nil)
		if err != nil {
			rt.Fatalf("%v", err)
		}
		p, err := NewPlan(s, rapid.Uint64().Draw(rt, "seed"))
		if err != nil {
			rt.Fatalf("%v", err)
		}
		i := rapid.IntRange(0, 1000).Draw(rt, "block")
		block := p.Block(i)
		if !reflect.DeepEqual(block, p.Block(i)) {
			rt.Fatalf("block %d is not the same twice", i)
		}
		turns := make([]int, len(p.Cells))
		for k, slot := range block {
			if slot.Repeat != turns[slot.Cell] {
				rt.Fatalf("%v: repeats out of order", block)
			}
			turns[slot.Cell]++
			if k > 0 && len(p.Cells) > 1 && block[k-1].Cell == slot.Cell {
				rt.Fatalf("%v: repeats side by side", block)
			}
		}
		for c, n := range turns {
			want := 1
			if p.IsBaseline(p.Cells[c]) {
				want = 2
			}
			if n != want {
				rt.Fatalf("cell %d has %d turns, want %d", c, n, want)
			}
		}
	})
}

// Every cell is equally often at every position, within chance.
func TestBlockUniform(t *testing.T) {
	p := plan(t, "factors: {connections: ["+numbers(1, 5)+"]}\nsettings: {sidecars: none}\n")
	const blocks = 5000
	var seen [5][5]int
	for i := range blocks {
		for k, slot := range p.Block(i) {
			seen[slot.Cell][k]++
		}
	}
	chi := 0.0
	for _, row := range seen {
		for _, n := range row {
			d := float64(n) - blocks/5.0
			chi += d * d / (blocks / 5.0)
		}
	}
	// 16 degrees of freedom: 45 is beyond the 99.98th percentile. The seed is fixed, so this cannot
	// fail by chance on another day.
	if chi > 45 {
		t.Errorf("chi-square %.1f: %v", chi, seen)
	}
}

// A seed means the same order forever: recorded runs depend on it.
func TestBlockOrderIsFixed(t *testing.T) {
	p := plan(t, "factors: {sidecars: [none, server, client, both]}\n")
	p.Seed = 42
	got := fmt.Sprint(p.Block(0), p.Block(1))
	const want = "[{0 0} {1 0} {0 1} {2 0} {3 0}] [{3 0} {2 0} {0 0} {1 0} {0 1}]"
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestCheckTrials(t *testing.T) {
	p := plan(t, "factors: {sidecars: [none, server, client, both]}\n")
	var trials []record.Trial
	for b := range 3 {
		for k, slot := range p.Block(b) {
			trials = append(trials, record.Trial{ID: TrialID(b, k), Block: b, Order: k, Cell: p.Cells[slot.Cell], Repeat: slot.Repeat})
		}
	}
	must.OK(t, p.CheckTrials(trials))
	other := *p
	other.Seed++
	if err := other.CheckTrials(trials); err == nil {
		t.Error("another seed is accepted")
	}
	trials[2].Cell = trials[2].Cell.With(record.Cell{FactorRate: "5"})
	if err := p.CheckTrials(trials); err == nil || !strings.Contains(err.Error(), TrialID(0, 2)) {
		t.Errorf("another cell: %v", err)
	}
	if err := p.CheckTrials([]record.Trial{{ID: "b000-t09", Order: 9}}); err == nil {
		t.Error("a place beyond the block is accepted")
	}
}

func TestEstimate(t *testing.T) {
	p := plan(t, "factors: {sidecars: [none, both]}\nwarmup: {min: 700ms, max: 3700ms}\nwindow: 1s\nblocks: {min: 4, max: 10, limit: 1m}\n")
	e := p.Estimate()
	if e.Trials != 3 || e.Trial != 2*time.Second || e.Block != 6*time.Second || e.Min != 24*time.Second || e.Max != time.Minute || e.Fewest != 0 {
		t.Errorf("%+v", e)
	}
	for limit, fits := range map[time.Duration]int{20 * time.Second: 3, time.Second: 1} { // the first always runs
		p.Study.Blocks.Limit = limit
		if e := p.Estimate(); e.Fewest != 24*time.Second || e.Fits != fits {
			t.Errorf("limit %v: %+v, want time for %d blocks", limit, e, fits)
		}
	}
}

func TestRatio(t *testing.T) {
	for text, want := range map[string]string{"7.5%": "7.5%", "7.3%": "7.3%", "100%": "100%", "0.07%": "0.07%", "150%": "150%", "12.50 %": "12.5%", "1000%": "1000%", "10%": "10%"} {
		r, c := ParseRatio(text)
		if c != nil || r.String() != want {
			t.Errorf("%s: %s %v", text, r, c)
		}
	}
}

func TestStopCells(t *testing.T) {
	const text = "factors: {sidecars: [none, server, both]}\n"
	for stop, want := range map[string]string{
		"none": "[]",
		"{finding: latency_p50_overhead, half_width: 5%}":                       "[1 2]",
		"{finding: latency_p50, half_width: 5%}":                                "[0 1 2]",
		"{finding: latency_p50_overhead, half_width: 5%, of: {sidecars: both}}": "[2]",
	} {
		if got := fmt.Sprint(plan(t, text+"stop: "+stop+"\n").StopCells()); got != want {
			t.Errorf("%s: %s, want %s", stop, got, want)
		}
	}
}

// A cell measured before a factor existed is the cell with the factor's default.
func TestIndexOfAnOlderCell(t *testing.T) {
	p := plan(t, "factors: {sidecars: [none, both]}\n")
	for want, cell := range p.Cells {
		older := cell.With(nil)
		delete(older, "planted")
		if got, ok := p.Index(older); !ok || got != want {
			t.Errorf("%s is cell %d (%v), want %d", older.Key(), got, ok, want)
		}
		other := older.With(record.Cell{FactorRate: "7"})
		if _, ok := p.Index(other); ok {
			t.Errorf("%s is no cell of the plan", other.Key())
		}
	}
}
