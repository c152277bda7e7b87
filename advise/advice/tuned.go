package advice

import (
	"fmt"
	"math"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/observe/signals"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat/tuning"
	"github.com/meshtrial/meshtrial/study"
)

// Careful adds to a tuning how to set its recommended setting, the steps from the current
// setting to it, and what to watch meanwhile.
func Careful(t *record.Tuning) {
	if len(t.Recommended) == 0 {
		return
	}
	for _, f := range controlplane.Levers() {
		to, moves := t.Recommended[f.Name]
		if !moves || partOfSidecar(f.Name, t.Recommended) {
			continue
		}
		from := t.Present[f.Name]
		s := settingOf(f, to, from, usual)
		if f.Name == controlplane.FactorSidecarScope {
			s = sidecar(t.Recommended, namespace)
		}
		t.Settings = append(t.Settings, record.TunedSetting{Lever: f.Name, From: from, To: to, Do: s.do + ".",
			YAML: s.yaml, Back: s.back})
		t.Steps = append(t.Steps, stepsOf(f, from, to, s)...)
	}
	t.Watch = watches(t)
}

// usual is an istiod as installed by Istio's charts.
var usual = &Evidence{}

// partOfSidecar reports whether a lever is a part of the recommended Sidecar resource.
func partOfSidecar(name string, to record.Cell) bool {
	return to[controlplane.FactorSidecarScope] != "" && (name == controlplane.FactorSidecarHosts ||
		name == controlplane.FactorOutboundPolicy)
}

// stepsOf moves one lever from one level to another: numbers by 10 to 30% a step, on/off
// settings in part of the mesh first.
func stepsOf(f study.Factor, from, to string, s setting) []record.TunedStep {
	v, number := f.Value(from)
	w, numbers := f.Value(to)
	if !number || !numbers || v <= 0 || w <= 0 {
		return parts(f, from, to, s)
	}
	integer := f.Unit == "" || f.Name == controlplane.FactorIstiodReplicas
	var out []record.TunedStep
	last, value := from, v
	for _, x := range tuning.Ladder(v, w, integer) {
		level := levelOf(f.Unit, x)
		if x == w {
			level = to
		}
		if level == last {
			continue
		}
		out = append(out, record.TunedStep{Lever: f.Name, From: last, To: level, Share: x/value - 1,
			Do: settingOf(f, level, last, usual).do + ".", Back: settingOf(f, last, level, usual).do + "."})
		last, value = level, x
	}
	return out
}

// parts returns the steps of an on/off setting.
func parts(f study.Factor, from, to string, s setting) []record.TunedStep {
	step := func(do string) record.TunedStep {
		return record.TunedStep{Lever: f.Name, From: from, To: to, Do: do, Back: s.back}
	}
	switch f.Name {
	case controlplane.FactorSidecarScope:
		if to != controlplane.SidecarScopeMesh {
			return []record.TunedStep{step(s.do + ", for 10 to 30% of the workloads concerned at a time.")}
		}
		return []record.TunedStep{
			step("Compare the hosts with what workloads call (`meshtrial assess config --lab cluster --generate DIR`), and" +
				" add what is missing."),
			step("Put the Sidecar into a namespace with 10 to 30% of the sidecars (metadata.namespace is that" +
				" namespace), watch, and go on with the next ones."),
			step("Put it into the root namespace, for all that have none of their own; then delete those."),
		}
	case controlplane.FactorDiscoverySelectors:
		return []record.TunedStep{
			step("Label every namespace that has a workload of the mesh, or a Service that one calls, and list those" +
				" that would be left out."),
			step(s.do + ". It holds for all proxies at once: have the way back ready."),
		}
	}
	if _, number := f.Value(to); number && from != "" {
		return []record.TunedStep{
			step(fmt.Sprintf("Find out which number %s stands for here (istiod's own, or what it uses at its"+
				" busiest), and set %s to that: nothing changes.", from, f.Name)),
			step(fmt.Sprintf("Go from there to %s by 10 to 30%% a step, and watch after each.", to)),
		}
	}
	if _, number := f.Value(from); number {
		return []record.TunedStep{
			step(fmt.Sprintf("Find out which number %s stands for here (istiod's own, or what it uses at its"+
				" busiest), and go there by 10 to 30%% a step; watch after each.", to)),
			step(s.do + "."),
		}
	}
	return []record.TunedStep{step(s.do + ". It has no steps in between: try it where little depends on it, or on" +
		" one revision of istiod, first.")}
}

