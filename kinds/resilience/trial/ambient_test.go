package trial

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site/sitetest"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/protocol"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

const ambientServices = `
name: ambient-services
question: What do they use?
mesh: istio
graph: {services: {front: {calls: [{to: back, times: 2}, {to: old}]}, back: {}, old: {sidecar: false}}}
load: {to: front, clients: 3}
settings: {rate: 100, connections: 8, sidecars: ambient}
timeline: {duration: 5s}
blocks: {min: 1, max: 1}
stop: none
measures: [latency, cpu]
`

func ambientScene(t *testing.T) *scene {
	t.Helper()
	plan := studytest.Plan(t, ambientServices)
	return sceneIn(t, plan, plan.Cells[0], sitetest.Istio())
}

// Pods of services in the mesh have no sidecar and are in the ambient mesh; nothing is asked for
// what only sidecars know.
func TestSceneOfAmbient(t *testing.T) {
	s := ambientScene(t)
	if s.meshed() || !s.ambient() || s.proxiesLog() {
		t.Errorf("meshed %v, ambient %v, logs %v", s.meshed(), s.ambient(), s.proxiesLog())
	}
	deployments, err := s.deployments()
	must.OK(t, err)
	for _, d := range deployments {
		want := "ambient"
		if d.Name == "old" {
			want = "none"
		}
		if l := d.Spec.Template.Labels; l["istio.io/dataplane-mode"] != want || l["sidecar.istio.io/inject"] != "false" {
			t.Errorf("%s: %v", d.Name, l)
		}
	}
	plan := studytest.Plan(t, ambientServices)
	asked, err := Asks(plan, study.MeshIstio)
	if err != nil || !asked.Ambient || asked.Sent || asked.Served || len(asked.Proxies) > 0 {
		t.Errorf("%+v, %v", asked, err)
	}
	if err := fitMesh(plan, plan.Cells[0], sitetest.Istio()); err != nil {
		t.Error(err)
	}
}

// series adds a ztunnel's counters of connections to a service to rise.
func series(rise map[string]float64, namespace, service, reporter, policy string, connections, bytes float64) {
	labels := `{connection_security_policy="` + policy + `",destination_workload="` + service + `",destination_workload_namespace="` + namespace + `",reporter="` + reporter + `"}`
	rise["istio_tcp_connections_opened_total"+labels] += connections
	rise["istio_tcp_sent_bytes_total"+labels] += bytes
	rise["istio_tcp_received_bytes_total"+labels] += bytes
}

// Headers compressed by HTTP/2 are smaller than those of HTTP/1.1.
func TestCarriedHeads(t *testing.T) {
	for services, sets := range map[string][]string{
		"{front: {calls: [{to: back}]}, back: {protocol: http2}}":                  {"protocol=http2"},
		"{front: {protocol: http2, calls: [{to: back}]}, back: {protocol: http2}}": nil,
		"{front: {calls: [{to: back}]}, back: {}}":                                 nil,
	} {
		for weigh, want := range map[float64]bool{100: true, 45: strings.Contains(services, "http2"), 20: false} {
			s, rise := graphScene(t, services, sets...), map[string]float64{}
			for _, service := range []string{"front", "back"} {
				for _, reporter := range []string{"source", "destination"} {
					series(rise, s.namespace, service, reporter, "mutual_tls", 24, 500*weigh/2)
				}
			}
			checks, err := s.carried(risesOf{record.PartNode: rise}, flowed{500, 500}, math.MaxInt64)
			must.OK(t, err)
			n := 0
			for _, c := range checks {
				if strings.HasSuffix(c.Name, bytesCheck) {
					if n++; c.OK != want {
						t.Errorf("%s, %g bytes each: %s: %s", services, weigh, c.Name, c.Detail)
					}
				}
			}
			if n != 4 {
				t.Errorf("%s: %d checks of bytes", services, n)
			}
		}
	}
}

// Requests to each service must have passed ztunnel on both sides, over HBONE.
func TestCarried(t *testing.T) {
	s := ambientScene(t)
	rises := func() map[string]float64 {
		rise := map[string]float64{}
		for service, bytes := range map[string]float64{"front": 500 * 300, "back": 1000 * 300} {
			for _, reporter := range []string{"source", "destination"} {
				series(rise, s.namespace, service, reporter, "mutual_tls", 24, bytes)
			}
		}
		return rise
	}
	failed := func(rise map[string]float64) string {
		checks, err := s.carried(risesOf{record.PartNode: rise}, flowed{501, 500}, math.MaxInt64)
		if err != nil || len(checks) == 0 {
			t.Fatal(checks, err)
		}
		for _, c := range checks {
			if strings.HasPrefix(c.Name, "old-") {
				t.Errorf("a service outside the mesh is checked: %+v", c)
			}
			if strings.Contains(c.Name, "worker") {
				t.Errorf("nobody counts at workers: %+v", c)
			}
		}
		return failedIn(checks)
	}
	if got := failed(rises()); got != "" {
		t.Errorf("failed: %s", got)
	}
	both := rises()
	broken(both, s.namespace, 2)
	if got := failed(both); got != "" {
		t.Errorf("both calls of the request without an answer: failed: %s", got)
	}
	for name, c := range map[string]struct {
		spoil func(rise map[string]float64)
		want  string
	}{
		"plain text":   {func(rise map[string]float64) { series(rise, s.namespace, "back", "source", "unknown", 3, 0) }, "back-client-hbone"},
		"nothing":      {func(rise map[string]float64) { clear(rise) }, "front-client-ztunnel"},
		"passed by":    {func(rise map[string]float64) { only(rise, "back") }, "front-client-ztunnel"},
		"failed":       {func(rise map[string]float64) { broken(rise, s.namespace, 3) }, "back-client-ztunnel-failed"},
		"no requests":  {func(rise map[string]float64) { few(rise, 100) }, "front-client-ztunnel-bytes"},
		"few requests": {func(rise map[string]float64) { few(rise, 2000) }, "front-client-ztunnel-bytes"},
		"one of 24 connections": {func(rise map[string]float64) {
			for key := range rise {
				if strings.Contains(key, "_opened_") {
					rise[key] = 1
				}
			}
		}, "front-client-ztunnel"},
	} {
		rise := rises()
		c.spoil(rise)
		if got := failed(rise); !strings.Contains(" "+got+" ", " "+c.want+" ") {
			t.Errorf("%s: failed %q, want %s among them", name, got, c.want)
		}
	}
}

