package plan

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/advise/capacity/push"
)

// Plan is what to give istiod, and why.
type Plan struct {
	Schema  int     `json:"schema"`
	Request Request `json:"request"`
	// Replicas at least and at most, of some cores each.
	Replicas    int     `json:"replicas"`
	MaxReplicas int     `json:"max_replicas"`
	Cores       float64 `json:"cores"`
	// CPURequest of a replica, cores; memory in bytes.
	CPURequest    float64 `json:"cpu_request"`
	MemoryRequest float64 `json:"memory_request"`
	MemoryLimit   float64 `json:"memory_limit"`

	Prediction *model.Prediction `json:"prediction"`
	// Lost is the mesh while as many replicas are away as it must survive; nil
	// if none.
	Lost *model.Prediction `json:"lost,omitempty"`
	Loss *model.Loss       `json:"loss,omitempty"`
	// Grown is how far the mesh that it may grow to lies from what was measured.
	Grown  model.Outside `json:"grown"`
	Levers []Lever       `json:"levers"`
	// Reasons are why each value is what it is, by its name in the YAML.
	Reasons  map[string]string `json:"reasons"`
	Warnings []string          `json:"warnings,omitempty"`
}

// Lever is a setting that would change what istiod takes.
type Lever struct {
	Name    string `json:"name"`
	Setting string `json:"setting"`
	Effect  string `json:"effect"`
	Risk    string `json:"risk"`
	Worth   bool   `json:"worth"` // a tenth of the CPU or memory at least, and the targets hold
}

// ladder are the cores that a replica may have.
var ladder = []float64{0.5, 1, 2, 4, 8, 16, 32, 64}

// ErrNone says that nothing within the bounds meets the targets.
type ErrNone struct{ Closest string }

func (e *ErrNone) Error() string {
	return "nothing within the bounds meets the targets: " + e.Closest
}

const (
	quickDraws = 8
	finalDraws = 40
)

// Make looks for the fewest CPUs in all, and of those the fewest replicas, that
// meet the targets.
func Make(m *model.Model, r Request, seed uint64) (*Plan, error) {
	if r.Mesh.Mix == nil {
		r.Mesh.Mix = m.Mix
	}
	p := &Plan{Schema: model.Schema, Request: r, Reasons: map[string]string{}}
	mesh, err := p.choose(m, seed)
	if err != nil {
		return nil, err
	}
	p.Replicas, p.Cores = mesh.Replicas, mesh.Cores
	worst := p.Prediction
	if p.Lost != nil {
		worst = p.Lost
	}
	if mesh.Proxies >= 2*mesh.Replicas {
		if p.Loss, err = m.Loss(mesh, model.Options{Seed: seed}); err != nil {
			return nil, err
		}
	}
	p.resources(worst)
	grown := mesh
	grown.Proxies = min(1_000_000, int(math.Ceil(float64(mesh.Proxies)*r.Targets.Growth)))
	p.MaxReplicas = p.grow(m, r, grown, seed)
	served := grown
	served.Replicas = p.MaxReplicas - r.Targets.Survives
	p.Grown = m.Outside(served)
	if err := p.hold(m, grown, seed); err != nil {
		return nil, err
	}
	p.explain(worst)
	p.warn(worst)
	return p, p.levers(m, mesh, seed)
}

// choose tries sizes, those of fewest CPUs first.
func (p *Plan) choose(m *model.Model, seed uint64) (model.Mesh, error) {
	r, mesh := p.Request, p.Request.Mesh
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
	order(sizes, func(a, b size) bool {
		if x, y := a.cores*float64(a.replicas), b.cores*float64(b.replicas); x != y {
			return x < y
		}
		return a.replicas < b.replicas
	})
	demand, err := demanded(m, mesh, seed)
	if err != nil {
		return mesh, err
	}
	closest := fmt.Sprintf("of %d to %d replicas with up to %g cores none is possible", least, r.Bounds.MaxReplicas, r.Bounds.MaxCores)
	for _, s := range sizes {
		mesh.Replicas, mesh.Cores, mesh.Shares = s.replicas, s.cores, nil
		if all := s.cores * float64(s.replicas); all < 0.7*demand {
			closest = fmt.Sprintf("%d replicas of %g cores are fewer than the %s cores that changes take", s.replicas, s.cores, figure(demand))
			continue
		}
		why, err := misses(m, r, mesh, seed)
		if err != nil {
			return mesh, err
		}
		if why == "" {
			why, err = p.decide(m, mesh, seed)
		}
		if err != nil || why == "" {
			return mesh, err
		}
		closest = fmt.Sprintf("with %d replicas of %g cores %s", s.replicas, s.cores, why)
	}
	return mesh, &ErrNone{closest}
}

