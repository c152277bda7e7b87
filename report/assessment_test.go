package report

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/advise/scope/generate"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/internal/openmetrics/openmetricstest"
	"github.com/meshtrial/meshtrial/observe/signals"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/golden"
	"github.com/meshtrial/meshtrial/testing/must"
)

// assessed is a mesh of a few sidecars, whose names somebody chose who wishes us ill.
func assessed() assess.Assessment {
	measured := func(estimate, low, high float64, unit string) record.Priced {
		return record.Priced{Estimate: estimate, Low: low, High: high, Unit: unit, Blocks: 8, Verdict: record.VerdictMeasured}
	}
	cart := "cart.shop.svc.cluster.local"
	e := assess.Evidence{Source: "the mesh of a test", At: time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC), WindowS: 120, TrafficS: 100, Istiod: "1.30.2", Nodes: 3,
		Settings: []assess.Setting{{Name: "debounce_after", Level: "1s", Default: "100ms"}, {Name: "istiod_env", Level: "PILOT_TRACE_SAMPLING=1"}}, Objects: map[string]int{"Service": 1200, "Sidecar": 0, "VirtualService": 3},
		Prices: assess.Prices{Core: 40, GB: 4, Currency: "USD"},
		Calls: []assess.Call{{From: generate.Workload{Namespace: "shop", Name: "<b>cart"}, Host: "db", PerS: 2, TCP: true}, {From: generate.Workload{Namespace: "shop", Name: "front"}, Host: "cart\x1b[2J", PerS: 50},
			{From: generate.Workload{Namespace: "front", Name: "web"}, Host: cart, PerS: 100, Routed: true}},
		Hosts:       []assess.Host{{Name: cart, Namespace: "shop", Needs: []string{"VirtualService shop/cart", "DestinationRule shop/cart", "AuthorizationPolicy shop/paths", "WasmPlugin shop/tokens"}}, {Name: "web.front.svc.cluster.local", Namespace: "front"}},
		Autoscalers: []assess.Autoscaler{{Namespace: "istio-system", Of: "istiod", Bounds: assess.Bounds{Least: 1, Most: 2}}},
		Scope:       &scope.Report{DumpBytes: 3e6, Owners: []scope.OwnerTotal{{OwnerSize: scope.OwnerSize{Owner: scope.Owner{Kind: "Service", Namespace: "shop", Name: "cart"}, DumpBytes: 2e6}, Proxies: 6}}},
		Sidecars: &generate.Result{Sidecars: []generate.Sidecar{{Namespace: "shop", Name: "default", Change: generate.Create}},
			Saving: generate.Prediction{Proxies: 6, Read: 6, Now: generate.Load{Dump: 18e6, Clusters: 7200, Pushes: 6}, After: generate.Load{Dump: 1e6, Clusters: 60, Pushes: 1}, Exact: generate.Load{Dump: 1e6, Clusters: 50, Pushes: 1}, OfExact: 0.99}},
		Latency: []assess.Latency{{Run: "sidecars-or-ambient-1", Machine: "EPYC, 2 CPUs", Cell: record.Cell{"sidecars": "both", "rate": "60"}, Rate: 60}, {Run: "sidecars-or-ambient-1", Machine: "EPYC, 2 CPUs", Cell: record.Cell{"sidecars": "ambient", "rate": "60"}, Rate: 60}},
		Limits: &advice.Report{Advice: []advice.Judgement{{Rule: "throttled", Title: "The CPU limit holds istiod back", Says: "It waited 0.4 s of each second.", Confidence: 0.95,
			Evidence: []advice.Value{{Name: "throttled", Value: 0.4, Unit: "ratio"}}, Expect: &advice.Expected{Of: "waiting", Unit: "ratio", Now: 0.4, Low: 0, High: 0.1, From: "rule of thumb"},
			Try: []advice.Step{{Do: "Raise the limit.", YAML: "istiod_cpu: 4"}}}}}}
	p50, p99, ambient := measured(910, 820, 1010, "us"), measured(3100, 2600, 3700, "us"), measured(190, 150, 240, "us")
	e.Latency[0].P50, e.Latency[0].P99, e.Latency[1].P50 = &p50, &p99, &ambient
	for i := range 8 {
		rate := 20 * float64(i)
		p := assess.Proxy{Kind: assess.Sidecar, Namespace: "shop", Workload: "<b>cart", Node: "one", Version: "1.29.7", Revision: "default", Requests: assess.Resources{Cores: 0.1, Bytes: 128e6},
			Cores: new(0.004 + 0.0003*rate + 0.0001*float64(i%2)), Bytes: new(52e6), Called: new(rate / 2), Served: new(rate / 2), Connections: new(1.0)}
		if i < 2 {
			p.Namespace, p.Workload, p.Node, p.Version = "front", "web", "two", "1.30.2"
		}
		e.Proxies = append(e.Proxies, p)
	}
	for range 2 {
		e.Proxies = append(e.Proxies, assess.Proxy{Kind: assess.Istiod, Namespace: "istio-system", Workload: "istiod", Version: "1.30.2", Revision: "default", Requests: assess.Resources{Cores: 0.5, Bytes: 2e9}, Limits: assess.Resources{Cores: 2, Bytes: 4e9}, Cores: new(1.2), Bytes: new(1.1e9)})
	}
	e.Proxies = append(e.Proxies, assess.Proxy{Kind: assess.Gateway, Namespace: "edge", Workload: "ingress", Version: "1.30.2", Revision: "default", Cores: new(0.3), Bytes: new(90e6)})
	sizing := func(of string, sidecars, ambient float64) record.Sizing {
		way := func(name string, cores, bytes float64, places ...record.Place) record.SizedWay {
			idle := map[record.Place]record.Priced{}
			for _, p := range places {
				idle[p] = measured(0.004, 0.003, 0.005, "cores")
			}
			return record.SizedWay{Name: name, Uses: []record.SizedUse{{Of: record.SizedCPU, Total: measured(cores, 0.9*cores, 1.1*cores, "cores"), Idle: idle, Request: measured(300, 280, 320, "us/request")},
				{Of: record.SizedMemory, Total: measured(bytes, 0.9*bytes, 1.1*bytes, "bytes"), Idle: map[record.Place]record.Priced{}, Request: measured(1000, 900, 1100, "bytes/rps")}}}
		}
		less := map[bool]string{true: "ambient", false: "sidecars"}[ambient < sidecars]
		at, from, to := 12.0, 9.0, 16.0
		border := record.SizedBorder{Of: record.SizedCPU, Between: []string{"sidecars", "ambient"}, Along: "requests per second of each pod", Outcome: "lies", First: "sidecars", Last: "ambient", At: &at, From: &from, To: &to, Says: note.Plain("sidecars below 12 (9 to 16), ambient above")}
		return record.Sizing{Mesh: of, Ways: []record.SizedWay{way("sidecars", sidecars, 400e6, record.PlaceSidecar), way("ambient", ambient, 60e6, record.PlaceNode), way("ambient with waypoints", ambient+0.05, 180e6, record.PlaceNode, record.PlaceWaypoint)},
			Differences: []record.SizedDifference{{Of: record.SizedCPU, Between: []string{"sidecars", "ambient"}, Less: less}, {Of: record.SizedCPU, Between: []string{"sidecars", "ambient with waypoints"}},
				{Of: record.SizedMemory, Between: []string{"sidecars", "ambient"}, Less: "ambient"}, {Of: record.SizedMemory, Between: []string{"sidecars", "ambient with waypoints"}, Less: "ambient with waypoints"}},
			Borders: []record.SizedBorder{border}}
	}
	e.Modes = []assess.Modes{{Run: "sidecars-or-ambient-1", Study: "sidecars-or-ambient", Machine: "EPYC, 2 CPUs", Parts: []record.Component{{Name: "istiod", Version: "1.31.0"}}, Sizing: sizing("8 pods on 3 nodes", 0.2, 0.11),
		Namespaces: []assess.NamespaceSizing{{Namespace: "shop", Sizing: sizing("6 pods", 0.18, 0.1)}, {Namespace: "front", Sizing: sizing("2 pods", 0.01, 0.03)}}}}
	a := assess.Assess(e)
	mesh := model.Default()
	mesh.Proxies, mesh.Services, mesh.Rate, mesh.Replicas = 9, 1200, 0.5, 2
	a.Capacity = &assess.Capacity{Shipped: true, Runs: []model.Source{{Run: "capacity-holdout-1", Study: "capacity-holdout", Machine: "2 x EPYC", Istiod: "1.31.0", Trials: 14}}, Notes: []model.Note{{Code: model.NoteShared, N: 3, Of: 14}}, Prediction: &model.Prediction{Mesh: mesh, Level: 0.9, Pairs: 100, KeepsUp: true, Outputs: []model.Predicted{{Name: model.OutConvergenceP99, Unit: "s", Interval: model.Interval{Estimate: 1.2, Low: 0.9, High: 1.8}}},
		Limits: &model.Limits{BoundS: 5, Rate: 8, Proxies: 2400, RateEnd: model.End{Code: model.EndConvergence, Seconds: 5.2}, ProxiesEnd: model.End{Code: model.EndQueue, Seconds: 9}, RateBeyond: 1, ProxiesBeyond: 6},
		Loss:   &model.Loss{Proxies: 5, Replicas: 1, Half: 0.4, All: 1.1, Pairs: 3, ConvergenceP99: 2, CPU: 0.3}, Storm: &model.Loss{Proxies: 9, Replicas: 2, Half: 0.5, All: 1.3, Pairs: 3, ConvergenceP99: 2, CPU: 0.5},
		Outside: model.Outside{Times: 4, Beyond: []model.Respect{{Code: model.RespectServices, Value: 1200, Measured: [2]float64{50, 300}, Times: 4}}, Below: []model.Respect{{Code: model.RespectProxies, Value: 4.5, Measured: [2]float64{50, 300}}}}}}
	old := a
	old.Cost.Uses = append([]assess.Use{}, old.Cost.Uses...)
	old.Cost.Uses[0].Used.Cores /= 2
	old.Mesh.Istiod, old.Mesh.Problems = "1.30.1", append([]assess.KnownProblem{{Code: "wasm_pushes"}}, old.Mesh.Problems...)
	a.Compare(old)
	return a
}

