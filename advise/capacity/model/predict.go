package model

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/meshtrial/meshtrial/advise/capacity/push"
)

// Names of the predicted outputs.
const (
	OutConvergenceP50  = "convergence_p50"
	OutConvergenceP99  = "convergence_p99"
	OutStale           = "stale_share"
	OutPushes          = "pushes"
	OutPushesPerChange = "pushes_per_change"
	OutBytes           = "bytes"
	OutCPU             = "cpu"
	OutMemory          = "memory"
)

// OutputDef describes an output.
type OutputDef struct {
	Name, Unit, Meaning string
	of                  func(v *Values, m Mesh, r *push.Result) float64
}

// Outputs lists the predicted outputs, in the order of reports.
var Outputs = []OutputDef{
	{OutConvergenceP50, "s", "median time from a change's commit to a proxy's acknowledgement", func(_ *Values, _ Mesh, r *push.Result) float64 { return late(r, 0.5) }},
	{OutConvergenceP99, "s", "99th percentile of the same", func(_ *Values, _ Mesh, r *push.Result) float64 { return late(r, 0.99) }},
	{OutStale, "ratio", "share of the time in which a proxy lacks something that was committed", func(_ *Values, m Mesh, r *push.Result) float64 {
		return r.Stale / float64(m.Proxies) / m.seconds(r)
	}},
	{OutPushes, "1/s", "pushes per second, one for each proxy and type", func(_ *Values, m Mesh, r *push.Result) float64 { return r.AllPushes() / m.seconds(r) }},
	{OutPushesPerChange, "1", "pushes for each change", func(_ *Values, _ Mesh, r *push.Result) float64 {
		return r.AllPushes() / float64(max(r.Changes, 1))
	}},
	{OutBytes, "bytes/s", "sent to all proxies", func(_ *Values, m Mesh, r *push.Result) float64 { return r.AllBytes() / m.seconds(r) }},
	{OutCPU, "cores", "of all replicas, no more than they have", func(v *Values, m Mesh, r *push.Result) float64 {
		return r.CPU/m.seconds(r) + float64(m.Replicas)*v.idle(m)
	}},
	{OutMemory, "bytes", "of one replica, that with most proxies", func(v *Values, m Mesh, r *push.Result) float64 {
		return v.MemoryOf(m, r.AllBytes()/m.seconds(r))
	}},
}

// seconds is the time that a simulation's rates refer to: a trial's window ends when the last proxy
// has the last change, and so does that of its simulation.
func (m Mesh) seconds(r *push.Result) float64 {
	if m.Replay != nil {
		return r.Seconds + m.Replay.Tail
	}
	return r.Seconds
}

// late returns a quantile of convergence over all pairs; pairs that never got their change rank
// beyond all others.
func late(r *push.Result, q float64) float64 {
	got := r.Convergence.Total()
	switch {
	case got == 0 && r.Undelivered == 0: // there were no changes
		return 0
	case got == 0:
		return r.Seconds
	}
	rank := q * (got + r.Undelivered) / got
	if rank > 1 {
		return math.Max(r.Seconds, r.Convergence.Max())
	}
	return r.Convergence.Quantile(rank)
}

// Simulated returns the outputs of one simulation, in the order of [Outputs].
func (v *Values) Simulated(m Mesh, r *push.Result) []float64 {
	out := make([]float64, len(Outputs))
	for i, o := range Outputs {
		out[i] = o.of(v, m, r)
	}
	return out
}

// Options configures a prediction.
type Options struct {
	Seed  uint64
	Draws int // of the parameters; 0: 60
}

// level is that of the intervals.
const level = 0.9

// Predicted is one output of a prediction.
type Predicted struct {
	Name    string `json:"name"`
	Unit    string `json:"unit"`
	Meaning string `json:"meaning"`
	Interval
}