// decide predicts a size that few draws let pass as the plan will tell it, with the
// replicas away that it must survive, and says if that misses the target.
func (p *Plan) decide(m *model.Model, mesh model.Mesh, seed uint64) (why string, err error) {
	t := p.Request.Targets
	o := model.Options{Seed: seed, Draws: finalDraws}
	left, lost := mesh, ""
	if left.Replicas -= t.Survives; t.Survives > 0 {
		lost = fmt.Sprintf(", while %d of them are away,", t.Survives)
	}
	worst, err := m.Predict(left, o)
	if err != nil {
		return "", err
	}
	switch p99 := worst.Output(model.OutConvergenceP99); {
	case !worst.KeepsUp:
		return "the push queue is never empty" + lost, nil
	case p99.High > t.ConvergenceP99:
		return fmt.Sprintf("p99 of convergence%s may be %s s (%s expected)", lost, figure(p99.High), figure(p99.Estimate)), nil
	}
	if p.Prediction = worst; t.Survives > 0 {
		p.Lost = worst
		if p.Prediction, err = m.Predict(mesh, o); err != nil {
			return "", err
		}
	}
	return overused(p.Prediction.Output(model.OutCPU), mesh, t), nil
}

// overused says that a mesh may take more of its CPUs than the target, "" if not.
func overused(cpu model.Interval, mesh model.Mesh, t Targets) string {
	if used := cpu.High / mesh.CPUs(); used > t.CPU {
		return fmt.Sprintf("%.0f%% of the CPUs may be in use (%.0f%% expected)", 100*used, 100*cpu.Estimate/mesh.CPUs())
	}
	return ""
}

// demanded is the CPU that a mesh takes where there is more than enough of it.
// Where there is less pushes merge, and it takes somewhat less.
func demanded(m *model.Model, mesh model.Mesh, seed uint64) (float64, error) {
	mesh.Replicas, mesh.Cores = 1, 1000
	p, err := m.Predict(mesh, model.Options{Seed: seed, Draws: 1})
	if err != nil {
		return 0, err
	}
	return p.Output(model.OutCPU).Estimate, nil
}

func order[T any](all []T, less func(a, b T) bool) {
	for i := 1; i < len(all); i++ { // few
		for j := i; j > 0 && less(all[j], all[j-1]); j-- {
			all[j], all[j-1] = all[j-1], all[j]
		}
	}
}

