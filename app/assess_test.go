package app

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/advise/advice/variables"
	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/advise/scope/generate"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// fakeMesh is the API server, the kubelet and the pods of a small mesh. Counters rise by the same at each
// look: a kubelet's in ten seconds of its own time.
type fakeMesh struct {
	t      *testing.T
	refuse string // a path of the API server that is forbidden

	mu     sync.Mutex
	looks  map[string]int
	writes []string
}

const fakeIstiod = `{"metadata":{"namespace":"istio-system","name":"istiod-1","ownerReferences":[{"kind":"ReplicaSet","name":"istiod-77bf65668c","controller":true}],"labels":{"app":"istiod","istio.io/rev":"default","pod-template-hash":"77bf65668c"}},"spec":{"nodeName":"one","containers":[{"name":"discovery","image":"docker.io/istio/pilot:1.31.0","resources":{"limits":{"cpu":"2","memory":"2Gi"}}}]},"status":{"phase":"Running","podIP":"127.0.0.1"}}`

const fakePods = `{"metadata":{},"items":[` + fakeIstiod + `,` +
	`{"metadata":{"namespace":"istio-system","name":"ztunnel-a"},"spec":{"nodeName":"two","containers":[{"name":"istio-proxy","image":"docker.io/istio/ztunnel:1.31.0","args":["proxy","ztunnel"]}]},"status":{"phase":"Running"}},` +
	`{"metadata":{"namespace":"bank","name":"waypoint-1"},"spec":{"nodeName":"two","containers":[{"name":"istio-proxy","image":"docker.io/istio/proxyv2:1.31.0","args":["proxy","waypoint"]}]},"status":{"phase":"Running"}},` +
	`{"metadata":{"namespace":"bank","name":"pay-1","annotations":{"ambient.istio.io/redirection":"enabled"}},"spec":{"nodeName":"two","containers":[{"name":"app"}]},"status":{"phase":"Running"}},` +
	`{"metadata":{"namespace":"shop","name":"leaving-1","deletionTimestamp":"2026-11-30T00:00:00Z"},"spec":{"nodeName":"two","containers":[{"name":"istio-proxy","args":["proxy","sidecar"]}]},"status":{"phase":"Running"}},` +
	`{"metadata":{"namespace":"shop","name":"other-1"},"spec":{"nodeName":"two","containers":[{"name":"app"}]},"status":{"phase":"Running"}},` +
	`{"metadata":{"namespace":"shop","name":"catalog-v1-77bf65668c-gkmlg","labels":{"pod-template-hash":"77bf65668c","istio.io/rev":"stable"},"annotations":{"istio.io/rev":"default"},"ownerReferences":[{"kind":"ReplicaSet","name":"catalog-v1-77bf65668c","controller":true}]},` +
	`"spec":{"nodeName":"one","containers":[{"name":"app"}],"initContainers":[{"name":"istio-proxy","image":"docker.io/istio/proxyv2:1.30.2@sha256:00","args":["proxy","sidecar","--concurrency=4"],"resources":{"requests":{"cpu":"100m","memory":"128Mi"}}}]},"status":{"phase":"Running","initContainerStatuses":[{"name":"istio-proxy","restartCount":3}]}}]}`

