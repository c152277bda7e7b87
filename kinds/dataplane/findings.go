package dataplane

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/record/probe"
	"github.com/meshtrial/meshtrial/study"
)

// Report sections of data-plane studies.
const (
	SectionBill       = "bill"
	SectionHops       = "hops"
	SectionSaturation = "saturation"
	SectionCPU        = "cpu"
	SectionNodes      = "nodes"
	SectionThreads    = "threads"
	SectionLimits     = "limits"
	SectionMemory     = "memory"
	SectionFits       = "fits"
	SectionVersions   = "versions"
	SectionFilters    = "filters"
)

// Findings of data-plane studies that analysis refers to by name.
const (
	FindingKnee = "knee_rate"
	// FindingIdleNode is the use of a node proxy without requests. FindingNodesNet is the use of
	// the node proxies that requests pass, beyond idle use.
	FindingIdleNode = "cpu_of_idle_node_proxy"
	FindingNodesNet = "cpu_of_node_proxies_net"
)

// Prefixes of finding names about a proxy's threads, each followed by the part
// ("worker_busiest_client_proxy").
const (
	FindingBusiestWorker = "worker_busiest"
	FindingImbalance     = "worker_imbalance"
	FindingWorkerWait    = "worker_wait"
	FindingThrottled     = "throttled"
	FindingInvoluntary   = "involuntary_switches"
	FindingLimit         = "limit"
)

// Infixes of finding names that compare two levels of a factor, between the measure and the other
// level.
const (
	ChangeSince = "_change_since_"
	SavedBy     = "_saved_by_"
)

// findings are the findings of data-plane studies.
var findings = finding.NewTable(savedFindings(), study.LatencyFindings(), waitingFindings(), cpuFindings(), memoryFindings(), threadFindings(),
	probeFindings(), profileFindings(), study.MoneyFindings(), billFindings(), hopFindings(), searchFindings(), fitFindings(), study.SizingFindings(), versusFindings())

func cpuFindings() []finding.Def {
	out := study.OfEach(study.CPUParts, finding.Def{Name: study.FamilyCPU, Unit: finding.UnitPerRequest, Doc: "CPU time of %s for each answered request.",
		Phrase: "the CPU of %s for each request", Probe: study.MeasureCPU, Section: SectionCPU, Differences: finding.SectionOther})
	for i := range out {
		d := &out[i]
		d.Compared, d.Signed = d.Part == record.PartMachine, d.Part == record.PartUnattributed
		d.Context = d.Signed || slices.Contains(study.BesideParts, d.Part)
		d.Decides = d.Part != record.PartControl && !d.Context
	}
	return append(out,
		finding.Def{Name: FindingIdleNode, Unit: finding.UnitMilliCPU, Doc: "CPU of one node proxy while the trial's requests pass none, in a run with cells whose requests do.",
			Probe: study.MeasureCPU, Part: record.PartIdleNode, Section: SectionNodes},
		finding.Def{Name: FindingNodesNet, Unit: finding.UnitPerRequest, Doc: "CPU time per answered request of all node proxies that requests pass, less their idle use in the same block.",
			Probe: study.MeasureCPU, Section: SectionNodes, Signed: true, Net: true})
}

func memoryFindings() []finding.Def {
	return study.OfEach(study.MemoryParts, finding.Def{Name: study.FamilyMemory, Unit: finding.UnitBytes, Doc: "Proportional set size of %s.", Probe: study.MeasureMemory, Section: SectionMemory})
}

// threadFindings returns findings about the threads of each proxy.
func threadFindings() []finding.Def {
	var out []finding.Def
	for _, d := range []finding.Def{
		{Name: FindingBusiestWorker, Unit: finding.UnitRatio, Doc: "On-CPU share of the busiest worker thread of %s."},
		{Name: FindingImbalance, Unit: finding.UnitRatio, Doc: "By how much that exceeds the mean of the workers of %s."},
		{Name: FindingWorkerWait, Unit: finding.UnitRatio, Doc: "Run-queue wait of the workers of %s, as a share of time."},
		{Name: FindingThrottled, Unit: finding.UnitRatio, Doc: "Share of periods in which its CPU limit throttled %s."},
		{Name: FindingInvoluntary, Unit: finding.UnitPerSecond, Doc: "Involuntary context switches of the threads of %s."},
		{Name: FindingLimit, Unit: finding.UnitRatio, Doc: "Bottleneck of %s, with evidence.", Source: finding.FromLimits, Section: SectionLimits},
	} {
		d.Name, d.Probe, d.Section = d.Name+"_%s", study.MeasureThreads, cmp.Or(d.Section, SectionThreads)
		out = append(out, study.OfEach(study.ProxyParts, d)...)
	}
	return out
}

