package findings

import (
	"math"
	"slices"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
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

// hopWorld returns a world in which each proxy takes 100 µs of latency and 80 of CPU, TLS 30 and
// redirection 10 more, and both proxies together extra.
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
			if c[dataplane.FactorInterception] == dataplane.InterceptionRedirect {
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
		want := map[string]float64{dataplane.HopPath: 150, dataplane.HopClientProxy: 100 + extra, dataplane.HopServerProxy: 100 + extra,
			dataplane.HopTLSTerm: 30, dataplane.HopInterception: 10, dataplane.HopResidual: -extra, dataplane.HopTotal: 390 + extra}
		sums := map[string]float64{}
		for _, term := range h.Terms {
			p := term.Figures[dataplane.HopP50]
			if math.Abs(p.Estimate-want[term.Name]) > 8 || p.Low > p.Estimate || p.High < p.Estimate || p.Unit != finding.UnitMicroseconds {
				t.Errorf("%s: %+v, planted %g", term.Name, p, want[term.Name])
			}
			for name, figure := range term.Figures {
				if term.Name == dataplane.HopTotal {
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
		if len(sums) != len(dataplane.HopMeasures()) {
			t.Errorf("told: %v", sums)
		}
		residual := h.Terms[len(h.Terms)-2].Figures[dataplane.HopP50]
		if none := residual.Low <= 0 && residual.High >= 0; none != (extra == 0) || !none && residual.Verdict != record.VerdictReal || len(h.Apart) > 0 {
			t.Errorf("%v extra: %+v, %q", extra, residual, h.Apart)
		}
		if got := analysistest.Get(t, f, "hop_tls_latency_p50", record.Cell{}); got.Verdict != record.VerdictReal || got.Blocks != 8 {
			t.Errorf("%+v", got)
		}
	}
}

// lost makes some trials invalid.
func lost(which func(*record.Trial) bool) func(*record.Trial) {
	return func(tr *record.Trial) {
		if which(tr) {
			tr.Validity.Valid = false
		}
	}
}

// Without valid trials of a cell its terms have no figure, which differs from a figure of zero; the
// others do.
func TestHopsWithoutACell(t *testing.T) {
	for cell, without := range map[string][]string{
		dataplane.HopClient: {dataplane.HopServerProxy, dataplane.HopResidual},
		dataplane.HopTLS:    {dataplane.HopTLSTerm, dataplane.HopInterception},
	} {
		w := hopWorld(0)
		w.Spoil = lost(func(tr *record.Trial) bool { return tr.Cell[study.FactorVariant] == cell })
		for _, term := range analysistest.Analyze(t, kinds, analysistest.Simulate(t, hopsStudy, 4, 4, w)).Hops[0].Terms {
			if f := term.Figures[dataplane.HopP50]; (f.Verdict == record.VerdictInvalid) != slices.Contains(without, term.Name) {
				t.Errorf("without %s, %s: %+v", cell, term.Name, f)
			}
		}
	}
}

// Blocks that lack a cell are excluded from all terms if enough other blocks are complete, since
// the parts would not add up to the whole otherwise.
func TestHopsAddUpWithLostTrials(t *testing.T) {
	w := hopWorld(0)
	w.Noise = 0.05
	w.Spoil = lost(func(tr *record.Trial) bool {
		return tr.Block == 1 && tr.Cell[study.FactorVariant] == dataplane.HopClient || tr.Block == 3 && tr.Cell[study.FactorVariant] == dataplane.HopTLS
	})
	h := analysistest.Analyze(t, kinds, analysistest.Simulate(t, hopsStudy, 6, 4, w)).Hops[0]
	left := 0.0
	for _, term := range h.Terms {
		p := term.Figures[dataplane.HopPods]
		if p.Blocks != 4 {
			t.Errorf("%s: of %d blocks, 4 are whole", term.Name, p.Blocks)
		}
		if term.Name == dataplane.HopTotal {
			left -= p.Estimate
		} else {
			left += p.Estimate
		}
	}
	if math.Abs(left) > 1e-6 {
		t.Errorf("terms miss the whole by %g", left)
	}
}

// If no two blocks have every cell, the parts cover different blocks, which is stated.
func TestHopsOfDifferentBlocks(t *testing.T) {
	variants := []string{dataplane.HopClient, dataplane.HopTLS, dataplane.HopServer, dataplane.HopClient}
	for blocks, want := range map[int]bool{5: true, 6: false} {
		w := hopWorld(0)
		w.Spoil = lost(func(tr *record.Trial) bool {
			return tr.Block < len(variants) && tr.Cell[study.FactorVariant] == variants[tr.Block]
		})
		h := analysistest.Analyze(t, kinds, analysistest.Simulate(t, hopsStudy, blocks, 4, w)).Hops[0]
		if slices.Contains(h.Apart, dataplane.HopP50) != want {
			t.Errorf("%d blocks: %q", blocks, h.Apart)
		}
	}
}

// A lagging generator withdraws verdicts on latency that it may have caused, and none on CPU.
func TestHopsDoubtTheGenerator(t *testing.T) {
	w := hopWorld(0)
	w.Spoil = func(tr *record.Trial) {
		if tr.Cell[study.FactorVariant] == dataplane.HopTLS {
			tr.Load.Lag = record.LatencyAt(0.5, 12, 0.99, 12)
		}
	}
	f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, hopsStudy, 8, 4, w))
	tls := analysistest.Get(t, f, "hop_tls_latency_p50", record.Cell{})
	if tls.Verdict != record.VerdictInconclusive || tls.Reason != record.ReasonLateLoad || tls.Low <= 0 {
		t.Errorf("%+v", tls)
	}
	if x := analysistest.Get(t, f, "hop_client_proxy_latency_p50", record.Cell{}); x.Verdict != record.VerdictReal {
		t.Errorf("of other cells: %+v", x)
	}
}

// Two slow trials in twelve determine the p99 of their cell, whichever block is left out. They are
// no effect, and no sum of more than two cells has a verdict there.
func TestStrayTrialsAreNoHop(t *testing.T) {
	run := analysistest.Simulate(t, hopsStudy, 12, 4, hopWorld(0))
	slowDown(t, &run, func(tr record.Trial) bool {
		return tr.Cell[study.FactorVariant] == dataplane.HopTLS && (tr.Block == 3 || tr.Block == 8)
	})
	f := analysistest.Analyze(t, kinds, run)
	for _, name := range []string{"hop_tls_latency_p99", "hop_interception_latency_p99"} {
		if x := analysistest.Get(t, f, name, record.Cell{}); x.Low > 0 || x.High < 0 || x.Verdict == record.VerdictReal || math.Abs(x.Estimate) < 1000 {
			t.Errorf("%s: %+v", name, x)
		}
	}
	residual := analysistest.Get(t, f, "hop_residual_latency_p99", record.Cell{})
	if residual.Verdict != record.VerdictMeasured || !noteFarTails.In(residual.Warnings) {
		t.Errorf("%+v", residual)
	}
	if x := analysistest.Get(t, f, "hop_residual_latency_p50", record.Cell{}); x.Verdict == record.VerdictMeasured {
		t.Errorf("the median has a verdict: %+v", x)
	}
	sum := 0.0
	for _, term := range f.Hops[0].Terms {
		p := term.Figures[dataplane.HopP99]
		if sum += p.Estimate; term.Name == dataplane.HopTotal {
			sum -= 2 * p.Estimate
		}
	}
	if math.Abs(sum) > 1e-6 {
		t.Errorf("terms miss the whole by %g", sum)
	}
}

// slowDown makes all requests of some trials take ten times as long.
func slowDown(t *testing.T, run *record.Run, which func(record.Trial) bool) {
	t.Helper()
	for _, trial := range run.Trials {
		if !which(trial) {
			continue
		}
		slow := hdrhistogram.New(1, 60_000_000_000, 3)
		for _, bar := range run.Hist[trial.ID].Intended.Distribution() {
			if bar.Count > 0 {
				must.OK(t, slow.RecordValues(10*bar.To, bar.Count))
			}
		}
		run.Hist[trial.ID] = record.TrialHist{Intended: slow, Send: slow}
	}
}

// If pods served several blocks, all terms cover the blocks that have every cell.
func TestHopsOfWholeBlocks(t *testing.T) {
	w := hopWorld(0)
	w.Deployments = 2
	w.Spoil = func(trial *record.Trial) {
		if trial.Block%2 == 0 {
			return
		}
		for part, cpu := range trial.CPU { // three times as slow
			trial.CPU[part] = record.CPU{UserS: 3 * cpu.UserS, SystemS: 3 * cpu.SystemS}
		}
		if trial.Cell[study.FactorVariant] == dataplane.HopClient {
			trial.Validity.Valid = false
		}
	}
	f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, hopsStudy, 8, 4, w))
	client, server := analysistest.Get(t, f, "hop_client_proxy_cpu_pods", record.Cell{}), analysistest.Get(t, f, "hop_server_proxy_cpu_pods", record.Cell{})
	if math.Abs(client.Estimate/server.Estimate-150.0/110) > 0.2 || client.Blocks != 4 || client.Low <= 0 {
		t.Errorf("client's %+v, server's %+v", client, server)
	}
}
