package controlplane

import (
	"fmt"
	"slices"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/study"
)

// Report sections of control-plane studies.
const (
	SectionConvergence   = "convergence"
	SectionEdges         = "edges"
	SectionLevers        = "levers"
	SectionWaterfall     = "waterfall"
	SectionHidden        = "hidden"
	SectionAmplification = "amplification"
	SectionStale         = "stale"
	SectionTraffic       = "traffic"
	SectionRoutes        = "routes"
	SectionAttached      = "attached"
	SectionWire          = "wire"
	SectionConfig        = "config"
	SectionScopeConfig   = "scope config"
	SectionJoin          = "join"
	SectionHoldings      = "holdings"
	SectionCost          = "cost"
	SectionMachine       = "machine"
	SectionRuntime       = "runtime"
	SectionMetrics       = "metrics"
	SectionInstalled     = "installed"
	SectionTuning        = "tuning"
	SectionSidecars      = "sidecars"
	SectionZtunnels      = "ztunnels"
)

// XDSTypes returns the short names of the resource types that findings distinguish, in the order in
// which istiod pushes them.
func XDSTypes() []string {
	return []string{"cds", "eds", "lds", "rds", "sds", "nds", "ecds", "wds", "wads"}
}

// findings are the findings of control-plane studies.
var findings = finding.NewTable(
	study.OfProbe(MeasureConvergence, convergenceFindings()), study.OfProbe(MeasureConvergence, stageFindings()), study.OfProbe(MeasureConvergence, gatewayFindings()), study.OfProbe(MeasureAmplification, amplificationFindings()),
	ofConfig(configFindings()), study.OfProbe(MeasureSidecars, sidecarFindings()), study.OfProbe(MeasureCost, costFindings()), study.OfProbe(MeasureStaleness, stalenessFindings()),
	ztunnelFindings(), study.OfProbe(MeasureConvergence, faultFindings()), study.OfProbe(MeasureRecovery, recoveryFindings()), []finding.Def{study.HighestFinding(), tunedFinding()}, soakFindings())

// tuneNames holds short names for common tuning objectives of istiod operators.
var tuneNames = map[string]string{
	"convergence": "convergence_p99",
	"staleness":   "stale_proxy_seconds_per_change",
	"cpu":         "istiod_cpu_per_change",
	"memory":      "istiod_memory",
	"bytes":       "push_bytes_per_change",
}

// TuneFront lists the findings whose Pareto front a tuning shows, if its trials have them.
var TuneFront = []string{"convergence_p99", "stale_proxy_seconds_per_change", "istiod_cpu_per_change", "pushes"}

// FindingTuned is the effect of a tuning's recommended setting on its objectives.
const FindingTuned = "tuned_objective"

// ProbeTuning is the probe of findings from a tuning's comparison.
const ProbeTuning = "tuning"

func tunedFinding() finding.Def {
	return finding.Def{Name: FindingTuned, Unit: finding.UnitRatio, Probe: ProbeTuning, Source: finding.FromTuning, Section: SectionTuning, Signed: true, Words: "objective of a tuning",
		Doc: "Relative change of the objectives under the recommended setting, in the blocks that compare it with the setting in use."}
}

// Families of findings with one per quantile. Measures that are counted per change take
// [FamilyConvergence] with an edge: convergence_first.
const (
	FamilyConvergence        = "convergence"
	FamilyReceived           = "received"
	FamilyApplied            = "applied"
	FamilyZtunnelConvergence = "ztunnel_convergence"
	FamilyRouteServed        = "route_served"
)

// overChanges defines a time's quantiles over changes. The median, which is compared, has the
// family's name alone and its doc; counted says what the maximum is the slowest of.
func overChanges(median finding.Def, quantiles []record.Quantile, counted string) []finding.Def {
	return finding.AtEach(quantiles, median, func(d *finding.Def) {
		switch d.At {
		case 0.5:
			d.Name, d.Compared = d.Family, true
			return
		case 1:
			d.Doc = "The same for the slowest " + counted + "."
		default:
			d.Doc = fmt.Sprintf("The same at the %s over changes; needs %d of them.", d.At.Words(), d.At.Needs())
		}
		d.Words, d.Differences = "", ""
	})
}

