package app

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/observe/profile"
	"github.com/meshtrial/meshtrial/testing/must"
)

// profileOf is a CPU profile of a program, with each function as often as another.
func profileOf(t *testing.T, functions ...string) string {
	t.Helper()
	p := profile.New(profile.KindCPU, profile.UnitNanoseconds)
	p.Period = 10_000_000
	for _, name := range functions {
		var stack profile.StackID
		stack, _ = p.Push(stack, p.Frame(profile.Frame{Name: name, Module: "/usr/local/bin/program"}))
		for range 500 {
			p.Add(profile.Sample{Stack: stack, Thread: p.Thread(profile.Thread{}), Weight: p.Period, TimeNS: profile.NoTime})
		}
	}
	var out bytes.Buffer
	must.OK(t, p.WritePprof(&out))
	return out.String()
}

// A profile of istiod is broken down by cost; one of another program is reported as such.
func TestAssessProfiles(t *testing.T) {
	files := map[string]string{
		"istiod": profileOf(t, "istio.io/istio/pilot/pkg/xds.(*DiscoveryServer).pushXds", "runtime.gcBgMarkWorker"),
		"other":  profileOf(t, "main.main", "runtime.gcBgMarkWorker"),
		"broken": profileOf(t, "main.main")[:40],
	}
	a := fromFiles(t, Assessment{}, files, []string{"istiod", "other", "broken"})
	if len(a.Profiles) != 1 || a.Profiles[0].Name != "istiod" || a.Profiles[0].Kind != profile.KindCPU || a.Profiles[0].TooFew {
		t.Fatalf("%+v, %v", a.Profiles, a.Unknown)
	}
	found := false
	for _, c := range a.Profiles[0].Centres {
		found = found || c.Group == profile.GroupPush && c.Share == 0.5 && c.Low < 0.5 && c.High > 0.5
	}
	if !found || howMany(assess.FileNotRead, a.Unknown) != 2 {
		t.Errorf("%+v, %v", a.Profiles[0].Centres, a.Unknown)
	}
}

// Two metrics pages of a proxy tell its requests, over the difference of its uptime.
func TestAssessMetricsOfProxies(t *testing.T) {
	page := func(uptime, called, served int) string {
		return fmt.Sprintf("# TYPE envoy_server_uptime gauge\nenvoy_server_uptime{} %d\n# TYPE istio_requests_total counter\n"+
			"istio_requests_total{reporter=\"source\",source_workload=\"cart\",destination_service=\"pay.shop.svc.cluster.local\",response_code=\"200\"} %d\n"+
			"istio_requests_total{reporter=\"source\",source_workload=\"cart\",destination_service=\"pay.shop.svc.cluster.local\",response_code=\"503\"} 5\n"+
			"istio_requests_total{reporter=\"destination\",destination_service=\"cart.shop.svc.cluster.local\"} %d\n", uptime, called, served)
	}
	const pod = "cart-7d9f8c7b6d-abcde"
	for name, c := range map[string]struct {
		first, second string
		gap           assess.Gap
		called        float64
	}{
		"two":       {page(100, 50, 0), page(200, 1050, 500), assess.NoGateways, 10},
		"turned":    {page(200, 1050, 500), page(100, 50, 0), assess.NoGateways, 10},
		"restarted": {page(100, 5000, 0), page(200, 1050, 500), assess.CountersFell, 0},
		"the same":  {page(100, 50, 0), page(100, 50, 0), assess.CountedOnce, 0},
	} {
		files := map[string]string{"pods.yaml": reportObjects, pod + "-1": c.first, pod + "-2": c.second}
		a := fromFiles(t, Assessment{}, files, []string{"pods.yaml", pod + "-1", pod + "-2"})
		switch {
		case c.called == 0 && (a.Traffic != nil || !c.gap.In(a.Unknown)):
			t.Errorf("%s: %+v, %v", name, a.Traffic, a.Unknown)
		case c.called > 0 && (a.Traffic == nil || math.Abs(a.Traffic.Called-c.called) > 1e-9 || math.Abs(a.Traffic.Served-5) > 1e-9 || a.Traffic.WindowS != 100 || len(a.Traffic.Calls) != 1):
			t.Errorf("%s: %+v, %v", name, a.Traffic, a.Unknown)
		}
	}
}

