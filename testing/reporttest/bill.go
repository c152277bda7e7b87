package reporttest

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/meshtrial/meshtrial/kinds/analyses"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// BillText is a bill in both directions, of parts of two kinds.
const BillText = `
name: small-bill
question: What do parts of the sidecars cost?
settings: {sidecars: both, mtls: "off", rate: 1000}
bill:
  parts:
    text-log: {telemetry: access-log-text}
    json-log: {telemetry: access-log-json}
    mtls: {mtls: strict}
    nothing: {cpu_limit: 1500m}
  together: [json-log, mtls, nothing]
  direct: both
blocks: {min: 6, max: 6, limit: 10m}
measures: [latency, cpu, memory]
money: {rps: 1000000, core_month: 40}
`

// Bill are those of a run in which parts cost what is written here, in
// microseconds per request at each proxy; nothing here was measured.
func Bill(t *testing.T) record.Findings {
	t.Helper()
	s, err := study.Parse([]byte(BillText), "bill.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := study.NewPlan(s, 3)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	run := record.Run{StudyYAML: s.Marshal(), Hist: map[string]record.TrialHist{},
		Header: record.Header{Schema: record.Schema, Kind: string(s.Kind), RunID: "20261121-100000-small-bill", Study: s.Name, Started: start, Seed: 3, Lab: "local", Meshtrial: "0.1.0",
			Machine: record.Machine{CPUModel: "Xeon", CPUs: 2, MemoryBytes: 24 << 30, Kernel: "6.8.0", OS: "Debian 13"}}}
	r := rand.New(rand.NewPCG(5, 6))
	for block := range 6 {
		for order, slot := range plan.Block(block) {
			cell := plan.Cells[slot.Cell]
			us := 90.0
			switch cell[study.FactorTelemetry] {
			case study.TelemetryText:
				us += 7
			case study.TelemetryJSON:
				us += 12
			}
			if cell[study.FactorMTLS] == study.MTLSStrict {
				us += 7.1
			}
			if cell[study.FactorTelemetry] == study.TelemetryJSON && cell[study.FactorMTLS] == study.MTLSStrict {
				us -= 3
			}
			trial := record.Trial{Schema: record.Schema, ID: study.TrialID(block, order), Block: block, Order: order, Cell: cell, Repeat: slot.Repeat,
				Started: start, Ended: start.Add(3 * time.Second), Window: record.Window{Start: start, Seconds: 2, Intervals: 8},
				Validity: record.Validity{Valid: true}, CPU: map[string]record.CPU{}, Memory: map[string]record.Memory{},
				Load: &record.Load{Rate: 1000, Scheduled: 2000, Completed: 2000, AchievedRPS: 1000, Lag: record.LatencyAt(0.99, 20)}}
			for _, part := range []string{record.PartClientProxy, record.PartServerProxy} {
				total := us * 2000 * 1e-6 * math.Exp(0.004*r.NormFloat64())
				trial.CPU[part] = record.CPU{UserS: 0.7 * total, SystemS: 0.3 * total}
				trial.Memory[part] = record.Memory{PSSBytes: int64(45e6 + 2e5*r.NormFloat64())}
			}
			hist := hdrhistogram.New(1, 60_000_000_000, 3)
			for range 300 {
				if err := hist.RecordValue(int64(1000 * (200 + 2*us) * math.Exp(0.2*r.NormFloat64()))); err != nil {
					t.Fatal(err)
				}
			}
			run.Hist[trial.ID] = record.TrialHist{Intended: hist, Send: hist}
			run.Trials = append(run.Trials, trial)
		}
	}
	f, err := analyses.All().Analyze(run)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
