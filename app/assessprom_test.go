package app

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/advise/scope/generate"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/observe/signals"
	"github.com/meshtrial/meshtrial/testing/must"
)

// metrics are series by their text, with what they rise by in a second; those of names in steady stay at that.
type metrics map[string]float64

var steady = []string{"container_memory_working_set_bytes", "istio_build", "pilot_services", "pilot_xds", "pilot_info", "kube_pod_info", "kube_pod_container_resource_requests", "kube_pod_container_resource_limits", "process_start_time_seconds"}

var matcher = regexp.MustCompile(`([a-z_]+)="([^"]*)"`)

// shopMetrics are what a Prometheus has of a mesh: cart calls catalog, of which each has a sidecar, and api is in an
// ambient namespace with a waypoint. labels are those of the target, with verbs for the pod's namespace and name.
func shopMetrics(labels string) metrics {
	m := metrics{}
	add := func(name, namespace, pod, more string, v float64) {
		m[name+"{"+fmt.Sprintf(labels, namespace, pod)+","+more+"}"] += v
	}
	for _, c := range [][3]string{{"shop", "cart-7d4b9f8c5-abcde", "istio-proxy"}, {"shop", "cart-7d4b9f8c5-abcde", "cart"}, {"shop", "catalog-7d4b9f8c5-abcde", "istio-proxy"}, {"shop", "catalog-7d4b9f8c5-abcde", "catalog"},
		{"shop", "waypoint-7d4b9f8c5-abcde", "istio-proxy"}, {"istio-system", "ztunnel-abcde", "istio-proxy"}, {"istio-system", "istiod-7d4b9f8c5-abcde", "discovery"}} {
		own := fmt.Sprintf(`job="cadvisor",namespace=%q,pod=%q,container=%q`, c[0], c[1], c[2])
		m["container_cpu_usage_seconds_total{"+own+"}"], m["container_memory_working_set_bytes{"+own+"}"] = 0.2, 5e7
		if c[2] == "istio-proxy" {
			m["kube_pod_container_resource_requests{"+own+`,resource="cpu"}`], m["kube_pod_container_resource_limits{"+own+`,resource="memory"}`] = 0.1, 1e9
		}
	}
	m[`kube_pod_info{node="one",pod="a"}`], m[`kube_pod_info{node="two",pod="b"}`] = 1, 1
	edge := func(from, to string) string {
		return fmt.Sprintf(`source_workload_namespace="shop",source_workload=%q,destination_service="%s.shop.svc.cluster.local",destination_service_name=%q,destination_service_namespace="shop"`, from, to, to)
	}
	for _, code := range []string{"200", "503"} {
		add("istio_requests_total", "shop", "cart-7d4b9f8c5-abcde", `reporter="source",request_protocol="http",response_code="`+code+`",`+edge("cart", "catalog"), 50)
		add("istio_requests_total", "shop", "catalog-7d4b9f8c5-abcde", `reporter="destination",request_protocol="http",response_code="`+code+`",`+edge("cart", "catalog"), 50)
	}
	add("istio_requests_total", "shop", "cart-7d4b9f8c5-abcde", `reporter="source",request_protocol="grpc",response_code="200",`+edge("cart", "pay"), 20)
	add("istio_requests_total", "shop", "cart-7d4b9f8c5-abcde", `reporter="source",request_protocol="http",response_code="200",source_workload_namespace="shop",source_workload="cart",destination_service="unknown",destination_service_name="PassthroughCluster"`, 7)
	add("istio_requests_total", "shop", "catalog-7d4b9f8c5-abcde", `reporter="destination",request_protocol="http",response_code="200",`+edge("batch", "catalog"), 3)
	add("istio_requests_total", "shop", "catalog-7d4b9f8c5-abcde", `reporter="destination",request_protocol="http",response_code="200",`+edge("unknown", "catalog"), 2)
	add("istio_requests_total", "shop", "cart-7d4b9f8c5-abcde", `reporter="destination",request_protocol="http",response_code="200",`+edge("unknown", "cart"), 1)
	add("istio_requests_total", "shop", "waypoint-7d4b9f8c5-abcde", `reporter="waypoint",request_protocol="http",response_code="200",`+edge("front", "api"), 11)
	add("istio_tcp_connections_opened_total", "shop", "cart-7d4b9f8c5-abcde", `reporter="source",`+edge("cart", "db"), 4)
	add("istio_tcp_connections_closed_total", "shop", "cart-7d4b9f8c5-abcde", `reporter="source",`+edge("cart", "db"), 3)
	for name, bytes := range map[string]float64{"istio_request_bytes": 200, "istio_response_bytes": 3000} {
		add(name+"_sum", "shop", "cart-7d4b9f8c5-abcde", `reporter="source"`, 100*bytes)
		add(name+"_count", "shop", "cart-7d4b9f8c5-abcde", `reporter="source"`, 100)
	}
	for _, pod := range []string{"cart-7d4b9f8c5-abcde", "catalog-7d4b9f8c5-abcde", "waypoint-7d4b9f8c5-abcde"} {
		add("istio_build", "shop", pod, `component="proxy",tag="1.20.1;"`, 1)
	}
	add("istio_build", "istio-system", "istiod-7d4b9f8c5-abcde", `component="pilot",tag="1.20.1"`, 1)
	add("pilot_services", "istio-system", "istiod-7d4b9f8c5-abcde", `app="istiod"`, 6)
	add("pilot_xds", "istio-system", "istiod-7d4b9f8c5-abcde", `app="istiod",version="1.20.1"`, 3)
	add("pilot_xds_pushes", "istio-system", "istiod-7d4b9f8c5-abcde", `app="istiod",type="cds"`, 5)
	add("process_start_time_seconds", "istio-system", "istiod-7d4b9f8c5-abcde", `app="istiod"`, 1e9)
	add("process_cpu_seconds_total", "istio-system", "istiod-7d4b9f8c5-abcde", `app="istiod"`, 0.5)
	return m
}

