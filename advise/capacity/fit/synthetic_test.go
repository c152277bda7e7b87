package fit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/advise/capacity/push"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// truth are parameters of a made-up istiod.
func truth() model.Values {
	v := model.Assumed()
	for p, x := range map[model.Parameter]float64{
		model.Watch: 0.004, model.ChangeCPU: 0.006, model.Context: 0.001, model.ContextPerService: 8e-6, model.Parallel: 1.5,
		model.IdleCores: 0.005, model.IdleCoresPerProxy: 5e-5, model.Beside: 1e-4, model.BesidePerByte: 2e-9, model.Apply: 0.01, model.ApplyPerByte: 2e-8,
		model.Memory: 70e6, model.MemoryPerProxy: 300e3, model.MemoryPerService: 40e3, model.MemoryPerPair: 600, model.MemoryPerRate: 0,
		model.CPUOf(push.CDS): 0.0002, model.CDSCPUPerChange: 0.0003, model.CPUOf(push.EDS): 0.0001, model.EDSCPUPerChange: 0.0002, model.EDSCPUWhole: 1.2e-5,
		model.CPUOf(push.LDS): 0.0008, model.CPUOf(push.RDS): 0.0006, model.RDSCPUAnew: 8e-6,
		model.CPUPerServiceOf(push.CDS): 1e-6, model.CPUPerServiceOf(push.RDS): 3e-6,
		model.BytesOf(push.CDS): 4000, model.CDSBytesPerChange: 1800, model.BytesOf(push.EDS): 50, model.EDSBytesPerChange: 400, model.EDSBytesWhole: 380, model.BytesOf(push.LDS): 16000, model.BytesOf(push.RDS): 3000,
		model.BytesPerServiceOf(push.RDS): 520,
	} {
		v[p] = x
	}
	return v
}

