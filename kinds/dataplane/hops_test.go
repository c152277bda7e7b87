package dataplane

import (
	"math"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

func TestHopsMakeVariants(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"hops: {}\n", "bare; client; server; both; tls; redirect"},
		{"hops: {interception: false}\n", "bare; client; server; both; tls"},
		{"hops: {}\nfactors: {rate: [100, 200]}\n", "100 rps · bare; 100 rps · client; 100 rps · server; 100 rps · both; 100 rps · tls; 100 rps · redirect; " +
			"200 rps · bare; 200 rps · client; 200 rps · server; 200 rps · both; 200 rps · tls; 200 rps · redirect"},
	} {
		p := studytest.Plan(t, studytest.Minimal+c.text)
		if got := studytest.Labels(p); got != c.want {
			t.Errorf("%s: %s", c.text, got)
		}
		studytest.SameAgain(t, p.Study)
	}
	p := studytest.Plan(t, studytest.Minimal+"hops: {}\n")
	for variant, want := range map[string]record.Cell{
		HopBare:     {study.FactorSidecars: study.SidecarsNone, FactorInterception: study.NotApplicable},
		HopServer:   {study.FactorSidecars: study.SidecarsServer, FactorInterception: InterceptionNone, study.FactorMTLS: study.MTLSOff},
		HopTLS:      {study.FactorSidecars: study.SidecarsBoth, FactorInterception: InterceptionNone, study.FactorMTLS: study.MTLSStrict},
		HopRedirect: {study.FactorSidecars: study.SidecarsBoth, FactorInterception: InterceptionRedirect, study.FactorMTLS: study.MTLSStrict},
	} {
		cells := p.Matching(record.Cell{study.FactorVariant: variant})
		if len(cells) != 1 || p.Cells[cells[0]].With(want).Key() != p.Cells[cells[0]].Key() {
			t.Errorf("%s: %v", variant, cells)
		}
	}
}

// Whatever cells cost, the terms and the residual add up to the whole.
func TestHopTermsAddUp(t *testing.T) {
	cells := map[string]float64{HopBare: 10, HopClient: 31, HopServer: 27, HopBoth: 55, HopTLS: 68.5, HopRedirect: 71.25}
	for _, interception := range []bool{false, true} {
		h := &Hops{Interception: interception}
		sum, total := 0.0, 0.0
		for _, term := range h.Terms() {
			v := 0.0
			for variant, sign := range term.Of {
				v += sign * cells[variant]
			}
			if term.Name == HopTotal {
				total = v
			} else {
				sum += v
			}
		}
		if math.Abs(sum-total) > 1e-9 || total != cells[h.whole()] {
			t.Errorf("interception %v: terms add up to %g, the whole is %g", interception, sum, total)
		}
	}
}

func TestHopsRefused(t *testing.T) {
	for _, c := range []struct{ name, text, at, msg string }{
		{"variants beside them", "hops: {}\nvariants: {a: {}, b: {rate: 5}}\n", "4:11", "hops make this study's variants"},
		{"a bill beside them", "hops: {}\nbill: {parts: {a: {mtls: \"off\"}}}\n", "4:", "hops make this study's variants"},
		{"what they vary", "hops: {}\nfactors: {sidecars: [none, both]}\n", "4:", "hops varies sidecars itself"},
		{"some of their cells", "hops: {}\nfactors: {variant: [bare, both]}\n", "4:", "hops needs all its cells"},
		{"one of their cells left out", "hops: {}\nexclude: [{variant: tls}]\n", "4:", "hops needs all its cells"},
		{"one of their cells chosen", "hops: {}\nsettings: {variant: bare}\n", "4:21", "hops needs all its cells"},
		{"no truth value", "hops: {interception: maybe}\n", "3:22", "neither true nor false"},
		{"TCP without redirection", "hops: {}\nsettings: {protocol: tcp}\n", "3:7", "and TCP has none"},
		{"TLS of the generator's own", "settings: {interception: none}\nload: {tls: true}\n", "3:26", "which it cannot read"},
		{"another mesh", "mesh: linkerd\nsettings: {interception: none}\n", "4:26", "the mesh is linkerd"},
	} {
		_, err := study.Parse([]byte(studytest.Minimal+c.text), "x.yaml", nil)
		if err == nil || errs.Code(err) != errs.CodeUsage || !strings.HasPrefix(err.Error(), "x.yaml:"+c.at) || !strings.Contains(err.Error(), c.msg) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