func convergenceFindings() []finding.Def {
	us := func(name, doc, section string) finding.Def {
		return finding.Def{Name: name, Unit: finding.UnitMicroseconds, Doc: doc, Section: section}
	}
	out := finding.AtEach(record.WithMax(), us(FamilyConvergence, "From commit to a proxy's ACK, over all changes and the proxies that acknowledged them, except ztunnels.", ""), func(d *finding.Def) {
		d.Compared = true
		switch d.At {
		case 0.5, 0.99:
			d.Section, d.Differences, d.Decides = SectionConvergence, SectionLevers, true
		case 0.999, 1:
			d.Section = SectionConvergence
		}
	})
	for _, edge := range []struct{ name, doc string }{
		{"first", "Until the first proxy has acknowledged a change"},
		{"median", "Until half of the proxies that need it have"},
		{"last", "Until all proxies that need it have (not reached if one never does)"},
	} {
		out = append(out, overChanges(us(FamilyConvergence+"_"+edge.name, edge.doc+": median over changes.", SectionEdges), record.WithMax(), "change")...)
	}
	out = append(out, finding.AtEach(record.UpTo99(), us(FamilyReceived, "From commit until a proxy has received the change, over those that have.", ""), func(*finding.Def) {})...)
	out = append(out, finding.AtEach(record.WithMax(), us(FamilyApplied, "From commit until the change is active in a real Envoy, by polling its admin interface.", ""), func(d *finding.Def) {
		switch d.At {
		case 0.5, 0.99, 1:
			d.Section = SectionConvergence
		}
	})...)
	reported := us("reported_convergence_p99", "istiod's own pilot_proxy_convergence_time, by histogram_quantile.", SectionHidden)
	reported.Words = "istiod's own p99 convergence"
	hidden := us("hidden_convergence_p99", "What istiod's own figure omits: convergence_p99 less reported_convergence_p99.", SectionHidden)
	hidden.Words, hidden.Signed = "hidden by istiod's own p99 convergence", true
	return append(out, study.Compared(reported, ""), hidden)
}

// ztunnelFindings returns findings about the simulated ztunnels. Their pushes, bytes and missed
// changes are part of the other findings.
func ztunnelFindings() []finding.Def {
	out := finding.AtEach(record.UpTo99(), finding.Def{Name: FamilyZtunnelConvergence, Unit: finding.UnitMicroseconds, Section: SectionZtunnels,
		Doc: "From commit to a ztunnel's ACK, over all changes and the ztunnels that acknowledged them; convergence excludes ztunnels."}, func(d *finding.Def) {
		d.Words, d.Compared = d.At.Head()+" convergence of ztunnels", d.At == 0.5 || d.At == 0.99
	})
	return slices.Concat(study.OfProbe(MeasureConvergence, out),
		study.OfProbe(MeasureAmplification, []finding.Def{
			{Name: "ztunnel_pushes_per_change", Unit: finding.UnitPushesPerChange, Doc: "Responses that ztunnels received per committed change.", Words: "pushes to ztunnels per change", Section: SectionZtunnels},
			study.Compared(finding.Def{Name: "ztunnel_bytes_per_change", Unit: finding.UnitBytesPerChange, Doc: "Bytes that ztunnels received per committed change.", Words: "bytes received by ztunnels per change", Section: SectionZtunnels}, ""),
		}),
		ofConfig([]finding.Def{
			study.Compared(finding.Def{Name: "ztunnel_config_bytes", Unit: finding.UnitBytes, Doc: "A ztunnel's configuration (workloads, Services and policies): median over ztunnels.", Words: "configuration of a ztunnel", Section: SectionZtunnels}, ""),
		}))
}

// ofConfig assigns findings to measure config; their values are exact.
func ofConfig(defs []finding.Def) []finding.Def {
	for i := range defs {
		defs[i].Exact = true
	}
	return study.OfProbe(MeasureConfig, defs)
}