// Prediction is what a model predicts for a mesh.
type Prediction struct {
	Schema  int         `json:"schema"`
	Mesh    Mesh        `json:"mesh"`
	Level   float64     `json:"level"`
	Outputs []Predicted `json:"outputs"`
	// KeepsUp reports whether the push queue empties again and again. Overlapped is the share of
	// pushes that begin before the previous one has finished.
	KeepsUp    bool    `json:"keeps_up"`
	Overlapped float64 `json:"overlapped"`
	// Utilisation is the CPU in use divided by that of all replicas.
	Utilisation float64 `json:"utilisation"`
	// Pairs is the number of pairs of a change and a proxy that needs it, over which convergence is
	// taken. Without pairs its estimates are 0 and meaningless.
	Pairs float64 `json:"pairs"`
	Outside
	// Assumed names parameters that the runs do not determine and on which this mesh depends.
	Assumed []string `json:"assumed,omitempty"`
	Loss    *Loss    `json:"loss,omitempty"`
	Storm   *Loss    `json:"storm,omitempty"`
	Limits  *Limits  `json:"limits,omitempty"`
}

// Output finds an output by name.
func (p *Prediction) Output(name string) Interval {
	i := slices.IndexFunc(p.Outputs, func(o Predicted) bool { return o.Name == name })
	if i < 0 {
		return Interval{math.NaN(), math.NaN(), math.NaN()}
	}
	return p.Outputs[i].Interval
}

// simulate simulates a mesh with the parameters.
func (v *Values) simulate(m Mesh, seed uint64, coarse int) *push.Result {
	in := v.Input(m)
	in.Horizon = v.horizon(m)
	in.Settle = math.Max(600, 2*in.Horizon)
	in.Seed = seed
	if coarse > 0 {
		throttle := cmp.Or(m.Throttle, push.DefaultThrottle(m.Cores))
		in.Batch = max(1, min(throttle/4, m.Proxies/m.Replicas/coarse))
	}
	if m.Replay != nil {
		in.Changes, in.Horizon = m.Replay.Changes, 1
		if n := len(in.Changes); n > 0 {
			in.Horizon = math.Max(1, in.Changes[n-1].At)
		}
	} else {
		in.Changes = push.Schedule(m.Arrival, m.Rate, in.Horizon, in.Kinds, seed)
	}
	return push.Simulate(in)
}

// Simulate simulates a mesh with these parameters. It fails if the mesh fails [Mesh.Check].
func (v *Values) Simulate(m Mesh, seed uint64) (*push.Result, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	return v.simulate(m, seed, 0), nil
}

// horizon returns how long to simulate: several hundred changes and some sweeps over all proxies,
// between a minute and an hour, but a minimum number of changes in any case.
func (v *Values) horizon(m Mesh) float64 {
	if m.Horizon > 0 {
		return m.Horizon
	}
	return math.Max(m.lasting(fewest), math.Min(3600, math.Max(60, math.Max(m.lasting(400), 10*v.sweep(m)))))
}

// sweep returns how long it takes to send all types that a mesh's changes push to all proxies once,
// if the CPUs do nothing else.
func (v *Values) sweep(m Mesh) float64 {
	return v.pushCPU(m) * float64(m.Proxies) / m.CPUs()
}

// pushCPU returns the CPU time of pushing all types of a mesh's changes to one proxy.
func (v *Values) pushCPU(m Mesh) float64 {
	class, types, cpu := v.class("", float64(m.Services)*m.Visible), m.types(), 0.0
	for t := range push.Types {
		if types.Has(t) {
			cpu += class.CPU[t].Base + class.CPU[t].Each
		}
	}
	return cpu
}

