// Package world generates synthetic istiods, and the runs that they would produce, to test
// package fit and its predictions. Unlike for a real istiod, the truth is known. The package is
// pure.
package world

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/advise/capacity/push"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// World is a synthetic istiod.
type World struct {
	Values model.Values
	// The cost of a service grows with the number of services to the power Services, and that of
	// a proxy with the number of proxies to the power Proxies. A model assumes 0 for both.
	Services, Proxies float64
}

// Sizes at which a world with non-zero powers has exactly its values.
const (
	plainServices = 100
	plainProxies  = 100
)

// Random draws a world: each cost is within a factor of spread of the assumed one, and its
// powers are between -bend and bend.
func Random(rng *rand.Rand, spread, bend float64) *World {
	w := &World{Values: model.Assumed()}
	v := &w.Values
	for p, x := range map[model.Parameter]float64{model.ChangeCPU: 0.002, model.IdleCoresPerProxy: 5e-5, model.Beside: 1e-4, model.BesidePerByte: 2e-9, model.ApplyPerByte: 2e-8,
		model.MemoryPerRate: 0.3, model.CPUPerServiceOf(push.CDS): 1e-6, model.BytesOf(push.LDS): 10_000, model.BytesOf(push.CDS): 2000} {
		v[p] = x
	}
	for p := range v {
		v[p] *= math.Exp(math.Log(spread) * (2*rng.Float64() - 1))
	}
	v[model.Watch] = 0.001 + 0.009*rng.Float64()
	v[model.Parallel] = 1 + 1.5*rng.Float64()
	for _, by := range []*float64{&w.Services, &w.Proxies} {
		*by = bend * (2*rng.Float64() - 1)
	}
	return w
}

// Cells draws the cells of a study: each has its own size, rate and kind of change, some so busy
// that pushes overlap.
func Cells(rng *rand.Rand, n int) []record.Cell {
	var out []record.Cell
	for i := range n {
		out = append(out, study.ControlPlane.Completed(record.Cell{
			"variant":                     fmt.Sprint(i),
			controlplane.FactorProxies:    pick(rng, "20", "50", "101", "203"),
			controlplane.FactorServices:   pick(rng, "10", "50", "100", "300"),
			controlplane.FactorChangeRate: pick(rng, "0.5", "2", "6", "20"),
			controlplane.FactorChange:     pick(rng, controlplane.ChangeMixed, "virtualservice", "service"),
		}))
	}
	return out
}

func pick(rng *rand.Rand, of ...string) string { return of[rng.IntN(len(of))] }

// At returns a world's parameters at the size of a mesh.
func (w *World) At(m model.Mesh) model.Values {
	v := w.Values
	services := math.Pow(math.Max(1, float64(m.Services))/plainServices, w.Services)
	proxies := math.Pow(float64(m.Proxies)/plainProxies, w.Proxies)
	for _, p := range []model.Parameter{model.ContextPerService, model.MemoryPerService, model.MemoryPerPair, model.EDSCPUWhole, model.EDSBytesWhole, model.RDSCPUAnew} {
		v[p] *= services
	}
	for t := range push.Types {
		v[model.CPUPerServiceOf(t)] *= services * proxies
		v[model.BytesPerServiceOf(t)] *= services
		v[model.CPUOf(t)] *= proxies
	}
	for _, p := range []model.Parameter{model.IdleCoresPerProxy, model.MemoryPerProxy, model.EDSCPUPerChange, model.CDSCPUPerChange} {
		v[p] *= proxies
	}
	return v
}

// Trials says how cells become trials.
type Trials struct {
	Blocks  int
	Changes func(rate float64) int // number in a trial; nil: 40
	Noise   float64                // spread of the factor by which each value is off
	Seed    uint64
	Cores   int // of istiod's machine; 0: 2
}