func stageFindings() []finding.Def {
	var out []finding.Def
	for _, s := range record.Stages() {
		out = append(out, finding.Def{Name: "stage_" + s, Unit: finding.UnitMicroseconds, Doc: "Mean duration of this stage.", Section: SectionWaterfall, Signed: true})
	}
	return append(out,
		finding.Def{Name: "stage_residual", Unit: finding.UnitMicroseconds, Section: SectionWaterfall, Signed: true, Context: true,
			Doc: "Mean from commit to ACK, less the sum of the stages: unmeasured time, and disagreement between istiod's timers and its log."},
		finding.Def{Name: "stage_residual_share", Unit: finding.UnitRatio, Section: SectionWaterfall, Context: true,
			Doc: "Share of change-proxy pairs that differ from the sum of their stages by more than " + record.ResidualRule("their time") + "; in stage_residual such errors cancel."})
}

// byType returns a finding for each resource type.
func byType(d finding.Def) []finding.Def {
	var out []finding.Def
	for _, t := range XDSTypes() {
		one := d
		one.Name += "_" + t
		out = append(out, one)
	}
	return out
}

func amplificationFindings() []finding.Def {
	out := []finding.Def{study.Compared(finding.Def{Name: "pushes", Unit: finding.UnitPushes, Doc: "istiod's pilot_xds_pushes in the window, all types.", Section: SectionAmplification}, SectionLevers)}
	out = append(out, byType(finding.Def{Name: "pushes", Unit: finding.UnitPushes, Doc: "The same for one type."})...)
	return append(out,
		study.Compared(finding.Def{Name: "pushes_per_change", Unit: finding.UnitPushesPerChange, Doc: "Pushes per committed change.", Words: "pushes per change", Section: SectionAmplification}, ""),
		study.Compared(finding.Def{Name: "pushed_bytes_per_change", Unit: finding.UnitBytesPerChange, Doc: "Bytes of the resources that istiod pushed per committed change, to simulated and real proxies: its pilot_xds_config_size_bytes.", Words: "bytes pushed per change"}, ""),
		study.Compared(finding.Def{Name: "push_bytes_per_change", Unit: finding.UnitBytesPerChange, Doc: "Bytes that simulated proxies received per committed change.", Words: "bytes received per change", Section: SectionAmplification}, SectionLevers),
		finding.Def{Name: "identical_share", Unit: finding.UnitRatio, Doc: "Share of those bytes in resources that the proxy already had unchanged.", Section: SectionAmplification})
}

func configFindings() []finding.Def {
	bytes := func(name, doc, words, section string) finding.Def {
		return finding.Def{Name: name, Unit: finding.UnitBytes, Doc: doc, Words: words, Section: section}
	}
	out := []finding.Def{study.Compared(bytes("config_bytes", "A proxy's configuration: median over proxies.", "configuration of a proxy", SectionConfig), SectionLevers)}
	out = append(out, byType(bytes("config_bytes", "The same for one type.", "", SectionConfig))...)
	out = append(out, bytes("scope_config_bytes", "A proxy's configuration in scope_namespace: median over those proxies.", "configuration of a proxy in the scope's namespace", SectionScopeConfig))
	out = append(out, byType(bytes("scope_config_bytes", "The same for one type.", "", SectionScopeConfig))...)
	out = append(out, finding.Def{Name: "join_time", Unit: finding.UnitMicroseconds, Words: "time until a new proxy has its configuration", Section: SectionJoin,
		Doc: "From the first request of a new proxy in scope_namespace to the last response of its first configuration."},
		bytes("join_bytes", "Bytes that this proxy received.", "received by a new proxy", SectionJoin))
	for _, t := range XDSTypes() {
		out = append(out, bytes("join_bytes_"+t, "The same for one type.", "", SectionJoin),
			finding.Def{Name: "join_resources_" + t, Unit: finding.UnitResources, Doc: "Resources in those responses."})
	}
	return append(out,
		finding.Def{Name: "join_cache_hit_share", Unit: finding.UnitRatio, Words: "found in istiod's cache for a new proxy",
			Doc: "Hit ratio of istiod's cache meanwhile; needs PILOT_XDS_CACHE_STATS."},
		finding.Def{Name: "xds_cache_hit_share", Unit: finding.UnitRatio, Doc: "The same in the window.", Words: "found in istiod's cache", Section: finding.SectionOther},
		bytes("config_dump_bytes", "Config dump of a real sidecar in scope_namespace, JSON, without endpoints; needs real_pods.", "config dump of a real sidecar", finding.SectionOther))
}