// Predict predicts a mesh, which must pass [Mesh.Check].
func (m *Model) Predict(mesh Mesh, o Options) (*Prediction, error) {
	if err := mesh.Check(); err != nil {
		return nil, err
	}
	center, err := m.Values()
	if err != nil {
		return nil, err
	}
	o.Draws = cmp.Or(o.Draws, 60)
	whole := center.simulate(mesh, o.Seed, 0)
	out := &Prediction{
		Schema: Schema, Mesh: mesh, Level: level, KeepsUp: whole.Drained, Overlapped: whole.Overlapped, Pairs: whole.Needed,
		Outside: m.Outside(mesh), Assumed: m.assumedFor(mesh),
	}
	estimates := center.Simulated(mesh, whole)
	samples := make([][]float64, len(Outputs))
	rng := rand.New(rand.NewPCG(o.Seed, 0x70726564696374))
	short := mesh // draws differ more by their parameters than by their length
	if mesh.Replay == nil {
		short.Horizon = math.Max(math.Min(30, center.horizon(mesh)), center.horizon(mesh)/2)
	}
	for i := range o.Draws {
		v := m.draw(&center, rng)
		r := v.simulate(short, o.Seed+uint64(i)+1, 100)
		for k, y := range v.Simulated(short, r) {
			name := Outputs[k].Name
			if r.Needed == 0 && (name == OutConvergenceP50 || name == OutConvergenceP99) {
				continue // without pairs of a change and a proxy that needs it, it says nothing
			}
			samples[k] = append(samples[k], m.noisy(name, y, out.Times, rng)...)
		}
	}
	for k, d := range Outputs {
		e := estimates[k]
		i := Interval{e, e, e}
		if len(samples[k]) > 0 {
			low, high := bounds(samples[k])
			i.Low, i.High = math.Min(low, e), math.Max(high, e)
		}
		if d.Name == OutCPU {
			i = i.upTo(mesh.CPUs())
		}
		out.Outputs = append(out.Outputs, Predicted{d.Name, d.Unit, d.Meaning, i})
	}
	out.Utilisation = out.Output(OutCPU).Estimate / mesh.CPUs()
	return out, nil
}

// draw returns the parameters of one of the trials' resamples.
func (m *Model) draw(center *Values, rng *rand.Rand) *Values {
	if len(m.Draws) == 0 {
		return center
	}
	v := new(Values)
	copy(v[:], m.Draws[rng.IntN(len(m.Draws))])
	return v
}

// perDraw is the number of residuals drawn for each draw of the parameters.
const perDraw = 20

// noisy spreads an output by its residual.
func (m *Model) noisy(output string, y, beyond float64, rng *rand.Rand) []float64 {
	r := m.residual(output)
	spread := r.spread(beyond)
	out := make([]float64, perDraw)
	for i := range out {
		out[i] = y * math.Exp(spread*student(r.Cells, rng))
		if output == OutStale {
			out[i] = math.Min(1, out[i])
		}
	}
	return out
}

// perDoubling is what each doubling beyond the measured range adds to the spread of the logarithm.
// It was chosen so that 90% intervals cover the truth in synthetic worlds, even if costs grow
// differently than in the model (bench/capacity).
const perDoubling = 0.15

// spread returns the residual for a mesh a given factor beyond the measured range: within the
// range, the error of predictions of cells excluded from the fit; beyond it, more with each
// doubling. A model's errors grow with the distance and do not cancel out.
func (r Residual) spread(beyond float64) float64 {
	return math.Hypot(r.Spread, perDoubling*math.Log2(math.Max(1, beyond)))
}

// leastFreedom is the minimum number of degrees of freedom: with fewer, the tails of Student's t
// only express that little is known, which [Model.residual] covers.
const leastFreedom = 3

// mostFreedom is sufficient: Student's t is nearly normal by then.
const mostFreedom = 200

// student draws from Student's t for a number of cells.
func student(cells int, rng *rand.Rand) float64 {
	df := min(max(cells-1, leastFreedom), mostFreedom)
	chi := 0.0
	for range df {
		z := rng.NormFloat64()
		chi += z * z
	}
	return rng.NormFloat64() / math.Sqrt(chi/float64(df))
}

func bounds(samples []float64) (low, high float64) {
	slices.Sort(samples)
	at := func(q float64) float64 {
		return samples[min(len(samples)-1, max(0, int(math.Round(q*float64(len(samples)-1)))))]
	}
	return at((1 - level) / 2), at((1 + level) / 2)
}

// assumedFor names the assumed parameters that a prediction for a mesh uses.
func (m *Model) assumedFor(mesh Mesh) []string {
	served := mesh.ConnectionAge > 0 && mesh.Replay == nil
	unused := map[Parameter]bool{
		Beside: !mesh.Beside, BesidePerByte: !mesh.Beside, SkipCPU: mesh.Visible == 1, ConnectCPU: !served, ConnectPerService: !served,
	}
	var out []string
	types := mesh.types()
	for i, p := range m.Parameters {
		of := Parameter(i) - firstOfTypes // negative unless it is of a type
		if p.Assumed && !unused[Parameter(i)] && (of < 0 || types.Has(push.Type(of/perType))) {
			out = append(out, p.Name)
		}
	}
	return out
}
