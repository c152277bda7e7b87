package study

import (
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
)

// FindingNames lists the findings of all kinds that a stop rule, a published figure or an assertion
// can name.
func FindingNames() []string { return ofAnyKind(Kind.FindingNames) }

// FindingNames lists the findings of the kind that a study file can name.
func (k Kind) FindingNames() []string {
	return slices.DeleteFunc(k.Findings().Names(), func(name string) bool { return !reached(k.Findings().Must(name)) })
}

// reached reports whether studies can have a finding. It excludes findings about a proxy that
// requests pass in no mesh.
func reached(d finding.Def) bool {
	_, proxy := record.ProxyOf(d.Part)
	return !proxy || slices.ContainsFunc(carriers(""), func(c Carrier) bool { return c.Way.Has(d.Part) || c.Way.OnOneNode().Has(d.Part) })
}

// IsFinding reports whether any kind of study has a finding by this name.
func IsFinding(name string) bool {
	return slices.ContainsFunc(Kinds(), func(p Kind) bool {
		_, ok := p.Findings().Find(name)
		return ok
	})
}

// UnitOf returns the unit of a finding in this study, with the currency for money.
func (s *Study) UnitOf(d finding.Def) string {
	if d.Unit == finding.UnitMoney {
		return s.MoneyUnit()
	}
	return d.Unit
}

// inMoney reports whether a finding is an amount of money.
func (s *Study) inMoney(name string) bool {
	d, _ := s.Kind.Findings().Find(name)
	return d.Unit == finding.UnitMoney
}

// scaleTo returns the size of a unit in the finding's own unit, and that unit.
func (s *Study) scaleTo(name, unit string) (one float64, own string, c *Error) {
	d, _ := s.Kind.Findings().Find(name)
	own = s.UnitOf(d)
	one, ok := finding.Scale(own, unit)
	if !ok {
		return 0, own, Complain(CodeUnit, "possible: "+strings.Join(finding.Scales(own), ", "), "%q is not a unit", Clip(unit, 40))
	}
	return one, own, nil
}

// OfProbe assigns findings to a measure.
func OfProbe(probe string, defs []finding.Def) []finding.Def {
	for i := range defs {
		defs[i].Probe = probe
	}
	return defs
}

// Compared marks a finding as compared, with the section that shows its differences.
func Compared(d finding.Def, differences string) finding.Def {
	d.Compared, d.Differences = true, differences
	return d
}

// Report sections shared by several kinds.
const (
	SectionMoney    = "money"
	SectionLatency  = "latency"
	SectionTail     = "tail"
	SectionProfiles = "profiles"
)

// Probes of findings that belong to no measure of a study.
const (
	ProbeMoney      = "money"
	ProbeThroughput = "throughput"
	ProbeFit        = "fit"
	ProbeSearch     = "search"
	ProbeVersus     = "versus"
	ProbeSizing     = "sizing"
)

// Highest is the prefix of search results: highest_proxies.
const Highest = "highest_"

// Parts of a trial that findings distinguish, in report order.
var (
	ProxyParts  = record.ProxyParts()
	BesideParts = []string{record.PartIdleNode, record.PartNodeAgent, record.PartSink}
	ownParts    = slices.Concat(ProxyParts, []string{record.PartGenerator, record.PartWorker, record.PartControl})
	MemoryParts = slices.Concat(ownParts, BesideParts)
	FitParts    = slices.Concat(ownParts, []string{record.PartMachine})
	CPUParts    = slices.Concat(FitParts, []string{record.PartUnattributed}, BesideParts)
)

// Families of findings: one per percentile, or per part at %s.
const (
	FamilyLatency = "latency"
	FamilyCPU     = "cpu_%s_per_request"
	FamilyMemory  = "memory_%s"
)

// OfEach defines a finding for each part. The family is d's name, with %s for the part; in its
// other words %s stands for the part's noun.
func OfEach(parts []string, d finding.Def) []finding.Def {
	var out []finding.Def
	for _, part := range parts {
		one, noun := d, PartDoc(part)
		one.Family, one.Name, one.Part = d.Name, strings.Replace(d.Name, "%s", part, 1), part
		one.FamilyDoc = strings.Replace(d.Doc, "%s", "the part", 1)
		one.Doc, one.Phrase = strings.Replace(d.Doc, "%s", noun, 1), strings.Replace(d.Phrase, "%s", noun, 1)
		out = append(out, one)
	}
	return out
}

// PartDoc names a part in a sentence of the reference.
func PartDoc(part string) string {
	if p, ok := record.ProxyOf(part); ok {
		return p.Noun
	}
	return map[string]string{record.PartGenerator: "the load generator", record.PartWorker: "the workload",
		record.PartControl: "the control plane", record.PartMachine: "the whole machine", record.PartUnattributed: "whoever is no part of the study",
		record.PartIdleNode: "the proxies of the trial's nodes that its requests do not pass", record.PartNodeAgent: "what brings pods to the proxies of those nodes",
		record.PartSink: "the service that proxies ask or tell about requests"}[part]
}

// FindingThroughput is the throughput where the rate is max.
const FindingThroughput = "throughput"

// LatencyFindings returns the latencies, and the throughput where the rate is max.
func LatencyFindings() []finding.Def {
	out := finding.AtEach(record.Percentiles(), finding.Def{Name: FamilyLatency, Unit: finding.UnitMicroseconds, Doc: "Latency, from intended send time.",
		Probe: MeasureLatency, Section: SectionLatency, Compared: true, Differences: SectionTail}, func(d *finding.Def) {
		d.Doc, d.Phrase = d.At.Words()+" of latency, from intended send time.", "the "+d.At.Head()+" latency"
		if d.At == 0.5 {
			d.Doc, d.Phrase, d.Differences, d.Decides = "Median latency, from intended send time.", "the median latency", SectionLatency, true
		}
	})
	return append(out, finding.Def{Name: FindingThroughput, Unit: finding.UnitThroughput, Doc: "Requests answered per second, where the rate is `max`.",
		Probe: ProbeThroughput, Section: finding.SectionOther, MoreIsBetter: true})
}

// MoneyFindings returns the needs and costs of the proxies in the mesh of section money.
func MoneyFindings() []finding.Def {
	out := []finding.Def{
		{Name: FindingMoneyCores, Unit: finding.UnitCores, Doc: "Cores used by the proxies of the mesh in section money."},
		{Name: FindingMoneyCPU, Unit: finding.UnitMoney, Doc: "Monthly cost of those cores."},
		{Name: FindingMoneyMemory, Unit: finding.UnitMoney, Doc: "Monthly cost of the proxies' memory."},
		{Name: FindingMoneyMonth, Unit: finding.UnitMoney, Doc: "Both."},
	}
	for i := range out {
		out[i].Probe, out[i].Section, out[i].Compared, out[i].Differences = ProbeMoney, SectionMoney, true, SectionMoney
	}
	return append(out, finding.Def{Name: FindingMoneyFit, Unit: finding.UnitMoney, Doc: "Cost of CPU by the fitted line: the slope for each request, the intercept for each proxy.",
		Probe: ProbeMoney, Source: finding.FromFits, Section: SectionMoney})
}

// HighestFinding returns the result of a search along any factor.
func HighestFinding() finding.Def {
	return finding.Def{Name: Highest + "*", Unit: finding.UnitLevel, Doc: "Highest level of a factor that meets a search's bound.", Probe: ProbeSearch, Source: finding.FromSearch, Section: finding.SectionOther}
}