// profileFindings come from profiles of each proxy. Only a run shows which cost centres there are.
func profileFindings() []finding.Def {
	var out []finding.Def
	for _, d := range []finding.Def{
		{Name: FindingProfileCost + "_%s", Unit: finding.UnitRatio, Doc: "Extra CPU of %s while profiled.", Signed: true},
		{Name: FindingProfileNamed + "_%s", Unit: finding.UnitRatio, Doc: "Share of user-space samples of %s with a known function."},
		{Name: FindingCentre + "_%s_*", Unit: finding.UnitRatio, Doc: "A cost centre's share of the CPU time of %s."},
	} {
		d.Probe, d.Section, d.Source = study.MeasureProfile, study.SectionProfiles, finding.FromProfile
		out = append(out, study.OfEach(study.ProxyParts, d)...)
	}
	return out
}

func searchFindings() []finding.Def {
	return []finding.Def{
		{Name: study.Highest + study.FactorRate, Unit: finding.UnitLevel, Doc: "Highest rate that meets a search's bound.", Probe: study.ProbeSearch, Source: finding.FromSearch, Section: SectionSaturation},
		{Name: FindingKnee, Unit: finding.UnitRequestRate, Doc: "Highest rate at which p99 latency stays within twice its value at the lowest rate, by medians over blocks; `high` is the next measured rate, not the end of a confidence interval.", Probe: study.ProbeSearch, Source: finding.FromSearch, Section: SectionSaturation},
		study.HighestFinding(),
	}
}

// A fit is the suffix for names of a line's slope or intercept.
type fit struct {
	end                 string
	cpu, memory         string // their descriptions
	cpuUnit, memoryUnit string
	parts               []string
}

// fitFindings returns a part's idle cost, and its cost per step along a numeric factor. Fits of
// proxies have their own section.
func fitFindings() []finding.Def {
	var out []finding.Def
	for _, part := range study.FitParts {
		for _, one := range fits {
			if !slices.Contains(one.parts, part) {
				continue
			}
			section := finding.SectionOther
			if slices.Contains(study.ProxyParts, part) {
				section = SectionFits
			}
			d := finding.Def{Probe: study.ProbeFit, Source: finding.FromFits, Part: part, Section: section, Signed: true}
			if one.cpu != "" {
				d.Name, d.Unit, d.Row = "cpu_"+part+one.end, one.cpuUnit, one.cpu
				d.Doc, d.FamilyDoc = "For "+study.PartDoc(part)+": "+one.cpu+".", one.cpu+"."
				out = append(out, d)
			}
			if one.memory != "" && slices.Contains(study.ProxyParts, part) {
				d.Name, d.Unit, d.Row = "memory_"+part+one.end, one.memoryUnit, one.memory
				d.Doc, d.FamilyDoc = "For "+study.PartDoc(part)+": "+one.memory+".", strings.ToUpper(one.memory[:1])+one.memory[1:]+"."
				out = append(out, d)
			}
		}
	}
	return out
}

// Suffixes of fits along the rate.
const (
	FitIdle   = "_idle"
	FitSlope  = "_slope"
	FitPerRPS = "_per_rps"
)

var fits = []fit{
	{end: FitIdle, cpu: "CPU without requests, extrapolated", cpuUnit: finding.UnitMilliCPU, memory: "memory without requests, extrapolated", memoryUnit: finding.UnitBytes, parts: study.FitParts},
	{end: FitSlope, cpu: "CPU per additional request", cpuUnit: finding.UnitPerRequest, parts: study.FitParts},
	{end: FitPerRPS, memory: "memory for each request per second", memoryUnit: finding.UnitBytesPerRate, parts: study.ProxyParts},
	perFit("connection", "each connection", study.ProxyParts),
	perFit("cluster", "each cluster configured", []string{record.PartServerProxy}),
	perFit("listener", "each listener configured", []string{record.PartServerProxy}),
	perFit("route", "each route before the one taken", []string{record.PartServerProxy}),
}

// perFit returns a slope along a number of things.
func perFit(one, words string, parts []string) fit {
	return fit{end: "_per_" + one, cpu: "CPU per request for " + words, cpuUnit: "ns/request/" + one, memory: "memory for " + words, memoryUnit: "bytes/" + one, parts: parts}
}

