package plan

import (
	"cmp"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
)

// Plan is the recommended size of istiod. [Plan.YAML] describes it in words.
type Plan struct {
	Schema  int     `json:"schema"`
	Request Request `json:"request"`
	// Replicas and MaxReplicas bound the autoscaler; each replica has Cores.
	Replicas    int     `json:"replicas"`
	MaxReplicas int     `json:"max_replicas"`
	Cores       float64 `json:"cores"`
	// CPURequest is per replica, in cores; memory is in bytes.
	CPURequest    float64 `json:"cpu_request"`
	MemoryRequest float64 `json:"memory_request"`
	MemoryLimit   float64 `json:"memory_limit"`

	Prediction *model.Prediction `json:"prediction"`
	// Lost predicts the mesh after losing as many replicas as it must survive; nil if none.
	Lost *model.Prediction `json:"lost,omitempty"`
	Loss *model.Loss       `json:"loss,omitempty"`
	// Grown compares the mesh after growth with the measured range.
	Grown    model.Outside `json:"grown"`
	Levers   []Lever       `json:"levers"`
	Warnings []Warning     `json:"warnings,omitempty"`
}

// worst returns the prediction that determines replicas, memory and warnings.
func (p *Plan) worst() *model.Prediction {
	if p.Lost != nil {
		return p.Lost
	}
	return p.Prediction
}

// Lever is a setting that would change istiod's resource use.
type Lever struct {
	Code LeverCode `json:"code"`
	// Value is its new value: a share of the services, seconds, or pushes.
	Value float64 `json:"value"`
	// CPU and Memory are ratios to the plan's prediction.
	CPU    float64 `json:"cpu_ratio"`
	Memory float64 `json:"memory_ratio"`
	P99    float64 `json:"convergence_p99"`
	Worth  bool    `json:"worth"` // saves a tenth of CPU or memory, or a fifth of p99, and meets the targets
}

// LeverCode identifies a lever.
type LeverCode string

// The levers that a plan predicts.
const (
	LeverScope    LeverCode = "sidecar_scope"
	LeverDebounce LeverCode = "debounce_after"
	LeverThrottle LeverCode = "push_throttle"
)

// Warning is a problem of the mesh at its planned growth.
type Warning struct {
	Code     WarningCode    `json:"code"`
	Proxies  int            `json:"proxies"`
	Replicas int            `json:"replicas"`
	Memory   model.Interval `json:"memory,omitzero"` // of a replica
}

// WarningCode identifies a warning.
type WarningCode string

// The warnings of plans.
const (
	WarnGrowth WarningCode = "growth" // no number of replicas within the bounds can serve as many proxies
	WarnMemory WarningCode = "memory" // replicas exceed their limit: the autoscaler watches only CPU
)

// Miss is the target that a size misses. The zero value means none.
type Miss struct {
	Code     MissCode `json:"code"`
	Replicas int      `json:"replicas"`
	Cores    float64  `json:"cores"`
	Away     int      `json:"away,omitempty"` // replicas away
	Estimate float64  `json:"estimate"`       // seconds, a share of the CPUs, or cores
	High     float64  `json:"high,omitempty"` // upper end of the interval, if only that misses
}

// MissCode identifies a target.
type MissCode string

// The targets that a size can miss.
const (
	MissBounds      MissCode = "bounds" // the bounds allow no size
	MissDemand      MissCode = "demand" // fewer cores than changes require
	MissQueue       MissCode = "queue_never_empty"
	MissCPU         MissCode = "cpu"
	MissConvergence MissCode = "convergence_p99"
	MissReconnect   MissCode = "reconnect"
)

// ladder lists the possible numbers of cores of a replica.
var ladder = []float64{0.5, 1, 2, 4, 8, 16, 32, 64}

// ErrNone reports that nothing within the bounds meets the targets.
type ErrNone struct{ Closest Miss }

func (e *ErrNone) Error() string {
	return "nothing within the bounds meets the targets: " + e.Closest.String()
}

const (
	quickDraws = 8
	finalDraws = 40
)

// Make finds the smallest total of CPUs that meets the targets, and of those sizes the one with the
// fewest replicas. It fails with [ErrNone] if no size does.
func Make(m *model.Model, r Request, seed uint64) (*Plan, error) {
	if r.Mesh.Mix == nil {
		r.Mesh.Mix = m.Mix
	}
	p := &Plan{Schema: model.Schema, Request: r}
	s := search{m, r, seed}
	mesh, err := s.choose(p)
	if err != nil {
		return nil, err
	}
	p.Replicas, p.Cores = mesh.Replicas, mesh.Cores
	if mesh.Proxies >= 2*mesh.Replicas {
		if p.Loss, err = m.Loss(mesh, model.Options{Seed: seed}); err != nil {
			return nil, err
		}
	}
	p.resources()
	grown := mesh
	grown.Proxies = min(1_000_000, int(math.Ceil(float64(mesh.Proxies)*r.Targets.Growth)))
	p.MaxReplicas = s.grow(p, grown)
	served := grown
	served.Replicas = p.MaxReplicas - r.Targets.Survives
	p.Grown = m.Outside(served)
	if err := s.hold(p, grown); err != nil {
		return nil, err
	}
	return p, s.levers(p, mesh)
}