// Autoscalers and policies are read from YAML as from JSON, and each counts once.
func TestAssessKindsOfFiles(t *testing.T) {
	more := `apiVersion: v1
items:
- apiVersion: autoscaling/v2
  kind: HorizontalPodAutoscaler
  metadata:
    name: istiod
    namespace: istio-system
  spec:
    maxReplicas: 4
    scaleTargetRef:
      kind: Deployment
      name: istiod
- apiVersion: security.istio.io/v1
  kind: AuthorizationPolicy
  metadata:
    name: get
    namespace: shop
  spec: {}
- apiVersion: serving.knative.dev/v1
  kind: Service
  metadata:
    name: pay
    namespace: shop
- apiVersion: v1
  kind: Pod
  metadata:
    name: istiod-7d9f8c7b6d-abcde
    namespace: istio-system
    labels:
      app: istiod
      pod-template-hash: 7d9f8c7b6d
    ownerReferences:
    - kind: ReplicaSet
      name: istiod-7d9f8c7b6d
      controller: true
  spec:
    containers:
    - name: discovery
      image: pilot:1.27.0
  status:
    phase: Running
kind: List
`
	files := map[string]string{"one": more, "two": more}
	a := fromFiles(t, Assessment{}, files, []string{"one", "two"})
	if n := a.Mesh.Objects; n["AuthorizationPolicy"] != 1 || n["Service"] != 0 {
		t.Errorf("%v", n)
	}
	if d := a.Mesh.Deployments; len(d) != 1 || d[0].Autoscaled == nil || d[0].Autoscaled.Most != 4 || d[0].Replicas != 1 {
		t.Errorf("%+v, %v", d, a.Unknown)
	}
}

// Saved answers of Prometheus do not replace the requests that an access log counts, nor are they compared with these as
// if they were counters; who calls whom is known better by them.
func TestAssessAccessLogsAndAnswers(t *testing.T) {
	const pod, host = "cart-7d9f8c7b6d-abcde", "pay.shop.svc.cluster.local"
	log := ""
	for second := range 21 {
		log += fmt.Sprintf(`[2026-11-24T03:14:%02d.000Z] "GET /a HTTP/1.1" 200 - via_upstream - "-" 100 2000 3 2 "-" "curl" "5f6b" "pay:80" "10.1.0.6:8080" outbound|80||%s 10.1.0.5:41234 10.96.0.9:80 10.1.0.5:51234 - default`, second, host) + "\n"
	}
	series := func(reporter string) string {
		return fmt.Sprintf(`{"metric":{"__name__":"istio_requests_total","reporter":%q,"namespace":"shop","pod":%q,"source_workload":"cart","source_workload_namespace":"shop","destination_service":%q,"destination_service_name":"pay"},`+
			`"values":[[1000,"0"],[1030,"300"],[1060,"600"]]}`, reporter, pod, host)
	}
	files := map[string]string{"pods.yaml": reportObjects, pod + ".log": log,
		"answer": `{"status":"success","data":{"resultType":"matrix","result":[` + series("source") + "," + series("destination") + `]}}`}
	a := fromFiles(t, Assessment{}, files, []string{"pods.yaml", pod + ".log", "answer"})
	tr := a.Traffic
	if tr == nil || tr.Read != 1 || tr.Logged != 1 || tr.Metered != 0 || math.Abs(tr.Called-21.0/20) > 1e-9 || tr.WindowS != 20 || assess.RequestsDiffer.In(a.Unknown) {
		t.Fatalf("%+v, %v", tr, a.Unknown)
	}
	if c := tr.Calls; len(c) != 1 || c[0].From.String() != "shop/cart" || c[0].Host != host || math.Abs(c[0].PerS-10) > 0.5 {
		t.Errorf("%+v", c)
	}
}
