package plan

import (
	"fmt"
	"strings"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
)

func (p *Plan) explain(worst *model.Prediction) {
	t := p.Request.Targets
	cpu, memory, p99 := p.Prediction.Output(model.OutCPU), worst.Output(model.OutMemory), worst.Output(model.OutConvergenceP99)
	with := fmt.Sprintf("with all %d replicas", p.Replicas)
	if p.Lost != nil {
		with = fmt.Sprintf("with %d of %d replicas away", t.Survives, p.Replicas)
	}
	p.Reasons["autoscaleMin"] = fmt.Sprintf("p99 of convergence is %s s (%s to %s) %s, each with the CPUs of its limit; the target is %s s",
		figure(p99.Estimate), figure(p99.Low), figure(p99.High), with, figure(t.ConvergenceP99))
	if worst.Pairs == 0 {
		p.Reasons["autoscaleMin"] = "no proxy needs any of these changes: replicas are those that must be left when some are lost"
	}
	p.Reasons["autoscaleMax"] = fmt.Sprintf("what %s times as many proxies take", figure(t.Growth)) + model.TimesBeyond(p.Grown.Beyond)
	p.Reasons["cpu"] = fmt.Sprintf("all replicas together use %s cores (%s to %s); at the upper end the request leaves the target of %.0f%%",
		figure(cpu.Estimate), figure(cpu.Low), figure(cpu.High), 100*t.CPU)
	limit := fmt.Sprintf("%g cores", p.Cores)
	if p.Cores == 1 {
		limit = "1 core"
	}
	p.Reasons["cpu limit"] = limit + ": bursts of pushes use all of them, and istiod chooses its push throttle by them"
	if p.CPURequest < p.Cores {
		p.Reasons["cpu limit"] += "; p99 is that of replicas that get them, and only the request is guaranteed: a node that is full makes it longer"
	}
	p.Reasons["memory"] = fmt.Sprintf("a replica takes %s MB (up to %s) %s; a quarter more for peaks", figure(memory.Estimate/1e6), figure(memory.High/1e6), with)
	p.Reasons["memory limit"] = "half as much again: where it is reached the kernel ends istiod, and all of its proxies connect anew at once"
	p.Reasons["targetAverageUtilization"] = "of the request; new replicas take no connections from old ones until these close them, after " + spelled(p.Request.Mesh.ConnectionAge)
	if p.Request.Mesh.ConnectionAge == 0 {
		p.Reasons["targetAverageUtilization"] = "of the request; new replicas take no connections from old ones, since no connection ends by its age"
	}
}

// warn says how far what the plan goes by lies from what was measured, with replicas away
// as it does where these must be survived.
func (p *Plan) warn(worst *model.Prediction) {
	if worst.Extrapolates() {
		p.Warnings = append(p.Warnings, fmt.Sprintf("this mesh lies %s times beyond what was measured: measure a larger one before relying on it", figure(worst.Beyond)))
		p.Warnings = append(p.Warnings, worst.BeyondWhat...)
	}
	p.Warnings = append(p.Warnings, worst.Below...)
	if names := p.Prediction.Assumed; len(names) > 0 {
		p.Warnings = append(p.Warnings, "assumed, not measured: "+strings.Join(names, ", "))
	}
}

// figure is a number as a plan tells it.
func figure(v float64) string { return model.Figure(v, 3) }
