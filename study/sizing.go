package study

import (
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/stat/sizing"
)

// Findings of the resources that proxies of the mesh in section sizing take.
const (
	FindingSizedCores  = "sized_cores"
	FindingSizedMemory = "sized_memory"
	FindingSizedMonth  = "sized_month"
)

// FactorReplicas is the number of pods of each service in a graph.
const FactorReplicas = "replicas"

// SectionSizing is the section that compares ways of carrying requests in a stated mesh.
const SectionSizing = "sizing"

// SizingFindings returns the findings of section sizing.
func SizingFindings() []finding.Def {
	return []finding.Def{
		{Name: FindingSizedCores, Unit: finding.UnitCores, Doc: "Cores used by the proxies of the mesh in section sizing with this way of carrying requests.",
			Probe: ProbeSizing, Source: finding.FromSizing, Section: SectionSizing, Signed: true},
		{Name: FindingSizedMemory, Unit: finding.UnitBytes, Doc: "Memory of those proxies.",
			Probe: ProbeSizing, Source: finding.FromSizing, Section: SectionSizing, Signed: true},
		{Name: FindingSizedMonth, Unit: finding.UnitMoney, Doc: "Cost of both per month, at the prices of section money.",
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
		{Name: "nodes", Doc: "Nodes of those pods.", Value: Float(&m.Nodes, most).Positive()},
		{Name: "rps", Doc: "Requests per second between those pods, all together.", Value: Float(&m.RPS, most)},
		{Name: "l7", Doc: "Share of requests that need L7 features (routing, retries or policy by content): in an ambient mesh they pass a waypoint.", Value: Portion(&m.L7)},
		{Name: "waypoints", Doc: "Total waypoint proxies, if requests pass any.", Value: Float(&m.Waypoints, most)},
	}}
}

// Carries reports whether requests on this path are carried as a whole mesh could carry them: by
// sidecars in both pods, or by shared proxies.
func Carries(way record.Way) bool {
	sidecars := way.At(record.PlaceSidecar)
	return len(way) > 0 && len(way.At(record.PlaceGateway)) == 0 && (len(sidecars) == 2 || len(sidecars) == 0)
}

// numbers counts the numeric levels among levels of a factor.
func (s *Study) numbers(factor string, levels []string) (n int) {
	f, ok := s.Kind.Factor(factor)
	for _, level := range levels {
		if _, number := f.Value(level); ok && number {
			n++
		}
	}
	return n
}

// SizedAlong returns the factor along which ways of carrying requests are compared: the number of
// pods, or the rate.
func (s *Study) SizedAlong() string {
	if s.numbers(FactorReplicas, s.Levels(FactorReplicas)) > 1 {
		return FactorReplicas
	}
	return FactorRate
}

// CheckSizing rejects a section sizing that the study's cells cannot answer. It reports whether
// there is a valid section so far.
func (d *Decoder) CheckSizing(s *Study) bool {
	if s.Sizing == nil {
		return false
	}
	numbers := func(factor string) int { return s.numbers(factor, s.Levels(factor)) }
	rates, pods := numbers(FactorRate), numbers(FactorReplicas)
	single := func(factor string) bool { return s.numbers(factor, s.Written(factor)) < 2 }
	switch {
	case single(FactorReplicas) && single(FactorRate):
		d.FailSizing("run the study at two rates or more (factors: {rate: [20, 200, 1000]}; of a graph without steps also {replicas: [1, 5, 10]})", "sizing separates a proxy's idle use from what each request adds: "+
			"the study needs two rates that are numbers, or two numbers of pods")
	case pods > 1 && rates > 1:
		d.FailSizing("fix one of them", "sizing follows the rate or the number of pods, and the study varies both")
	case pods > 1 && s.Sizing.RPS > 0:
		d.FailSizing("set sizing.rps: 0", "the study varies the number of pods and not the rate: "+
			"it cannot show what a mesh's requests would add")
	case !s.Measured(MeasureCPU) && !s.Measured(MeasureMemory):
		d.FailSizing("set measures: [cpu, memory]", "sizing needs CPU and memory, and the study measures neither")
	default:
		return true
	}
	return false
}

// FailSizing records an error about the section.
func (d *Decoder) FailSizing(hint, text string) {
	d.Fail(d.Pos("sizing"), CodeConflict, hint+sizingNone, "%s", text)
}

// sizingNone ends hints about a section that a flag can remove.
const sizingNone = ", or leave the section out (--set sizing=none)"

// sizingNotes notes that the variants left by a flag are too few for the section. The file keeps
// the section for the other variants.
func (p *Plan) sizingNotes() []error {
	s := p.Study
	at, ok := s.setBy(FactorVariant)
	if s.Sizing == nil || !ok || s.numbers(FactorRate, s.Levels(FactorRate)) > 1 || s.numbers(FactorReplicas, s.Levels(FactorReplicas)) > 1 {
		return nil
	}
	return []error{at.Fault(CodeConflict, "measure a variant of another rate too"+sizingNone,
		"the report will not show where each option is cheaper: section sizing needs two rates or numbers of pods, and these variants have one")}
}
