package reporttest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// BillText is a bill in both directions, with parts of two kinds.
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

// Bill returns the findings of a run in which parts cost the values written
// here, in microseconds per request at each proxy; nothing was measured.
func Bill(t *testing.T) record.Findings {
	t.Helper()
	return Analysed(t, MadeUp(analysistest.PlanOf(t, BillText, 3), 6, func(run *record.Run, trial *record.Trial, r *rand.Rand) {
		us := 90.0
		switch trial.Cell[study.FactorTelemetry] {
		case study.TelemetryText:
			us += 7
		case study.TelemetryJSON:
			us += 12
		}
		if trial.Cell[study.FactorMTLS] == study.MTLSStrict {
			us += 7.1
		}
		if trial.Cell[study.FactorTelemetry] == study.TelemetryJSON && trial.Cell[study.FactorMTLS] == study.MTLSStrict {
			us -= 3
		}
		trial.CPU, trial.Memory = map[string]record.CPU{}, map[string]record.Memory{}
		trial.Load = &record.Load{Rate: 1000, Scheduled: 2000, Completed: 2000, Within: record.Within{Answered: 2000}, AchievedRPS: 1000, Lag: record.LatencyAt(0.9, 20, 0.99, 20, 0.999, 20)}
		for _, part := range []string{record.PartClientProxy, record.PartServerProxy} {
			total := us * 2000 * 1e-6 * math.Exp(0.004*r.NormFloat64())
			trial.CPU[part] = record.CPU{UserS: 0.7 * total, SystemS: 0.3 * total}
			trial.Memory[part] = record.Memory{PSSBytes: int64(45e6 + 2e5*r.NormFloat64())}
		}
		hist := hdrhistogram.New(1, 60_000_000_000, 3)
		for range 300 {
			must.OK(t, hist.RecordValue(int64(1000*(200+2*us)*math.Exp(0.2*r.NormFloat64()))))
		}
		run.Hist[trial.ID] = record.TrialHist{Intended: hist, Send: hist}
	}))
}
