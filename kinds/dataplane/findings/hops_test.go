package findings

import (
	"math"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/finding"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

const hopsStudy = `
name: hops
title: Hops
question: What is a request's way made of?
mesh: istio
settings: {rate: 500}
hops: {}
blocks: {min: 6, max: 6, limit: 10m}
stop: none
measures: [latency, cpu]
`

// hopWorld is one in which each proxy takes 100 µs of latency and 80 of CPU,
// TLS 30 and redirection 10 more, and both proxies together extra.
func hopWorld(extra float64) analysistest.World {
	w := analysistest.Quiet()
	w.Noise = 0.002
	w.Latency = func(c record.Cell) float64 {
		us := 150.0
		if study.HasClientProxy(c) {
			us += 100
		}
		if study.HasServerProxy(c) {
			us += 100
		}
		if c[study.FactorSidecars] == study.SidecarsBoth {
			us += extra
			if c[study.FactorMTLS] == study.MTLSStrict {
				us += 30
			}
			if c[study.FactorInterception] == study.InterceptionRedirect {
				us += 10
			}
		}
		return us
	}
	return w
}

func TestHopsFindWhatIsPlanted(t *testing.T) {
	for _, extra := range []float64{0, -40} {
		f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, hopsStudy, 8, 4, hopWorld(extra)))
		if len(f.Hops) != 1 {
			t.Fatalf("%d splits", len(f.Hops))
		}
		h := f.Hops[0]
		want := map[string]float64{study.HopPath: 150, study.HopClientProxy: 100 + extra, study.HopServerProxy: 100 + extra,
			study.HopTLSTerm: 30, study.HopInterception: 10, study.HopResidual: -extra, study.HopTotal: 390 + extra}
		sums := map[string]float64{}
		for _, term := range h.Terms {
			p := term.Figures[study.HopP50]
			if math.Abs(p.Estimate-want[term.Name]) > 8 || p.Low > p.Estimate || p.High < p.Estimate || p.Unit != finding.UnitMicroseconds {
				t.Errorf("%s: %+v, planted %g", term.Name, p, want[term.Name])
			}
			for name, figure := range term.Figures {
				if term.Name == study.HopTotal {
					sums[name] -= figure.Estimate
				} else {
					sums[name] += figure.Estimate
				}
			}
		}
		for name, left := range sums {
			if math.Abs(left) > 1e-6 {
				t.Errorf("%s: terms miss the whole by %g", name, left)
			}
		}
		if len(sums) != len(study.HopMeasures()) {
			t.Errorf("told: %v", sums)
		}
		said := strings.Join(h.Says, "\n")
		if extra == 0 && !strings.Contains(said, "Indistinguishable from zero: the residual (") || extra != 0 && !strings.Contains(said, "do not cost the sum of each alone") {
			t.Error(said)
		}
		if got := analysistest.Get(t, f, "hop_tls_latency_p50", record.Cell{}); got.Verdict != record.VerdictReal || got.Blocks != 8 {
			t.Errorf("%+v", got)
		}
	}
}

// Without valid trials of a cell its terms have no figure, the others do.
func TestHopsWithoutACell(t *testing.T) {
	w := hopWorld(0)
	w.Spoil = func(tr *record.Trial) {
		if tr.Cell[study.FactorVariant] == study.HopClient {
			tr.Validity.Valid = false
		}
	}
	h := analysistest.Analyze(t, kinds, analysistest.Simulate(t, hopsStudy, 4, 4, w)).Hops[0]
	for _, term := range h.Terms {
		want := term.Name == study.HopServerProxy || term.Name == study.HopResidual
		if got := term.Figures[study.HopP50].Verdict == record.VerdictInvalid; got != want {
			t.Errorf("%s: %+v", term.Name, term.Figures[study.HopP50])
		}
	}
	if len(h.Says) != 0 {
		t.Errorf("said: %v", h.Says)
	}
}

// Between redirection and plain text lies the cell with TLS alone: without it
// neither of the two has a share, which is not the same as none.
func TestHopsWithoutTLSAlone(t *testing.T) {
	w := hopWorld(0)
	w.Spoil = func(tr *record.Trial) {
		if tr.Cell[study.FactorVariant] == study.HopTLS {
			tr.Validity.Valid = false
		}
	}
	h := analysistest.Analyze(t, kinds, analysistest.Simulate(t, hopsStudy, 4, 4, w)).Hops[0]
	said := strings.Join(h.Says, "\n")
	if !strings.Contains(said, "client proxy 2") || !strings.Contains(said, "Not known: TLS and interception.") || strings.Contains(said, "TLS 0") {
		t.Error(said)
	}
}

// Blocks that lack a cell are left out of all terms where enough others are
// whole: else the parts would not add up to the whole.
func TestHopsAddUpWithLostTrials(t *testing.T) {
	w := hopWorld(0)
	w.Noise = 0.05
	w.Spoil = func(tr *record.Trial) {
		if tr.Block == 1 && tr.Cell[study.FactorVariant] == study.HopClient || tr.Block == 3 && tr.Cell[study.FactorVariant] == study.HopTLS {
			tr.Validity.Valid = false
		}
	}
	h := analysistest.Analyze(t, kinds, analysistest.Simulate(t, hopsStudy, 6, 4, w)).Hops[0]
	left := 0.0
	for _, term := range h.Terms {
		p := term.Figures[study.HopPods]
		if p.Blocks != 4 {
			t.Errorf("%s: of %d blocks, 4 are whole", term.Name, p.Blocks)
		}
		if term.Name == study.HopTotal {
			left -= p.Estimate
		} else {
			left += p.Estimate
		}
	}
	if math.Abs(left) > 1e-6 {
		t.Errorf("terms miss the whole by %g", left)
	}
}