// fakeObjects are lists by the last part of their path.
var fakeObjects = map[string]string{
	"pods": fakePods,
	"services": `{"items":[{"metadata":{"namespace":"shop","name":"catalog"},"spec":{"ports":[{"name":"http","port":80}]}},{"metadata":{"namespace":"shop","name":"db"},"spec":{"ports":[{"name":"tcp","port":5432}]}},` +
		`{"metadata":{"namespace":"shop","name":"edge"},"spec":{"ports":[{"name":"http","port":80}]}}]}`,
	"virtualservices": `{"items":[{"kind":"VirtualService","metadata":{"namespace":"shop","name":"routes"},"spec":{"hosts":["catalog"],"http":[{"route":[{"destination":{"host":"catalog"}}]}]}}]}`,
	"deployments":     `{"items":[{"metadata":{"namespace":"istio-system","name":"istiod","labels":{"app":"istiod"}},"spec":{"selector":{"matchLabels":{"app":"istiod"}},"template":{"spec":{"containers":[{"name":"discovery"}]}}}}]}`,
	"namespaces":      `{"items":[{"metadata":{"name":"shop"}},{"metadata":{"name":"bank"}}]}`,
	"envoyfilters": `{"items":[{"metadata":{"namespace":"shop","name":"lua"},"spec":{"configPatches":[{"applyTo":"HTTP_FILTER","match":{"context":"SIDECAR_INBOUND"},"patch":{"operation":"INSERT_BEFORE","value":{"name":"a"}}}]}},` +
		`{"metadata":{"namespace":"shop","name":"asks"},"spec":{"configPatches":[{"applyTo":"CLUSTER","patch":{"value":{"cluster_name":"outbound|80||authz.shop.svc.cluster.local"}}}]}}]}`,
	"horizontalpodautoscalers": `{"items":[{"metadata":{"namespace":"istio-system"},"spec":{"scaleTargetRef":{"kind":"Deployment","name":"istiod"},"maxReplicas":5}},` +
		`{"metadata":{"namespace":"shop"},"spec":{"scaleTargetRef":{"kind":"StatefulSet","name":"db"},"minReplicas":2,"maxReplicas":3}}]}`,
	"authorizationpolicies": `{"items":[{"metadata":{"namespace":"shop","name":"paths"},"spec":{"selector":{"matchLabels":{"app":"edge"}},"rules":[{"to":[{"operation":{"paths":["/"]}}]}]}}]}`,
	"peerauthentications":   `{"metadata":{"remainingItemCount":6},"items":[{}]}`,
}

// ServeHTTP is the API server.
func (m *fakeMesh) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	look := m.look(r.URL.Path)
	if r.Method != http.MethodGet && !strings.HasSuffix(r.URL.Path, "/portforward") { // which leaves no object
		m.mu.Lock()
		m.writes = append(m.writes, r.Method+" "+r.URL.Path)
		m.mu.Unlock()
	}
	w.Header().Set("Content-Type", "application/json")
	parts := strings.Split(r.URL.Path, "/")
	list, listed := fakeObjects[parts[len(parts)-1]]
	switch {
	case m.refuse != "" && strings.Contains(r.URL.Path, m.refuse):
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":"not for you"}`)
	case strings.HasSuffix(r.URL.Path, "/proxy/metrics/resource"):
		w.Header().Set("Content-Type", "text/plain")
		at := 1_700_000_000_000 + 10_000*look
		for pod, each := range map[string]float64{"shop/catalog-v1-77bf65668c-gkmlg/istio-proxy": 1, "istio-system/istiod-1/discovery": 5, "bank/waypoint-1/istio-proxy": 2} {
			p := strings.Split(pod, "/")
			labels := fmt.Sprintf(`{namespace=%q,pod=%q,container=%q}`, p[0], p[1], p[2])
			fmt.Fprintf(w, "container_cpu_usage_seconds_total%s %g %d\ncontainer_memory_working_set_bytes%s 5e+07 %d\n", labels, 3+each*float64(look), at, labels, at)
		}
	case r.URL.Query().Get("watch") != "" || !listed && strings.Contains(r.URL.Path, "/proxy/"):
		http.NotFound(w, r)
	case strings.HasSuffix(r.URL.Path, "/namespaces/istio-system/pods"):
		fmt.Fprint(w, `{"metadata":{},"items":[`+fakeIstiod+`]}`)
	case listed:
		fmt.Fprint(w, list)
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind":"Status","status":"Failure","reason":"NotFound","code":404}`)
	}
}

// look counts the looks at a path.
func (m *fakeMesh) look(path string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looks[path]++
	return m.looks[path]
}