func costFindings() []finding.Def {
	return []finding.Def{
		study.Compared(finding.Def{Name: "istiod_cpu_per_change", Unit: finding.UnitPerChange, Words: "istiod CPU per change", Section: SectionCost, Signed: true, Net: true, Decides: true,
			Doc: "istiod's CPU time in the window, net of idle use (median of the cell's trials, its error included), per committed change."}, SectionLevers),
		study.Compared(finding.Def{Name: "istiod_cpu_idle", Unit: finding.UnitCores, Doc: "istiod's CPU before the first change, with all proxies connected.", Words: "istiod CPU idle", Section: SectionCost}, ""),
		study.Compared(finding.Def{Name: "istiod_memory", Unit: finding.UnitBytes, Doc: "istiod's memory at the end of the window.", Section: SectionCost}, SectionLevers),
		{Name: "istiod_heap", Unit: finding.UnitBytes, Doc: "Memory in use on istiod's heap at the end of the window.", Section: SectionRuntime},
		{Name: "istiod_goroutines", Unit: finding.UnitGoroutines, Doc: "istiod's goroutines at the end of the window.", Section: SectionRuntime},
		study.Compared(finding.Def{Name: "alloc_bytes_per_change", Unit: finding.UnitBytesPerChange, Doc: "Bytes istiod allocated per committed change.", Words: "bytes allocated per change", Section: SectionRuntime}, ""),
		{Name: "alloc_bytes_per_second", Unit: finding.UnitBytesPerSecond, Doc: "Bytes istiod allocated per second in the window.", Section: SectionRuntime},
		study.Compared(finding.Def{Name: "apiserver_cpu_per_change", Unit: finding.UnitPerChange, Words: "API server CPU per change", Section: SectionCost, Signed: true, Net: true,
			Doc: "kube-apiserver's CPU time in the window, net of idle use (median of the cell's trials, its error included), per committed change."}, ""),
		{Name: "apiserver_cpu_idle", Unit: finding.UnitCores, Doc: "kube-apiserver's CPU before the first change.", Section: SectionCost, Signed: true},
		{Name: "simulator_cpu_share", Unit: finding.UnitRatio, Doc: "CPU time of the simulated proxies over istiod's.", Section: SectionCost, Context: true},
	}
}

// sidecarFindings returns findings about a real sidecar without requests, and its two processes.
func sidecarFindings() []finding.Def {
	var out []finding.Def
	for _, when := range []struct{ name, words, doc string }{
		{"idle", "idle", "while nothing changes in the mesh"},
		{"changing", "while the mesh changes", "while the cell's changes are made and pushed"},
	} {
		def := func(of, what, unit, words, doc string) finding.Def {
			return finding.Def{Name: of + "_" + what + "_" + when.name, Unit: unit, Words: words + " " + when.words, Section: SectionSidecars, Doc: doc}
		}
		cpu := study.Compared(def("sidecar", "cpu", finding.UnitMilliCPU, "CPU of a sidecar", "CPU of a real sidecar without requests "+when.doc+", Envoy and agent: mean over sidecars."), SectionLevers)
		memory := study.Compared(def("sidecar", "memory", finding.UnitBytes, "memory of a sidecar", "Its memory at the end of that time: proportional set size."), SectionLevers)
		cpu.Decides, memory.Decides = when.name == "idle", when.name == "idle"
		out = append(out, cpu,
			def("envoy", "cpu", finding.UnitMilliCPU, "CPU of a sidecar's Envoy", "The same for its Envoy alone."),
			def("agent", "cpu", finding.UnitMilliCPU, "CPU of a sidecar's agent", "The same for its agent alone."),
			memory,
			def("envoy", "memory", finding.UnitBytes, "memory of a sidecar's Envoy", "The same for its Envoy alone."),
			def("agent", "memory", finding.UnitBytes, "memory of a sidecar's agent", "The same for its agent alone."))
	}
	return append(out, study.Compared(finding.Def{Name: "sidecar_cpu_per_change", Unit: finding.UnitPerChange, Words: "CPU of a sidecar per change", Section: SectionSidecars, Signed: true, Net: true,
		Doc: "CPU time of a real sidecar without requests, net of idle use, per committed change, whether it needs the change or not."}, SectionLevers))
}

