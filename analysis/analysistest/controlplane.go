package analysistest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// ControlStudy tries levers of istiod.
const ControlStudy = `
name: tuning
question: Which lever helps?
control: {changes: 10}
settings: {proxies: 11, gateways: 2}
variants:
  none: {}
  sidecar: {sidecar_scope: mesh}
  slow: {sidecar_scope: mesh, debounce_after: 2500ms}
baseline: {variant: none}
blocks: {min: 3, max: 6}
stop: {finding: convergence_p50_overhead, half_width: 10%, of: {variant: slow}}
published:
- {source: book, claim: no tuning, finding: pushes, cell: {variant: none}, figure: 514, unit: pushes}
- {source: book, claim: with a Sidecar, finding: pushes, cell: {variant: sidecar}, figure: 70, unit: pushes}
- {source: book, claim: p99 of istiod, finding: reported_convergence_p99, cell: {variant: none}, figure: 0.099, unit: s}
- {source: book, claim: config dump, finding: config_bytes, cell: {variant: none}, figure: 2.0, unit: MB}
assert: ['finding("missed", {"variant": "none"}).estimate == 0.0']
`

// ControlWorld describes a control-plane trial.
type ControlWorld struct {
	DebounceMS float64
	Pushes     float64 // in the window
	Spoil      func(t *record.Trial, events []record.Event)
}

// SimulateControl simulates the run of a control-plane study: every change
// reaches proxy i after the debounce time plus 20 ms plus i ms, and is
// acknowledged 1 ms later.
func SimulateControl(t *testing.T, text string, blocks int, world func(record.Cell) ControlWorld) record.Run {
	t.Helper()
	plan, at, r := PlanOf(t, text, 3), Began, rand.New(rand.NewPCG(1, 2))
	return MadeUp(plan, "run", blocks, func(run *record.Run, trial *record.Trial) {
		l, err := controlplane.LevelsOf(trial.Cell)
		if err != nil {
			t.Fatal(err)
		}
		w := world(trial.Cell)
		trial.Started, trial.Ended, trial.Window = at, at.Add(40*time.Second), record.Window{Start: at, Seconds: 25}
		at = trial.Ended
		events := controlEvents(trial, controlplane.ChangesIn(plan.Study, trial.Cell), l.Connected(), w.DebounceMS, r)
		controlCounts(trial, l, w, events)
		if w.Spoil != nil {
			w.Spoil(trial, events)
		}
		run.Events = append(run.Events, events...)
	})
}

func controlEvents(trial *record.Trial, changes, proxies int, debounceMS float64, r *rand.Rand) []record.Event {
	var out []record.Event
	noise := 1 + 0.005*r.NormFloat64() // for the whole trial
	for k := range changes {
		e := record.Event{
			Schema: record.Schema, Trial: trial.ID, Change: k, Kind: "service", Op: "create", Object: fmt.Sprintf("Service/sim-1/x-%d", k),
			CommittedNS: trial.Started.UnixNano() + int64(k)*2_500_000_000, Expected: proxies,
		}
		for p := range proxies {
			us := int64((debounceMS + 20 + float64(p)) * 1000 * noise)
			e.Seen.Proxy = append(e.Seen.Proxy, int32(p))
			e.Seen.ReceivedUS = append(e.Seen.ReceivedUS, us)
			e.Seen.AckedUS = append(e.Seen.AckedUS, us+1000)
		}
		out = append(out, e)
	}
	return out
}

func controlCounts(trial *record.Trial, l controlplane.Levels, w ControlWorld, events []record.Event) {
	n := l.Connected()
	mean, pairs := 0.0, 0
	for _, e := range events {
		for _, us := range e.Seen.AckedUS {
			mean, pairs = mean+float64(us), pairs+1
		}
	}
	mean /= float64(pairs)
	trial.CPU = map[string]record.CPU{record.PartControl: {UserS: 1.5, SystemS: 0.5}}
	trial.Memory = map[string]record.Memory{record.PartControl: {PSSBytes: 120e6}}
	trial.Control = &record.Control{
		Proxies: l.Proxies, Gateways: l.Gateways, Ztunnels: l.Ztunnels, Changes: len(events), Committed: len(events),
		Istiod: map[string]float64{
			`pilot_xds_pushes{type="cds"}`: w.Pushes * 0.5, `pilot_xds_pushes{type="lds"}`: w.Pushes * 0.5, `pilot_xds_pushes{type="lds_senderr"}`: 7,
			`pilot_proxy_convergence_time_bucket{le="0.1"}`: float64(10 * n), `pilot_proxy_convergence_time_bucket{le="0.5"}`: float64(10 * n),
			`pilot_proxy_convergence_time_bucket{le="+Inf"}`: float64(10 * n),
		},
		Stages: []record.Stage{{Name: record.StageDebounce, MeanUS: w.DebounceMS * 1000, Source: "pilot_debounce_time"},
			{Name: record.StageWire, MeanUS: mean - w.DebounceMS*1000 - 1000, Source: "rest"}},
		Wire:        map[string]record.Wire{"cds": {Bytes: 300_000, IdenticalBytes: 120_000, Resources: 100, Acks: 10}, "lds": {Bytes: 100_000, IdenticalBytes: 80_000}},
		Config:      map[string]int64{"cds": 60_000, "lds": 40_000},
		ScopeConfig: map[string]int64{"cds": 30_000, "lds": 20_000},
		Join: &record.Join{Proxy: "a.sim-1", Namespace: "sim-1", TotalUS: 70_000, Types: map[string]record.JoinType{
			"cds": {Responses: 1, Resources: 35, Bytes: 31_000, FirstUS: 1000, LastUS: 1000}, "lds": {Responses: 2, Resources: 20, Bytes: 21_000, FirstUS: 2000, LastUS: 70_000}}},
		Idle: record.CPU{UserS: 0.08}, IdleSeconds: 2,
		APIServer: &record.CPU{UserS: 0.3}, Simulator: record.CPU{UserS: 0.2}, SimulatorLag: record.QuantilesAt(0.99, 90),
		StaleProxySeconds: 5, AllocBytes: 50e6, HeapBytes: 30e6,
	}
	if l.Ztunnels > 0 {
		trial.Control.ZtunnelWire = map[string]record.Wire{"wds": {Responses: 30, Bytes: 6000}, "wads": {Responses: 10, Bytes: 1000}}
		trial.Control.ZtunnelConfig = map[string]int64{"wds": 9000, "wads": 100}
	}
}

// Tuned returns the world of [ControlStudy].
func Tuned(c record.Cell) ControlWorld {
	return map[string]ControlWorld{
		"none": {DebounceMS: 100, Pushes: 520}, "sidecar": {DebounceMS: 100, Pushes: 60}, "slow": {DebounceMS: 2500, Pushes: 50},
	}[c[study.FactorVariant]]
}