// pod answers for a pod's port.
func (m *fakeMesh) pod(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/config_dump":
		must.OK(m.t, must.Err(w.Write(recordedDump(m.t))))
	case "/clusters":
		n := m.look(r.URL.Path)
		stat := func(cluster string, each int, more ...any) map[string]any {
			return map[string]any{"name": cluster, "host_statuses": []any{map[string]any{"stats": append(more, map[string]any{"name": "rq_total", "value": fmt.Sprint(each * n)})}}}
		}
		must.OK(m.t, json.NewEncoder(w).Encode(map[string]any{"cluster_statuses": []any{
			stat("outbound|80||catalog.shop.svc.cluster.local", 300, map[string]any{"name": "cx_active", "type": "GAUGE", "value": "6"}), stat("outbound|80|v2|edge.shop.svc.cluster.local", 100),
			stat("outbound|5432||db.shop.svc.cluster.local", 50), stat("inbound|8080||", 200, map[string]any{"name": "rq_success", "value": "9"}), stat("inbound|5432||", 50), stat("xds-grpc", 7), stat("PassthroughCluster", 1)}}))
	case "/stats/prometheus":
		fmt.Fprint(w, "# TYPE istio_request_bytes histogram\nistio_request_bytes_bucket{reporter=\"source\",le=\"+Inf\"} 4\nistio_request_bytes_sum{reporter=\"source\"} 800\nistio_request_bytes_count{reporter=\"source\"} 4\n"+
			"# TYPE istio_response_bytes histogram\nistio_response_bytes_bucket{reporter=\"source\",le=\"+Inf\"} 4\nistio_response_bytes_sum{reporter=\"source\"} 12000\nistio_response_bytes_count{reporter=\"source\"} 4\n")
	case "/metrics":
		fmt.Fprintf(w, "# TYPE pilot_xds gauge\npilot_xds 4\n# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total %d\n", m.look(r.URL.Path))
	default:
		http.NotFound(w, r)
	}
}

// recordedDump is a config dump of a sidecar.
func recordedDump(t *testing.T) []byte {
	t.Helper()
	packed, err := os.Open("../advise/scope/testdata/sidecar.json.gz")
	must.OK(t, err)
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	must.OK(t, err)
	dump, err := io.ReadAll(z)
	must.OK(t, err)
	return dump
}

// howMany counts unknowns of a kind.
func howMany(g assess.Gap, all []assess.Unknown) (n int) {
	for _, u := range all {
		if g.In([]assess.Unknown{u}) {
			n++
		}
	}
	return n
}

// assessed assesses the fake mesh.
func (m *fakeMesh) assessed(t *testing.T, o Assessment) assess.Assessment {
	t.Helper()
	m.t, m.looks = t, map[string]int{}
	api, pods := httptest.NewServer(m), httptest.NewServer(http.HandlerFunc(m.pod))
	t.Cleanup(api.Close)
	t.Cleanup(pods.Close)
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, pods.Listener.Addr().String())
	}}}
	from := openFake(t, api.URL, client)
	o.Istiod = from.Istiod
	o.IstiodWatch = IstiodWatch{Interval: 100 * time.Millisecond, Duration: time.Second, Say: func(string) {},
		Ask: func(context.Context, string) (*variables.Known, string, error) { return nil, "", nil }}
	e, _, err := o.read(t.Context(), from, func(string, string, int) (*http.Client, func() error) { return client, func() error { return nil } })
	must.OK(t, err)
	a, err := o.conclude(e, nil)
	must.OK(t, err)
	return a
}

func openFake(t *testing.T, url string, pods *http.Client) *Istiods {
	t.Helper()
	config := &rest.Config{Host: url, QPS: -1}
	kube, err := kubernetes.NewForConfig(config)
	must.OK(t, err)
	return &Istiods{Istiod: Istiod{Where: Where{Lab: "local"}, Namespace: "istio-system"}, config: config, kube: kube, dialer: lab.NewDialer(config),
		clients: map[string]*http.Client{"istiod-1": pods}}
}