// With a waypoint the clients' connections lead to it, and it counts the requests to each service.
func TestCarriedThroughWaypoint(t *testing.T) {
	plan := studytest.Plan(t, strings.NewReplacer("sidecars: ambient", "sidecars: waypoint", ", {to: old}", "", ", old: {sidecar: false}", "").Replace(ambientServices))
	if asked, err := Asks(plan, study.MeshIstio); err != nil || !asked.Ambient || !asked.Waypoint {
		t.Errorf("%+v, %v", asked, err)
	}
	s := sceneIn(t, plan, plan.Cells[0], sitetest.Istio())
	for _, service := range s.services() {
		if service.Labels["istio.io/use-waypoint"] != "waypoint" {
			t.Errorf("%s: %v", service.Name, service.Labels)
		}
	}
	for name, c := range map[string]struct {
		spoil func(rise, waypoint map[string]float64) map[string]float64 // the waypoint's
		want  string
	}{
		"as expected": {func(_, waypoint map[string]float64) map[string]float64 { return waypoint }, ""},
		"not read":    {func(_, waypoint map[string]float64) map[string]float64 { return nil }, "back-waypoint-present front-waypoint-present"},
		"one request by it": {func(_, waypoint map[string]float64) map[string]float64 {
			for key := range waypoint {
				if strings.Contains(key, "front") {
					waypoint[key]--
				}
			}
			return waypoint
		}, "front-waypoint-requests"},
		"past it": {func(rise, waypoint map[string]float64) map[string]float64 {
			for key := range rise {
				if strings.Contains(key, `destination_workload="waypoint"`) && strings.Contains(key, `"back"`) {
					delete(rise, key)
				}
			}
			return waypoint
		}, "back-client-ztunnel back-client-ztunnel-bytes"},
	} {
		rise, waypoint := map[string]float64{}, map[string]float64{}
		s.passed(rise, waypoint, "front", 24, 500, 300*500)
		s.passed(rise, waypoint, "back", 24, 1001, 300*1001)
		checks, err := s.carried(risesOf{record.PartNode: rise, record.PartWaypoint: c.spoil(rise, waypoint)}, flowed{501, 500}, math.MaxInt64)
		must.OK(t, err)
		if got := failedIn(checks); got != c.want {
			t.Errorf("%s: failed %q, want %q", name, got, c.want)
		}
	}
}

// passed adds what ztunnel and a waypoint counted of requests to a service. Without a waypoint the
// source's connections lead to the service itself.
func (s *scene) passed(rise, waypoint map[string]float64, service string, connections, requests, received float64) {
	for _, reporter := range []string{"source", "destination"} {
		workload := service
		if s.way().Has(record.PartWaypoint) && reporter == "source" {
			workload = "waypoint"
		}
		labels := `{connection_security_policy="mutual_tls",destination_service_name="` + service + `",destination_workload="` + workload +
			`",destination_workload_namespace="` + s.namespace + `",reporter="` + reporter + `"}`
		rise["istio_tcp_connections_opened_total"+labels] = connections
		rise["istio_tcp_sent_bytes_total"+labels], rise["istio_tcp_received_bytes_total"+labels] = 300*requests, received
	}
	waypoint[fmt.Sprintf("cluster.inbound-vip|%d|http|%s.%s.svc.cluster.local.upstream_rq_total", protocol.Of(protocol.HTTP1).Plain.Port, service, s.namespace)] = requests
}

// failedIn returns the names of failed checks, in order.
func failedIn(checks []record.Check) string {
	var out []string
	for _, c := range checks {
		if !c.OK {
			out = append(out, c.Name)
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// broken makes this many connections to the service back fail.
func broken(rise map[string]float64, namespace string, connections float64) {
	rise[`istio_tcp_connections_failed_total{destination_workload="back",destination_workload_namespace="`+namespace+`",reporter="source"}`] += connections
}

// only keeps the series of one service.
func only(rise map[string]float64, service string) {
	for key := range rise {
		if !mesh.HasLabels(key, map[string]string{"destination_workload": service}) {
			delete(rise, key)
		}
	}
}

// few reduces the bytes to this many.
func few(rise map[string]float64, bytes float64) {
	for key := range rise {
		if strings.Contains(key, "_bytes_") {
			rise[key] = bytes
		}
	}
}
