package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/advise/scope/generate"
	"github.com/meshtrial/meshtrial/testing/golden"
	"github.com/meshtrial/meshtrial/testing/must"
)

// assessed is a mesh of a few sidecars, whose names somebody chose who wishes us ill.
func assessed() assess.Assessment {
	v := func(x float64) *float64 { return &x }
	e := assess.Evidence{Source: "the mesh of a test", At: time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC), WindowS: 120, TrafficS: 100, Istiod: "1.31.0", Nodes: 3,
		Settings: []assess.Setting{{Name: "debounce_after", Level: "1s", Default: "100ms"}, {Name: "istiod_env", Level: "PILOT_TRACE_SAMPLING=1"}}, Objects: map[string]int{"Service": 1200, "Sidecar": 0, "VirtualService": 3},
		Prices: assess.Prices{Core: 40, GB: 4, Currency: "USD"},
		Calls:  []assess.Call{{From: generate.Workload{Namespace: "shop", Name: "<b>cart"}, Host: "db", PerS: 2, TCP: true}, {From: generate.Workload{Namespace: "shop", Name: "front"}, Host: "cart\x1b[2J", PerS: 150, Routed: true}},
		Scope:  &scope.Report{DumpBytes: 3e6, Owners: []scope.OwnerTotal{{OwnerSize: scope.OwnerSize{Owner: scope.Owner{Kind: "Service", Namespace: "shop", Name: "cart"}, DumpBytes: 2e6}, Proxies: 6}}},
		Sidecars: &generate.Result{Sidecars: []generate.Sidecar{{Namespace: "shop", Name: "default", Change: generate.Create}},
			Saving: generate.Prediction{Proxies: 6, Read: 6, Now: generate.Load{Dump: 18e6, Clusters: 7200, Pushes: 6}, After: generate.Load{Dump: 1e6, Clusters: 60, Pushes: 1}, Exact: generate.Load{Dump: 1e6, Clusters: 50, Pushes: 1}, OfExact: 0.99}},
		Limits: &advice.Report{Advice: []advice.Judgement{{Rule: "throttled", Title: "The CPU limit holds istiod back", Says: "It waited 0.4 s of each second.", Confidence: 0.95,
			Evidence: []advice.Value{{Name: "throttled", Value: 0.4, Unit: "ratio"}}, Expect: &advice.Expected{Of: "waiting", Unit: "ratio", Now: 0.4, Low: 0, High: 0.1, From: "rule of thumb"},
			Try: []advice.Step{{Do: "Raise the limit.", YAML: "istiod_cpu: 4"}}}}}}
	for i := range 6 {
		rate := 20 * float64(i)
		e.Proxies = append(e.Proxies, assess.Proxy{Kind: assess.Sidecar, Namespace: "shop", Workload: "<b>cart", Version: "1.31.0", Requests: assess.Resources{Cores: 0.1, Bytes: 128e6},
			Cores: v(0.004 + 0.0003*rate + 0.0001*float64(i%2)), Bytes: v(52e6), Called: v(rate / 2), Served: v(rate / 2), Connections: v(1)})
	}
	e.Proxies = append(e.Proxies, assess.Proxy{Kind: assess.Istiod, Namespace: "istio-system", Version: "1.31.0", Revision: "default", Limits: assess.Resources{Cores: 2, Bytes: 4e9}, Cores: v(1.2), Bytes: v(1.1e9)})
	a := assess.Assess(e)
	old := a
	old.Cost.Uses = append([]assess.Use{}, old.Cost.Uses...)
	old.Cost.Uses[0].Used.Cores /= 2
	a.Compare(old)
	return a
}

func TestRecordedAsAssessment(t *testing.T) {
	var out bytes.Buffer
	must.OK(t, RenderAssessment(&out, assessed(), "text", Options{Width: 140}))
	golden.File(t, "testdata/assessment.txt", out.Bytes())
}

// No format lets names act, and each has the sections.
func TestAssessmentFormats(t *testing.T) {
	for _, format := range AssessmentFormats {
		var out bytes.Buffer
		must.OK(t, RenderAssessment(&out, assessed(), format, Options{}))
		if text := out.String(); strings.Contains(text, "\x1b") || format != "text" && strings.Contains(text, "<b>cart") || !strings.Contains(text, "sidecar-latency") {
			t.Errorf("%s: %.300s", format, text)
		}
	}
	if err := RenderAssessment(new(bytes.Buffer), assessed(), "csv", Options{}); err == nil {
		t.Error("a format that there is not")
	}
}

// What Prometheus and a log tell is drawn with who told it.
func TestAssessmentOfPrometheus(t *testing.T) {
	v := func(x float64) *float64 { return &x }
	e := assess.Evidence{TrafficS: 60, Sizes: &assess.Sizes{Request: 200, Response: 3000}, Protocols: map[string]float64{"grpc": 30}, Open: v(7),
		Log: &assess.Log{Seconds: 100, Rounds: 50, Updates: 70, Reasons: []assess.Counted{{Name: "Service\x1b", N: 50}}, Warnings: 2,
			Problems: []assess.Problem{{What: assess.LogRejected.Of(), N: 2, Example: "<b>ACK ERROR"}}},
		Proxies: []assess.Proxy{{Kind: assess.Sidecar, Called: v(30), Served: v(0), Connections: v(0), RequestsBy: assess.ByPrometheus, Cores: v(1), Bytes: v(1e6), UsageBy: assess.ByPrometheus},
			{Kind: assess.Sidecar, Called: v(5), Served: v(0), Connections: v(0), Cores: v(1), Bytes: v(1e6)}, {Kind: assess.Waypoint, Called: v(0), Served: v(11), Connections: v(0), RequestsBy: assess.ByPrometheus}}}
	for _, format := range AssessmentFormats {
		var out bytes.Buffer
		must.OK(t, RenderAssessment(&out, assess.Assess(e), format, Options{Width: 300}))
		text := out.String()
		for _, want := range []string{"1 of them by Prometheus, the rest by their own counters", "the kubelets, 1 of 2 by Prometheus", "requests through 1 waypoint", "11.0/s", " kB", "grpc", "0.50/s", "proxies rejected configuration"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %q:\n%.3000s", format, want, text)
			}
		}
		if strings.Contains(text, "\x1b") || format != "text" && strings.Contains(text, "<b>ACK") {
			t.Errorf("%s lets a log act", format)
		}
	}
}