func TestAssess(t *testing.T) {
	m := &fakeMesh{}
	a := m.assessed(t, Assessment{Prices: assess.Prices{Core: 40, Currency: "USD"}})
	if len(m.writes) > 0 {
		t.Errorf("the mesh was written to: %v", m.writes)
	}
	groups := map[assess.Kind]assess.Group{}
	for _, g := range a.Mesh.Proxies {
		groups[g.Kind] = g
	}
	if g := groups[assess.Sidecar]; g.Count != 1 || g.Version != "1.30.2" || g.Requests.Cores != 0.1 || g.Requests.Bytes != 128<<20 || g.Unlimited != 1 || g.Restarts != 3 {
		t.Errorf("sidecars: %+v", g)
	}
	if g := groups[assess.Istiod]; g.Count != 1 || g.Version != "1.31.0" || g.Limits.Cores != 2 || g.Revision != "default" {
		t.Errorf("istiod: %+v", g)
	}
	if groups[assess.Ztunnel].Count != 1 || groups[assess.Waypoint].Count != 1 || groups[assess.Gateway].Count != 0 || a.Mesh.Enrolled != 1 || a.Mesh.Nodes != 2 {
		t.Errorf("%+v", a.Mesh)
	}
	if d := a.Mesh.Deployments; len(d) != 2 || d[0].Name != "istiod" || d[0].Autoscaled == nil || *d[0].Autoscaled != (assess.Bounds{Least: 1, Most: 5}) || d[1].Kind != assess.Waypoint || d[1].Autoscaled != nil {
		t.Errorf("Deployments: %+v", d)
	}
	if s := a.Mesh.Skews; len(s) != 1 || s[0].Kind != assess.Sidecar || s[0].Revision != "default" || s[0].Istiod != "1.31.0" || s[0].Minors != 1 {
		t.Errorf("skews: %+v", s)
	}
	if o := a.Mesh.Objects; o["Service"] != 3 || o["VirtualService"] != 1 || o["AuthorizationPolicy"] != 1 || o["PeerAuthentication"] != 7 || o["Sidecar"] != 0 {
		t.Errorf("objects: %v", o)
	}
	// EnvoyFilters hold for all pods of their namespace.
	if n := a.Namespaces; len(n) != 1 || n[0].Name != "shop" || n[0].L7 == nil || *n[0].L7 != 1 || !slices.Contains(n[0].Needs, "EnvoyFilter shop/lua") || !slices.Contains(n[0].Needs, "VirtualService shop/routes") {
		t.Errorf("namespaces: %+v", n)
	}
	i := slices.IndexFunc(a.Settle, func(s assess.Study) bool { return s.Name == assess.StudyFilters })
	if i < 0 || !strings.Contains(a.Settle[i].File, "filters: [none, envoyfilter-shop-lua]") || !strings.Contains(a.Settle[i].File, "concurrency: 4") {
		t.Errorf("studies: %+v", a.Settle)
	}
	uses := map[assess.Kind]assess.Use{}
	for _, u := range a.Cost.Uses {
		uses[u.Kind] = u
	}
	for kind, cores := range map[assess.Kind]float64{assess.Sidecar: 0.1, assess.Istiod: 0.5, assess.Waypoint: 0.2} {
		if u := uses[kind]; u.Measured != 1 || math.Abs(u.Used.Cores-cores) > 1e-9 || u.Used.Bytes != 5e7 || math.Abs(u.Month-40*cores) > 1e-9 {
			t.Errorf("%s: %+v", kind, u)
		}
	}
	if w := a.Cost.Workloads; len(w) != 1 || w[0].Workload != "catalog-v1" {
		t.Errorf("workloads: %+v", w)
	}
	tr := a.Traffic
	if tr == nil || tr.Read != 1 || !(tr.Served > 0) || math.Abs(tr.Called/tr.Served-2) > 1e-9 || math.Abs(tr.Connections/tr.Served-0.5) > 1e-9 || !(tr.WindowS >= 0.5) || math.Abs(*tr.Routed-1) > 1e-9 {
		t.Fatalf("traffic: %+v", tr)
	}
	if tr.Sizes == nil || *tr.Sizes != (assess.Sizes{Request: 200, Response: 3000}) || tr.Carrying == nil || *tr.Carrying != 6 || assess.NoPayloads.In(a.Unknown) || assess.NoHTTPOpen.In(a.Unknown) {
		t.Errorf("sizes %+v, %v connections: %v", tr.Sizes, tr.Carrying, a.Unknown)
	}
	if len(tr.Calls) != 3 || tr.Calls[0].Host != "catalog.shop.svc.cluster.local" || tr.Calls[0].From.String() != "shop/catalog-v1" || !tr.Calls[0].Routed || !tr.Calls[2].TCP {
		t.Errorf("calls: %+v", tr.Calls)
	}
	if a.Configuration == nil || a.Configuration.Held.DumpBytes == 0 || len(a.Configuration.Held.Owners) == 0 {
		t.Errorf("configuration: %+v", a.Configuration)
	}
	if a.Limits == nil || a.Signals == nil {
		t.Fatalf("istiod was not watched: %v", a.Unknown)
	}
	if v, ok := a.Signals.Find("xds_proxies"); !ok || v.Value == nil || *v.Value != 4 {
		t.Errorf("signals: %+v", v)
	}
	if n := m.looks["/clusters"]; n != 2 {
		t.Errorf("the counters of a sidecar were read %d times", n)
	}
	if !assess.Passthrough.In(a.Unknown) || !assess.UnknownUse.In(a.Unknown) || !assess.NoAmbient.In(a.Unknown) || assess.NotWatched.In(a.Unknown) || assess.NoPrices.In(a.Unknown) {
		t.Errorf("unknown: %v", a.Unknown)
	}
}

