package kubelet

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

const page = `# HELP container_cpu_usage_seconds_total [STABLE] Cumulative cpu time consumed by the container in core-seconds
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="worker",namespace="d",pod="p"} 52674.120237308 1795609728216
container_cpu_usage_seconds_total{container="young",namespace="d",pod="p"} 1
container_cpu_usage_seconds_total{container="worker",namespace="d",pod="p"} 3 1795609728000
# TYPE container_start_time_seconds gauge
container_start_time_seconds{container="worker",namespace="d",pod="p"} 1.795600000125e+09
container_start_time_seconds{container="gone",namespace="d",pod="p"} 1.795600000125e+09
container_start_time_seconds{container="odd",namespace="d",pod="p"} NaN
# TYPE container_memory_working_set_bytes gauge
container_memory_working_set_bytes{container="worker",namespace="d",pod="p"} 1.4217216e+07 1795609728217
container_memory_working_set_bytes{container="young",namespace="d",pod="p"} 7 1795609728217
# TYPE node_cpu_usage_seconds_total counter
node_cpu_usage_seconds_total 9 1795609720623
# TYPE node_memory_working_set_bytes gauge
node_memory_working_set_bytes 4096 1795609720623
# TYPE pod_cpu_usage_seconds_total counter
pod_cpu_usage_seconds_total{namespace="d",pod="p"} 1.6 1795609724804
pod_cpu_usage_seconds_total{namespace="d",pod="broken"} NaN 1795609724804
pod_cpu_usage_seconds_total{namespace="d",pod="backwards"} -1 1795609724804
# TYPE resource_scrape_error gauge
resource_scrape_error 0
`

func TestParse(t *testing.T) {
	s, err := Parse([]byte(page))
	must.OK(t, err)
	if s.Node.CPU.UsedNS != 9e9 || s.Node.Memory != 4096 {
		t.Errorf("node: %+v", s.Node)
	}
	worker := s.Containers[Container{"d/p", "worker"}]
	read := time.Date(2026, 11, 25, 12, 28, 48, 216e6, time.UTC)
	if worker.CPU.UsedNS != 52674120237308 || !worker.CPU.At.Equal(read) || worker.Memory != 14217216 || !worker.MemoryAt.Equal(read.Add(time.Millisecond)) {
		t.Errorf("worker: %+v", worker)
	}
	if !worker.CPU.Since.Equal(time.UnixMilli(1795600000125)) {
		t.Errorf("the worker started at %v", worker.CPU.Since)
	}
	if pod := s.Containers[Container{"d/p", ""}]; pod.CPU.UsedNS != 16e8 || pod.Memory != 0 {
		t.Errorf("pod: %+v", pod)
	}
	if len(s.Containers) != 2 {
		t.Errorf("containers of which no sample is known: %+v", s.Containers)
	}
	if _, err := Parse([]byte("<html>")); err == nil || !strings.Contains(err.Error(), "the kubelet's metrics") {
		t.Errorf("%v", err)
	}
}

func TestRead(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/nodes/n/proxy/metrics/resource" || r.URL.RawQuery != "" {
			t.Errorf("asked for %s", r.URL)
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(page))
	}))
	defer server.Close()
	api, err := rest.RESTClientFor(&rest.Config{Host: server.URL, APIPath: "/api", ContentConfig: rest.ContentConfig{
		GroupVersion: &schema.GroupVersion{Version: "v1"}, NegotiatedSerializer: serializer.WithoutConversionCodecFactory{CodecFactory: scheme.Codecs}}})
	must.OK(t, err)
	s, err := Read(t.Context(), api, "n")
	if err != nil || len(s.Containers) != 2 {
		t.Errorf("%+v, %v", s, err)
	}
	status = http.StatusForbidden
	if _, err := Read(t.Context(), api, "n"); err == nil || !strings.Contains(err.Error(), "node n") || !strings.Contains(errs.Hint(err), "nodes/proxy") {
		t.Errorf("%v, hint %q", err, errs.Hint(err))
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(page))
	f.Add([]byte("# TYPE pod_cpu_usage_seconds_total counter\npod_cpu_usage_seconds_total 1.8e308 9223372036854775807\n"))
	f.Add([]byte("container_memory_working_set_bytes{pod=\"p\"} +Inf 1\ncontainer_cpu_usage_seconds_total{pod=\"p\"} 1e12 1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse(data)
		if err != nil {
			return
		}
		for c, known := range s.Containers {
			if c.Pod == "" || known.CPU.At.IsZero() || known.Memory < 0 {
				t.Errorf("%+v: %+v", c, known)
			}
		}
	})
}