// watches returns the golden signals to watch, with the values that this run observed.
func watches(t *record.Tuning) []record.TunedWatch {
	before, after, worst := compared(t, "reported_convergence_p99")
	limit := math.Max(1, 2*worst/1e6)
	out := []record.TunedWatch{
		{Signal: "latency: p99 of istiod's own convergence, which leaves debouncing out",
			Query:  signals.Quantile(0.99, "pilot_proxy_convergence_time", "", "5m"),
			Before: before, After: after, Back: fmt.Sprintf("it stays above %s for 10 minutes", spell(limit, seconds))},
		{Signal: "latency: p99 of waiting in the push queue",
			Query: signals.Quantile(0.99, "pilot_proxy_queue_time", "", "5m"),
			Back:  "it grows by more than half from one step to the next"},
		{Signal: "saturation: istiod's CPU", Query: `sum by (pod) (rate(container_cpu_usage_seconds_total{namespace="istio-system",container="discovery"}[5m]))`,
			Back: "a pod uses more than 90% of its CPU limit"},
	}
	before, after, _ = compared(t, "pushes_per_change")
	out = append(out, record.TunedWatch{Signal: "traffic: pushes for each event",
		Query:  "sum(rate(pilot_xds_pushes[10m])) / sum(rate(pilot_inbound_updates[10m]))",
		Before: before, After: after, Back: "after a step it is higher than before it, with as many events"},
		record.TunedWatch{Signal: "errors: configuration that proxies refuse, and writes that time out",
			Query: errorsOf("pilot_total_xds_rejects") + " + " + errorsOf("pilot_xds_write_timeout"),
			Back:  "it is above zero and was zero before"})
	if _, scoped := t.Recommended[controlplane.FactorSidecarScope]; scoped {
		out = append(out, record.TunedWatch{Signal: "errors: requests to hosts that sidecars no longer know",
			Query: `sum by (source_workload) (rate(istio_requests_total{reporter="source",destination_service_name=~"BlackHoleCluster|PassthroughCluster"}[5m]))`,
			Back:  "a workload has some that had none: its Sidecar lacks a host"})
	}
	if _, later := t.Recommended[study.FactorDebounceAfter]; later {
		before, after, _ = compared(t, "phantom_failures")
		out = append(out, record.TunedWatch{Signal: "errors: requests to endpoints that are gone",
			Query:  `sum(rate(istio_requests_total{reporter="source",response_flags=~"UF|UH|URX|UC"}[5m]))`,
			Before: before, After: after, Back: "it rises when pods come and go, beside what it did before the step"})
	}
	return out
}

// errorsOf returns a query over a counter that istiod exports only after its first event:
// zero before that and above zero afterwards, although increase does not count a series'
// initial value.
func errorsOf(counter string) string {
	return fmt.Sprintf("(sum(increase(%[1]s[10m])) or vector(0)) + (sum(%[1]s unless %[1]s offset 10m) or vector(0))",
		counter)
}

// compared returns a finding in the current and in the recommended setting, and the higher
// of their upper bounds.
func compared(t *record.Tuning, name string) (before, after string, worst float64) {
	for _, d := range t.Confirmed {
		if strings.TrimSuffix(d.Name, "_overhead") == name && d.Before.Known && d.After.Known {
			return words.Quantity(d.Before.Estimate, d.Unit), words.Quantity(d.After.Estimate, d.Unit),
				math.Max(d.Before.High, d.After.High)
		}
	}
	return "", "", 0
}
