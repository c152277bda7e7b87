package app

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/advise/advice/variables"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/testing/must"
)

// manyPods is a mesh of thousands of sidecars.
type manyPods struct {
	fakeMesh
	pods int
}

// podJSON is a pod of usual size.
func podJSON(i int) string {
	env := strings.Repeat(`{"name":"SOME_VARIABLE_OF_THE_APPLICATION","value":"and a value of usual length for it"},`, 40)
	return fmt.Sprintf(`{"metadata":{"namespace":"shop-%d","name":"web-7d9f8c7b6d-%05d","labels":{"app":"web","pod-template-hash":"7d9f8c7b6d"},"annotations":{"sidecar.istio.io/status":"%s"},"ownerReferences":[{"kind":"ReplicaSet","name":"web-7d9f8c7b6d","controller":true}]},`+
		`"spec":{"nodeName":"node-%d","containers":[{"name":"app","env":[%s{"name":"X"}]},{"name":"istio-proxy","image":"istio/proxyv2:1.31.0","args":["proxy","sidecar"],"env":[%[5]s{"name":"X"}],"resources":{"requests":{"cpu":"100m","memory":"128Mi"}}}]},"status":{"phase":"Running","podIP":"10.1.0.1"}}`,
		i%20, i, strings.Repeat("x", 500), i%100, env)
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
		fmt.Fprint(w, podJSON(i))
	}
	fmt.Fprint(w, "]}")
}

// answers are pages of proxies, without a network.
type answers struct {
	dump, clusters []byte
	hang           int // each how manieth proxy says nothing; 0: none
}

type answering struct {
	*answers
	pod string
}

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	if n, err := strconv.Atoi(a.pod[max(0, len(a.pod)-5):]); err == nil && a.hang > 0 && n%a.hang == a.hang-1 {
		<-r.Context().Done()
		return nil, context.Cause(r.Context())
	}
	body := a.clusters
	if r.URL.Path == "/config_dump" {
		body = a.dump
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
}

// readMany reads the configuration and the counters of many sidecars, and returns the largest heap in bytes.
func readMany(t testing.TB, pods int, a *answers) (r *meshRead, heap uint64) {
	m := &manyPods{pods: pods}
	m.looks = map[string]int{}
	api := httptest.NewServer(m)
	defer api.Close()
	from := openFake(t, api.URL, http.DefaultClient)
	o := Assessment{Istiod: from.Istiod, Owners: 50, IstiodWatch: IstiodWatch{Interval: 100 * time.Millisecond, Duration: time.Second, Say: func(string) {},
		Ask: func(context.Context, string) (*variables.Known, string, error) { return nil, "", nil }}}
	r = newMeshRead(o, "", from, func(_, pod string, _ int) (*http.Client, func() error) {
		return &http.Client{Transport: answering{a, pod}}, func() error { return nil }
	})
	ctx, end := context.WithCancel(t.Context())
	defer end()
	peak := make(chan uint64)
	go func() {
		most := uint64(0)
		for wake.Pause(ctx, 50*time.Millisecond) == nil {
			var s runtime.MemStats
			runtime.ReadMemStats(&s)
			most = max(most, s.HeapInuse)
		}
		peak <- most
	}()
	must.OK(t, r.listProxies(t.Context()))
	must.OK(t, r.readConfiguration(t.Context()))
	must.OK(t, r.countAgain(t.Context()))
	r.traffic()
	must.OK(t, r.configured(t.Context()))
	end()
	return r, <-peak
}

// manyServices is a recorded config dump with clusters and endpoints for more Services.
func manyServices(t testing.TB, services int) (dump, clusters []byte) {
	dump = recordedDump(t)
	var all, counters strings.Builder
	all.WriteString(`{"configs":[{"@type":"type.googleapis.com/envoy.admin.v3.ClustersConfigDump","dynamic_active_clusters":[`)
	for i := range services {
		name := fmt.Sprintf("outbound|80||service-%d.shop-%d.svc.cluster.local", i, i%20)
		fmt.Fprintf(&all, `{"version_info":"2026-11-30T00:00:00Z/1","cluster":{"@type":"type.googleapis.com/envoy.config.cluster.v3.Cluster","name":%q,"type":"EDS","eds_cluster_config":{"service_name":%[1]q},"metadata":{"filter_metadata":{"istio":{"services":[{"host":"service-%d.shop-%d.svc.cluster.local","name":"service-%[2]d","namespace":"shop-%[3]d"}]}}},"x":"%s"},"last_updated":"2026-11-30T00:00:00Z"},`,
			name, i, i%20, strings.Repeat("y", 3000))
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

// cpuSeconds is the CPU time of this process.
func cpuSeconds(b *testing.B) float64 {
	var u unix.Rusage
	must.OK(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// BenchmarkReadProxies reads 3,000 sidecars, with the pages that they answer made beforehand. The aim is 60 s and
// 300 MB for what a mesh of usual size holds.
func BenchmarkReadProxies(b *testing.B) {
	for _, services := range []int{0, 300} {
		b.Run(fmt.Sprintf("services=%d", services), func(b *testing.B) {
			dump, clusters := manyServices(b, max(services, 1))
			for b.Loop() {
				runtime.GC()
				before := cpuSeconds(b)
				r, heap := readMany(b, 3000, &answers{dump: dump, clusters: clusters})
				b.ReportMetric(cpuSeconds(b)-before, "CPU-s")
				b.ReportMetric(float64(heap)/1e6, "MB-heap")
				b.ReportMetric(float64(len(dump))/1e6, "MB/dump")
				b.ReportMetric(float64(len(r.rates)), "counted-twice") // fewer where the time for all ran out
			}
		})
	}
}