// misses says which target a mesh misses, "" if none.
func misses(m *model.Model, r Request, mesh model.Mesh, seed uint64) (string, error) {
	left := quickly(mesh)
	left.Replicas -= r.Targets.Survives
	rough, err := rough(m, left, seed)
	if err != nil || rough != "" {
		return rough, err
	}
	p, err := m.Predict(left, model.Options{Seed: seed, Draws: quickDraws})
	if err != nil {
		return "", err
	}
	cpu, p99 := p.Output(model.OutCPU), p.Output(model.OutConvergenceP99)
	lost := ""
	if r.Targets.Survives > 0 {
		lost = fmt.Sprintf(", while %d of them are away,", r.Targets.Survives)
	}
	switch used := cpu.Estimate / left.CPUs(); {
	case !p.KeepsUp:
		return "the push queue is never empty" + lost, nil
	case used > r.Targets.CPU && r.Targets.Survives == 0, used > math.Max(r.Targets.CPU, 0.9):
		return fmt.Sprintf("%.0f%% of the CPUs are in use%s", 100*used, lost), nil
	case p99.High > r.Targets.ConvergenceP99:
		return fmt.Sprintf("p99 of convergence%s may be %s s (%s expected)", lost, figure(p99.High), figure(p99.Estimate)), nil
	}
	if r.Targets.Survives > 0 { // those that are left say nothing of what all take
		if p, err = m.Predict(quickly(mesh), model.Options{Seed: seed, Draws: quickDraws}); err != nil {
			return "", err
		}
	}
	if why := overused(p.Output(model.OutCPU), mesh, r.Targets); why != "" {
		return why, nil
	}
	if r.Targets.Reconnect > 0 && mesh.Proxies >= 2*mesh.Replicas {
		loss, err := m.Loss(mesh, model.Options{Seed: seed})
		if err != nil {
			return "", err
		}
		if loss != nil && loss.All > r.Targets.Reconnect {
			return fmt.Sprintf("the proxies of a lost replica take %s s to be back", figure(loss.All)), nil
		}
	}
	return "", nil
}

// quickly has a mesh simulated for fewer changes than usual, where they come often.
func quickly(mesh model.Mesh) model.Mesh {
	if h := math.Max(30, 150/mesh.Rate); h < 3600 && mesh.Arrival != push.Burst {
		mesh.Horizon = h
	}
	return mesh
}

// rough rules sizes out that are far too small, without a draw.
func rough(m *model.Model, mesh model.Mesh, seed uint64) (string, error) {
	p, err := m.Predict(mesh, model.Options{Seed: seed, Draws: 1})
	switch {
	case err != nil:
		return "", err
	case !p.KeepsUp:
		return "the push queue is never empty", nil
	}
	return "", nil
}

// grow is how many replicas a larger mesh takes, the bounds' most if none do.
func (p *Plan) grow(m *model.Model, r Request, grown model.Mesh, seed uint64) int {
	for n := p.Replicas; n <= r.Bounds.MaxReplicas; n++ {
		grown.Replicas = n
		if why, err := misses(m, r, grown, seed); err == nil && why == "" {
			return n
		}
	}
	p.Warnings = append(p.Warnings, fmt.Sprintf("no number of replicas up to %d serves %d proxies within the targets: growth that far takes larger replicas", r.Bounds.MaxReplicas, grown.Proxies))
	return r.Bounds.MaxReplicas
}

// hold warns where a replica of the grown mesh may take more memory than its limit: the
// autoscaler goes by CPU, and adds no replica for memory.
func (p *Plan) hold(m *model.Model, grown model.Mesh, seed uint64) error {
	t := p.Request.Targets
	grown = quickly(grown)
	grown.Replicas = p.Replicas
	all, err := m.Predict(grown, model.Options{Seed: seed, Draws: 1})
	if err != nil {
		return err
	}
	scaled := int(math.Ceil(all.Output(model.OutCPU).Estimate / (p.CPURequest * t.CPU)))
	grown.Replicas = max(1, min(max(scaled, p.Replicas), p.MaxReplicas)-t.Survives)
	left, err := m.Predict(grown, model.Options{Seed: seed, Draws: quickDraws})
	if err != nil {
		return err
	}
	if memory := left.Output(model.OutMemory); memory.High > p.MemoryLimit {
		p.Warnings = append(p.Warnings, fmt.Sprintf("with %d proxies and %d replicas at work each takes %s MB of memory (up to %s), and the limit is %s: the autoscaler goes by CPU and does not help; raise memory before the mesh is that large",
			grown.Proxies, grown.Replicas, figure(memory.Estimate/1e6), figure(memory.High/1e6), figure(p.MemoryLimit/1e6)))
	}
	return nil
}

// Room above what is predicted.
const (
	memoryRoom  = 1.25 // of the request above the interval's end: a peak is above the end of a window
	memoryLimit = 1.5  // of the limit above the request
)