// without deletes series.
func (m metrics) without(which func(series string) bool) metrics {
	maps.DeleteFunc(m, func(series string, _ float64) bool { return which(series) })
	return m
}

const podTarget = `job="pods",namespace=%q,pod=%q`

// answer is an answer to query_range with a sample every 15 s over a period. Counters are reset halfway.
func (m metrics) answer(from, to time.Time) string {
	var result []map[string]any
	half := to.Sub(from).Seconds() / 2
	for series, v := range m {
		name, rest, _ := strings.Cut(series, "{")
		metric := map[string]string{"__name__": name}
		for _, pair := range matcher.FindAllStringSubmatch(rest, -1) {
			metric[pair[1]] = pair[2]
		}
		var values [][2]any
		for at := from; !at.After(to); at = at.Add(15 * time.Second) {
			value := v
			if passed := at.Sub(from).Seconds(); !slices.Contains(steady, name) {
				if value = v * (passed + 1000); passed > half {
					value = v * (passed - half)
				}
			}
			values = append(values, [2]any{float64(at.UnixMilli()) / 1000, strconv.FormatFloat(value, 'g', -1, 64)})
		}
		result = append(result, map[string]any{"metric": metric, "values": values})
	}
	text, err := json.Marshal(map[string]any{"status": "success", "data": map[string]any{"resultType": "matrix", "result": result}})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// prometheus serves metrics of the last minutes.
func (m metrics) prometheus(t *testing.T, since time.Duration) *signals.Remote {
	t.Helper()
	return m.between(t, time.Now().Add(-since), time.Now().Add(time.Minute))
}

// between serves metrics of a period.
func (m metrics) between(t *testing.T, from, to time.Time) *signals.Remote {
	t.Helper()
	var a signals.Answers
	must.OK(t, a.Read(strings.NewReader(m.answer(from, to))))
	series, err := a.Source("metrics")
	must.OK(t, err)
	return served(t, func(w http.ResponseWriter, r *http.Request) {
		at := func(name string) time.Time {
			seconds, err := strconv.ParseFloat(r.FormValue(name), 64)
			must.OK(t, err)
			return time.UnixMilli(int64(seconds * 1000))
		}
		var data any
		switch {
		case strings.HasSuffix(r.URL.Path, "/values"):
			names := []string{}
			for series := range m {
				if name, _, _ := strings.Cut(series, "{"); !slices.Contains(names, name) && strings.Contains(r.FormValue("match[]"), name) {
					names = append(names, name)
				}
			}
			data = names
		case strings.HasSuffix(r.URL.Path, "/query_range"):
			step, err := time.ParseDuration(r.FormValue("step") + "s")
			must.OK(t, err)
			tracks, err := series.Range(r.Context(), r.FormValue("query"), at("start"), at("end"), step)
			must.OK(t, err)
			result := []any{}
			for _, track := range tracks {
				values := [][2]any{}
				for _, p := range track.Points {
					values = append(values, [2]any{float64(p.MS) / 1000, fmt.Sprint(p.Value)})
				}
				result = append(result, map[string]any{"metric": track.Labels, "values": values})
			}
			data = map[string]any{"resultType": "matrix", "result": result}
		default:
			samples, err := series.Instant(r.Context(), r.FormValue("query"), at("time"))
			must.OK(t, err)
			result := []any{}
			for _, s := range samples {
				if s.Name != "" {
					s.Labels["__name__"] = s.Name
				}
				result = append(result, map[string]any{"metric": s.Labels, "value": [2]any{at("time").Unix(), fmt.Sprint(s.Value)}})
			}
			data = map[string]any{"resultType": "vector", "result": result}
		}
		must.OK(t, json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": data}))
	})
}

func served(t *testing.T, f http.HandlerFunc) *signals.Remote {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	remote, err := signals.NewRemote(server.URL, nil)
	must.OK(t, err)
	return remote
}

// alone assesses a mesh of which only Prometheus is reached.
func alone(t *testing.T, remote *signals.Remote, o Assessment) assess.Assessment {
	t.Helper()
	o.Prometheus, o.Duration = remote, 5*time.Minute
	e, _, err := o.fromPrometheus(t.Context(), fmt.Errorf("no cluster"))
	must.OK(t, err)
	a, err := o.conclude(e, nil)
	must.OK(t, err)
	return a
}

func near(a, b float64) bool { return math.Abs(a-b) <= 0.02*math.Abs(b) }

// checkUnknown checks which kinds of things are unknown.
func checkUnknown(t *testing.T, name string, unknown []assess.Unknown, is, isNot []assess.Gap) {
	t.Helper()
	for _, g := range is {
		if !g.In(unknown) {
			t.Errorf("%s: %v is missing: %v", name, g, unknown)
		}
	}
	for _, g := range isNot {
		if g.In(unknown) {
			t.Errorf("%s: %v is too much: %v", name, g, unknown)
		}
	}
}

// checkShop holds an assessment against shopMetrics.
func checkShop(t *testing.T, name string, a assess.Assessment) {
	t.Helper()
	for kind, n := range map[assess.Kind]int{assess.Sidecar: 2, assess.Waypoint: 1, assess.Ztunnel: 1, assess.Istiod: 1} {
		if got := a.Mesh.Count(kind); got != n {
			t.Errorf("%s: %d of kind %s, not %d", name, got, kind, n)
		}
	}
	for _, u := range a.Cost.Uses {
		if u.Measured != u.Count || u.Metered != u.Count || !near(u.Used.Cores, 0.2*float64(u.Count)) || u.Used.Bytes != 5e7*float64(u.Count) {
			t.Errorf("%s: %+v", name, u)
		}
		if u.Kind != assess.Istiod && (!near(u.Requests.Cores, 0.1*float64(u.Count)) || !near(u.Limits.Bytes, 1e9*float64(u.Count))) {
			t.Errorf("%s: requests and limits of %+v", name, u)
		}
	}
	tr := a.Traffic
	if tr == nil || tr.Read != 2 || tr.Metered != 2 || !near(tr.Called, 120) || !near(tr.Served, 106) || !near(tr.Connections, 4) {
		t.Fatalf("%s: %+v, %v", name, tr, a.Unknown)
	}
	if tr.Sizes == nil || !near(tr.Sizes.Request, 200) || !near(tr.Sizes.Response, 3000) || tr.Open == nil || !near(tr.Protocols["http"], 100) || !near(tr.Protocols["grpc"], 20) {
		t.Errorf("%s: sizes %+v, protocols %v, open %v", name, tr.Sizes, tr.Protocols, tr.Open)
	}
	if len(tr.Through) != 1 || !near(tr.Through[0].PerS, 11) {
		t.Errorf("%s: through %+v", name, tr.Through)
	}
	calls := map[string]float64{}
	for _, c := range tr.Calls {
		calls[c.From.Name+" "+strings.TrimSuffix(c.Host, ".shop.svc.cluster.local")] = c.PerS
	}
	for edge, rate := range map[string]float64{"cart catalog": 100, "cart pay": 20, "batch catalog": 3, "front api": 11, "cart db": 4} {
		if !near(calls[edge], rate) {
			t.Errorf("%s: %s: %g/s, not %g", name, edge, calls[edge], rate)
		}
	}
	if len(calls) != 5 {
		t.Errorf("%s: calls %v", name, calls)
	}
	if a.Mesh.Istiod != "1.20.1" || a.Mesh.Nodes != 2 || a.Limits == nil {
		t.Fatalf("%s: istiod %q, %d nodes, %v", name, a.Mesh.Istiod, a.Mesh.Nodes, a.Unknown)
	}
	for key, want := range map[string]float64{"xds_pushes": 5, "xds_proxies": 3, "cpu_process_cores": 0.5} {
		if v, _ := a.Signals.Find(key); v.Value == nil || !near(*v.Value, want) {
			t.Errorf("%s: %s %+v", name, key, v)
		}
	}
	if !assess.Passthrough.In(a.Unknown) || assess.NoPayloads.In(a.Unknown) || assess.Unscraped.In(a.Unknown) || assess.NoCounters.In(a.Unknown) || assess.NoRates.In(a.Unknown) {
		t.Errorf("%s: %v", name, a.Unknown)
	}
}

// Prometheus alone gives cost and traffic of a mesh, for any number of scrape jobs and any of their labels.
func TestAssessPrometheus(t *testing.T) {
	twice := shopMetrics(`job="proxies",instance="10.0.0.1:15090",namespace=%q,pod=%q`).without(func(series string) bool {
		return strings.Contains(series, "container") || strings.HasPrefix(series, "pilot") || strings.HasPrefix(series, "process")
	})
	maps.Copy(twice, shopMetrics(podTarget))
	otherwise := shopMetrics(`job="old",kubernetes_namespace=%q,kubernetes_pod_name=%q`).without(func(series string) bool { return !strings.HasPrefix(series, "istio_") })
	maps.Copy(otherwise, shopMetrics(podTarget))
	replicas := metrics{}
	for series, v := range shopMetrics(podTarget) {
		for _, replica := range []string{"a", "b"} {
			replicas[strings.Replace(series, "{", fmt.Sprintf("{prometheus_replica=%q,", replica), 1)] = v
		}
	}
	for name, m := range map[string]metrics{"as Istio scrapes": shopMetrics(podTarget), "of old Istio": shopMetrics(`job="kubernetes-pods",kubernetes_namespace=%q,kubernetes_pod_name=%q`), "scraped twice": twice, "by other labels too": otherwise, "two replicas": replicas} {
		a := alone(t, m.prometheus(t, 10*time.Minute), Assessment{})
		checkShop(t, name, a)
		if !assess.NoPods.In(a.Unknown) || !assess.NotRead.In(a.Unknown) || assess.ShortHistory.In(a.Unknown) || assess.IstiodTwice.In(a.Unknown) {
			t.Errorf("%s: %v", name, a.Unknown)
		}
	}
	a := alone(t, shopMetrics(podTarget).prometheus(t, 3*time.Minute), Assessment{})
	if checkShop(t, "since three minutes", a); !assess.ShortHistory.In(a.Unknown) {
		t.Errorf("a short history: %v", a.Unknown)
	}
}

// Series of several clusters are of several meshes: none is read, or that of the selector. Labels of pods, and of the
// other side of requests, tell no clusters apart.
func TestAssessPrometheusOfClusters(t *testing.T) {
	labelled := func(label string, on ...string) metrics {
		m := metrics{}
		for series, v := range shopMetrics(podTarget) {
			name, _, _ := strings.Cut(series, "{")
			if len(on) > 0 && !slices.Contains(on, name) {
				m[series] = v
				continue
			}
			for i, value := range []string{"one", "two"} {
				m[strings.Replace(series, "{", fmt.Sprintf("{%s=%q,", label, value), 1)] = v * float64(i+1)
			}
		}
		return m
	}
	for name, c := range map[string]struct {
		of      metrics
		several bool
	}{
		"by the usual name":    {labelled("cluster"), true},
		"by another name":      {labelled("k8s_cluster_name"), true},
		"by an own name":       {labelled("acme_cluster"), true},
		"by environment":       {labelled("env"), true},
		"by Istio's own name":  {labelled("source_cluster", "istio_requests_total"), true},
		"of the called":        {labelled("destination_cluster", "istio_requests_total"), false},
		"labels of pods":       {labelled("cluster_name", "istio_requests_total"), false},
		"environments of pods": {labelled("env", "istio_requests_total"), false},
		"zones of one cluster": {labelled("zone"), false},
	} {
		a := alone(t, c.of.prometheus(t, 10*time.Minute), Assessment{})
		if assess.SeveralClusters.In(a.Unknown) != c.several || c.several != (len(a.Mesh.Proxies) == 0) ||
			c.several != (a.Traffic == nil) || c.several != (a.Limits == nil) {
			t.Errorf("%s: %d groups of proxies, %+v, %v", name, len(a.Mesh.Proxies), a.Traffic, a.Unknown)
		}
	}
	checkShop(t, "one of two", alone(t, labelled("acme_cluster").prometheus(t, 10*time.Minute), Assessment{Matchers: `acme_cluster="one"`}))
}

// Of istiods of two revisions those of one are judged, whatever names the revision.
func TestAssessPrometheusOfRevisions(t *testing.T) {
	for name, labels := range map[string]string{"by their names": "", "by their labels": `,istio_io_rev="canary"`} {
		m := shopMetrics(podTarget)
		for series, v := range shopMetrics(podTarget) {
			if strings.Contains(series, "istiod-7d4b9f8c5") {
				m[strings.Replace(series, "abcde", "fghij", 1)] = v // a second replica
				own := strings.Replace(strings.ReplaceAll(series, "istiod-7d4b9f8c5", "istiod-canary-7d4b9f8c5"), `tag="1.20.1"`, `tag="1.21.0"`, 1)
				m[strings.TrimSuffix(own, "}")+labels+"}"] = 10 * v
			}
		}
		for revision, pushes := range map[string]float64{"": 10, "canary": 50} {
			if revision != "" && labels == "" {
				revision = "istiod-canary"
			}
			o := Assessment{}
			o.Revision = revision
			a := alone(t, m.prometheus(t, 10*time.Minute), o)
			v, _ := a.Signals.Find("xds_pushes")
			cpu, _ := a.Signals.Find("cpu_process_cores")
			if v.Value == nil || !near(*v.Value, pushes) || cpu.Value == nil || !near(*cpu.Value, pushes/10) {
				t.Errorf("%s, revision %q: pushes %+v, CPU %+v", name, revision, v, cpu)
			}
			if want := map[string]string{"": "1.20.1"}[revision]; !assess.OtherRevisions.In(a.Unknown) || assess.SeveralIstiods.In(a.Unknown) || want != "" && a.Mesh.Istiod != want {
				t.Errorf("%s, revision %q: istiod %s, %v", name, revision, a.Mesh.Istiod, a.Unknown)
			}
		}
	}
}

// What Prometheus does not tell is unknown, with the reason.
func TestAssessPrometheusLacks(t *testing.T) {
	without := func(names ...string) metrics {
		return shopMetrics(podTarget).without(func(series string) bool {
			name, _, _ := strings.Cut(series, "{")
			return slices.Contains(names, name)
		})
	}
	partly := without("istio_build").without(func(series string) bool {
		return strings.HasPrefix(series, "istio") && strings.Contains(series, "catalog-7d")
	})
	oneSided := shopMetrics(podTarget).without(func(series string) bool { return strings.Contains(series, `reporter="source"`) })
	nameless := metrics{}
	for series, v := range shopMetrics(podTarget) {
		nameless[regexp.MustCompile(`,container="[^"]*"`).ReplaceAllString(series, "")] = v
	}
	native := without("istio_request_bytes_sum", "istio_request_bytes_count")
	native[`istio_request_bytes{namespace="shop",pod="cart-7d4b9f8c5-abcde",reporter="source"}`] = 1
	upgraded := shopMetrics(podTarget)
	upgraded[`istio_build{job="pods",namespace="istio-system",pod="istiod-canary-7d4b9f8c5-abcde",component="pilot",tag="1.21.0"}`] = 1
	for name, c := range map[string]struct {
		of    metrics
		is    []assess.Gap
		isNot []assess.Gap
	}{
		"nothing":          {metrics{`up{job="x"}`: 1}, []assess.Gap{assess.NotScraped, assess.NotWatched}, []assess.Gap{assess.NoPods}},
		"no cAdvisor":      {without("container_cpu_usage_seconds_total", "container_memory_working_set_bytes"), []assess.Gap{assess.NotScraped, assess.UnknownUse}, []assess.Gap{assess.NoCounters, assess.NotWatched}},
		"no containers":    {nameless, []assess.Gap{assess.NoContainers, assess.UnknownUse}, []assess.Gap{assess.NoRates, assess.NotScraped}},
		"no proxies":       {without("istio_requests_total", "istio_tcp_connections_opened_total", "istio_build"), []assess.Gap{assess.NotScraped, assess.NoCounters}, []assess.Gap{assess.UnknownUse}},
		"no istiod":        {without("pilot_services", "pilot_xds", "pilot_xds_pushes"), []assess.Gap{assess.NotScraped, assess.NotWatched}, []assess.Gap{assess.NoCounters}},
		"one is unscraped": {partly, []assess.Gap{assess.Unscraped, assess.SomeCounted}, []assess.Gap{assess.NoCounters}},
		"one side":         {oneSided, []assess.Gap{assess.NoReporter, assess.NoCounters}, []assess.Gap{assess.Unscraped}},
		"no requests":      {without("kube_pod_container_resource_requests", "kube_pod_container_resource_limits"), []assess.Gap{assess.NoResources}, []assess.Gap{assess.UnknownUse}},
		"two istiods":      {upgraded, []assess.Gap{assess.SeveralIstiods}, []assess.Gap{assess.NotWatched}},
		"native":           {native, []assess.Gap{assess.Native, assess.NoPayloads}, nil},
		"no pods named":    {shopMetrics(`job="x",k=%q,instance=%q`), []assess.Gap{assess.NoPodLabel, assess.NoCounters}, []assess.Gap{assess.NoRates}},
	} {
		a := alone(t, c.of.prometheus(t, 10*time.Minute), Assessment{})
		checkUnknown(t, name, a.Unknown, c.is, c.isNot)
	}
	if a := alone(t, without("istio_tcp_connections_closed_total").prometheus(t, 10*time.Minute), Assessment{}); a.Traffic == nil || a.Traffic.Open != nil {
		t.Errorf("all connections count as open: %+v", a.Traffic)
	}
	refused := served(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "who?", http.StatusUnauthorized) })
	if a := alone(t, refused, Assessment{}); !assess.NoPrometheus.In(a.Unknown) || a.Traffic != nil {
		t.Errorf("refused: %v", a.Unknown)
	}
	if a := alone(t, served(t, http.NotFound), Assessment{}); !assess.NoPrometheus.In(a.Unknown) {
		t.Errorf("something else: %v", a.Unknown)
	}
}