// Run generates the run that a world would produce.
func (w *World) Run(cells []record.Cell, o Trials) (record.Run, error) {
	o.Cores = cmp.Or(o.Cores, 2)
	rng := rand.New(rand.NewPCG(o.Seed, 1))
	off := func(x float64) float64 { return x * math.Exp(o.Noise*rng.NormFloat64()) }
	run := record.Run{Header: record.Header{Kind: record.KindControlPlane, RunID: fmt.Sprintf("run-%d", o.Seed), Study: "synthetic", Machine: record.Machine{CPUs: o.Cores, CPUModel: "made up", Nodes: 1}}}
	for block := range o.Blocks {
		for c, cell := range cells {
			mesh, err := meshOf(cell, o, uint64(block*100+c))
			if err != nil {
				return run, err
			}
			v := w.At(mesh)
			r, err := v.Simulate(mesh, o.Seed+uint64(block))
			if err != nil {
				return run, err
			}
			mesh.Replay.Window = math.Max(mesh.Replay.Window, r.Seconds+0.5)
			addTrial(&run, fmt.Sprintf("b%03d-t%02d", block, c), block, cell, mesh, v, r, off)
		}
	}
	return run, nil
}

// meshOf returns the mesh of a trial, with its changes.
func meshOf(cell record.Cell, o Trials, nth uint64) (model.Mesh, error) {
	mesh := model.Default()
	l, err := controlplane.LevelsOf(cell)
	if err != nil {
		return mesh, err
	}
	mesh.Proxies, mesh.Services, mesh.Namespaces, mesh.Beside, mesh.Cores = l.Proxies, l.Services, l.Namespaces, true, float64(o.Cores)
	mesh.Rate = l.ChangeRate.RateRPS
	kinds, weights := []string{"endpoints-replace", "service", "virtualservice", "no-op"}, []push.Kind{{Weight: 9}, {Weight: 5}, {Weight: 2}, {Weight: 2}}
	if l.Change != controlplane.ChangeMixed {
		kinds, weights = []string{l.Change}, []push.Kind{{Weight: 1}}
	}
	many := 40
	if o.Changes != nil {
		many = o.Changes(mesh.Rate)
	}
	changes := push.Schedule(push.Uniform, mesh.Rate, (float64(many)+0.5)/mesh.Rate, weights, o.Seed*1000+nth)
	for i := len(changes) - 1; i >= 0; i-- {
		changes[i].At -= changes[0].At
	}
	mesh.Replay = &model.Replay{Kinds: kinds, Changes: changes, Window: changes[len(changes)-1].At + 5}
	return mesh, nil
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
		CPU: map[string]record.CPU{record.PartControl: {UserS: cpu}}, Memory: map[string]record.Memory{record.PartControl: {PSSBytes: int64(off(v.MemoryOf(mesh, r.AllBytes()/window)))}}, Control: c})
	run.Events = append(run.Events, eventsOf(id, mesh, r, off(1))...)
}

// eventsOf returns the changes of a trial with the times at which each proxy got them; all times
// are late times as long as simulated. A simulation knows how long pairs of a change and a proxy
// took, but not which pairs: no pair gets more time than remained until the end of all.
func eventsOf(id string, mesh model.Mesh, r *push.Result, late float64) []record.Event {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	out := make([]record.Event, len(mesh.Replay.Changes))
	pairs := int(math.Round(r.Convergence.Total()))
	next, fits := 1, []float64{} // the shortest that does not fit yet, and those that fit
	for i := len(out) - 1; i >= 0; i-- {
		change := mesh.Replay.Changes[i]
		k, _ := model.KindOf(mesh.Replay.Kinds[change.Kind])
		e := &out[i]
		*e = record.Event{Trial: id, Change: i, Kind: k.Name, Op: "update", Object: "Thing/a/b", CommittedNS: begin + int64(change.At*1e9)}
		if k.Types == 0 {
			continue
		}
		for proxy := range mesh.Proxies {
			for ; next <= pairs; next++ {
				took := r.Convergence.Quantile((float64(next) - 0.5) / float64(pairs))
				if len(fits) > 0 && change.At+took > r.Seconds {
					break
				}
				fits = append(fits, took)
			}
			if len(fits) == 0 {
				break
			}
			us := int64(fits[len(fits)-1] * late * 1e6)
			fits = fits[:len(fits)-1]
			e.Seen.Proxy, e.Seen.ReceivedUS, e.Seen.AckedUS = append(e.Seen.Proxy, int32(proxy)), append(e.Seen.ReceivedUS, us-1000), append(e.Seen.AckedUS, us)
		}
	}
	return out
}
