package findings

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
)

// Bins of the series: a tenth of a second, or more if that makes too many to draw.
const (
	binNS   = int64(100_000_000)
	maxBins = 1200
)

// maxFailures limits the number of failed requests that findings name.
const maxFailures = 100

// summarize returns the trial's part of the findings, without verdicts.
func (s *trialScenario) summarize() *record.ScenarioSummary {
	c := resilience.Of(s.study).In(s.trial.Cell)
	_, retries := retriesOf(s.trial.Cell)
	out := &record.ScenarioSummary{
		LedgerOf: s.trial.Scenario.Ledger, Shown: s.trial.ID, Seconds: float64(s.length) / 1e9, Windows: s.windows, Total: s.total, Steps: []record.ScenarioStep{},
		Ledger: s.ledger(), Series: s.series(), Retries: retries, Levers: maps.Clone(s.trial.Cell),
		CPU: s.trial.Scenario.CPU, Memory: s.trial.Scenario.Memory, Pods: map[string]int{}, Planes: s.trial.Scenario.Planes, Gateways: s.gateways(),
	}
	for _, p := range s.trial.Scenario.Pods {
		out.Pods[p.Service]++
	}
	if out.LedgerOf == record.LedgerClients {
		out.Ledger = record.ScenarioLedger{Classes: map[string]int64{}, Equations: []record.LedgerEquation{}}
	}
	for _, one := range s.steps {
		out.Steps = append(out.Steps, one.ScenarioStep)
	}
	layout := c.Graph.Layout()
	out.Graph = record.ScenarioGraph{Entry: c.Entry, Clients: c.Clients, Width: layout.Width, Height: layout.Height}
	for i, n := range layout.Nodes {
		out.Graph.Nodes = append(out.Graph.Nodes, record.ScenarioNode{Service: n.Service, Replicas: c.Graph.Services[i].Replicas, X: n.X, Y: n.Y})
	}
	for _, l := range layout.Lines {
		out.Graph.Lines = append(out.Graph.Lines, record.ScenarioLine{From: layout.Nodes[l.From].Service, To: layout.Nodes[l.To].Service, Via: l.Via})
	}
	return out
}

// series counts requests in equal bins over the timeline.
func (s *trialScenario) series() record.ScenarioSeries {
	bin := binNS
	for s.length/bin >= maxBins {
		bin += binNS
	}
	n := int((s.length + bin - 1) / bin)
	out := record.ScenarioSeries{BinS: float64(bin) / 1e9, Requests: make([]int64, n), Failed: map[string][]int64{}, P50US: make([]float64, n), P99US: make([]float64, n), MaxUS: make([]float64, n)}
	micros := make([][]int64, n)
	for i := range s.requests {
		r := &s.requests[i]
		b := min(n-1, int(max(0, r.at)/bin))
		out.Requests[b]++
		switch {
		case r.ok:
			micros[b] = append(micros[b], r.micros)
		case r.failed:
			if out.Failed[r.kind] == nil {
				out.Failed[r.kind] = make([]int64, n)
			}
			out.Failed[r.kind][b]++
		}
	}
	for b := range micros {
		l := record.LatencyOf(micros[b], 0)
		out.P50US[b], out.P99US[b], out.MaxUS[b] = l.At(0.5), l.At(0.99), l.Max()
	}
	any := false
	ejected := make([]int, n)
	for b := range ejected {
		for _, sample := range s.during(int64(b)*bin, int64(b+1)*bin) {
			ejected[b] = max(ejected[b], sum(sample.Ejected))
		}
		any = any || ejected[b] > 0
	}
	if any {
		out.Ejected = ejected
	}
	return out
}

// ledger returns the reconciliation as findings record it.
func (s *trialScenario) ledger() record.ScenarioLedger {
	a := s.account
	out := record.ScenarioLedger{Requests: a.Requests, Reconciled: a.Reconciled, Classes: map[string]int64{}, Orphans: a.Orphans, Unwritten: a.Unwritten, Duplicates: a.Duplicates, Equations: append([]record.LedgerEquation{}, a.Equations...), HiddenBy: a.HiddenBy}
	for class, n := range a.Classes {
		out.Classes[string(class)] = n
	}
	for _, f := range a.Faults {
		one := record.LedgerFault{Hop: string(f.Hop), Service: f.Service, Flag: f.Flag, Seen: f.Seen, Count: f.Count}
		if flag, ok := ledger.FlagByName(f.Flag); ok {
			one.Meaning, one.Cause = flag.Meaning, flag.Cause
		}
		out.Faults = append(out.Faults, one)
	}
	for _, n := range a.Unreconciled {
		out.Unreconciled = append(out.Unreconciled, s.named(n))
	}
	slices.SortStableFunc(out.Unreconciled, func(a, b record.LedgerRequest) int { return cmp.Compare(a.AtS, b.AtS) })
	failures := slices.Clone(a.Failures)
	slices.SortStableFunc(failures, func(a, b ledger.Named) int { return cmp.Compare(a.IntendedNS, b.IntendedNS) })
	for _, n := range failures[:min(len(failures), maxFailures)] {
		out.Failures = append(out.Failures, s.named(n))
	}
	return out
}

func (s *trialScenario) named(n ledger.Named) record.LedgerRequest {
	out := record.LedgerRequest{ID: n.ID, Outcome: n.Outcome, Status: n.Status, Lacks: n.Lacks}
	if n.IntendedNS != 0 {
		out.AtS = math.Round(float64(n.IntendedNS-s.trial.Scenario.StartNS)/1e3) / 1e6
	}
	if f := n.Fault; f != nil {
		out.Hop, out.Service, out.Host, out.Flag, out.Detail = string(f.Hop), f.Service, f.Host, f.Flag, f.Detail
	}
	return out
}

// scenarioSummary summarizes a cell's trials: their verdicts, and the figures of the first trial
// with the cell's verdict.
func scenarioSummary(o *analysis.Observations, cell int) *record.ScenarioSummary {
	expected := resilience.Expected(o.Plan.Study, o.Plan.Cells[cell])
	var all []*trialScenario
	for _, block := range o.Blocks {
		for _, t := range o.Tried[cell][block] {
			all = append(all, scenarioOfTrial(o, t))
		}
	}
	verdict := expected
	for _, s := range all {
		if v := s.verdict.Verdict; v != expected && (verdict == expected || verdict == record.VerdictInconclusive) {
			verdict = v
		}
	}
	if len(all) == 0 {
		verdict = record.VerdictInconclusive
	}
	out := &record.ScenarioSummary{}
	shown := slices.IndexFunc(all, func(s *trialScenario) bool { return s.summary != nil && s.verdict.Verdict == verdict })
	if shown < 0 {
		shown = slices.IndexFunc(all, func(s *trialScenario) bool { return s.summary != nil })
	}
	if shown >= 0 {
		own := *all[shown].summary
		out = &own
	}
	if out.Windows == nil {
		out.Windows = []record.ScenarioWindow{}
	}
	out.Verdict, out.Expected, out.AsExpected = verdict, expected, verdict == expected
	out.Trials = []record.TrialVerdict{}
	for _, s := range all {
		out.Trials = append(out.Trials, s.verdict)
	}
	return out
}