// Without their pods' names, who calls whom is still known.
func TestAssessPrometheusWithoutPods(t *testing.T) {
	a := alone(t, shopMetrics(`job="x",k=%q,instance=%q`).prometheus(t, 10*time.Minute), Assessment{})
	tr := a.Traffic
	if tr == nil || tr.Read != 0 || len(tr.Calls) != 5 || !near(tr.Calls[0].PerS, 100) || !near(tr.Sizes.Request, 200) {
		t.Errorf("%+v", tr)
	}
}

// What was read of proxies is kept, and compared with Prometheus.
func TestAssessPrometheusBesideReading(t *testing.T) {
	read := func(called, cores float64) []assess.Unknown {
		r := &meshRead{Assessment: Assessment{Prometheus: shopMetrics(podTarget).prometheus(t, 10*time.Minute)}, inv: generate.NewInventory()}
		r.Duration = 5 * time.Minute
		r.proxies = []assess.Proxy{
			{Kind: assess.Sidecar, Namespace: "shop", Pod: "cart-7d4b9f8c5-abcde", Called: new(called), Served: new(0.0), Connections: new(0.0), Cores: new(cores), Bytes: new(1.0)},
			{Kind: assess.Sidecar, Namespace: "shop", Pod: "catalog-7d4b9f8c5-abcde"}}
		must.OK(t, r.askPrometheus(t.Context()))
		if x := r.proxies[0]; *x.Called != called || *x.Cores != cores || x.RequestsBy != assess.ByItself || x.UsageBy != assess.ByItself {
			t.Errorf("what was read: %+v", x)
		}
		if x := r.proxies[1]; x.Called == nil || !near(*x.Served, 105) || *x.Called != 0 || !near(*x.Cores, 0.2) || x.RequestsBy != assess.ByPrometheus || x.UsageBy != assess.ByPrometheus {
			t.Errorf("what was not: %+v", x)
		}
		return r.e.Unknown
	}
	if u := read(115, 0.21); assess.RequestsDiffer.In(u) || assess.UsageDiffers.In(u) {
		t.Errorf("nearly the same: %v", u)
	}
	if u := read(60, 0.9); !assess.RequestsDiffer.In(u) || !assess.UsageDiffers.In(u) {
		t.Errorf("not the same: %v", u)
	}
}

