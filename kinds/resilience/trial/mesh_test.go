package trial

import (
	"reflect"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/linkerd"
	"github.com/meshtrial/meshtrial/mesh/none"
	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site/sitetest"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

const oneService = `
name: one-service
question: Does it hold?
mesh: linkerd
graph: {services: {bar: {replicas: 2}}}
load: {to: bar, clients: 1}
settings: {rate: 100, retries: 2}
timeline:
  duration: 20s
  steps:
  - {name: gone, at: 1s, remove: {service: bar, replicas: 1}}
blocks: {min: 1, max: 1}
stop: none
assert: [total.failed == 0]
`

// What a mesh lacks is reported with its position before anything starts.
func TestFitMesh(t *testing.T) {
	for _, tt := range []struct{ name, old, new, says string }{
		{"as it is", "", "", ""},
		{"lever", "retries: 2", "retries: 2, circuit_breaker: pending=5", "circuit_breaker=pending=5: Linkerd does not limit"},
		{"part of a lever", "retries: 2", `outlier_detection: "errors=5 interval=1s"`, "no interval"},
		{"certificates", "remove: {service: bar, replicas: 1}", "certificates: {service: bar, do: rotate}", "step gone is not supported with mesh linkerd: its proxies do not expose"},
		{"configuration of the mesh", "remove: {service: bar, replicas: 1}", `config: {apply: "{apiVersion: policy.linkerd.io/v1beta3, kind: Server, metadata: {name: x}}"}`, "cannot be proved"},
		{"another revision", "remove: {service: bar, replicas: 1}", "revision: {name: canary}", "no revisions to move"},
		{"moved", "remove: {service: bar, replicas: 1}", "move: {to: installed}", "no revisions to move"},
		{"other configuration", "remove: {service: bar, replicas: 1}", `config: {apply: "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}"}`, ""},
	} {
		plan := studytest.Plan(t, strings.Replace(oneService, tt.old, tt.new, 1))
		err := fitMesh(plan, plan.Cells[0], &linkerd.Mesh{})
		if tt.says == "" {
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), ".yaml:") {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// Steps on the control plane affect what each mesh's proxies talk to.
func TestControlOfMeshes(t *testing.T) {
	for _, c := range []struct {
		mesh mesh.Mesh
		want *controlPods
	}{
		{&linkerd.Mesh{}, &controlPods{namespace: "linkerd", selector: "linkerd.io/control-plane-component=destination", containers: []string{"destination"}, what: "the control plane"}},
		{sitetest.Istio(), &controlPods{namespace: "istio-system", selector: "app=istiod", containers: []string{"discovery"}, what: "the control plane"}},
		{none.Mesh{}, nil},
	} {
		if got := controlOf(nil, nil, c.mesh); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.mesh.Name(), got, c.want)
		}
	}
}

// Services carry Linkerd's levers, and a ledger knows which proxies log.
func TestSceneOfLinkerd(t *testing.T) {
	plan := studytest.Plan(t, oneService)
	s := sceneIn(t, plan, plan.Cells[0], &linkerd.Mesh{})
	if got := s.services()[0].Annotations["retry.linkerd.io/limit"]; got != "2" {
		t.Errorf("annotations of the Service: %v", s.services()[0].Annotations)
	}
	deployments, err := s.deployments()
	must.OK(t, err)
	for _, d := range deployments {
		if a := d.Spec.Template.Annotations; a["linkerd.io/inject"] != "enabled" || a["config.linkerd.io/access-log"] != "json" {
			t.Errorf("%s: %v", d.Name, a)
		}
	}
	if o := s.ledgerOptions(); o.ClientProxy || !o.InboundOnly || !o.Services["bar"].Sidecar || s.ledgerSide() != record.LedgerInbound {
		t.Errorf("%+v", o)
	}
}

// A study that keeps no ledger measures proxies and workers without logs.
func TestSceneWithoutLedger(t *testing.T) {
	plan := studytest.Plan(t, strings.Replace(oneService, "stop: none", "stop: none\nmeasures: [latency, cpu]", 1))
	for _, m := range []mesh.Mesh{sitetest.Istio(), &linkerd.Mesh{}} {
		s := sceneIn(t, plan, plan.Cells[0], m)
		if w := s.workload(nil); w.Proxy.Level(study.FactorTelemetry) != study.TelemetryOff || s.proxiesLog() || s.ledgerSide() != record.LedgerClients {
			t.Errorf("%s: %+v", m.Name(), w.Proxy)
		}
		o := s.ledgerOptions()
		one, err := s.workerPod(&s.scenario.Graph.Services[0])
		must.OK(t, err)
		if strings.Contains(strings.Join(one.Spec.Containers[0].Args, " "), "--log-requests") || o.ClientProxy || len(o.Services) > 0 {
			t.Errorf("%s: %v, %+v", m.Name(), one.Spec.Containers[0].Args, o)
		}
		b := ledger.New(o)
		b.AddClient(ledger.ClientEntry{ID: "mm-1", SentNS: 1, DoneNS: 2, Outcome: ledger.OutcomeOK, Status: 200})
		if a := b.Account(); !a.Reconciled || a.Requests != 1 {
			t.Errorf("%s: the clients' account alone does not add up: %+v", m.Name(), a)
		}
	}
}