// What is known whole is on a page that Prometheus' own parser reads.
func TestAssessmentMetrics(t *testing.T) {
	var out bytes.Buffer
	must.OK(t, RenderAssessment(&out, assessed(), "openmetrics", Options{}))
	got := openmetricstest.Read(t, out.Bytes())
	for series, want := range map[string]float64{
		`meshtrial_mesh_proxies{kind="sidecar"}`: 8, `meshtrial_mesh_cpu_cores{kind="istiod"}`: 2.4, `meshtrial_mesh_memory_bytes{kind="gateway"}`: 90e6, `meshtrial_mesh_requests_per_second`: 280,
		`meshtrial_mesh_requested_month{kind="sidecar",currency="USD"}`: 0.8*40 + 1.024*4, `meshtrial_mesh_advice{rule="throttled"}`: 0.95, `meshtrial_mesh_services`: 1200,
		`meshtrial_mesh_known_problem{problem="virtual_service_metadata",kind="istiod",version="1.30.2"}`: 2, `meshtrial_mesh_unknown{section="mesh"}`: 0, `meshtrial_assessment_timestamp_seconds`: 1796029200,
	} {
		if v, there := got[series]; !there || math.Abs(v-want) > 1e-6*want {
			t.Errorf("%s is %g, want %g", series, v, want)
		}
	}
	if t.Failed() {
		t.Logf("%s", out.String())
	}
	out.Reset()
	euro := assessed()
	euro.Cost.Prices.Currency = "€"
	must.OK(t, RenderAssessment(&out, euro, "openmetrics", Options{}))
	if _, there := openmetricstest.Read(t, out.Bytes())[`meshtrial_mesh_requested_month{kind="sidecar",currency="€"}`]; !there {
		t.Errorf("no price in €:\n%s", out.String())
	}
	out.Reset()
	must.OK(t, RenderAssessment(&out, assess.Assessment{}, "openmetrics", Options{}))
	if v, there := openmetricstest.Read(t, out.Bytes())["meshtrial_assessment_timestamp_seconds"]; there {
		t.Errorf("the time of an assessment that has none is %g", v)
	}
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
		if text := out.String(); strings.Contains(text, "\x1b") || format != "text" && strings.Contains(text, "<b>cart") || format != "openmetrics" && !strings.Contains(text, "sidecar-latency") {
			t.Errorf("%s: %.300s", format, text)
		}
	}
}

