package study

import (
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/sizing"
	"github.com/meshtrial/meshtrial/drive/graph"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
)

// Findings of what the proxies of the mesh in section sizing take.
const (
	FindingSizedCores  = "sized_cores"
	FindingSizedMemory = "sized_memory"
	FindingSizedMonth  = "sized_month"
)

// SectionSizing is the section that sets ways of carrying requests side by side in a
// stated mesh.
const SectionSizing = "sizing"

// sizingFindings are those findings.
func sizingFindings() []finding.Def {
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
func sizingSection(to **sizing.Mesh) statedValue[sizing.Mesh] {
	return statedValue[sizing.Mesh]{to, sizing.Default, sizingFields}
}

func sizingFields(m *sizing.Mesh) object {
	const most = 1e9
	return object{name: "sizing", flow: true, fields: []field{
		{name: "pods", doc: "Pods in the mesh.", value: floatValue{to: &m.Pods, high: most, positive: true}},
		{name: "nodes", doc: "Nodes that they are on.", value: floatValue{to: &m.Nodes, high: most, positive: true}},
		{name: "rps", doc: "Requests per second between those pods, all together.", value: floatValue{to: &m.RPS, high: most}},
		{name: "l7", doc: "Share of requests that need more than a node's proxy does, as routing, retries or policy by what is in them: in an ambient mesh they pass a waypoint.", value: statedPortion{portionValue{to: &m.L7}}},
		{name: "waypoints", doc: "Proxies of waypoints, all together, where requests pass any.", value: floatValue{to: &m.Waypoints, high: most}},
	}}
}

// statedPortion is a portion that is written although it is 0%.
type statedPortion struct{ portionValue }

func (v statedPortion) encode() *node { return plainNode(Ratio(*v.to).String()) }

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
	if s.numbers(FactorReplicas, s.levels(FactorReplicas)) > 1 {
		return FactorReplicas
	}
	return FactorRate
}

// checkSizing finds a section sizing that the study's cells say nothing of.
func (d *decoder) checkSizing(s *Study) {
	if s.Sizing == nil {
		return
	}
	measured := func(factor string) int { return s.numbers(factor, s.levels(factor)) }
	rates, pods := measured(FactorRate), measured(FactorReplicas)
	single := func(factor string) bool { return s.numbers(factor, s.written(factor)) < 2 }
	at := d.pos("sizing")
	switch {
	case single(FactorReplicas) && single(FactorRate) && d.oneRate(s): // it has said so
	case pods > 1 && rates > 1:
		d.unsized(s, s.flagOf(FactorRate, FactorReplicas, FactorVariant), "leave one of them at one level", "sizing follows the rate or the number of pods, and the study varies both")
	case pods > 1 && s.Sizing.RPS > 0:
		why := d.pos("sizing", "rps")
		if !why.flag() {
			why = s.flagOf(FactorReplicas, FactorRate, FactorVariant)
		}
		d.unsized(s, why, "as sizing: {rps: 0}", "the study varies the number of pods and not the rate: it cannot tell what the requests of a mesh would add", "sizing.rps=0")
	case single(FactorReplicas) && single(FactorRate):
		d.fail(at, "as factors: {rate: [500, 2000]}", "sizing separates what a proxy takes without requests from what each request adds: the study needs two rates that are numbers")
	case !s.Measured(MeasureCPU) && !s.Measured(MeasureMemory):
		d.unsized(s, d.pos("measures"), "as measures: [cpu, memory]", "sizing is about CPU and memory, and the study measures neither",
			"measures=["+strings.Join(slices.Concat(s.Measures, []string{MeasureCPU, MeasureMemory}), ",")+"]")
	case s.Scenario == nil && !slices.ContainsFunc(s.written(FactorSidecars), func(level string) bool { return Carries(carrierOf(level).Way) }):
		d.unsized(s, s.flagOf(FactorSidecars, FactorVariant), "as factors: {sidecars: [none, both, ambient]}", "sizing is about who carries requests, and no cell has them carried at both ends",
			"sidecars=[none,both,ambient]", "sidecars=[none,both]")
	case s.Scenario != nil && len(s.Scenario.Timeline.Steps) > 0:
		d.unsized(s, d.pos("timeline", "steps"), "leave it out, or the steps", "sizing is about what proxies take while nothing happens, and the timeline has steps")
	case s.Scenario != nil && slices.ContainsFunc(s.Scenario.Graph.Services, func(one graph.Service) bool { return !one.Sidecar }):
		d.unsized(s, d.pos("graph"), "leave sidecar: false out", "sizing is about a mesh that all services are in, and one of the graph has no sidecar")
	}
}

