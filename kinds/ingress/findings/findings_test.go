package findings_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/kinds/ingress"
	"github.com/meshtrial/meshtrial/kinds/ingress/findings"
	"github.com/meshtrial/meshtrial/kinds/ingress/sections"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/testing/must"
)

const text = "name: n\nquestion: How soon?\nchurn: {changes: 4}\nfactors: {ingress: [istio, envoy-gateway]}\nbaseline: {ingress: istio}\nblocks: {min: 2, max: 3}\nstop: none\n"

// run serves four routes per trial 100, 110, 120 and 130 ms after their commits, at Envoy Gateway
// 50 ms sooner, with 3 wrong answers. spoil changes a trial's routes.
func run(t *testing.T, spoil func(i int, s *record.Served)) record.Findings {
	t.Helper()
	plan := analysistest.PlanOf(t, text, 1)
	us := func(v int64) *int64 { return &v }
	made := analysistest.MadeUp(plan, "run", 3, func(run *record.Run, trial *record.Trial) {
		trial.Ingress = &record.Ingress{Changes: 4, ReadyUS: 3_000_000, Watched: map[string]int{"200": 90, "503": 10}, Wrong: 10}
		trial.CPU[record.PartGateway], trial.CPU[record.PartControl] = record.CPU{UserS: 0.2}, record.CPU{UserS: 0.04}
		trial.Memory[record.PartGateway], trial.Memory[record.PartControl] = record.Memory{PSSBytes: 50e6}, record.Memory{PSSBytes: 90e6}
		for i := range 4 {
			at := int64(100_000 + 10_000*i)
			s := &record.Served{Statuses: map[string]int{"404": 9, "200": 9}}
			if trial.Cell[ingress.FactorIngress] == ingress.EnvoyGateway {
				at -= 50_000
				s.Failed = 3
			}
			s.GoodUS, s.AnsweredUS, s.BadUS = us(at-1000), us(at), us(at-6000)
			if spoil != nil {
				spoil(i, s)
			}
			run.Events = append(run.Events, record.Event{Trial: trial.ID, Change: i, CommittedNS: 1, Served: s})
		}
		trial.EventLines = 4
	})
	return analysistest.Analyze(t, analysis.Kinds{findings.Kind()}, made)
}

func TestFindings(t *testing.T) {
	f := run(t, nil)
	istio := record.Cell{ingress.FactorIngress: ingress.Istio}
	for name, want := range map[string]float64{
		ingress.FamilyServed: 115_000, "route_served_max": 130_000, ingress.FindingResolution: 6000, ingress.FindingUnserved: 0, ingress.FindingErrors: 0,
		ingress.FindingOldErrors: 10, ingress.FindingReady: 3e6, ingress.FindingGatewayCPU: 100, ingress.FindingControlCPU: 20, ingress.FindingPerChange: 10_000,
		ingress.FindingGatewayMem: 50e6, ingress.FindingControlMem: 90e6,
	} {
		if x := analysistest.Get(t, f, name, istio); math.Abs(x.Estimate-want) > 1e-6*want || x.Verdict != record.VerdictMeasured {
			t.Errorf("%s: %+v, want %g", name, x, want)
		}
	}
	other := record.Cell{ingress.FactorIngress: ingress.EnvoyGateway}
	if x := analysistest.Get(t, f, ingress.FindingErrors, other); x.Estimate != 12 {
		t.Errorf("wrong answers: %+v", x)
	}
	if x := analysistest.Get(t, f, ingress.FamilyServed+"_overhead", other); math.Abs(x.Estimate+50_000) > 1 {
		t.Errorf("the difference of the ingresses: %+v", x)
	}
}

// without spoils routes from a number on: they are never served.
func without(first int) func(i int, s *record.Served) {
	return func(i int, s *record.Served) {
		if i >= first {
			s.GoodUS, s.AnsweredUS, s.BadUS = nil, nil, nil
		}
	}
}

// A route that never arrives is counted, the slowest is never served, and the median remains.
func TestUnserved(t *testing.T) {
	f := run(t, without(3))
	istio := record.Cell{ingress.FactorIngress: ingress.Istio}
	if x := analysistest.Get(t, f, ingress.FindingUnserved, istio); x.Estimate != 1 {
		t.Errorf("%+v", x)
	}
	if x := analysistest.Get(t, f, "route_served_max", istio); x.Verdict == record.VerdictMeasured || x.Reason != record.ReasonNotReached {
		t.Errorf("the slowest: %+v", x)
	}
	if x := analysistest.Get(t, f, ingress.FamilyServed, istio); x.Estimate != 110_000 {
		t.Errorf("the median: %+v", x)
	}
}

func TestReport(t *testing.T) {
	var out bytes.Buffer
	for first, want := range map[int]string{3: "and 1.0 per trial never", 0: "4.0 new routes per trial are never served"} {
		out.Reset()
		must.OK(t, report.Kinds{sections.Kind()}.Render(&out, run(t, without(first)), "text", report.Options{Width: 160}))
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report does not say %q:\n%s", want, &out)
		}
	}
	out.Reset()
	must.OK(t, report.Kinds{sections.Kind()}.Render(&out, run(t, nil), "text", report.Options{Width: 160}))
	for _, want := range []string{"From a route's commit until the gateway serves it", "a new route is served 115 ms", "10.0 requests per trial to existing routes fail meanwhile", "What the gateway and its control plane use"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report does not say %q:\n%s", want, &out)
		}
	}
}
