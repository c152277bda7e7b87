// Package analysistest makes runs of simulated labs with a known truth, for tests
// of their findings.
package analysistest

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/analysis"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/rate"
	"github.com/meshtrial/meshtrial/study"
)

// QuickStudy has one factor. The client's sidecar costs nothing in the simulated
// lab, so that there is an effect below the noise.
const QuickStudy = `
name: quick
title: Quick
question: What do sidecars cost?
mesh: istio
settings: {rate: 1000, connections: 16}
factors:
  sidecars: [none, server, client, both]
baseline: {sidecars: none}
blocks: {min: 4, max: 8, limit: 10m}
stop: {finding: latency_p50_overhead, half_width: 7.5%, of: {sidecars: both}}
measures: [latency, cpu, memory]
assert:
  - 'finding("latency_p50_overhead", {"sidecars": "both"}).high < 1000'
`

// SweepStudy varies connections and arrivals, with published figures.
const SweepStudy = `
name: sweep
title: Sweep
question: Does latency grow with connections?
mesh: istio
settings: {rate: 1000}
factors:
  sidecars: [none, both]
  connections: [16, 64]
  arrival: [uniform, burst]
baseline: {sidecars: none}
blocks: {min: 4, max: 6}
stop: none
measures: [latency, cpu]
published:
  - {source: Istio 1.2 (2019), claim: 16 connections, finding: latency_p50_overhead, cell: {sidecars: both, connections: 16, arrival: burst}, figure: 3, unit: ms}
  - {source: Istio 1.2 (2019), claim: 64 connections, finding: latency_p50_overhead, cell: {sidecars: both, connections: 64, arrival: burst}, figure: 12, unit: ms}
  - {source: Istio 1.2 (2019), claim: server alone, finding: latency_p50_overhead, cell: {sidecars: server}, figure: 2, unit: ms}
`

// RateStudy varies the rate of requests.
const RateStudy = `
name: rate
title: Rate
question: What does a proxy's CPU depend on?
mesh: istio
settings: {connections: 16}
factors:
  sidecars: [none, both]
  rate: [250, 1000, 3000]
baseline: {sidecars: none}
blocks: {min: 4, max: 6}
stop: none
measures: [latency, cpu]
`

// A World describes trials of a cell, before noise.
type World struct {
	Latency func(record.Cell) float64 // median, microseconds
	Noise   float64                   // noise of a trial, a fraction
	CPU     func(cell record.Cell, part string, rps float64) float64
	Spoil   func(t *record.Trial) // introduces faults
	// Deployments is the number of blocks that each deployment serves; 0 means
	// unknown pods. Pod is the standard deviation of a pod's individual level,
	// as a fraction.
	Deployments int
	Pod         float64
}

// Quiet returns the world that most tests use: 100 us without sidecars, 300 us
// more with the server's.
func Quiet() World {
	return World{
		Latency: func(c record.Cell) float64 {
			return 100 + map[string]float64{"server": 300, "both": 400}[c[study.FactorSidecars]]
		},
		Noise: 0.02,
		CPU: func(c record.Cell, part string, rps float64) float64 {
			switch part {
			case record.PartClientProxy:
				return 0.02 + 110e-6*rps
			case record.PartServerProxy:
				return 0.01 + 90e-6*rps
			case record.PartMachine:
				v := 0.1 + 100e-6*rps
				if study.HasClientProxy(c) {
					v += 0.02 + 110e-6*rps
				}
				if study.HasServerProxy(c) {
					v += 0.01 + 90e-6*rps
				}
				return v
			}
			return 20e-6 * rps
		},
	}
}

// Simulate simulates a run of a study for some blocks in a world.
func Simulate(t *testing.T, text string, blocks int, seed uint64, w World) record.Run {
	t.Helper()
	r, at := rand.New(rand.NewPCG(seed, 99)), Began
	pods, drift := map[string]float64{}, 0.0
	return MadeUp(PlanOf(t, text, seed), "run-"+strconv.FormatUint(seed, 10), blocks, func(run *record.Run, trial *record.Trial) {
		if trial.Order == 0 {
			drift = 1 + 0.05*r.NormFloat64()
			if w.Deployments > 0 && trial.Block%w.Deployments == 0 {
				clear(pods)
			}
		}
		if w.Deployments > 0 {
			trial.Deployment = 1 + trial.Block/w.Deployments
		}
		trial.Started, trial.Ended, trial.Window.Start = at, at.Add(3*time.Second), at
		at = trial.Ended
		pod := trial.Cell.Key() + strconv.Itoa(trial.Repeat)
		if _, known := pods[pod]; !known && w.Pod > 0 {
			pods[pod] = w.Pod * r.NormFloat64()
		}
		fill(trial, run, r, drift*(1+pods[pod]), w)
		if w.Spoil != nil {
			w.Spoil(trial)
		}
	})
}

func fill(trial *record.Trial, run *record.Run, r *rand.Rand, drift float64, w World) {
	asked, err := rate.Parse(trial.Cell[study.FactorRate])
	if err != nil {
		panic(err)
	}
	rps := asked.RPS()
	if asked.IsMax() {
		rps = 50_000 * (1 + w.Noise*r.NormFloat64())
	}
	n := int64(min(rps, 1500) * trial.Window.Seconds)
	hist := hdrhistogram.New(1, 60_000_000_000, 3)
	level := w.Latency(trial.Cell) * drift * math.Exp(w.Noise*r.NormFloat64())
	for range n {
		ns := 1000 * level * math.Exp(0.3*r.NormFloat64())
		if err := hist.RecordValue(int64(ns)); err != nil {
			panic(err)
		}
	}
	run.Hist[trial.ID] = record.TrialHist{Intended: hist, Send: hist}
	completed := int64(rps * trial.Window.Seconds)
	trial.Load = &record.Load{Rate: asked, Scheduled: completed, Completed: completed, Within: record.Within{Answered: completed}, AchievedRPS: rps, Lag: record.LatencyAt(0.9, 20, 0.99, 20, 0.999, 20)}
	parts := []string{record.PartGenerator, record.PartWorker, record.PartMachine}
	parts = append(parts, study.WayOf(trial.Cell).Parts()...)
	for _, part := range parts {
		total := w.CPU(trial.Cell, part, rps) * drift * math.Exp(w.Noise*r.NormFloat64()) * trial.Window.Seconds
		trial.CPU[part] = record.CPU{UserS: 0.6 * total, SystemS: 0.4 * total}
		if part != record.PartMachine {
			trial.Memory[part] = record.Memory{PSSBytes: int64(40e6 * (1 + 0.01*r.NormFloat64()))}
		}
	}
}

// Analyze derives the findings of a run.
func Analyze(t *testing.T, kinds analysis.Kinds, run record.Run) record.Findings {
	t.Helper()
	f, err := kinds.Analyze(run)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Get returns the only finding of a name in the cells that have the given levels.
func Get(t *testing.T, f record.Findings, name string, cell record.Cell) record.Finding {
	t.Helper()
	var found []record.Finding
	for _, x := range f.Findings {
		if x.Name == name && x.Cell.With(cell).Key() == x.Cell.Key() {
			found = append(found, x)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d findings %s in cells %v", len(found), name, cell)
	}
	return found[0]
}
