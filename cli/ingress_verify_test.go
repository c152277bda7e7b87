//go:build verify

package cli_test

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/kinds/ingress"
	ingressverdict "github.com/meshtrial/meshtrial/kinds/ingress/verdict"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/labtest"
)

// routesAtIngresses is a short form of gateway-routes and gateway-certificates, with a planted route
// that never arrives.
const routesAtIngresses = `
name: routes-at-ingresses
question: When does each ingress serve a new route?
churn: {changes: 3, watched: 2, settle: 5s, unattached: 1}
factors: {ingress: [istio, envoy-gateway], certificates: [0, 2]}
settings: {routes: 70, listeners: 70}
blocks: {min: 1, max: 1, limit: 20m}
`

// Both ingresses serve routes that are added, with and without TLS and ListenerSets, and the planted
// route is reported as never served. Nothing of their gateways is left.
func TestIngresses(t *testing.T) {
	m := labtest.New(t)
	l := m.Up(t, "--gateway-api", "--envoy-gateway", labtest.Folder(t, "MESHTRIAL_ENVOY_GATEWAY"))
	run := ran(t, m, 4, labtest.Study(t, routesAtIngresses), "--limit", "unattributed=100%", "--limit", "route-schedule=100%", "--limit", "route-requests-late=1000")
	for _, e := range run.Events {
		switch s := e.Served; {
		case s == nil:
			t.Errorf("trial %s, route %d was not requested: %s", e.Trial, e.Change, e.Error)
		case e.Change == 2:
			if s.GoodUS != nil || s.Statuses["404"] == 0 {
				t.Errorf("trial %s: the planted route was served: %+v", e.Trial, s)
			}
		case s.AnsweredUS == nil || s.BadUS == nil || *s.BadUS > *s.AnsweredUS || s.Statuses["200"] == 0:
			t.Errorf("trial %s, route %d: %+v", e.Trial, e.Change, s)
		default:
			t.Logf("trial %s, route %d: served after %d us, not yet after %d us; %v", e.Trial, e.Change, *s.AnsweredUS, *s.BadUS, s.Statuses)
		}
	}
	for _, trial := range run.Trials {
		if !trial.Validity.Valid {
			t.Errorf("trial %s: %+v", trial.ID, trial.Validity.Checks)
		}
		if !ingressverdict.NoteUnserved.In(trial.Validity.Warnings) {
			t.Errorf("trial %s does not name the planted route: %v", trial.ID, trial.Validity.Warnings)
		}
		if i := trial.Ingress; i.Watched["200"] == 0 || trial.CPU[record.PartGateway].TotalS() <= 0 || trial.CPU[record.PartControl].TotalS() <= 0 || trial.Memory[record.PartGateway].PSSBytes == 0 {
			t.Errorf("trial %s: %+v, CPU %v", trial.ID, i, trial.CPU)
		}
	}
	wantFindings(t, run, ingress.FamilyServed, ingress.FindingUnserved, ingress.FindingGatewayCPU, ingress.FindingControlMem)
	if left := labtest.Kubectl(t, l, "", "get", "pods", "--all-namespaces"); strings.Contains(left, "envoy-meshtrial") || strings.Contains(left, "gateway-b0") {
		t.Errorf("gateways are left:\n%s", left)
	}
}
