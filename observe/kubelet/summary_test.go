package kubelet

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/errs"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

const page = `{
 "node": {"nodeName": "n", "startTime": "2026-11-25T07:00:00Z",
  "cpu": {"time": "2026-11-25T08:00:05Z", "usageNanoCores": 5, "usageCoreNanoSeconds": 9000000000},
  "memory": {"time": "2026-11-25T08:00:05Z", "workingSetBytes": 4096}},
 "pods": [
  {"podRef": {"name": "p", "namespace": "d", "uid": "u1"}, "startTime": "2026-11-25T07:10:00Z",
   "containers": [
    {"name": "worker", "startTime": "2026-11-25T07:10:01Z",
     "cpu": {"time": "2026-11-25T08:00:01.25Z", "usageCoreNanoSeconds": 1500000000},
     "memory": {"time": "2026-11-25T08:00:01.25Z", "usageBytes": 9, "workingSetBytes": 8, "rssBytes": 7}},
    {"name": "young", "startTime": "2026-11-25T08:00:00Z"}],
   "cpu": {"time": "2026-11-25T08:00:02Z", "usageCoreNanoSeconds": 1600000000}}]}`

func TestParse(t *testing.T) {
	s, err := Parse([]byte(page))
	if err != nil {
		t.Fatal(err)
	}
	if s.Node.CPU.UsedNS != 9e9 || s.Node.Memory != 4096 {
		t.Errorf("node: %+v", s.Node)
	}
	worker := s.Containers[Container{"u1", "worker"}]
	read := time.Date(2026, 11, 25, 8, 0, 1, 25e7, time.UTC)
	if worker.CPU.UsedNS != 15e8 || !worker.CPU.At.Equal(read) || worker.Memory != 8 || !worker.MemoryAt.Equal(read) || worker.Started.Second() != 1 {
		t.Errorf("worker: %+v", worker)
	}
	if pod := s.Containers[Container{"u1", ""}]; pod.CPU.UsedNS != 16e8 || pod.Memory != 0 {
		t.Errorf("pod: %+v", pod)
	}
	if _, ok := s.Containers[Container{"u1", "young"}]; ok || len(s.Containers) != 2 {
		t.Errorf("a container of which no sample is known: %+v", s.Containers)
	}
	if _, err := Parse([]byte("<html>")); err == nil || !strings.Contains(err.Error(), "the kubelet's summary") {
		t.Errorf("%v", err)
	}
}

func TestRead(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/nodes/n/proxy/stats/summary" || r.URL.RawQuery != "only_cpu_and_memory=true" {
			t.Errorf("asked for %s", r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(page))
	}))
	defer server.Close()
	api, err := rest.RESTClientFor(&rest.Config{Host: server.URL, APIPath: "/api", ContentConfig: rest.ContentConfig{
		GroupVersion: &schema.GroupVersion{Version: "v1"}, NegotiatedSerializer: serializer.WithoutConversionCodecFactory{CodecFactory: scheme.Codecs}}})
	if err != nil {
		t.Fatal(err)
	}
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
	f.Add([]byte(`{"pods":[{"podRef":{"uid":"u"},"cpu":{"time":"2026-11-25T08:00:00Z","usageCoreNanoSeconds":18446744073709551615},"memory":{"workingSetBytes":18446744073709551615}}]}`))
	f.Add([]byte(`{"node":null,"pods":[null,{"containers":[null]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse(data)
		if err != nil {
			return
		}
		for c, known := range s.Containers {
			if c.PodUID == "" || known.CPU.At.IsZero() || known.Memory < 0 {
				t.Errorf("%+v: %+v", c, known)
			}
		}
	})
}