// For one section nothing is read that only others need.
func TestAssessSections(t *testing.T) {
	for section, c := range map[string]struct {
		clusters int // readings of counters: of sidecars alone, or of all three proxies
		watched  bool
	}{assess.SectionTraffic: {2, true}, assess.SectionLimits: {1, true}, assess.SectionConfiguration: {3, false}} {
		m := &fakeMesh{}
		a := m.assessed(t, Assessment{Section: section})
		if n := m.looks["/clusters"]; n != c.clusters {
			t.Errorf("%s: counters were read %d times", section, n)
		}
		for _, page := range []string{"/metrics", "/api/v1/services"} {
			if n := m.looks[page]; (n > 0) != c.watched {
				t.Errorf("%s: %s was read %d times", section, page, n)
			}
		}
		if (a.Traffic != nil) != (section == assess.SectionTraffic) || (a.Limits != nil) != c.watched || (a.Configuration != nil) != (section == assess.SectionConfiguration) {
			t.Errorf("%s: %+v", section, a)
		}
		if i := slices.IndexFunc(a.Cost.Uses, func(u assess.Use) bool { return u.Measured > 0 }); i >= 0 {
			t.Errorf("%s: usage was read: %+v", section, a.Cost.Uses[i])
		}
	}
}

// Counters tell a rate only where none of them fell, even if those of other endpoints made up for it.
func TestRates(t *testing.T) {
	type counts = map[string]map[string]scope.Count
	had := counts{"outbound|80||a.b": {"one": {Requests: 100}, "two": {Requests: 50}}, "PassthroughCluster": {"x": {Requests: 9}}}
	for name, c := range map[string]struct {
		now   counts
		want  float64
		whole bool
	}{
		"rose":          {counts{"outbound|80||a.b": {"one": {Requests: 120}, "two": {Requests: 50}, "three": {Requests: 20}}}, 4, true},
		"endpoint left": {counts{"outbound|80||a.b": {"one": {Requests: 900}}}, 0, false},
		"restarted":     {counts{"outbound|80||a.b": {"one": {Requests: 3}, "two": {Requests: 900}}}, 0, false},
	} {
		rates, whole := ratesOf(had, c.now, 10)
		if whole != c.whole || rates["outbound|80||a.b"].perS != c.want {
			t.Errorf("%s: %v, %v", name, rates, whole)
		}
	}
}