// search finds the sizes of istiod that meet a request.
type search struct {
	m    *model.Model
	r    Request
	seed uint64
}

func (s search) predict(mesh model.Mesh, draws int) (*model.Prediction, error) {
	return s.m.Predict(mesh, model.Options{Seed: s.seed, Draws: draws})
}

// choose tries sizes in the order of their CPUs.
func (s search) choose(p *Plan) (model.Mesh, error) {
	r, mesh := s.r, s.r.Mesh
	type size struct {
		replicas int
		cores    float64
	}
	var sizes []size
	least := max(r.Bounds.MinReplicas, r.Targets.Survives+1)
	for _, cores := range ladder {
		for n := least; n <= r.Bounds.MaxReplicas && cores <= r.Bounds.MaxCores; n++ {
			sizes = append(sizes, size{n, cores})
		}
	}
	slices.SortStableFunc(sizes, func(a, b size) int {
		byCPUs := cmp.Compare(a.cores*float64(a.replicas), b.cores*float64(b.replicas))
		return cmp.Or(byCPUs, cmp.Compare(a.replicas, b.replicas))
	})
	demand, err := s.demanded(mesh)
	if err != nil {
		return mesh, err
	}
	closest := Miss{Code: MissBounds, Replicas: r.Bounds.MaxReplicas, Cores: r.Bounds.MaxCores}
	for _, of := range sizes {
		mesh.Replicas, mesh.Cores = of.replicas, of.cores
		var miss Miss
		if mesh.CPUs() < 0.7*demand {
			miss = Miss{Code: MissDemand, Estimate: demand}
		} else if miss, err = s.misses(mesh); err == nil && miss.Code == "" {
			miss, err = s.decide(p, mesh)
		}
		if err != nil || miss.Code == "" {
			return mesh, err
		}
		miss.Replicas, miss.Cores = of.replicas, of.cores
		closest = miss
	}
	return mesh, &ErrNone{closest}
}

// decide predicts a size with all draws, without the replicas whose loss it must survive.
func (s search) decide(p *Plan, mesh model.Mesh) (Miss, error) {
	t := s.r.Targets
	left := mesh
	left.Replicas -= t.Survives
	worst, err := s.predict(left, finalDraws)
	if err != nil {
		return Miss{}, err
	}
	if miss := late(worst, t); miss.Code != "" {
		return miss, nil
	}
	if p.Prediction = worst; t.Survives > 0 {
		p.Lost = worst
		if p.Prediction, err = s.predict(mesh, finalDraws); err != nil {
			return Miss{}, err
		}
	}
	return overused(p.Prediction, t), nil
}

// late returns the miss of a mesh that does not converge in time.
func late(p *model.Prediction, t Targets) Miss {
	p99 := p.Output(model.OutConvergenceP99)
	switch {
	case !p.KeepsUp:
		return Miss{Code: MissQueue, Away: t.Survives}
	case p99.High > t.ConvergenceP99:
		return Miss{Code: MissConvergence, Away: t.Survives, Estimate: p99.Estimate, High: p99.High}
	}
	return Miss{}
}

// overused returns the miss of a mesh that may use more of its CPUs than the target.
func overused(p *model.Prediction, t Targets) Miss {
	cpu, all := p.Output(model.OutCPU), p.Mesh.CPUs()
	if cpu.High/all > t.CPU {
		return Miss{Code: MissCPU, Estimate: cpu.Estimate / all, High: cpu.High / all}
	}
	return Miss{}
}

// demanded returns the CPU that a mesh uses if there is plenty. With less CPU, pushes merge and use
// somewhat less.
func (s search) demanded(mesh model.Mesh) (float64, error) {
	mesh.Replicas, mesh.Cores = 1, 1000
	p, err := s.predict(mesh, 1)
	if err != nil {
		return 0, err
	}
	return p.Output(model.OutCPU).Estimate, nil
}

