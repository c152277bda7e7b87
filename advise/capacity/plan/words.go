package plan

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/analysis/words"
)

func figure(v float64) string { return model.Figure(v, 3) }

func percent(v float64) string { return fmt.Sprintf("%.0f%%", 100*v) }

// String describes a miss for people.
func (m Miss) String() string {
	size := fmt.Sprintf("%s of %g cores", words.Plural(m.Replicas, "replica"), m.Cores)
	away := ""
	switch {
	case m.Away == 1:
		away = " while one of them is away"
	case m.Away > 1:
		away = fmt.Sprintf(" while %d of them are away", m.Away)
	}
	switch m.Code {
	case MissBounds:
		return "not even " + size + " are allowed"
	case MissDemand:
		return fmt.Sprintf("%s have fewer than the %s cores that changes take", size, figure(m.Estimate))
	case MissQueue:
		return "with " + size + " the push queue never empties" + away
	case MissCPU:
		if m.High == 0 {
			return fmt.Sprintf("with %s %s of the CPUs are in use%s", size, percent(m.Estimate), away)
		}
		return fmt.Sprintf("with %s %s of the CPUs may be in use (%s expected)", size, percent(m.High), percent(m.Estimate))
	case MissConvergence:
		return fmt.Sprintf("with %s p99 of convergence%s may be %s s (%s expected)", size, away, figure(m.High), figure(m.Estimate))
	}
	return fmt.Sprintf("with %s the proxies of a lost replica take %s s to be back", size, figure(m.Estimate))
}

// words describe a warning for people.
func (w Warning) words(p *Plan) string {
	if w.Code == WarnGrowth {
		return fmt.Sprintf("%d replicas do not serve %d proxies within the targets: such growth takes larger replicas", w.Replicas, w.Proxies)
	}
	return fmt.Sprintf("with %s and %s at work each takes %s MB of memory (up to %s), and the limit is %s: the autoscaler goes by CPU; raise memory before the mesh is that large",
		words.Plural(w.Proxies, "proxy"), words.Plural(w.Replicas, "replica"), figure(w.Memory.Estimate/1e6), figure(w.Memory.High/1e6), figure(p.MemoryLimit/1e6))
}

// words describe a lever for people.
func (l Lever) words(p *Plan) string {
	name, setting, risk := "", "", ""
	switch l.Code {
	case LeverScope:
		name, setting, risk = "Sidecar scope", "Sidecars by which each namespace sees "+percent(l.Value)+" of the services",
			"a call to a host that no Sidecar names fails, or passes through unmanaged"
	case LeverDebounce:
		name, setting = "longer debounce", "PILOT_DEBOUNCE_AFTER="+spelled(l.Value)
		risk = "every change is later by at least " + spelled(l.Value) + "; endpoints that are gone get traffic for longer"
	case LeverThrottle:
		name, setting, risk = "more pushes at once", fmt.Sprintf("PILOT_PUSH_THROTTLE=%.0f", l.Value),
			"more memory for messages in flight; if turns wait for locks they wait longer"
	}
	return fmt.Sprintf("- %s (%s): CPU %+.0f%%, memory %+.0f%%, p99 of convergence %s s after %s s. Risk: %s.", name, setting,
		100*(l.CPU-1), 100*(l.Memory-1), figure(l.P99), figure(p.Prediction.Output(model.OutConvergenceP99).Estimate), risk)
}

// spelled formats a duration as istiod's variables write it.
func spelled(seconds float64) string {
	text := time.Duration(math.Round(seconds * 1e9)).String()
	for _, unit := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, unit) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// reasons explains each value.
func (p *Plan) reasons() (replicas, most, cpu, cpuLimit, memory, utilization string) {
	t, worst := p.Request.Targets, p.worst()
	used, held, p99 := p.Prediction.Output(model.OutCPU), worst.Output(model.OutMemory), worst.Output(model.OutConvergenceP99)
	with := fmt.Sprintf("with all %d replicas", p.Replicas)
	if p.Lost != nil {
		with = fmt.Sprintf("with %d of %d replicas away", t.Survives, p.Replicas)
	}
	replicas = fmt.Sprintf("p99 of convergence is %s s (%s to %s) %s, each with the CPUs of its limit; the target is %s s",
		figure(p99.Estimate), figure(p99.Low), figure(p99.High), with, figure(t.ConvergenceP99))
	if worst.Pairs == 0 {
		replicas = "no proxy needs any of these changes: replicas are those that must remain when some are lost"
	}
	most = fmt.Sprintf("what %s times as many proxies take", figure(t.Growth)) + model.TimesBeyond(p.Grown.Times)
	cpu = fmt.Sprintf("all replicas together use %s cores (%s to %s); at the upper end the request leaves the target of %s",
		figure(used.Estimate), figure(used.Low), figure(used.High), percent(t.CPU))
	cpuLimit = "bursts of pushes use all of them, and istiod chooses its push throttle by them"
	if p.CPURequest < p.Cores {
		cpuLimit += "; p99 is that of replicas that get them, and only the request is guaranteed: a full node makes it longer"
	}
	memory = fmt.Sprintf("a replica takes %s MB (up to %s) %s; a quarter more for peaks", figure(held.Estimate/1e6), figure(held.High/1e6), with)
	utilization = "of the request; new replicas take no connections from old ones until these close them, after " + spelled(p.Request.Mesh.ConnectionAge)
	if p.Request.Mesh.ConnectionAge == 0 {
		utilization = "of the request; new replicas take no connections from old ones, which never close them"
	}
	return replicas, most, cpu, cpuLimit, memory, utilization
}

