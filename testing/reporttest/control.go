package reporttest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/studies"
	"github.com/meshtrial/meshtrial/testing/must"
)

// ControlPlane returns what analysis finds in a synthetic run of a shipped study of the
// control plane.
func ControlPlane(t *testing.T, name string, blocks int, spoil func(*record.Trial, []record.Event)) record.Findings {
	t.Helper()
	data, err := studies.Read(name)
	must.OK(t, err)
	plan, at := analysistest.PlanOf(t, string(data), 7), analysistest.Began
	run := MadeUp(plan, blocks, func(run *record.Run, trial *record.Trial, r *rand.Rand) {
		trial.Started, trial.Ended, trial.Window = at, at.Add(37*time.Second), record.Window{Start: at, Seconds: 26}
		at = trial.Ended
		l, err := controlplane.LevelsOf(trial.Cell)
		must.OK(t, err)
		events := FillControl(trial, l, controlplane.ChangesIn(plan.Study, trial.Cell), r)
		if spoil != nil {
			spoil(trial, events)
		}
		run.Events = append(run.Events, events...)
	})
	run.Header.Components = []record.Component{{Name: "istiod", Version: "1.31.0"}}
	return Analysed(t, run)
}

// FillControl generates a trial: without a scope proxies see each change, with one only
// gateways do.
func FillControl(trial *record.Trial, l controlplane.Levels, changes int, r *rand.Rand) []record.Event {
	n := min(l.Connected(), 50) // of many proxies, a few represent all
	changes = min(changes, 20)
	seeing, size := n, 2.1e6
	if l.SidecarScope != controlplane.SidecarScopeNone {
		seeing, size = max(1, l.Gateways), 0.45e6
	}
	noise := 1 + 0.01*r.NormFloat64()
	debounce := float64(l.DebounceAfter.Microseconds())
	each := (1500.0 + float64(l.Connected())*4) * float64(l.Connected()) / float64(n)
	var events []record.Event
	sum := 0.0
	for k := range changes {
		e := record.Event{Schema: record.Schema, Trial: trial.ID, Change: k, Kind: "service", Op: "create", Object: fmt.Sprintf("Service/sim-1/mm-%d", k),
			CommittedNS: trial.Started.UnixNano() + int64(k)*2_500_000_000, Expected: seeing}
		for p := range seeing {
			us := (debounce + 9000 + each*float64(p+1)) * noise
			e.Seen.Proxy = append(e.Seen.Proxy, int32(p))
			e.Seen.ReceivedUS = append(e.Seen.ReceivedUS, int64(us))
			e.Seen.AckedUS = append(e.Seen.AckedUS, int64(us)+400)
			sum += us + 400
		}
		events = append(events, e)
	}
	mean := sum / float64(changes*seeing)
	pushes := float64(changes * seeing * 4)
	trial.CPU = map[string]record.CPU{record.PartControl: {UserS: 1.1 * noise * size / 1e6, SystemS: 0.2}, record.PartSimulator: {UserS: 0.1 * size / 2e6},
		record.PartServerProxy: {UserS: 0.9}, record.PartMachine: {UserS: 9, SystemS: 3}}
	trial.Pressure = &record.Pressure{BusyRatio: 0.23, CPUSomeRatio: 0.04}
	trial.Memory = map[string]record.Memory{record.PartControl: {PSSBytes: int64(118e6 * noise)}}
	trial.Control = &record.Control{Proxies: l.Proxies, Gateways: l.Gateways, Changes: changes, Committed: changes,
		Istiod: map[string]float64{
			`pilot_xds_pushes{type="cds"}`: pushes / 4, `pilot_xds_pushes{type="eds"}`: pushes / 4, `pilot_xds_pushes{type="lds"}`: pushes / 4, `pilot_xds_pushes{type="rds"}`: pushes / 4,
			`pilot_proxy_convergence_time_bucket{le="0.1"}`: pushes, `pilot_proxy_convergence_time_bucket{le="0.5"}`: pushes, `pilot_proxy_convergence_time_bucket{le="+Inf"}`: pushes,
		},
		Wire: map[string]record.Wire{
			"cds": {Responses: int64(pushes / 4), Bytes: int64(size * 2), Resources: 900, Identical: 700, IdenticalBytes: int64(size * 1.5), Acks: int64(pushes / 4)},
			"lds": {Responses: int64(pushes / 4), Bytes: int64(size), Resources: 200, Identical: 190, IdenticalBytes: int64(size * 0.9), Acks: int64(pushes / 4)},
		},
		Config: map[string]int64{"cds": int64(size * 0.6), "lds": int64(size * 0.3), "rds": int64(size * 0.1)},
		Idle:   record.CPU{UserS: 0.01}, IdleSeconds: 1, APIServer: &record.CPU{UserS: 0.2 * noise}, APIServerSeconds: 25, APIServerIdle: &record.CPU{UserS: 0.004}, APIServerIdleSeconds: 1, Simulator: record.CPU{UserS: 0.1 * size / 2e6},
		SimulatorLag: record.QuantilesAt(0.99, 120), AllocBytes: int64(size * 20), HeapBytes: 40e6, Goroutines: 640,
	}
	rest := mean
	for _, s := range []record.Stage{{Name: record.StageWatch, MeanUS: 1800, Source: "own watch"}, {Name: record.StageDebounce, MeanUS: debounce, Source: "pilot_debounce_time"},
		{Name: record.StagePushContext, MeanUS: 3100, Source: "pilot_pushcontext_init_seconds"}, {Name: record.StageQueue, MeanUS: 1200, Source: "pilot_proxy_queue_time"},
		{Name: record.StageAck, MeanUS: 400, Source: "sightings"}} {
		trial.Control.Stages = append(trial.Control.Stages, s)
		rest -= s.MeanUS
	}
	check := rest - 300
	trial.Control.Stages = append(trial.Control.Stages, record.Stage{Name: record.StageGenerate, MeanUS: rest - 900, Source: "pilot_xds_push_time (90 of 130); not measured (40 of 130)", CheckUS: &check, CheckSource: "istiod's log less pilot_proxy_queue_time"})
	trial.Control.MissingStages = []string{record.StageWire}
	trial.Control.Unexplained = &record.Unexplained{Pairs: changes * seeing, LargestUS: 1500}
	trial.Control.Profiles = MadeUpProfiles()
	return events
}