func (p *Plan) resources(worst *model.Prediction) {
	memory := worst.Output(model.OutMemory)
	p.MemoryRequest = roundUp(memory.High*memoryRoom, 64<<20)
	p.MemoryLimit = roundUp(p.MemoryRequest*memoryLimit, 64<<20)
	cpu := p.Prediction.Output(model.OutCPU)
	p.CPURequest = math.Min(p.Cores, roundUp(cpu.High/float64(p.Replicas)/p.Request.Targets.CPU, 0.1))
}

func roundUp(v, step float64) float64 { return math.Ceil(v/step-1e-9) * step }

// spelled is a time as istiod's variables have it.
func spelled(seconds float64) string {
	text := time.Duration(math.Round(seconds * 1e9)).String()
	for _, unit := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, unit) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// Setting is a variable of istiod's environment.
type Setting struct{ Name, Value string }

// settings are those of the mesh file that istiod does not have by itself: what is
// predicted is of an istiod that has them.
func (r Request) settings() []Setting {
	var out []Setting
	usual := model.Default()
	add := func(name, value string, differs bool) {
		if differs {
			out = append(out, Setting{name, value})
		}
	}
	m := r.Mesh
	add("PILOT_DEBOUNCE_AFTER", spelled(m.DebounceAfter), m.DebounceAfter != usual.DebounceAfter)
	add("PILOT_DEBOUNCE_MAX", spelled(m.DebounceMax), m.DebounceMax != usual.DebounceMax)
	add("PILOT_PUSH_THROTTLE", strconv.Itoa(m.Throttle), m.Throttle > 0)
	add("PILOT_MAX_REQUESTS_PER_SECOND", strconv.FormatFloat(m.ConnectLimit, 'f', -1, 64), m.ConnectLimit > 0)
	return out
}

// levers predicts what settings would change.
func (p *Plan) levers(m *model.Model, mesh model.Mesh, seed uint64) error {
	type try struct {
		name, setting, risk string
		change              func(*model.Mesh)
	}
	var tries []try
	if mesh.Visible > 0.2 {
		tries = append(tries, try{"Sidecar scope", "Sidecar resources by which each namespace sees a tenth of the services", "a call to a host that no Sidecar names fails, or passes through unmanaged",
			func(x *model.Mesh) { x.Visible = 0.1 }})
	}
	after := math.Max(1, 2*mesh.DebounceAfter)
	tries = append(tries, try{"longer debounce", "PILOT_DEBOUNCE_AFTER=" + spelled(after), "every change is later by " + spelled(after) + " at least; endpoints that are gone get traffic for longer",
		func(x *model.Mesh) { x.DebounceAfter = after }})
	throttle := max(200, 2*mesh.Throttle)
	tries = append(tries, try{"more pushes at once", fmt.Sprintf("PILOT_PUSH_THROTTLE=%d", throttle), "more memory for messages on their way; where turns wait for locks it makes them wait longer",
		func(x *model.Mesh) { x.Throttle = throttle }})
	base := p.Prediction
	for _, t := range tries {
		other := mesh
		t.change(&other)
		q, err := m.Predict(other, model.Options{Seed: seed, Draws: quickDraws})
		if err != nil {
			return err
		}
		e := func(p *model.Prediction, name string) float64 { return p.Output(name).Estimate }
		cpu, memory := e(q, model.OutCPU)/e(base, model.OutCPU), e(q, model.OutMemory)/e(base, model.OutMemory)
		p99 := e(q, model.OutConvergenceP99)
		p.Levers = append(p.Levers, Lever{t.name, t.setting,
			fmt.Sprintf("CPU %+.0f%%, memory %+.0f%%, p99 of convergence %s s after %s s", 100*(cpu-1), 100*(memory-1), figure(p99), figure(e(base, model.OutConvergenceP99))),
			t.risk, q.KeepsUp && p99 <= p.Request.Targets.ConvergenceP99 && (cpu < 0.9 || memory < 0.9 || p99 < 0.8*e(base, model.OutConvergenceP99))})
	}
	return nil
}