// Where part of a mesh cannot be reached, Prometheus fills in the rest.
func TestAssessWithPrometheus(t *testing.T) {
	m := metrics{}
	for series, v := range shopMetrics(podTarget) {
		series = strings.NewReplacer("cart-7d4b9f8c5-abcde", "catalog-v1-77bf65668c-gkmlg", "istiod-7d4b9f8c5-abcde", "istiod-1", "ztunnel-abcde", "ztunnel-a").Replace(series)
		m[strings.ReplaceAll(series, `namespace="shop",pod="waypoint-7d4b9f8c5-abcde"`, `namespace="bank",pod="waypoint-1"`)] = v
	}
	remote := m.prometheus(t, 10*time.Minute)
	for refused, c := range map[string]struct{ is, isNot []assess.Gap }{
		"/namespaces/istio-system/pods": {[]assess.Gap{assess.NotReached, assess.RequestsDiffer}, []assess.Gap{assess.NotWatched, assess.NoGateways, assess.NoPayloads, assess.NoHTTPOpen, assess.NoPods}},
		"/proxy/metrics/resource":       {nil, []assess.Gap{assess.NoUsage, assess.NotReached}},
		"/api/v1/pods":                  {[]assess.Gap{assess.NotRead, assess.NoPods}, []assess.Gap{assess.NoCounters}},
	} {
		mesh := &fakeMesh{refuse: refused}
		a := mesh.assessed(t, Assessment{Prometheus: remote})
		if a.Limits == nil || a.Traffic == nil || a.Traffic.Sizes == nil || a.Mesh.Count(assess.Sidecar) == 0 {
			t.Errorf("without %s: %+v, %v", refused, a.Traffic, a.Unknown)
			continue
		}
		for _, u := range a.Cost.Uses {
			if u.Kind == assess.Sidecar && (u.Measured != u.Count || (u.Metered == 0) != (refused == "/namespaces/istio-system/pods")) {
				t.Errorf("without %s: %+v", refused, u)
			}
		}
		checkUnknown(t, "without "+refused, a.Unknown, c.is, c.isNot)
		if len(mesh.writes) > 0 {
			t.Errorf("the mesh was written to: %v", mesh.writes)
		}
	}
}