// Tuning returns the findings of a run of studies/control-plane-tuning.
func Tuning(t *testing.T) record.Findings { return ControlPlane(t, "control-plane-tuning", 4, nil) }

// Faulty returns those of a run with lost and rejected changes, and stages that do not
// add up.
func Faulty(t *testing.T) record.Findings {
	return ControlPlane(t, "control-plane-tuning", 2, func(trial *record.Trial, events []record.Event) {
		if trial.Cell[study.FactorVariant] != "replicas-2" {
			return
		}
		e := &events[4]
		e.Seen = record.Sightings{Proxy: e.Seen.Proxy[:10], ReceivedUS: e.Seen.ReceivedUS[:10], AckedUS: e.Seen.AckedUS[:10]}
		e.Missed = []int32{10, 11, 12}
		events[5].Error, events[5].Seen = "context deadline exceeded", record.Sightings{}
		trial.Control.Stages[0].MeanUS += 30_000
		trial.Control.Unexplained.Beyond, trial.Control.Unexplained.LargestUS = trial.Control.Unexplained.Pairs/2, -30_000
	})
}

// MadeUpProfiles returns synthetic profiles of istiod.
func MadeUpProfiles() []record.Profile {
	const xds = "istio.io/istio/pilot/pkg/xds."
	return []record.Profile{
		{Kind: "cpu", Unit: "nanoseconds", Total: 2_000_000_000, Seconds: 27, File: "b000-t00-istiod-0-cpu.pb.gz",
			Flat:       []record.ProfileCost{{Function: "runtime.scanobject", Flat: 300_000_000, Cumulative: 420_000_000}, {Function: "runtime.mallocgc", Flat: 180_000_000, Cumulative: 500_000_000}},
			Cumulative: []record.ProfileCost{{Function: xds + "(*DiscoveryServer).pushDeltaXds", Flat: 2_000_000, Cumulative: 1_400_000_000}, {Function: "google.golang.org/protobuf/proto.MarshalOptions.marshal[...]", Cumulative: 700_000_000}}},
		{Kind: "mutex", Unit: "nanoseconds", Seconds: 27},
		{Kind: "block", Unit: "nanoseconds", Total: 90_000_000_000, Seconds: 27, File: "b000-t00-istiod-0-block.pb.gz",
			Flat: []record.ProfileCost{{Function: "runtime.selectgo", Flat: 80_000_000_000, Cumulative: 80_000_000_000}}},
	}
}