// hopFindings returns the cost breakdown of the request path, by term and measure.
func hopFindings() []finding.Def {
	var out []finding.Def
	for _, term := range (&Hops{Interception: true}).Terms() {
		for _, m := range HopMeasures() {
			unit := finding.UnitPerRequest
			if m == HopP50 || m == HopP99 {
				unit = finding.UnitMicroseconds
			}
			out = append(out, finding.Def{Name: HopFinding(term.Name, m), Unit: unit, Doc: hopDocs[m] + ": " + term.Doc + ".",
				FamilyDoc: "Latency or CPU per request.", Probe: FindingHop, Source: finding.FromHops, Section: SectionHops, Signed: true})
		}
	}
	return out
}

// HopFinding returns the name of the finding of a term in a measure: "hop_tls_latency_p50".
func HopFinding(term, measure string) string { return FindingHop + "_" + term + "_" + measure }

var hopDocs = map[string]string{
	HopP50: "Median latency", HopP99: "99th percentile of latency", HopPods: "CPU of all pods per request", HopKernel: "That in the kernel",
	HopMachine: "CPU of the whole machine per request",
}

// Prefixes of a bill's finding names: what a part adds to the base, and what removing it from the
// whole saves. Each is followed by the priced measure ("bill_cpu", "saved_latency_p50").
const (
	FindingBill  = "bill"
	FindingSaved = "saved"
	// FindingInteraction is the cost of all parts together beyond their sum.
	FindingInteraction = "bill_interaction"
	// FindingBillSum is the sum of the parts' separate costs.
	FindingBillSum = "bill_sum"
)

// Measures that a bill prices.
const (
	BillCPU    = "cpu" // of all proxies; cpu_PROXY is for one
	BillP50    = "latency_p50"
	BillP99    = "latency_p99"
	BillMemory = "memory" // of all proxies, idle
	BillShare  = "share"  // of the CPU of all proxies with the part on
	BillMoney  = "money"  // per month, for the study's mesh
)

// BillCPUOf returns the name of the priced CPU of one proxy.
func BillCPUOf(proxy string) string { return BillCPU + "_" + proxy }

// billMeasure is a measure that a bill prices. general has its words without proxy and percentile.
type billMeasure struct{ name, part, unit, words, general string }

func billMeasures() []billMeasure {
	out := []billMeasure{{BillCPU, "", finding.UnitPerRequest, "the CPU of all proxies per request", ""}}
	for _, p := range record.Proxies {
		out = append(out, billMeasure{BillCPUOf(p.Part), p.Part, finding.UnitPerRequest, "the CPU of " + p.Noun + " per request", "the CPU of the part per request"})
	}
	return append(out, billMeasure{BillP50, "", finding.UnitMicroseconds, "the median latency", "the latency"},
		billMeasure{BillP99, "", finding.UnitMicroseconds, "the 99th percentile of latency", "the latency"}, billMeasure{BillMemory, "", finding.UnitBytes, "the idle memory of all proxies", ""},
		billMeasure{BillShare, "", finding.UnitRatio, "the CPU of the proxies that have it, as a share", ""}, billMeasure{BillMoney, "", finding.UnitMoney, "the section money's month", ""})
}

func billFindings() []finding.Def {
	var out []finding.Def
	add := func(name, part, unit, doc, familyDoc string) {
		out = append(out, finding.Def{Name: name, Part: part, Unit: unit, Doc: doc, FamilyDoc: familyDoc, Probe: FindingBill, Source: finding.FromBill, Section: SectionBill, Signed: true})
	}
	const adds = "What a part of a bill adds to %s."
	for _, m := range billMeasures() {
		add(FindingBill+"_"+m.name, m.part, m.unit, fmt.Sprintf(adds, m.words), fmt.Sprintf(adds, cmp.Or(m.general, m.words)))
		add(FindingSaved+"_"+m.name, m.part, m.unit, "What removing a part from all parts together saves of "+m.words+".", "")
	}
	add(FindingBillSum, "", finding.UnitPerRequest, "Sum of the CPU of the parts that are on together.", "")
	add(FindingInteraction, "", finding.UnitPerRequest, "CPU of all of them together beyond that sum.", "")
	return out
}

// SectionWaiting is the section about the latency added by waiting for a CPU.
const SectionWaiting = "waiting"

// Findings about waiting.
const (
	FindingMean    = "latency_mean"
	FindingWaiting = "latency_waiting"
	FindingService = "latency_service"
)

