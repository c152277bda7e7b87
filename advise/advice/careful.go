package advice

import (
	"fmt"
	"math"
	"strings"

	"github.com/meshtrial/meshtrial/advise/tuning"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Careful fills in how the setting that a tuning recommends is set, the steps from the
// one in use to it, and what to watch meanwhile.
func Careful(t *record.Tuning) {
	if len(t.Recommended) == 0 {
		return
	}
	for _, f := range study.Levers() {
		to, moves := t.Recommended[f.Name]
		if !moves || ofSidecar(f.Name, t.Recommended) {
			continue
		}
		from := t.Present[f.Name]
		s := settingOf(f, to, &Evidence{})
		if f.Name == study.FactorSidecarScope {
			s = sidecarOf(t.Recommended)
		}
		t.Settings = append(t.Settings, record.TunedSetting{Lever: f.Name, From: from, To: to, Do: s.words + ".", YAML: s.yaml, Back: s.back(f, from)})
		t.Steps = append(t.Steps, stepsOf(f, from, to, s)...)
	}
	t.Watch = watches(t)
}

// ofSidecar are levers that are parts of a Sidecar resource where there is one.
func ofSidecar(name string, to record.Cell) bool {
	return to[study.FactorSidecarScope] != "" && (name == study.FactorSidecarHosts || name == study.FactorOutboundPolicy)
}

// AnyNamespace stands in manifests for each namespace that a setting concerns.
const AnyNamespace = "NAMESPACE"

// sidecarOf is the Sidecar resource of a setting.
func sidecarOf(to record.Cell) setting {
	scope := to[study.FactorSidecarScope]
	if scope == study.SidecarScopeNone {
		return setting{words: "Delete the Sidecar resources", yaml: ""}
	}
	namespace, hosts := "istio-system", to[study.FactorSidecarHosts]
	if hosts == "" {
		hosts = "./*,istio-system/*"
	}
	var b strings.Builder
	b.WriteString("# kubectl apply -f FILE; add each host of another namespace that workloads call\napiVersion: networking.istio.io/v1\nkind: Sidecar\n")
	if scope != study.SidecarScopeMesh {
		namespace = AnyNamespace
	}
	fmt.Fprintf(&b, "metadata: {name: default, namespace: %s}\nspec:\n", namespace)
	if scope == study.SidecarScopeWorkload {
		b.WriteString("  workloadSelector: {labels: {app: WORKLOAD}}\n")
	}
	if policy := to[study.FactorOutboundPolicy]; policy != "" {
		fmt.Fprintf(&b, "  outboundTrafficPolicy: {mode: %s}\n", policy)
	}
	b.WriteString("  egress:\n  - hosts:\n")
	for host := range strings.SplitSeq(hosts, ",") {
		fmt.Fprintf(&b, "    - %q\n", strings.TrimSpace(host))
	}
	return setting{words: "Give proxies the configuration that they need by a Sidecar resource of scope " + scope, yaml: b.String(),
		undo: func(string) string { return "kubectl -n " + namespace + " delete sidecar default" }}
}

// stepsOf is the way of one lever from a level to another: numbers by 10 to 30% a step,
// what is on or off for a part of the mesh first.
func stepsOf(f study.Factor, from, to string, s setting) []record.TunedStep {
	v, number := f.Value(from)
	w, numbers := f.Value(to)
	if !number || !numbers || v <= 0 || w <= 0 {
		return parts(f, from, to, s)
	}
	whole := f.Unit == "" || f.Name == study.FactorIstiodReplicas
	var out []record.TunedStep
	last, at := from, v
	for _, x := range tuning.Ladder(v, w, whole) {
		level := levelOf(f, x)
		if x == w {
			level = to
		}
		if level == last {
			continue
		}
		back := settingOf(f, last, &Evidence{})
		out = append(out, record.TunedStep{Lever: f.Name, From: last, To: level, Share: x/at - 1,
			Do: settingOf(f, level, &Evidence{}).words + ".", Back: back.words + "."})
		last, at = level, x
	}
	return out
}

// parts are the steps of a setting that is on or off.
func parts(f study.Factor, from, to string, s setting) []record.TunedStep {
	step := func(do string) record.TunedStep {
		return record.TunedStep{Lever: f.Name, From: from, To: to, Do: do, Back: s.back(f, from)}
	}
	switch f.Name {
	case study.FactorSidecarScope:
		if to != study.SidecarScopeMesh {
			return []record.TunedStep{step(s.words + ", for 10 to 30% of the workloads concerned at a time.")}
		}
		return []record.TunedStep{
			step("Compare the hosts with what workloads call (`meshtrial scope --lab cluster --generate DIR`), and add what is missing."),
			step("Put the Sidecar into a namespace with 10 to 30% of the sidecars (metadata.namespace is that namespace), watch, and go on with the next ones."),
			step("Put it into the root namespace, for all that have none of their own; then delete those."),
		}
	case study.FactorDiscoverySelectors:
		return []record.TunedStep{
			step("Label every namespace that has a workload of the mesh, or a Service that one calls, and list those that would be left out."),
			step(s.words + ". It holds for all proxies at once: have the way back ready."),
		}
	}
	if _, number := f.Value(to); number && from != "" {
		return []record.TunedStep{
			step(fmt.Sprintf("Find out which number %s stands for here (istiod's own, or what it uses at its busiest), and set %s to that: nothing changes.", from, f.Name)),
			step(fmt.Sprintf("Go from there to %s by 10 to 30%% a step, and watch after each.", to)),
		}
	}
	if _, number := f.Value(from); number {
		return []record.TunedStep{
			step(fmt.Sprintf("Find out which number %s stands for here (istiod's own, or what it uses at its busiest), and go there by 10 to 30%% a step; watch after each.", to)),
			step(s.words + "."),
		}
	}
	return []record.TunedStep{step(s.words + ". It has no steps in between: try it where little depends on it, or on one revision of istiod, first.")}
}

// watches are the golden signals to look at, with what this run saw of them.
func watches(t *record.Tuning) []record.TunedWatch {
	before, after, worst := seen(t, "reported_convergence_p99")
	limit := math.Max(1, 2*worst/1e6)
	out := []record.TunedWatch{
		{Signal: "latency: p99 of istiod's own convergence, which leaves debouncing out", Query: p99Of("pilot_proxy_convergence_time"),
			Before: before, After: after, Back: fmt.Sprintf("it stays above %s for 10 minutes", spell(limit, "s"))},
		{Signal: "latency: p99 of waiting in the push queue", Query: p99Of("pilot_proxy_queue_time"),
			Back: "it grows by more than half from one step to the next"},
		{Signal: "saturation: istiod's CPU", Query: `sum by (pod) (rate(container_cpu_usage_seconds_total{namespace="istio-system",container="discovery"}[5m]))`,
			Back: "a pod uses more than 90% of its CPU limit"},
	}
	before, after, _ = seen(t, "pushes_per_change")
	out = append(out, record.TunedWatch{Signal: "traffic: pushes for each event", Query: "sum(rate(pilot_xds_pushes[10m])) / sum(rate(pilot_inbound_updates[10m]))",
		Before: before, After: after, Back: "after a step it is higher than before it, with as many events"},
		record.TunedWatch{Signal: "errors: configuration that proxies refuse, and writes that time out", Query: errorsOf("pilot_total_xds_rejects") + " + " + errorsOf("pilot_xds_write_timeout"),
			Back: "it is above zero and was zero before"})
	if _, scoped := t.Recommended[study.FactorSidecarScope]; scoped {
		out = append(out, record.TunedWatch{Signal: "errors: requests to hosts that sidecars no longer know", Query: `sum by (source_workload) (rate(istio_requests_total{reporter="source",destination_service_name=~"BlackHoleCluster|PassthroughCluster"}[5m]))`,
			Back: "a workload has some that had none: its Sidecar lacks a host"})
	}
	if _, later := t.Recommended[study.FactorDebounceAfter]; later {
		before, after, _ = seen(t, "phantom_failures")
		out = append(out, record.TunedWatch{Signal: "errors: requests to endpoints that are gone", Query: `sum(rate(istio_requests_total{reporter="source",response_flags=~"UF|UH|URX|UC"}[5m]))`,
			Before: before, After: after, Back: "it rises when pods come and go, beside what it did before the step"})
	}
	return out
}

// p99Of is a query over a histogram, whether Prometheus stores it as series or natively.
func p99Of(histogram string) string {
	return fmt.Sprintf("histogram_quantile(0.99, sum by (le) (rate(%[1]s_bucket[5m]))) or histogram_quantile(0.99, sum(rate(%[1]s[5m])))", histogram)
}

// errorsOf is a query over a counter that istiod exports from its first event on: zero
// before that, and above zero from then on, though increase takes what a series begins
// with for nothing new.
func errorsOf(counter string) string {
	return fmt.Sprintf("(sum(increase(%[1]s[10m])) or vector(0)) + (sum(%[1]s unless %[1]s offset 10m) or vector(0))", counter)
}

// seen is what the comparison saw of a finding in the setting in use and in the
// recommended one, and the higher upper bound of both.
func seen(t *record.Tuning, name string) (before, after string, worst float64) {
	for _, d := range t.Confirmed {
		if strings.TrimSuffix(d.Name, "_overhead") == name && d.Before.Known && d.After.Known {
			return words.Quantity(d.Before.Estimate, d.Unit), words.Quantity(d.After.Estimate, d.Unit), math.Max(d.Before.High, d.After.High)
		}
	}
	return "", "", 0
}