// cells makes the plan of a study with these variants.
func cells(t testing.TB, variants string) []record.Cell {
	t.Helper()
	s, err := study.Parse([]byte("name: synthetic\nquestion: What?\ncontrol: {changes: 30}\nsettings: {endpoints: 2, namespaces: 4, change: mixed, debounce_after: 100ms, istiod_replicas: 1, istiod_cpu: none, push_throttle: default}\n"+
		"variants:\n"+variants+"baseline: {variant: a}\nblocks: {min: 2, max: 3, limit: 1h}\n"), "synthetic.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := study.NewPlan(s, 1)
	if err != nil {
		t.Fatal(err)
	}
	return p.Cells
}

const sizes = "  a: {proxies: 50, services: 50, change_rate: 2}\n  b: {proxies: 300, services: 50, change_rate: 2}\n  c: {proxies: 50, services: 300, change_rate: 2}\n" +
	"  d: {proxies: 300, services: 300, change_rate: 1}\n  e: {proxies: 300, services: 300, change_rate: 6}\n  f: {proxies: 300, services: 300, change_rate: 6, change: virtualservice}\n"

const large = "  held-out: {proxies: 2000, services: 1000, change_rate: 1}\n"

// madeUp makes a run of trials that an istiod of such parameters would give,
// with noise: each figure is off by a factor of its own.
func madeUp(t testing.TB, v model.Values, cells []record.Cell, trials int, noise float64, seed uint64) record.Run {
	t.Helper()
	return madeUpOf(t, v, cells, func(float64) int { return 40 }, trials, noise, seed)
}

// madeUpOf is the same with as many changes in a trial as many says of a rate.
func madeUpOf(t testing.TB, v model.Values, cells []record.Cell, many func(rate float64) int, trials int, noise float64, seed uint64) record.Run {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	off := func(x float64) float64 { return x * math.Exp(noise*rng.NormFloat64()) }
	run := record.Run{Header: record.Header{Kind: record.KindControlPlane, RunID: fmt.Sprintf("run-%d", seed), Study: "synthetic", Machine: record.Machine{CPUs: 2, CPUModel: "made up", Nodes: 1}}}
	for block := range trials {
		for c, cell := range cells {
			l, err := study.ControlOf(cell)
			if err != nil {
				t.Fatal(err)
			}
			mesh := model.Default()
			mesh.Proxies, mesh.Services, mesh.Namespaces, mesh.Beside = l.Proxies, l.Services, l.Namespaces, true
			rate := l.ChangeRate.Parts[0].From
			mesh.Rate = rate
			kinds, weights := []string{"endpoints-replace", "service", "virtualservice", "no-op"}, []push.Kind{{Weight: 9}, {Weight: 5}, {Weight: 2}, {Weight: 2}}
			if l.Change != study.ChangeMixed {
				kinds, weights = []string{l.Change}, []push.Kind{{Weight: 1}}
			}
			changes := push.Schedule(push.Uniform, rate, (float64(many(rate))+0.5)/rate, 0, weights, seed*1000+uint64(block*100+c))
			for i := len(changes) - 1; i >= 0; i-- {
				changes[i].At -= changes[0].At
			}
			mesh.Replay = &model.Replay{Kinds: kinds, Changes: changes, Window: changes[len(changes)-1].At + 5}
			r, err := v.Simulate(mesh, seed+uint64(block))
			if err != nil {
				t.Fatal(err)
			}
			mesh.Replay.Window = math.Max(mesh.Replay.Window, r.Seconds+0.5)
			addTrial(&run, fmt.Sprintf("b%03d-t%02d", block, c), block, cell, mesh, v, r, off)
		}
	}
	return run
}

func addTrial(run *record.Run, id string, block int, cell record.Cell, mesh model.Mesh, v model.Values, r *push.Result, off func(float64) float64) {
	window := mesh.Replay.Window
	idle := v[model.IdleCores] + v[model.IdleCoresPerProxy]*float64(mesh.Proxies)
	cpu := off(r.CPU + idle*window)
	in := v.Input(mesh)
	c := &record.Control{Proxies: mesh.Proxies, Changes: len(mesh.Replay.Changes), Committed: len(mesh.Replay.Changes),
		Istiod: map[string]float64{}, Wire: map[string]record.Wire{}, IdleSeconds: 2, Idle: record.CPU{UserS: off(idle) * 2}}
	for typ := range push.Types {
		line := in.Classes[0].CPU[typ]
		if r.Pushes[typ] > 0 {
			seconds := line.Base*r.Pushes[typ] + line.Each*r.Own[typ] + line.Whole*r.Whole[typ] + line.Anew*r.Anew[typ]
			c.Istiod[`pilot_xds_pushes{type="`+typ.String()+`"}`] = r.Pushes[typ]
			c.Istiod[`pilot_xds_push_time_sum{type="`+typ.String()+`"}`] = seconds * 1.7 // by wall clock
		}
		c.Wire[typ.String()] = record.Wire{Responses: int64(r.Pushes[typ]), Bytes: int64(r.Bytes[typ])}
	}
	context := 0.0
	for _, change := range mesh.Replay.Changes {
		context += in.Kinds[change.Kind].Context
	}
	context *= r.Contexts / float64(len(mesh.Replay.Changes))
	c.Istiod["pilot_pushcontext_init_seconds_count"], c.Istiod["pilot_pushcontext_init_seconds_sum"] = r.Contexts, off(context)
	c.Istiod["pilot_proxy_convergence_time_count"] = r.Turns
	c.Istiod["pilot_proxy_convergence_time_sum"] = off(r.Waited)
	c.Simulator = record.CPU{UserS: off(v[model.Beside]*r.AllPushes() + v[model.BesidePerByte]*r.AllBytes())}
	bytes := r.AllBytes() / r.Turns
	c.Stages = []record.Stage{{Name: record.StageWatch, MeanUS: off(v[model.Watch]) * 1e6}, {Name: record.StageWire, MeanUS: 1000},
		{Name: record.StageAck, MeanUS: off(v[model.Apply]+v[model.ApplyPerByte]*bytes)*1e6 - 1000}}
	run.Trials = append(run.Trials, record.Trial{ID: id, Block: block, Cell: cell, Window: record.Window{Seconds: window}, Validity: record.Validity{Valid: true},
		CPU: map[string]record.CPU{record.PartControl: {UserS: cpu}}, Memory: map[string]record.Memory{record.PartControl: {PSSBytes: int64(off(v.MemoryOf(mesh, 0)))}}, Control: c})
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	n, late := 0, off(1)
	pairs := int(r.Convergence.Total())
	for i, change := range mesh.Replay.Changes {
		k, _ := model.KindOf(mesh.Replay.Kinds[change.Kind])
		e := record.Event{Trial: id, Change: i, Kind: k.Name, Op: "update", Object: "Thing/a/b", CommittedNS: begin + int64(change.At*1e9)}
		for range mesh.Proxies {
			if k.Types == 0 {
				break
			}
			// Which proxy had which change when does not matter here.
			nth := (n*7919)%pairs + 1
			n++
			us := int64(r.Convergence.Quantile(float64(nth)/float64(pairs)) * late * 1e6)
			e.Seen.Proxy, e.Seen.ReceivedUS, e.Seen.AckedUS = append(e.Seen.Proxy, int32(n)), append(e.Seen.ReceivedUS, us-1000), append(e.Seen.AckedUS, us)
		}
		run.Events = append(run.Events, e)
	}
}