// sizingNotes say that the variants which a flag leaves are too few for the section: what
// the others have may stay in the file.
func (p *Plan) sizingNotes() []error {
	s := p.Study
	at, ok := s.setBy(FactorVariant)
	if s.Sizing == nil || !ok || s.numbers(FactorRate, s.levels(FactorRate)) > 1 || s.numbers(FactorReplicas, s.levels(FactorReplicas)) > 1 {
		return nil
	}
	return []error{at.Errorf("measure a variant of another rate too, or --set sizing=none",
		"the report will not say where each wins: section sizing needs two rates or numbers of pods, and these variants have one")}
}

// unsized refuses the section: at its place, with what to write in the file, or where a
// --set flag is the reason at that, with the first of some that the study takes: nobody can
// write into a shipped file. What a run that was made has measured no flag changes.
func (d *decoder) unsized(s *Study, why Pos, hint, text string, sets ...string) {
	at, without := d.pos("sizing"), "leave it out"
	if why.flag() {
		at, without = why, "--set sizing=none"
	}
	if at.flag() {
		hint = without
		if i := slices.IndexFunc(sets, func(set string) bool {
			return (!d.stored || strings.HasPrefix(set, "sizing.")) && s.takes(set)
		}); i >= 0 {
			hint = "--set " + sets[i] + ", or " + without
		}
	}
	d.fail(at, hint, "%s", text)
}

// flagOf is the first --set flag that gives one of some factors its levels, no place if none
// does.
func (s *Study) flagOf(factors ...string) Pos {
	for _, factor := range factors {
		if flag, ok := s.setBy(factor); ok {
			return flag
		}
	}
	return Pos{}
}

// oneRate says that sizing has one rate if that is for --set flags, or of a run that was made:
// what to do is not to be done in a file then. Of two flags the reason is the one about what
// the file varies.
func (d *decoder) oneRate(s *Study) bool {
	at, hint := d.pos("sizing"), "--set rate=[20,200,1000]"
	byFlag := at.flag()
	ways := [][2]string{{FactorRate, "rate=[20,200,1000]"}, {FactorReplicas, "replicas=[1,5,10]"}}
	if s.aloneVaries(FactorReplicas) {
		slices.Reverse(ways)
	}
	for _, way := range ways {
		flag, ok := s.setBy(way[0])
		if !ok {
			continue
		}
		at, hint, byFlag = flag, "--set sizing=none", true
		if s.takes(way[1]) {
			hint = "--set " + way[1] + ", or " + hint
		}
		break
	}
	if d.stored {
		hint, byFlag = "run the study with --set rate=[20,200,1000]: this run has one rate", true
	}
	if byFlag {
		d.fail(at, hint, "sizing follows the rate or the number of pods: it needs two levels of one of them that are numbers")
	}
	return byFlag
}

// aloneVaries says that the file has several levels of a factor that are numbers, without
// --set flags.
func (s *Study) aloneVaries(factor string) bool {
	if s.alone == nil {
		return false
	}
	p := s.alone()
	return p != nil && p.Study.numbers(factor, p.Study.levels(factor)) > 1
}