// Saved answers tell the same as the server, if each metric was sampled twice.
func TestAssessAnswers(t *testing.T) {
	from := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	whole := shopMetrics(podTarget).answer(from, from.Add(10*time.Minute))
	assessed := func(files map[string]string) assess.Assessment {
		return fromFiles(t, Assessment{}, files, slices.Collect(maps.Keys(files)))
	}
	a := assessed(map[string]string{"range.json": whole, "rate.json": `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"pod":"x"},"value":[1,"2"]}]}}`})
	if checkShop(t, "range", a); !assess.FileNameless.In(a.Unknown) || a.WindowS < 599 || a.WindowS > 601 {
		t.Errorf("over %g s: %v", a.WindowS, a.Unknown)
	}
	native := `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"pilot_xds_push_time"},"histograms":[[1000,{"count":"5","sum":"2"}]]}]}}`
	if n := assessed(map[string]string{"range.json": whole, "native.json": native}); !assess.Native.In(n.Unknown) || assess.Native.In(a.Unknown) {
		t.Errorf("native histograms: %v", n.Unknown)
	} else {
		checkShop(t, "beside native histograms", n)
	}
	// Metrics that were queried at other times are each over their own.
	split := map[string]string{}
	for i, names := range [][]string{{"container_cpu_usage_seconds_total", "container_memory_working_set_bytes", "kube_pod_container_resource_requests", "kube_pod_container_resource_limits", "kube_pod_info"}, {"istio_"}, {"pilot_", "process_"}} {
		m := shopMetrics(podTarget).without(func(series string) bool {
			return !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(series, name) })
		})
		at := from.Add(time.Duration(i) * time.Hour)
		split[fmt.Sprint(i)] = m.answer(at, at.Add(4*time.Minute))
	}
	b := assessed(split)
	if tr := b.Traffic; tr == nil || !near(tr.Called, 120) || !near(tr.Served, 106) || b.Limits == nil {
		t.Errorf("at other times: %+v, %v", tr, b.Unknown)
	}
	for _, u := range b.Cost.Uses {
		if u.Measured != u.Count || !near(u.Used.Cores, 0.2*float64(u.Count)) {
			t.Errorf("at other times: %+v", u)
		}
	}
	once := assessed(map[string]string{"x": shopMetrics(podTarget).answer(from, from)})
	if !assess.NoRates.In(once.Unknown) || once.Traffic != nil || once.Mesh.Count(assess.Sidecar) != 2 {
		t.Errorf("one answer: %+v, %v", once.Traffic, once.Unknown)
	}
}

