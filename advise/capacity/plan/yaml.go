package plan

import (
	"fmt"
	"math"
	"strings"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
)

// YAML is a plan as values for Istio's Helm chart istiod, each with its reason.
func (p *Plan) YAML() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	comment := func(text string) {
		for _, l := range wrap(text, 96) {
			line("# %s", l)
		}
	}
	m := p.Request.Mesh
	comment(fmt.Sprintf("Values for Istio's Helm chart istiod: %d proxies, %d services, %s changes per second.", m.Proxies, m.Services, model.Figure(m.Rate, 4)))
	for _, w := range p.Warnings {
		comment("Warning: " + w + ".")
	}
	if l := p.Loss; l != nil {
		if l.Away > 0 {
			comment(fmt.Sprintf("Warning: when a replica is lost, %d of its %d proxies do not have their configuration again after %s s%s.", l.Away, l.Proxies, figure(l.All), model.TimesBeyond(l.Beyond)))
		} else {
			comment(fmt.Sprintf("When a replica is lost, its %d proxies have their configuration again after %s s, half of them after %s s%s.", l.Proxies, figure(l.All), figure(l.Half), model.TimesBeyond(l.Beyond)))
		}
	}
	line("autoscaleEnabled: true")
	reasoned := func(key, value, reason string, indent int) {
		pad := strings.Repeat(" ", indent)
		for _, l := range wrap(p.Reasons[reason], 96-indent) {
			line("%s# %s", pad, l)
		}
		line("%s%s: %s", pad, key, value)
	}
	reasoned("autoscaleMin", fmt.Sprint(p.Replicas), "autoscaleMin", 0)
	reasoned("autoscaleMax", fmt.Sprint(p.MaxReplicas), "autoscaleMax", 0)
	line("cpu:")
	reasoned("targetAverageUtilization", fmt.Sprintf("%.0f", 100*p.Request.Targets.CPU), "targetAverageUtilization", 2)
	line("resources:")
	line("  requests:")
	reasoned("cpu", cores(p.CPURequest), "cpu", 4)
	reasoned("memory", mebibytes(p.MemoryRequest), "memory", 4)
	line("  limits:")
	reasoned("cpu", cores(p.Cores), "cpu limit", 4)
	reasoned("memory", mebibytes(p.MemoryLimit), "memory limit", 4)
	if settings := p.Request.settings(); len(settings) > 0 {
		line("env:")
		line("  # As the mesh file has them: all that is predicted here is of an istiod with these.")
		for _, s := range settings {
			line("  %s: %q", s.Name, s.Value)
		}
	}
	if m.ConnectionAge != model.Default().ConnectionAge {
		comment("As the mesh file has it, and so is all that is predicted here.")
		line("keepaliveMaxServerConnectionAge: %s", spelled(m.ConnectionAge))
	}
	var worth, others []Lever
	for _, l := range p.Levers {
		if l.Worth {
			worth = append(worth, l)
		} else {
			others = append(others, l)
		}
	}
	for _, part := range []struct {
		title  string
		levers []Lever
	}{{"Levers that would change this for the better:", worth}, {"Levers that bring little here, or miss the target:", others}} {
		if len(part.levers) == 0 {
			continue
		}
		line("#")
		comment(part.title)
		for _, l := range part.levers {
			comment(fmt.Sprintf("- %s (%s): %s. Risk: %s.", l.Name, l.Setting, l.Effect, l.Risk))
		}
	}
	return b.String()
}

func cores(v float64) string { return fmt.Sprintf("%.0fm", math.Ceil(v*1000-1e-6)) }

func mebibytes(v float64) string { return fmt.Sprintf("%.0fMi", math.Ceil(v/(1<<20)-1e-6)) }

// wrap breaks a text into lines.
func wrap(text string, width int) []string {
	var out []string
	current := ""
	for _, word := range strings.Fields(text) {
		switch {
		case current == "":
			current = word
		case len(current)+1+len(word) > width:
			out, current = append(out, current), word
		default:
			current += " " + word
		}
	}
	if current != "" {
		out = append(out, current)
	}
	return out
}