// What the user may not read is unknown, and said so; the rest is assessed.
func TestAssessWithoutRights(t *testing.T) {
	for refused, gap := range map[string]assess.Gap{"/proxy/metrics/resource": assess.NoUsage, "authorizationpolicies": assess.NoKind, "/services": assess.NotRead} {
		m := &fakeMesh{refuse: refused}
		a := m.assessed(t, Assessment{})
		if !gap.In(a.Unknown) || a.Mesh.Count(assess.Sidecar) != 1 || a.Traffic == nil {
			t.Errorf("without %s: %v", refused, a.Unknown)
		}
		if _, counted := a.Mesh.Objects["AuthorizationPolicy"]; counted == (refused == "authorizationpolicies") {
			t.Errorf("without %s: %v", refused, a.Mesh.Objects)
		}
	}
}

// Of several revisions the one with most replicas is read, if none is named, and that is said.
func TestAssessOneOfTwoRevisions(t *testing.T) {
	istiod := func(revision string) assess.Proxy {
		return assess.Proxy{Kind: assess.Istiod, Namespace: "istio-system", Revision: revision}
	}
	for name, c := range map[string]struct {
		named string
		there []assess.Proxy
		want  string
		told  bool
	}{
		"two":   {"", []assess.Proxy{istiod("canary"), istiod("stable"), istiod("stable")}, "stable", true},
		"named": {"canary", []assess.Proxy{istiod("canary"), istiod("stable")}, "canary", false},
		"one":   {"", []assess.Proxy{istiod("default"), istiod("default")}, "", false},
	} {
		where := Istiod{Namespace: "istio-system", Revision: c.named}
		r := &meshRead{Assessment: Assessment{Istiod: where}, from: &Istiods{Istiod: where}, proxies: c.there}
		r.chooseRevision()
		if r.Revision != c.want || r.from.Revision != c.want || assess.OtherRevisions.In(r.e.Unknown) != c.told {
			t.Errorf("%s: revision %q, istiod's %q, %v", name, r.Revision, r.from.Revision, r.e.Unknown)
		}
	}
}

// Settings at Istio's defaults are of no interest, nor is the image.
func TestChangedSettings(t *testing.T) {
	got := changedSettings(record.Cell{study.FactorDebounceAfter: "1s", controlplane.FactorExportTo: "*", controlplane.FactorIstiod: "istio/pilot:1.31", controlplane.FactorIstiodEnv: "A=1", "unknown": "x"})
	want := []assess.Setting{{Name: study.FactorDebounceAfter, Level: "1s", Default: "100ms"}, {Name: controlplane.FactorIstiodEnv, Level: "A=1"}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A proxy belongs to the revision that injected it, whatever tag its pod's label names.
func TestInjectedBy(t *testing.T) {
	for name, c := range map[string]struct {
		labels, annotations map[string]string
		want                string
	}{
		"a tag":            {map[string]string{"istio.io/rev": "prod"}, map[string]string{"istio.io/rev": "1-31"}, "1-31"},
		"no label":         {nil, map[string]string{"istio.io/rev": "default"}, "default"},
		"no annotation":    {map[string]string{"istio.io/rev": "canary"}, nil, "canary"},
		"neither of these": {},
	} {
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: c.labels, Annotations: c.annotations},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "istio-proxy", Args: []string{"proxy", "sidecar"}}}}}
		if p, _, ok := proxyOf(pod); !ok || p.Revision != c.want {
			t.Errorf("%s: %q, %v", name, p.Revision, ok)
		}
	}
}

// Calls come from maps: their order depends on nothing else than what they are.
func TestSortCalls(t *testing.T) {
	from := generate.Workload{Namespace: "shop", Name: "cart"}
	want := []assess.Call{{From: from, Host: "a", PerS: 2}, {From: from, Host: "a", PerS: 1}, {From: from, Host: "a", PerS: 1, TCP: true}, {From: from, Host: "b"}}
	for i := range want {
		r := &meshRead{e: assess.Evidence{Calls: slices.Concat(want[i:], want[:i])}}
		slices.Reverse(r.e.Calls)
		if r.sortCalls(); !slices.Equal(r.e.Calls, want) {
			t.Errorf("%+v", r.e.Calls)
		}
	}
}