// warnings lists all warnings of a plan, including how far it lies outside the measured range.
func (p *Plan) warnings() (out []string) {
	for _, w := range p.Warnings {
		out = append(out, w.words(p))
	}
	worst := p.worst()
	if worst.Extrapolates() {
		out = append(out, fmt.Sprintf("this mesh lies %s times beyond what was measured: measure a larger one before relying on it", figure(worst.Times)))
		for _, r := range worst.Beyond {
			out = append(out, r.String())
		}
	}
	for _, r := range worst.Below {
		out = append(out, r.String())
	}
	if names := p.Prediction.Assumed; len(names) > 0 {
		out = append(out, "assumed, not measured: "+strings.Join(names, ", "))
	}
	return out
}

// YAML writes a plan as values for Istio's Helm chart istiod, each with its reason.
func (p *Plan) YAML() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	comment := func(text string, indent int) {
		pad := strings.Repeat(" ", indent) + "# "
		for _, one := range words.Lines(text, 98-len(pad)) {
			line("%s%s", pad, one)
		}
	}
	value := func(indent int, key, value, reason string) {
		comment(reason, indent)
		line("%s%s: %s", strings.Repeat(" ", indent), key, value)
	}
	m := p.Request.Mesh
	comment(fmt.Sprintf("Values for Istio's Helm chart istiod: %s, %s, %s changes per second.", words.Plural(m.Proxies, "proxy"), words.Plural(m.Services, "service"), model.Figure(m.Rate, 4)), 0)
	for _, w := range p.warnings() {
		comment("Warning: "+w+".", 0)
	}
	switch l := p.Loss; {
	case l != nil && l.Away > 0:
		comment(fmt.Sprintf("Warning: when a replica is lost, %d of its %d proxies lack their configuration after %s s%s.", l.Away, l.Proxies, figure(l.All), model.TimesBeyond(l.Times)), 0)
	case l != nil:
		comment(fmt.Sprintf("When a replica is lost, its %d proxies have their configuration again after %s s, half of them after %s s%s.", l.Proxies, figure(l.All), figure(l.Half), model.TimesBeyond(l.Times)), 0)
	}
	replicas, most, cpu, cpuLimit, memory, utilization := p.reasons()
	line("autoscaleEnabled: true")
	value(0, "autoscaleMin", strconv.Itoa(p.Replicas), replicas)
	value(0, "autoscaleMax", strconv.Itoa(p.MaxReplicas), most)
	line("cpu:")
	value(2, "targetAverageUtilization", fmt.Sprintf("%.0f", 100*p.Request.Targets.CPU), utilization)
	line("resources:")
	line("  requests:")
	value(4, "cpu", cores(p.CPURequest), cpu)
	value(4, "memory", mebibytes(p.MemoryRequest), memory)
	line("  limits:")
	value(4, "cpu", cores(p.Cores), cpuLimit)
	value(4, "memory", mebibytes(p.MemoryLimit), "half as much again: at the limit the kernel kills istiod, and all of its proxies reconnect at once")
	p.settings(line)
	for _, group := range []struct {
		title string
		worth bool
	}{{"Levers that would improve this:", true}, {"Levers that bring little here, or miss the target:", false}} {
		levers := slices.DeleteFunc(slices.Clone(p.Levers), func(l Lever) bool { return l.Worth != group.worth })
		if len(levers) > 0 {
			line("#")
			comment(group.title, 0)
		}
		for _, l := range levers {
			comment(l.words(p), 0)
		}
	}
	return b.String()
}

// settings writes the mesh file's settings that differ from istiod's defaults: the prediction
// assumes an istiod that has them.
func (p *Plan) settings(line func(format string, args ...any)) {
	m, usual := p.Request.Mesh, model.Default()
	var env []string
	add := func(name, value string, differs bool) {
		if differs {
			env = append(env, fmt.Sprintf("  %s: %q", name, value))
		}
	}
	add("PILOT_DEBOUNCE_AFTER", spelled(m.DebounceAfter), m.DebounceAfter != usual.DebounceAfter)
	add("PILOT_DEBOUNCE_MAX", spelled(m.DebounceMax), m.DebounceMax != usual.DebounceMax)
	add("PILOT_ENABLE_EDS_DEBOUNCE", "false", m.DirectEndpoints)
	add("PILOT_PUSH_THROTTLE", strconv.Itoa(m.Throttle), m.Throttle > 0)
	add("PILOT_MAX_REQUESTS_PER_SECOND", strconv.FormatFloat(m.ConnectLimit, 'f', -1, 64), m.ConnectLimit > 0)
	if len(env) > 0 {
		line("env: # as in the mesh file; the prediction depends on them\n%s", strings.Join(env, "\n"))
	}
	if m.ConnectionAge != usual.ConnectionAge {
		line("# as in the mesh file, and in the prediction\nkeepaliveMaxServerConnectionAge: %s", spelled(m.ConnectionAge))
	}
}

func cores(v float64) string { return fmt.Sprintf("%.0fm", math.Ceil(v*1000-1e-6)) }

func mebibytes(v float64) string { return fmt.Sprintf("%.0fMi", math.Ceil(v/(1<<20)-1e-6)) }
