package findings

import (
	"math"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Ztunnels have findings of their own, and are in none of the convergence of the others.
func TestFindingsOfZtunnels(t *testing.T) {
	without := strings.Replace(analysistest.ControlStudy, "stop:", "# stop:", 1)
	text := strings.Replace(without, "gateways: 2", "gateways: 2, ztunnels: 3", 1)
	spoil := func(c record.Cell) analysistest.ControlWorld {
		w := analysistest.Tuned(c)
		w.Spoil = func(trial *record.Trial, events []record.Event) { // what ztunnels have takes a second more
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