// Figures from Prometheus and from a log name their source.
func TestAssessmentOfPrometheus(t *testing.T) {
	e := assess.Evidence{TrafficS: 60, Sizes: &assess.Sizes{Request: 200, Response: 3000}, Protocols: map[string]float64{"grpc": 30}, Open: new(7.0),
		Log: &assess.Log{Seconds: 100, Rounds: 50, Updates: 70, Reasons: []assess.Counted{{Name: "Service\x1b", N: 50}}, Warnings: 2,
			Problems: []assess.Problem{{What: assess.LogRejected.Of(), N: 2, Example: "<b>ACK ERROR"}}},
		Proxies: []assess.Proxy{{Kind: assess.Sidecar, Called: new(30.0), Served: new(0.0), Connections: new(0.0), RequestsBy: assess.ByPrometheus, Cores: new(1.0), Bytes: new(1e6), UsageBy: assess.ByPrometheus},
			{Kind: assess.Sidecar, Called: new(5.0), Served: new(0.0), Connections: new(0.0), Cores: new(1.0), Bytes: new(1e6)}, {Kind: assess.Waypoint, Called: new(0.0), Served: new(11.0), Connections: new(0.0), RequestsBy: assess.ByPrometheus}}}
	for _, format := range AssessmentFormats {
		if format == "openmetrics" {
			continue // figures alone
		}
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

// Requests known from access logs alone are marked.
func TestAssessmentOfAccessLogs(t *testing.T) {
	sidecar := func(by assess.Source) assess.Proxy {
		v := 1.0
		return assess.Proxy{Kind: assess.Sidecar, Called: &v, Served: &v, Connections: &v, RequestsBy: by}
	}
	for want, proxies := range map[string][]assess.Proxy{
		"1 of 1 sidecar, by their access logs, over":                                            {sidecar(assess.ByLogs)},
		"1 of them by their access logs, the rest by their own counters, over":                  {sidecar(assess.ByLogs), sidecar(assess.ByItself)},
		"1 of them by Prometheus, 1 by their access logs, over":                                 {sidecar(assess.ByLogs), sidecar(assess.ByPrometheus)},
		"1 of them by Prometheus, 1 by their access logs, the rest by their own counters, over": {sidecar(assess.ByLogs), sidecar(assess.ByPrometheus), sidecar(assess.ByItself)},
	} {
		var out bytes.Buffer
		must.OK(t, RenderAssessment(&out, assess.Assess(assess.Evidence{TrafficS: 20, Proxies: proxies}), "text", Options{Width: 300}))
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %.2000s", want, out.String())
		}
	}
}

// Latencies without counts are named below those that have some.
func TestLatenciesWithoutCounts(t *testing.T) {
	all := signals.Latencies()
	tables := signalsTables(&signals.Reading{Signals: []signals.Value{
		{Key: all[0][0] + "_mean", Group: signals.GroupLatency, Status: signals.StatusOK, Value: new(0.1), Unit: signals.UnitSeconds},
		{Key: all[1][0] + "_mean", Group: signals.GroupLatency, Status: signals.StatusNoData}}})
	if below := strings.Join(tables[0].Notes, " "); !strings.Contains(below, all[1][1]) || strings.Contains(below, all[0][1]) {
		t.Errorf("%q", below)
	}
}
