package app

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/advise/advice/variables"
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

// readMany reads the configuration and the counters of many sidecars.
func readMany(t *testing.T, pods int, a *answers) *meshRead {
	m := &manyPods{pods: pods}
	m.looks = map[string]int{}
	api := httptest.NewServer(m)
	defer api.Close()
	from := openFake(t, api.URL, http.DefaultClient)
	o := Assessment{Istiod: from.Istiod, Owners: 50, IstiodWatch: IstiodWatch{Interval: 100 * time.Millisecond, Duration: time.Second, Say: func(string) {},
		Ask: func(context.Context, string, string) (*variables.Known, string, error) { return nil, "", nil }}}
	r := newMeshRead(o, from, func(_, pod string, _ int) (*http.Client, func() error) {
		return &http.Client{Transport: answering{a, pod}}, func() error { return nil }
	})
	must.OK(t, r.listProxies(t.Context()))
	must.OK(t, r.readConfiguration(t.Context()))
	must.OK(t, r.countAgain(t.Context()))
	r.traffic()
	must.OK(t, r.configured(t.Context()))
	return r
}

// manyServices is a recorded config dump with clusters and endpoints for more Services.
func manyServices(t *testing.T, services int) (dump, clusters []byte) {
	file, err := os.Open("../advise/scope/testdata/sidecar.json.gz")
	must.OK(t, err)
	defer file.Close()
	z, err := gzip.NewReader(file)
	must.OK(t, err)
	dump, err = io.ReadAll(z)
	must.OK(t, err)
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