// misses returns a target that a mesh misses according to a few draws.
func (s search) misses(mesh model.Mesh) (Miss, error) {
	t := s.r.Targets
	left := quickly(mesh)
	left.Replicas -= t.Survives
	p, err := s.predict(left, 1) // a single draw rules out sizes that are far too small
	if err == nil && p.KeepsUp {
		p, err = s.predict(left, quickDraws)
	}
	if err != nil {
		return Miss{}, err
	}
	used := p.Output(model.OutCPU).Estimate / left.CPUs()
	if p.KeepsUp && (t.Survives == 0 && used > t.CPU || used > math.Max(t.CPU, 0.9)) {
		return Miss{Code: MissCPU, Away: t.Survives, Estimate: used}, nil
	}
	if miss := late(p, t); miss.Code != "" {
		return miss, nil
	}
	if t.Survives > 0 { // the remaining replicas do not show the total demand
		if p, err = s.predict(quickly(mesh), quickDraws); err != nil {
			return Miss{}, err
		}
	}
	if miss := overused(p, t); miss.Code != "" {
		return miss, nil
	}
	if t.Reconnect > 0 && mesh.Proxies >= 2*mesh.Replicas {
		loss, err := s.m.Loss(mesh, model.Options{Seed: s.seed})
		if err != nil {
			return Miss{}, err
		}
		if loss != nil && loss.All > t.Reconnect {
			return Miss{Code: MissReconnect, Estimate: loss.All}, nil
		}
	}
	return Miss{}, nil
}

// quickly shortens the simulation of a mesh with frequent changes.
func quickly(mesh model.Mesh) model.Mesh {
	if h := math.Max(30, 150/mesh.Rate); h < 3600 {
		mesh.Horizon = h
	}
	return mesh
}

// grow returns the number of replicas that a larger mesh needs, or the maximum allowed if none
// suffices.
func (s search) grow(p *Plan, grown model.Mesh) int {
	most := s.r.Bounds.MaxReplicas
	for grown.Replicas = p.Replicas; grown.Replicas <= most; grown.Replicas++ {
		if miss, err := s.misses(grown); err == nil && miss.Code == "" {
			return grown.Replicas
		}
	}
	p.Warnings = append(p.Warnings, Warning{Code: WarnGrowth, Proxies: grown.Proxies, Replicas: most})
	return most
}

// hold warns if a replica of the grown mesh may exceed its memory limit: the autoscaler watches
// only CPU.
func (s search) hold(p *Plan, grown model.Mesh) error {
	t := s.r.Targets
	grown = quickly(grown)
	grown.Replicas = p.Replicas
	all, err := s.predict(grown, 1)
	if err != nil {
		return err
	}
	scaled := int(math.Ceil(all.Output(model.OutCPU).Estimate / (p.CPURequest * t.CPU)))
	grown.Replicas = max(1, min(max(scaled, p.Replicas), p.MaxReplicas)-t.Survives)
	left, err := s.predict(grown, quickDraws)
	if err != nil {
		return err
	}
	if memory := left.Output(model.OutMemory); memory.High > p.MemoryLimit {
		p.Warnings = append(p.Warnings, Warning{WarnMemory, grown.Proxies, grown.Replicas, memory})
	}
	return nil
}

// Headroom above the predictions.
const (
	memoryRoom  = 1.25 // of the request above the interval's upper end: peaks exceed the value at the end of a window
	memoryLimit = 1.5  // of the limit above the request
)

func (p *Plan) resources() {
	memory := p.worst().Output(model.OutMemory)
	p.MemoryRequest = roundUp(memory.High*memoryRoom, 64<<20)
	p.MemoryLimit = roundUp(p.MemoryRequest*memoryLimit, 64<<20)
	cpu := p.Prediction.Output(model.OutCPU)
	p.CPURequest = math.Min(p.Cores, roundUp(cpu.High/float64(p.Replicas)/p.Request.Targets.CPU, 0.1))
}

func roundUp(v, step float64) float64 { return math.Ceil(v/step-1e-9) * step }

// levers predicts the effects of settings.
func (s search) levers(p *Plan, mesh model.Mesh) error {
	scoped, slower, wider := mesh, mesh, mesh
	scoped.Visible = 0.1
	slower.DebounceAfter = math.Max(1, 2*mesh.DebounceAfter)
	wider.Throttle = max(200, 2*mesh.Throttle)
	for _, lever := range []struct {
		code  LeverCode
		value float64
		mesh  model.Mesh
	}{
		{LeverScope, scoped.Visible, scoped},
		{LeverDebounce, slower.DebounceAfter, slower},
		{LeverThrottle, float64(wider.Throttle), wider},
	} {
		if lever.code == LeverScope && mesh.Visible <= 2*scoped.Visible {
			continue
		}
		q, err := s.predict(lever.mesh, quickDraws)
		if err != nil {
			return err
		}
		ratio := func(output string) float64 { return q.Output(output).Estimate / p.Prediction.Output(output).Estimate }
		l := Lever{Code: lever.code, Value: lever.value, CPU: ratio(model.OutCPU), Memory: ratio(model.OutMemory)}
		l.P99 = q.Output(model.OutConvergenceP99).Estimate
		l.Worth = q.KeepsUp && l.P99 <= s.r.Targets.ConvergenceP99 &&
			(l.CPU < 0.9 || l.Memory < 0.9 || ratio(model.OutConvergenceP99) < 0.8)
		p.Levers = append(p.Levers, l)
	}
	return nil
}
