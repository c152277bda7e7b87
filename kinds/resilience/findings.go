package resilience

import (
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/study"
)

// Report sections of resilience studies.
const (
	SectionVerdicts     = "verdicts"
	SectionExpected     = "assertions about trials"
	SectionWindows      = "windows"
	SectionSteps        = "steps"
	SectionArithmetic   = "arithmetic"
	SectionEdgeTraffic  = "traffic between services"
	SectionZones        = "calls by zone"
	SectionGateways     = "gateway pods"
	SectionBalance      = "balance"
	SectionFaults       = "faults"
	SectionUnreconciled = "unreconciled"
	SectionWhole        = "whole trials"
	SectionUse          = "CPU and memory"
	SectionPlanes       = "two control planes"
)

// Parts that findings of resilience studies distinguish by their place in the graph, in addition to
// the proxies of all clients and of all services.
const (
	PartEntryProxy = "entry_proxy" // of the service that the clients call, if it calls others: each request passes it twice
	PartLastProxy  = "last_proxy"  // of services that call no others
	PartIngress    = "ingress"     // the gateway of the graph
)

// Findings of studies in which zones matter: how long callers took to turn away from a zone that a
// step cut off, and the share of calls that left their zone.
const (
	FindingShift     = "time_to_shift"
	FindingCrossZone = "cross_zone_share"
)

// FindingDropped is the number of clients' connections that the gateway dropped.
const FindingDropped = "dropped_connections"

// FindingProxyRequest is the CPU time that a proxy spends per request.
const FindingProxyRequest = "cpu_proxy_per_request"

// partControlPlane names the control plane in finding names.
const partControlPlane = "control_plane"

// partSecond names the control planes of other revisions.
const partSecond = "second_" + partControlPlane

// scenarioFindings are the findings of resilience studies over a whole trial. Figures of single
// windows appear in the report's tables and in assertions.
var scenarioFindings = finding.NewTable(study.OfProbe(study.MeasureLedger, ledgerFindings()[:1]), study.OfProbe(study.MeasureLatency, graphLatencyFindings()), study.OfProbe(study.MeasureLedger, ledgerFindings()[1:]),
	study.OfProbe(study.MeasureCPU, useFindings()), study.OfProbe(study.MeasureMemory, residentFindings()), study.OfProbe(study.MeasureLedger, []finding.Def{planesFinding}), study.OfProbe(study.ProbeMoney, graphMoneyFindings()), podFindings(), study.SizingFindings(), []finding.Def{study.HighestFinding()})

func ledgerFindings() []finding.Def {
	whole := func(name, unit, doc string) finding.Def {
		return finding.Def{Name: name, Unit: unit, Doc: doc, Section: SectionWhole}
	}
	compared := func(name, unit, words, doc string) finding.Def {
		return study.Compared(finding.Def{Name: name, Unit: unit, Words: words, Doc: doc, Section: SectionWhole}, finding.SectionOther)
	}
	return []finding.Def{
		compared("error_share", finding.UnitRatio, "share of requests that failed", "Requests that failed or never ended, as a share of all scheduled."),
		compared("failed_requests", finding.UnitRequests, "", "Requests that failed or never ended."),
		compared("attempt_ratio", finding.UnitAttempts, "attempts per request", "Attempts of the clients' proxies per request."),
		compared("hidden_failures", finding.UnitRequests, "", "Failed attempts that were retried."),
		compared("phantom_attempts", finding.UnitRequests, "attempts to stale endpoints", "Attempts to a stale endpoint."),
		compared("longest_failing_run", finding.UnitMicroseconds, "", "Longest period in which requests were due and none succeeded."),
		whole("time_to_detect", finding.UnitMicroseconds, "From a step's start to the first failure that a client saw: the longest over steps."),
		whole("time_to_recover", finding.UnitMicroseconds, "From a step's start to the last failed request before the next step: the longest over steps."),
		whole("time_to_eject", finding.UnitMicroseconds, "From a step's start until a proxy ejected the endpoint: the longest over steps."),
		whole(FindingShift, finding.UnitMicroseconds, "From the start of a step that cuts a zone off until proxies elsewhere sent the last attempt to it: the longest over steps."),
		compared(FindingCrossZone, finding.UnitRatio, "share of calls that left their zone", "Answered calls whose endpoint was in another zone than the caller's proxy, as a share of all."),
		whole("time_to_move", finding.UnitMicroseconds, "From the start of a step that moves the namespace until each sidecar or shared proxy was connected only to the other revision and had acknowledged its configuration: the longest over steps."),
		whole(FindingDropped, finding.UnitConnections, "Connections of clients that pods of the gateway closed while they were not being stopped, beyond one for each request without keep_alive."),
		{Name: "unreconciled_requests", Unit: finding.UnitRequests, Doc: "Requests whose logs disagree: those of the client, the proxies and the workers.", Section: SectionUnreconciled, Fault: true},
	}
}

