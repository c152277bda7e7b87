//go:build verify

package cli_test

import (
	"maps"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/kinds/analyses"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// routesServed is a short form of route-propagation, routesAttached of attached-routes.
const (
	routesServed = `
name: routes-served
question: When is a new route served?
control: {changes: 3, settle: 30s, quiet: 500ms, idle: 0s, gateway: {}}
settings: {proxies: 0, gateways: 1, services: 5, change_rate: 1}
factors: {change: [gateway-route, httproute]}
baseline: {change: gateway-route}
measures: [convergence, cost]
blocks: {min: 1, max: 1, limit: 20m}
`
	routesAttached = `
name: routes-attached
question: When does the status have all routes, and none?
control: {duration: 2s, settle: 1m, quiet: 500ms, idle: 0s, gateway: {probes: 0}}
settings: {proxies: 0, gateways: 1, services: 5, change: httproute, change_rate: 10}
measures: [convergence, cost]
blocks: {min: 1, max: 1, limit: 20m}
`
)

// A real gateway serves the routes that changes create, both Istio's own kind and the Gateway
// API's, and requests show since when. The status of a Gateway counts all routes, and none once
// they are deleted.
func TestGatewayRoutes(t *testing.T) {
	m := labtest.New(t)
	m.Up(t, "--gateway-api")
	run := validRun(t, m, routesServed, 3) // the baseline runs twice in a block
	for _, e := range run.Events {
		s := e.Served
		if s == nil || s.GoodUS == nil || s.AnsweredUS == nil || s.BadUS == nil || *s.BadUS > *s.GoodUS || *s.AnsweredUS <= *s.GoodUS || s.Statuses["404"] == 0 || s.Statuses["200"] == 0 {
			t.Errorf("trial %s, change %d of kind %s (%s): %+v", e.Trial, e.Change, e.Kind, e.Error, s)
			continue
		}
		if len(e.Seen.AckedUS) != 1 || e.Seen.AckedUS[0] == record.Never {
			t.Errorf("trial %s, change %d of kind %s: acknowledged %v", e.Trial, e.Change, e.Kind, e.Seen)
			continue
		}
		t.Logf("trial %s, change %d of kind %s: acknowledged after %d us, served after %d us, not yet after %d us", e.Trial, e.Change, e.Kind, e.Seen.AckedUS[0], *s.AnsweredUS, *s.BadUS)
	}
	for _, trial := range run.Trials {
		if g := trial.Control.Gateway; g == nil || g.Routes != 3 || g.EveryUS != 2000 {
			t.Errorf("trial %s: %+v", trial.ID, g)
		}
		if trial.CPU[record.PartGateway].TotalS() <= 0 || trial.CPU[record.PartWorker].TotalS() <= 0 {
			t.Errorf("trial %s: the gateway used %+v", trial.ID, trial.CPU)
		}
	}
	wantFindings(t, run, "route_served", "route_acked", "route_served_after_ack", "route_resolution")
	run = validRun(t, m, routesAttached, 1)
	const routes = 20
	a := run.Trials[0].Control.Attached
	if a == nil || a.Routes != routes || a.AllUS == nil || a.FirstUS == nil || a.NoneUS == nil || a.NoneFirstUS == nil || a.Writes < 1 || a.Unwrites < 1 || a.Most < routes {
		t.Fatalf("%+v; %v", a, run.Trials[0].Validity)
	}
	t.Logf("all of %d routes %d us after the last one's commit, none %d us after the last deletion; %d and %d writes", routes, *a.AllUS, *a.NoneUS, a.Writes, a.Unwrites)
	wantFindings(t, run, "attached_all", "attached_none", "gateway_status_writes_total")
}

// whenBusy sets limits that a control-plane trial meets however busy this machine is.
var whenBusy = []string{"--limit", "unattributed=100%", "--limit", "commits-noted-share=100%", "--limit", "driver-schedule-least=1m", "--limit", "api-server=1m",
	"--limit", "simulator-lag-least=1e9", "--limit", "simulator-lag-most=1e9"}

// ran runs a study in the lab. The run must have so many trials, and be read whole.
func ran(t *testing.T, m labtest.Machine, trials int, args ...string) record.Run {
	t.Helper()
	out := filepath.Join(t.TempDir(), "run")
	said := m.Measured(t, append([]string{"run", "--out", out}, args...)...)
	run, notes, err := store.Load(t.Context(), out)
	if err != nil || len(notes) > 0 || len(run.Trials) != trials {
		t.Fatalf("%d trials of %d, %v, %v\n%s", len(run.Trials), trials, notes, err, said)
	}
	return run
}

// validRun runs a study. All its trials must be valid.
func validRun(t *testing.T, m labtest.Machine, text string, trials int) record.Run {
	t.Helper()
	run := ran(t, m, trials, append([]string{labtest.Study(t, text)}, whenBusy...)...)
	for _, trial := range run.Trials {
		for _, c := range trial.Validity.Checks {
			if !c.OK {
				t.Errorf("trial %s of %s: %s: %s", trial.ID, trial.Cell[controlplane.FactorChange], c.Name, c.Detail)
			}
		}
		t.Logf("trial %s of %s: %q", trial.ID, trial.Cell[controlplane.FactorChange], trial.Validity.Warnings)
	}
	return run
}

// wantFindings checks that a run has the named findings. One block is too few for intervals.
func wantFindings(t *testing.T, run record.Run, names ...string) {
	t.Helper()
	f := analysed(t, run)
	for _, name := range names {
		if !slices.ContainsFunc(f.Findings, func(x record.Finding) bool { return x.Name == name }) {
			t.Errorf("no finding %s", name)
		}
	}
}

// analysed analyzes a run, including trials that were late or unsteady, which a busy machine
// causes.
func analysed(t *testing.T, run record.Run) record.Findings {
	t.Helper()
	limits := map[string]float64{}
	maps.Copy(limits, run.Header.Rules.Limits)
	for _, name := range []string{"schedule-lag", "steady"} {
		limits[name] = math.MaxFloat64
	}
	run.Header.Rules.Limits = limits
	f, err := analyses.All().Analyze(run)
	must.OK(t, err)
	return f
}