// A Prometheus is asked about an earlier time, when a mesh that runs now is not read.
func TestAssessPrometheusAt(t *testing.T) {
	at := time.Now().Add(-48 * time.Hour)
	o := Assessment{Istiod: Istiod{Where: Where{Lab: lab.KindLocal}}, Prometheus: shopMetrics(podTarget).between(t, at.Add(-10*time.Minute), at)}
	o.Duration, o.PrometheusAt = 5*time.Minute, at
	a, _, err := o.Assess(t.Context())
	must.OK(t, err)
	if checkShop(t, "then", a); !a.At.Equal(at) {
		t.Errorf("at %v", a.At)
	}
	if now := alone(t, o.Prometheus, Assessment{}); now.Traffic != nil {
		t.Errorf("now: %+v", now.Traffic)
	}
}

// Prometheus stands in for a cluster in a whole assessment, not for the configuration of proxies.
func TestAssessSectionsWithoutCluster(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	remote := shopMetrics(podTarget).prometheus(t, 10*time.Minute)
	for section, stands := range map[string]bool{"": true, assess.SectionConfiguration: false} {
		a, _, err := Assessment{Istiod: Istiod{Where: Where{Lab: lab.KindLocal}}, Section: section, Prometheus: remote}.Assess(t.Context())
		if (err == nil) != stands || stands && a.Traffic == nil {
			t.Errorf("section %q: %v, %+v", section, err, a.Traffic)
		}
	}
}