// waitingFindings divide the mean latency.
func waitingFindings() []finding.Def {
	var out []finding.Def
	for _, one := range []finding.Def{
		{Name: FindingMean, Doc: "Mean latency of answered requests, from intended send time.", Phrase: "the mean latency"},
		{Name: FindingWaiting, Doc: "Run-queue wait per request of the threads that serve requests, in proxies and workload: for an idle CPU to wake up, or a busy one to become free.", Phrase: "the wait for a CPU"},
		{Name: FindingService, Doc: "Mean latency less that wait.", Phrase: "the mean latency without waiting for a CPU"},
	} {
		one.Unit, one.Probe, one.Compared, one.Differences = finding.UnitMicroseconds, study.MeasureLatency, true, SectionWaiting
		one.Context = one.Name == FindingWaiting // a busy machine makes requests wait, whatever keeps it busy
		out = append(out, one)
	}
	return out
}

// versusMeasure is a measure for comparing two levels of a factor.
type versusMeasure struct {
	name, words string
	general     string // words without percentile
	saved       bool   // also used to compare filters
	part        string // the part measured; "" for none
}

var versusMeasures = slices.Concat(
	ofEachProxy("cpu_", "CPU per request of the "),
	[]versusMeasure{{"latency_p50", "median latency", "latency", true, ""}, {"latency_p99", "99th percentile of latency", "latency", false, ""}},
	ofEachProxy("memory_", "memory of the "))

// ofEachProxy returns a measure for each sidecar, used to compare versions and filters; filters
// only use the server's.
func ofEachProxy(name, words string) []versusMeasure {
	var out []versusMeasure
	for _, p := range record.Proxies {
		if p.Place.Shared() {
			continue
		}
		out = append(out, versusMeasure{name + p.Part, words + p.Name, words + p.Name, p.Part == record.PartServerProxy, p.Part})
	}
	return out
}

// VersusMeasures lists the measures for comparing two levels of a factor.
func VersusMeasures() []string {
	out := make([]string, len(versusMeasures))
	for i, m := range versusMeasures {
		out[i] = m.name
	}
	return out
}

// finding defines a comparison with a level. doc has %s for what is measured.
func (m versusMeasure) finding(words, level, doc, section string) finding.Def {
	return finding.Def{Name: m.name + words + level, Unit: finding.UnitRatio, Doc: fmt.Sprintf(doc, m.words), FamilyDoc: fmt.Sprintf(doc, m.general), Row: m.words, Of: m.name, Part: m.part,
		Probe: study.ProbeVersus, Source: finding.FromVersus, Section: section, Signed: true}
}

// savedFindings returns shares of what cells with filters in the server's proxy use that are saved
// without them, or with a Lua script instead, as named by published figures.
func savedFindings() []finding.Def {
	var out []finding.Def
	for _, m := range versusMeasures {
		if m.name == "cpu_server_proxy" || m.name == "latency_p50" {
			out = append(out, m.finding(SavedBy, "none", "Share of the %s saved without the filters.", SectionFilters),
				m.finding(SavedBy, "lua", "Share of the %s saved with a Lua script in the filters' place.", SectionFilters))
		}
	}
	return out
}

// versusFindings returns the relative differences between two levels of a factor.
func versusFindings() []finding.Def {
	var out []finding.Def
	for _, m := range versusMeasures {
		out = append(out, m.finding(ChangeSince, "*", "Share by which the %s grew since that version of Envoy.", SectionVersions))
		if m.saved {
			out = append(out, m.finding(SavedBy, "*", "Share of the %s saved with that filter in the filters' place.", SectionFilters))
		}
	}
	return out
}

// ProbedParts returns the parts of a trial whose pods are probed. A sidecar's pod is that of its
// role.
func ProbedParts() []string {
	out := []string{record.PartGenerator, record.PartWorker}
	for _, p := range record.Proxies {
		if p.Place.Shared() {
			out = append(out, p.Part)
		}
	}
	return out
}

// probeFindings returns what probes count in the pods of parts.
func probeFindings() []finding.Def {
	var out []finding.Def
	for _, p := range probe.All {
		for _, f := range p.Figures {
			for _, part := range ProbedParts() {
				out = append(out, finding.Def{Name: ProbeFinding(f.Name, part), Unit: f.Unit, Words: f.Words + ", " + study.PartDoc(part),
					Doc: strings.Replace(f.Doc, "%s", "the pod of "+study.PartDoc(part), 1), FamilyDoc: strings.Replace(f.Doc, "%s", "the part's pod", 1),
					Probe: p.Name, Part: part, Section: finding.SectionOther, Compared: true, Differences: finding.SectionOther})
			}
		}
	}
	return out
}

// ProbeFinding returns the name of the finding of a probe's figure:
// "network_bytes_worker_per_request".
func ProbeFinding(figure, part string) string { return figure + "_" + part + "_per_request" }