// FindingConfigDifferences counts resources that two control planes send differently.
const FindingConfigDifferences = "config_differences"

var planesFinding = finding.Def{Name: FindingConfigDifferences, Unit: finding.UnitResources, Section: SectionPlanes, Context: true,
	Doc: "Resources that control planes of two versions send the same proxies with different contents, or that only one sends."}

// graphLatencyFindings returns the latencies; answers state their differences.
func graphLatencyFindings() []finding.Def {
	var out []finding.Def
	for _, d := range study.LatencyFindings() {
		if d.Name == study.FindingThroughput {
			continue
		}
		d.Doc, d.Section, d.Differences = strings.TrimSuffix(d.Doc, ".")+"; requests that failed or never ended are infinitely late.", SectionWhole, ""
		out = append(out, d)
	}
	return out
}

// Families of findings of resilience studies: one finding per part, in report order.
const (
	FamilyUseCPU    = "cpu_%s"
	FamilyUseMemory = "memory_%s"
)

// usingParts lists the parts whose CPU and memory are both reported.
var usingParts = []string{partControlPlane, partSecond, record.PartNode, record.PartWaypoint, record.PartNodeAgent,
	record.PartClientProxy, record.PartServerProxy, PartIngress, PartEntryProxy, PartLastProxy}

// useFindings returns the CPU usage of parts.
func useFindings() []finding.Def {
	out := study.OfEach(slices.Concat(usingParts, []string{record.PartMachine, record.PartUnattributed}), finding.Def{Name: FamilyUseCPU, Unit: finding.UnitMilliCPU, Doc: "CPU of this part, in millicores; for proxies, the mean per proxy.",
		Section: SectionUse, Compared: true, Differences: finding.SectionOther, Decides: true})
	for i := range out {
		switch d := &out[i]; d.Part {
		case partControlPlane:
			d.Doc, d.Decides = "CPU of the control plane, in millicores.", false
		case partSecond:
			alone(d, "CPU of control planes of other revisions in steps, in millicores over the whole timeline.")
		case record.PartNodeAgent:
			alone(d, "CPU of one pod of the agent that adds pods to the proxies of their nodes, in millicores.")
			d.Context = true
		case record.PartUnattributed:
			alone(d, "CPU used by processes outside the study, in millicores.")
			d.Context, d.Signed = true, true
		}
	}
	return append(out, finding.Def{Name: FindingProxyRequest, Unit: finding.UnitPerRequest, Section: SectionUse, Decides: true,
		Doc: "CPU time a proxy spends per request that passes it: mean over all proxies; with a waypoint, over a call's three passes."})
}

// alone defines a finding that is not compared and that no comparison waits for.
func alone(d *finding.Def, doc string) {
	d.Doc, d.Compared, d.Differences, d.Decides = doc, false, "", false
}

// residentFindings returns the memory of parts.
func residentFindings() []finding.Def {
	out := study.OfEach(usingParts,
		finding.Def{Name: FamilyUseMemory, Unit: finding.UnitBytes, Doc: "Proportional set size per proxy, mean.", Section: SectionUse, Compared: true, Differences: finding.SectionOther})
	for i := range out {
		switch d := &out[i]; d.Part {
		case partControlPlane:
			d.Doc = "Memory of the control plane."
		case partSecond:
			alone(d, "Memory of control planes of other revisions in steps, at their removal or the timeline's end.")
		case record.PartNodeAgent:
			alone(d, "Proportional set size of one pod of the agent that adds pods to the proxies of their nodes.")
			d.Context = true
		}
	}
	return out
}

// graphMoneyFindings returns the findings in money, none of which is compared.
func graphMoneyFindings() []finding.Def {
	var out []finding.Def
	for _, d := range study.MoneyFindings() {
		if d.Source == finding.FromTrials {
			d.Compared, d.Differences = false, ""
			out = append(out, d)
		}
	}
	return out
}
