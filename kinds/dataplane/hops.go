package dataplane

import (
	"slices"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Hops asks for the cost breakdown of a request's path through two sidecars, from cells that each
// leave one thing out and whose differences add up to the whole. It is implemented by variants and
// their evaluation.
type Hops struct {
	// Interception includes the redirection of connections to the sidecars in the breakdown, so
	// that all cells but the last run without it.
	Interception bool
}

// Variants that a section hops generates. Each adds one thing.
const (
	HopBare     = "bare"   // no sidecar: generator, kernel, loopback, worker
	HopClient   = "client" // only the client's sidecar
	HopServer   = "server"
	HopBoth     = "both"     // both, in plain text
	HopTLS      = "tls"      // plus mutual TLS between them
	HopRedirect = "redirect" // plus redirection of connections to them
)

// HopTerm is a component of a request's cost: a sum of cells with signs.
type HopTerm struct {
	Name string
	Doc  string
	Of   map[string]float64 // sign by variant
}

// Names of terms.
const (
	HopPath         = "path"
	HopClientProxy  = "client_proxy"
	HopServerProxy  = "server_proxy"
	HopTLSTerm      = "tls"
	HopInterception = "interception"
	HopResidual     = "residual"
	HopTotal        = "total"
)

func (h *Hops) whole() string {
	if h.Interception {
		return HopRedirect
	}
	return HopTLS
}

// Terms returns the terms that the whole is split into, then the residual and the whole itself. By
// construction all terms but the last add up to the last: the residual is how much less the two
// proxies cost together than apart, with its sign.
func (h *Hops) Terms() []HopTerm {
	out := []HopTerm{
		{HopPath, "the path without sidecars: generator, system calls, loopback, worker", map[string]float64{HopBare: 1}},
		{HopClientProxy, "the client's sidecar, in plain text, added to the server's", map[string]float64{HopBoth: 1, HopServer: -1}},
		{HopServerProxy, "the server's sidecar, in plain text, added to the client's", map[string]float64{HopBoth: 1, HopClient: -1}},
		{HopTLSTerm, "mutual TLS between them", map[string]float64{HopTLS: 1, HopBoth: -1}},
	}
	if h.Interception {
		out = append(out, HopTerm{HopInterception, "redirection of connections to them", map[string]float64{HopRedirect: 1, HopTLS: -1}})
	}
	return append(out,
		HopTerm{HopResidual, "the residual: both sidecars together versus each alone", map[string]float64{HopServer: 1, HopClient: 1, HopBoth: -1, HopBare: -1}},
		HopTerm{HopTotal, "the total", map[string]float64{h.whole(): 1}})
}

// Measures of the terms.
const (
	HopP50     = "latency_p50"
	HopP99     = "latency_p99"
	HopPods    = "cpu_pods"   // of generator, proxies and worker
	HopKernel  = "cpu_kernel" // the part of cpu_pods in the kernel
	HopMachine = "cpu_machine"
)

// HopMeasures lists the measures of the terms.
func HopMeasures() []string { return []string{HopP50, HopP99, HopPods, HopKernel, HopMachine} }

// FindingHop is the prefix of hop findings, followed by term and measure: "hop_tls_latency_p50".
const FindingHop = "hop"

func (h *Hops) variants() []study.NamedLevels {
	out := []study.NamedLevels{
		{Name: HopBare, Levels: record.Cell{study.FactorSidecars: study.SidecarsNone}},
		{Name: HopClient, Levels: record.Cell{study.FactorSidecars: study.SidecarsClient}},
		{Name: HopServer, Levels: record.Cell{study.FactorSidecars: study.SidecarsServer, study.FactorMTLS: study.MTLSOff}},
		{Name: HopBoth, Levels: record.Cell{study.FactorSidecars: study.SidecarsBoth, study.FactorMTLS: study.MTLSOff}},
		{Name: HopTLS, Levels: record.Cell{study.FactorSidecars: study.SidecarsBoth, study.FactorMTLS: study.MTLSStrict}},
	}
	if !h.Interception {
		return out
	}
	for i := range out[1:] {
		out[1+i].Levels[FactorInterception] = InterceptionNone
	}
	return append(out, study.NamedLevels{Name: HopRedirect, Levels: record.Cell{study.FactorSidecars: study.SidecarsBoth, study.FactorMTLS: study.MTLSStrict, FactorInterception: InterceptionRedirect}})
}

func resolveHops(d *study.Decoder, s *study.Study) {
	if Of(s).Hops == nil {
		return
	}
	for _, other := range []string{"variants", "bill"} {
		if d.Root.Get(other) != nil {
			d.Fail(d.Pos(other), study.CodeConflict, "leave it out, or hops", "hops make this study's variants")
			return
		}
	}
	s.Variants = Of(s).Hops.variants()
	for _, v := range s.Variants {
		for factor := range v.Levels {
			if s.Varies(factor) {
				d.Fail(d.Pos("factors", factor), study.CodeConflict, "leave it out: hops varies it", "hops varies %s itself", factor)
				return
			}
		}
	}
}

// checkHopCells finds hop cells that the study leaves out.
func checkHopCells(d *study.Decoder, p *study.Plan) {
	if Of(p.Study).Hops == nil {
		return
	}
	n := map[string]int{}
	most := 0
	for _, cell := range p.Cells {
		name := cell[study.FactorVariant]
		n[name]++
		most = max(most, n[name])
	}
	for _, v := range p.Study.Variants {
		if n[v.Name] == most {
			continue
		}
		at := d.Pos("exclude")
		if !slices.Contains(p.Study.Varied(study.FactorVariant), v.Name) {
			at = p.Study.Place(study.FactorVariant)
		}
		d.Fail(at, study.CodeConflict, "leave none of them out", "hops needs all its cells, because the terms are differences between them: %s is left out", v.Name)
		return
	}
}

func hopsFields(h *Hops) study.Object {
	return study.Object{Name: "hops", Flow: true, Fields: []study.Field{
		{Name: "interception", Doc: "Whether to measure redirection separately; if so, all cells but the last have none.", Value: study.Bool(&h.Interception)},
	}}
}
