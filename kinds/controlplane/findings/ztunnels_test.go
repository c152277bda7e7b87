package findings

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/internal/note/notetest"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Ztunnels have their own findings and are excluded from the others' convergence.
func TestFindingsOfZtunnels(t *testing.T) {
	without := strings.Replace(analysistest.ControlStudy, "stop:", "# stop:", 1)
	text := strings.Replace(without, "gateways: 2", "gateways: 2, ztunnels: 3", 1)
	spoil := func(c record.Cell) analysistest.ControlWorld {
		w := analysistest.Tuned(c)
		w.Spoil = func(trial *record.Trial, events []record.Event) { // ztunnels take a second longer
			for i := range events {
				for k, p := range events[i].Seen.Proxy {
					if p >= 13 {
						events[i].Seen.AckedUS[k] += 1_000_000
					}
				}
			}
		}
		return w
	}
	f := analysistest.Analyze(t, kinds, analysistest.SimulateControl(t, text, 4, spoil))
	plain := analysistest.Analyze(t, kinds, analysistest.SimulateControl(t, without, 4, analysistest.Tuned))
	at := func(f record.Findings) record.Cell {
		for _, c := range f.Cells {
			if c.Cell[study.FactorVariant] == "none" {
				return c.Cell
			}
		}
		t.Fatal("no such cell")
		return nil
	}
	for name, want := range map[string]float64{
		"ztunnel_convergence_p50": 1_135_000, "ztunnel_convergence_max": 1_136_000, "ztunnel_pushes_per_change": 4, "ztunnel_bytes_per_change": 700, "ztunnel_config_bytes": 9100,
		"config_bytes": 100_000, "missed": 0,
	} {
		if x := analysistest.Get(t, f, name, at(f)); math.Abs(x.Estimate-want) > 0.02*want {
			t.Errorf("%s: %g, want %g", name, x.Estimate, want)
		}
	}
	for _, name := range []string{"convergence_p50", "convergence_max", "convergence_last"} {
		with, alone := analysistest.Get(t, f, name, at(f)), analysistest.Get(t, plain, name, at(plain))
		if math.Abs(with.Estimate-alone.Estimate) > 0.02*alone.Estimate {
			t.Errorf("%s: %g beside ztunnels, %g without", name, with.Estimate, alone.Estimate)
		}
	}
	for _, x := range plain.Findings {
		if strings.HasPrefix(x.Name, "ztunnel_") {
			t.Errorf("a finding of ztunnels that nobody has: %+v", x)
		}
	}
}

// Percentiles of ztunnels state what never reached them, also in differences and searches, and
// those of other proxies do not.
func TestZtunnelsThatMissChanges(t *testing.T) {
	text := strings.Replace(strings.Replace(analysistest.ControlStudy, "stop:", "# stop:", 1), "gateways: 2", "gateways: 2, ztunnels: 3", 1)
	run := analysistest.SimulateControl(t, text, 4, func(c record.Cell) analysistest.ControlWorld {
		w := analysistest.Tuned(c)
		if c[study.FactorVariant] == "sidecar" {
			w.Spoil = func(_ *record.Trial, events []record.Event) {
				for i := range events[:6] { // of 10
					events[i].Seen, events[i].Missed = events[i].Seen.Of(func(p int32) bool { return p < 13 }), []int32{13, 14, 15}
				}
			}
		}
		return w
	})
	f := analysistest.Analyze(t, kinds, run)
	o, err := kinds.Observe(run)
	must.OK(t, err)
	const base, spoilt = 0, 1
	for name, lost := range map[string]bool{"ztunnel_convergence_p50": true, "convergence_p50": false} {
		for _, of := range []string{name, name + "_overhead"} {
			x := analysistest.Get(t, f, of, f.Cells[spoilt].Cell)
			if lost {
				notetest.Args(t, x.Warnings, "survivors", []any{"60%", "ztunnels"})
			} else if noteSurvivors.In(x.Warnings) {
				t.Errorf("%s: %v", of, x.Warnings)
			}
		}
		bound := kept(o, study.TuneBound{Finding: name, Limit: 10e6, Unit: "us"}, spoilt, base)
		if (bound.Verdict == record.TunedBroken) != lost || bound.Says.Is(noteLostShare) != lost || lost && bound.Says.Args[1] != "ztunnels" {
			t.Errorf("%s within a bound: %+v", name, bound)
		}
		if came, now := tuningValue(o, name, o.Valid(base)[0]), tuningValue(o, name, o.Valid(spoilt)[0]); (now > 5*came) != lost {
			t.Errorf("%s to a search: %g, and %g", name, came, now)
		}
	}
}

// Changes that never arrived, or were never acknowledged, are explained for all proxies included in
// the count.
func TestLossesOfZtunnels(t *testing.T) {
	text := strings.Replace(strings.Replace(analysistest.ControlStudy, "stop:", "# stop:", 1), "gateways: 2", "gateways: 2, ztunnels: 3", 1)
	for name, tt := range map[string]struct {
		missed, silent []int32 // of the first of 10 changes, and of the second, by 16 proxies
		lost, unsaid   []any
		example        string
	}{
		"ztunnels alone": {[]int32{13, 14, 15}, []int32{15}, []any{12, 640, 4}, []any{4, 628}, ", change 0 (create Service/sim-1/x-0): ztunnels 13, 14, 15"},
		"both":           {[]int32{2, 13}, []int32{4, 15}, []any{8, 640, 4}, []any{8, 632}, ", change 0 (create Service/sim-1/x-0): proxies 2"},
	} {
		f := analysistest.Analyze(t, kinds, analysistest.SimulateControl(t, text, 4, func(c record.Cell) analysistest.ControlWorld {
			w := analysistest.Tuned(c)
			w.Spoil = func(_ *record.Trial, events []record.Event) {
				first, second := &events[0], &events[1]
				first.Seen, first.Missed = first.Seen.Of(func(p int32) bool { return !slices.Contains(tt.missed, p) }), tt.missed
				for _, p := range tt.silent {
					second.Seen.AckedUS[slices.Index(second.Seen.Proxy, p)] = record.Never
				}
			}
			return w
		}))
		cell := f.Cells[1].Cell
		missed, unacked := analysistest.Get(t, f, "missed", cell), analysistest.Get(t, f, "unacked", cell)
		if missed.Estimate != float64(len(tt.missed)) || unacked.Estimate != float64(len(tt.silent)) {
			t.Errorf("%s: %g missed, %g unacked", name, missed.Estimate, unacked.Estimate)
		}
		notetest.Args(t, missed.Warnings, "pairs_missed", tt.lost)
		notetest.Args(t, unacked.Warnings, "pairs_unacked", tt.unsaid)
		if text := note.Words(missed.Warnings); !strings.Contains(text, tt.example) {
			t.Errorf("%s: %q is not in %s", name, tt.example, text)
		}
	}
}
