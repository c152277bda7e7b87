package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshtrial/meshtrial/advise/advice/variables"
	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/testing/must"
)

// manyPods is a mesh of thousands of sidecars.
type manyPods struct {
	fakeMesh
	pods int
}

func (m *manyPods) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/api/v1/pods" {
		m.fakeMesh.ServeHTTP(w, r)
		return
	}
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	to, next := m.pods, ""
	if limit > 0 && from+limit < m.pods {
		to, next = from+limit, strconv.Itoa(from+limit)
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"kind":"PodList","metadata":{"continue":%q},"items":[`, next)
	for i := from; i < to; i++ {
		if i > from {
			fmt.Fprint(w, ",")
		}
		fmt.Fprintf(w, `{"metadata":{"namespace":"shop-%d","name":"web-7d9f8c7b6d-%05d","ownerReferences":[{"kind":"ReplicaSet","name":"web-7d9f8c7b6d","controller":true}]},`+
			`"spec":{"containers":[{"name":"app"},{"name":"istio-proxy","image":"istio/proxyv2:1.31.0","args":["proxy","sidecar"]}]},"status":{"phase":"Running"}}`, i%20, i)
	}
	fmt.Fprint(w, "]}")
}

// answering has the pages of proxies, without a network.
type answering struct {
	dump, clusters []byte
	hangs          bool
}

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.hangs {
		<-r.Context().Done()
		return nil, context.Cause(r.Context())
	}
	body := a.clusters
	if r.URL.Path == "/config_dump" {
		body = a.dump
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
}

// manyServices is a recorded config dump with clusters and endpoints for more Services.
func manyServices(t *testing.T, services int) (dump, clusters []byte) {
	dump = recordedDump(t)
	var all, counters strings.Builder
	all.WriteString(`{"configs":[{"@type":"type.googleapis.com/envoy.admin.v3.ClustersConfigDump","dynamic_active_clusters":[`)
	for i := range services {
		name := fmt.Sprintf("outbound|80||service-%d.shop-%d.svc.cluster.local", i, i%20)
		fmt.Fprintf(&all, `{"version_info":"2026-11-30T00:00:00Z/1","cluster":{"@type":"type.googleapis.com/envoy.config.cluster.v3.Cluster","name":%q,"type":"EDS","eds_cluster_config":{"service_name":%[1]q},"metadata":{"filter_metadata":{"istio":{"services":[{"host":"service-%d.shop-%d.svc.cluster.local","name":"service-%[2]d","namespace":"shop-%[3]d"}]}}}},"last_updated":"2026-11-30T00:00:00Z"},`,
			name, i, i%20)
		fmt.Fprintf(&counters, `{"name":%q,"host_statuses":[{"address":{"socket_address":{"address":"10.1.%d.%d","port_value":8080}},"stats":[{"name":"rq_total","value":"%d"},{"name":"rq_success","value":"1"}]}]},`, name, i/250, i%250, 9*(1-min(i%20, 1)))
	}
	rest, found := bytes.CutPrefix(bytes.TrimSpace(dump), []byte("{"))
	i := bytes.IndexByte(rest, '[')
	if !found || i < 0 || !bytes.Contains(rest[:i], []byte(`"configs"`)) {
		t.Fatal("the recorded dump does not begin with its configs")
	}
	text := strings.TrimSuffix(all.String(), ",") + "]}," + string(rest[i+1:])
	return []byte(text), []byte(`{"cluster_statuses":[` + strings.TrimSuffix(counters.String(), ",") + `]}`)
}

// Pods are listed by pages, and of each proxy what it holds and counts is read and reduced.
func TestReadManyProxies(t *testing.T) {
	dump, clusters := manyServices(t, 40)
	m := &manyPods{pods: 520}
	m.looks = map[string]int{}
	api := httptest.NewServer(m)
	defer api.Close()
	from := openFake(t, api.URL, http.DefaultClient)
	o := Assessment{Istiod: from.Istiod, Owners: 50, IstiodWatch: IstiodWatch{Interval: 100 * time.Millisecond, Duration: time.Second, Say: func(string) {},
		Ask: func(context.Context, string) (*variables.Known, string, error) { return nil, "", nil }}}
	r := newMeshRead(o, "", from, func(string, string, int) (*http.Client, func() error) {
		return &http.Client{Transport: answering{dump: dump, clusters: clusters}}, func() error { return nil }
	})
	must.OK(t, r.listProxies(t.Context()))
	must.OK(t, r.readConfiguration(t.Context()))
	must.OK(t, r.countAgain(t.Context()))
	r.traffic()
	must.OK(t, r.configured(t.Context()))
	if len(r.proxies) != 520 || len(r.scope) != 520 || len(r.rates) != 520 || len(r.e.Unknown) > 20 {
		t.Fatalf("%d proxies, %d were read, %d counted twice: %v", len(r.proxies), len(r.scope), len(r.rates), r.e.Unknown)
	}
	for _, p := range r.scope {
		if len(p.Clusters)+len(p.Owners)+len(p.Largest)+len(p.Calls) > 0 {
			t.Fatalf("%s is not reduced", p.Name)
		}
		if c := r.first[p.Name]; len(c.Endpoints) != 2 || len(c.Calls) != 2 {
			t.Fatalf("counters of %s are not reduced: %d", p.Name, len(c.Endpoints))
		}
	}
	held := r.e.Scope
	if len(held.Proxies) != 520 || held.DumpBytes != 520*held.Proxies[0].DumpBytes || len(held.Owners) != 50 || held.Uncalled.Clusters == 0 {
		t.Errorf("%d proxies hold %d bytes by %d owners, %+v", len(held.Proxies), held.DumpBytes, len(held.Owners), held.Uncalled)
	}
	detail := 0
	for _, p := range held.Proxies {
		if len(p.Largest) > 50 || len(p.Clusters) > 0 {
			t.Errorf("%s has %d resources and %d clusters", p.Name, len(p.Largest), len(p.Clusters))
		}
		if len(p.Owners) > 0 {
			detail++
		}
	}
	if detail != detailed {
		t.Errorf("%d proxies have lists", detail)
	}
}

// A proxy that hangs is given up, and those that nobody had time for are counted.
func TestProxiesThatHang(t *testing.T) {
	hanging := &http.Client{Transport: answering{hangs: true}}
	err := getLively(t.Context(), hanging, 10*time.Millisecond, "/clusters", func(io.Reader) error { return nil })
	if !errors.Is(err, errSilent) {
		t.Errorf("a proxy that hangs: %v", err)
	}
	slow := func(in io.Reader) error {
		must.OK(t, must.Err(io.ReadAll(in)))
		time.Sleep(time.Millisecond)
		return nil
	}
	if err := getLively(t.Context(), &http.Client{Transport: answering{clusters: []byte("x")}}, time.Minute, "/clusters", slow); err != nil {
		t.Error(err)
	}
	r := &meshRead{}
	var all []int
	for i := range 100 {
		all = append(all, i)
	}
	taken := 0
	ask := func(ctx context.Context, i int) (int, error) {
		switch {
		case i == 3:
			return 0, errors.New("no answer")
		case i >= 50:
			<-ctx.Done()
			return 0, context.Cause(ctx)
		}
		return i, nil
	}
	must.OK(t, eachOf(t.Context(), r, 50*time.Millisecond, all, func(i int) string { return fmt.Sprint(i) }, ask, func(i, got int, err error) {
		if err == nil && got == i {
			taken++
		}
	}))
	if taken != 49 || !assess.ProxiesLate.In(r.e.Unknown) || !assess.NotRead.In(r.e.Unknown) || len(r.e.Unknown) != 2 {
		t.Errorf("%d were taken: %v", taken, r.e.Unknown)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := eachOf(ended, r, time.Minute, all, func(i int) string { return fmt.Sprint(i) }, ask, func(int, int, error) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("an interrupt: %v", err)
	}
}

// A ztunnel is read where configuration alone is wanted, and not asked for clusters that it has not.
func TestReadZtunnel(t *testing.T) {
	m := &fakeMesh{looks: map[string]int{}}
	api := httptest.NewServer(m)
	defer api.Close()
	dump, err := os.ReadFile("../advise/scope/testdata/ztunnel.json")
	must.OK(t, err)
	r := newMeshRead(Assessment{Section: assess.SectionConfiguration, IstiodWatch: IstiodWatch{Say: func(string) {}}}, "", openFake(t, api.URL, http.DefaultClient), func(string, string, int) (*http.Client, func() error) {
		return &http.Client{Transport: answering{dump: dump, clusters: []byte("no page")}}, func() error { return nil }
	})
	must.OK(t, r.listProxies(t.Context()))
	r.pods = slices.DeleteFunc(r.pods, func(pod corev1.Pod) bool { p, _, _ := proxyOf(pod); return p.Kind != assess.Ztunnel })
	must.OK(t, r.readSidecars(t.Context()))
	if len(r.scope) != 1 || r.scope[0].Kind != scope.NodeZtunnel || len(r.e.Unknown) > 0 {
		t.Errorf("%+v, %v", r.scope, r.e.Unknown)
	}
}