func stalenessFindings() []finding.Def {
	requests := func(name, doc, words string) finding.Def {
		return finding.Def{Name: name, Unit: finding.UnitRequests, Doc: doc, Words: words, Section: SectionTraffic}
	}
	share := func(name, words string) finding.Def {
		return finding.Def{Name: name, Unit: finding.UnitRatio, Doc: "Their share of all requests.", Words: words, Section: SectionTraffic}
	}
	residual := requests("traffic_residual", "Failures seen by the generator but not by the caller's sidecar, per trial.", "failures of real requests unknown to the sidecar")
	residual.Signed, residual.Context = true, true
	return []finding.Def{
		study.Compared(finding.Def{Name: "stale_proxy_seconds_per_change", Unit: finding.UnitSecondsPerChange, Words: "stale proxy-seconds per change", Section: SectionStale,
			Doc: "Time that proxies kept stale endpoints, per committed change; ztunnels are left out."}, SectionLevers),
		study.Compared(requests("phantom_requests", "Real requests with an attempt at a stale endpoint, per trial.", "requests to stale endpoints"), SectionLevers),
		share("phantom_share", "share of requests to stale endpoints"),
		study.Compared(requests("phantom_failures", "Those of them that failed for the caller, per trial.", "requests that failed at stale endpoints"), SectionLevers),
		share("phantom_failure_share", "share of requests that failed at stale endpoints"),
		requests("phantom_hidden", "Those that failed at a stale endpoint and succeeded by the sidecar's retry, per trial.", "requests to stale endpoints, saved by a retry"),
		study.Compared(finding.Def{Name: "phantom_last", Unit: finding.UnitMicroseconds, Words: "last request to an endpoint after its removal", Section: SectionTraffic,
			Doc: "Time from an endpoint's removal to the last attempt at it: the longest of a trial."}, ""),
		study.Compared(requests("traffic_failures", "Real requests that failed for the caller for any reason, or never completed, per trial.", "real requests that failed"), ""),
		{Name: "traffic_latency_p99", Unit: finding.UnitMicroseconds, Doc: "99th percentile of the latency of answered real requests, from intended send time; not reached if over 1% failed or never ended.", FamilyDoc: "Latency of answered real requests.", Words: "p99 latency of real requests", Section: SectionTraffic},
		residual,
	}
}

func faultFindings() []finding.Def {
	return []finding.Def{
		{Name: "missed", Unit: finding.UnitMissed, Doc: "Change-proxy pairs where the proxy needed the change and never got it, per trial.", Words: "changes that proxies never saw", Section: finding.SectionOther, Fault: true},
		{Name: "unacked", Unit: finding.UnitMissed, Doc: "Change-proxy pairs sent but never acknowledged, per trial.", Words: "changes never acknowledged", Section: finding.SectionOther, Fault: true},
		{Name: "failed_changes", Unit: finding.UnitChanges, Doc: "Changes that the API server rejected, per trial.", Words: "refused changes", Section: finding.SectionOther, Fault: true},
	}
}

// Measures of control-plane studies.
const (
	MeasureConvergence   = "convergence"
	MeasureCost          = "cost"
	MeasureConfig        = "config"
	MeasureAmplification = "amplification"
	MeasureStaleness     = "staleness"
	MeasureSignals       = "signals"
	MeasureSidecars      = "sidecars"
	MeasureRecovery      = "recovery" // effects of a disruption, and the recovery from it
)