// IdleSidecars returns those of a synthetic run of studies/idle-sidecars.
func IdleSidecars(t *testing.T) record.Findings {
	use := func(seconds, mcpu, mb, noise float64) *record.SidecarUse {
		const n = 10
		u := &record.SidecarUse{Sidecars: n, SidecarSeconds: n * seconds, CPU: record.CPU{UserS: n * seconds * mcpu * noise / 1000}, PSSBytes: int64(n * mb * 1e6)}
		u.Processes = map[string]record.PartUse{
			record.ProcessEnvoy: {CPUS: 0.7 * u.CPU.UserS, PSSBytes: u.PSSBytes * 2 / 3}, record.ProcessAgent: {CPUS: 0.3 * u.CPU.UserS, PSSBytes: u.PSSBytes / 3}}
		return u
	}
	return ControlPlane(t, "idle-sidecars", 3, func(trial *record.Trial, _ []record.Event) {
		size := map[string]float64{"whole-mesh": 3, "own-namespace": 1.2, "istio-system-only": 1}[trial.Cell[study.FactorVariant]]
		noise := 1 + 0.01*float64(trial.Order%3+trial.Block)
		trial.Window.Seconds = 13
		c := trial.Control
		c.RealProxies, c.Wire, c.Config, c.Simulator, c.Profiles = 10, nil, nil, record.CPU{}, nil
		c.Istiod = map[string]float64{`pilot_xds_pushes{type="eds"}`: map[string]float64{"whole-mesh": 240, "own-namespace": 30}[trial.Cell[study.FactorVariant]]}
		delete(trial.CPU, record.PartSimulator)
		c.Sidecars = &record.Sidecars{Idle: use(15, 3+0.5*size, 45+5*size, noise), Changing: use(13, 3+4*size, 46+5*size, noise)}
	})
}

// Phantom returns those of a synthetic run of studies/phantom, which only measures what
// real requests experienced and what the control plane cost.
func Phantom(t *testing.T) record.Findings {
	return ControlPlane(t, "phantom", 4, func(trial *record.Trial, _ []record.Event) {
		gone := int64(3)
		if trial.Cell[study.FactorDebounceAfter] != "100ms" {
			gone = 120 + int64(trial.Order)
		}
		trial.Control.Traffic = &record.Traffic{RateRPS: 100, Connections: 1000, Requests: 3500, Completed: 3500 - gone/3, Failed: map[string]int64{"status-503": gone / 3},
			Latency: record.LatencyAt(0.5, 1200, 0.99, 9000), Gone: 2, Attempts: 3500 + gone, PhantomAttempts: gone, PhantomEnded: gone, PhantomFailed: gone,
			PhantomRequests: gone, PhantomFailures: gone / 3, PhantomHidden: gone - gone/3, LastPhantomUS: float64(gone) * 20_000}
	})
}

// Routes returns those of a synthetic run of studies/route-propagation: a route is served
// 20 ms after the gateways have acknowledged it, and the first route of a cell twice as
// late.
func Routes(t *testing.T) record.Findings {
	return ControlPlane(t, "route-propagation", 3, func(_ *record.Trial, events []record.Event) {
		for i := range events {
			e := &events[i]
			at := e.Seen.AckedUS[0] + 20_000
			if i == 0 {
				at *= 2
			}
			bad, good := at-3000, at-1000
			e.Served = &record.Served{BadUS: &bad, GoodUS: &good, AnsweredUS: &at, Statuses: map[string]int{"404": 70, "200": 25}}
		}
	})
}

// Attached returns those of a synthetic run of studies/attached-routes: the status is
// written once for every two routes, and takes a second to report that none is left.
func Attached(t *testing.T) record.Findings {
	return ControlPlane(t, "attached-routes", 3, func(trial *record.Trial, events []record.Event) {
		us := func(ms float64) *int64 {
			at := int64(1000 * ms * (1 + 0.01*float64(trial.Block)))
			return &at
		}
		n := len(events)
		trial.Control.Attached = &record.Attached{Routes: n, AllUS: us(200), FirstUS: us(10_200), NoneUS: us(1000), NoneFirstUS: us(1500), Writes: n / 2, Unwrites: 3, Most: n + 1}
	})
}
