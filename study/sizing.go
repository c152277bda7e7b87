package study

import (
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/stat/sizing"
)

// Findings of what the proxies of the mesh in section sizing take.
const (
	FindingSizedCores  = "sized_cores"
	FindingSizedMemory = "sized_memory"
	FindingSizedMonth  = "sized_month"
)

// FactorReplicas is how many pods each service of a graph has.
const FactorReplicas = "replicas"

// SectionSizing is the section that sets ways of carrying requests side by side in a
// stated mesh.
const SectionSizing = "sizing"

// SizingFindings are those findings.
func SizingFindings() []finding.Def {
	return []finding.Def{
		{Name: FindingSizedCores, Unit: finding.UnitCores, Doc: "Cores that the proxies of the mesh in section sizing use if its requests are carried this way.",
			Probe: ProbeSizing, Source: finding.FromSizing, Section: SectionSizing, Signed: true},
		{Name: FindingSizedMemory, Unit: finding.UnitBytes, Doc: "Memory that they take.",
			Probe: ProbeSizing, Source: finding.FromSizing, Section: SectionSizing, Signed: true},
		{Name: FindingSizedMonth, Unit: finding.UnitMoney, Doc: "What both cost per month, at the prices of section money.",
			Probe: ProbeSizing, Source: finding.FromSizing, Section: SectionSizing, Signed: true},
	}
}

// sizingSection is the section sizing.
func sizingSection(to **sizing.Mesh) Value {
	return Stated(to, sizing.Default, sizingFields)
}

func sizingFields(m *sizing.Mesh) Object {
	const most = 1e9
	return Object{Name: "sizing", Flow: true, Fields: []Field{
		{Name: "pods", Doc: "Pods in the mesh.", Value: Float(&m.Pods, most).Positive()},
		{Name: "nodes", Doc: "Nodes that they are on.", Value: Float(&m.Nodes, most).Positive()},
		{Name: "rps", Doc: "Requests per second between those pods, all together.", Value: Float(&m.RPS, most)},
		{Name: "l7", Doc: "Share of requests that need more than a node's proxy does, as routing, retries or policy by what is in them: in an ambient mesh they pass a waypoint.", Value: Portion(&m.L7)},
		{Name: "waypoints", Doc: "Proxies of waypoints, all together, where requests pass any.", Value: Float(&m.Waypoints, most)},
	}}
}

// Carries says that requests which go a way are carried as those of a whole mesh can
// be: by sidecars of both pods, or by proxies that pods share.
func Carries(way record.Way) bool {
	sidecars := way.At(record.PlaceSidecar)
	return len(way) > 0 && len(way.At(record.PlaceGateway)) == 0 && (len(sidecars) == 2 || len(sidecars) == 0)
}

// numbers is how many of some levels of a factor are numbers.
func (s *Study) numbers(factor string, levels []string) (n int) {
	f, ok := s.Kind.Factor(factor)
	for _, level := range levels {
		if _, number := f.Value(level); ok && number {
			n++
		}
	}
	return n
}

// SizedAlong is the factor along which the ways of carrying requests are told apart: how
// many pods there are, or the rate.
func (s *Study) SizedAlong() string {
	if s.numbers(FactorReplicas, s.Levels(FactorReplicas)) > 1 {
		return FactorReplicas
	}
	return FactorRate
}

// CheckSizing refuses a section sizing that the study's cells say nothing about. It
// reports whether there is one, and nothing is wrong with it so far.
func (d *Decoder) CheckSizing(s *Study) bool {
	if s.Sizing == nil {
		return false
	}
	numbers := func(factor string) int { return s.numbers(factor, s.Levels(factor)) }
	rates, pods := numbers(FactorRate), numbers(FactorReplicas)
	single := func(factor string) bool { return s.numbers(factor, s.Written(factor)) < 2 }
	switch {
	case single(FactorReplicas) && single(FactorRate):
		d.FailSizing("run the study at two rates or more (factors: {rate: [20, 200, 1000]})", "sizing separates what a proxy takes without requests from what each request adds: "+
			"the study needs two rates that are numbers")
	case pods > 1 && rates > 1:
		d.FailSizing("keep one of them at one level", "sizing follows the rate or the number of pods, and the study varies both")
	case pods > 1 && s.Sizing.RPS > 0:
		d.FailSizing("set sizing.rps: 0", "the study varies the number of pods and not the rate: "+
			"it cannot tell what the requests of a mesh would add")
	case !s.Measured(MeasureCPU) && !s.Measured(MeasureMemory):
		d.FailSizing("set measures: [cpu, memory]", "sizing is about CPU and memory, and the study measures neither")
	default:
		return true
	}
	return false
}

// FailSizing complains of the section.
func (d *Decoder) FailSizing(hint, text string) {
	d.Fail(d.Pos("sizing"), CodeConflict, hint+sizingNone, "%s", text)
}

// sizingNone ends the hints about a section that a flag can take away.
const sizingNone = ", or leave the section out (--set sizing=none)"

// sizingNotes say that the variants which a flag leaves are too few for the section: the
// file keeps it for the others.
func (p *Plan) sizingNotes() []error {
	s := p.Study
	at, ok := s.setBy(FactorVariant)
	if s.Sizing == nil || !ok || s.numbers(FactorRate, s.Levels(FactorRate)) > 1 || s.numbers(FactorReplicas, s.Levels(FactorReplicas)) > 1 {
		return nil
	}
	return []error{at.Fault(CodeConflict, "measure a variant of another rate too"+sizingNone,
		"the report will not say where each wins: section sizing needs two rates or numbers of pods, and these variants have one")}
}
