package findings

import (
	"math"
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/record"
)

const routesStudy = `
name: routes
question: When is a new route served?
control: {changes: 4, settle: 2s, gateway: {}}
settings: {proxies: 0, gateways: 2, change: httproute}
factors: {services: [10, 100]}
baseline: {services: 10}
measures: [convergence, cost]
blocks: {min: 3, max: 12}
`

// routesRun serves each route 150 ms after its commit; the second of two gateways acknowledges it
// after 122 ms.
func routesRun(t *testing.T, spoil func(trial *record.Trial, events []record.Event)) record.Findings {
	t.Helper()
	return analysistest.Analyze(t, kinds, analysistest.SimulateControl(t, routesStudy, 3, func(record.Cell) analysistest.ControlWorld {
		return analysistest.ControlWorld{DebounceMS: 100, Pushes: 1, Spoil: func(trial *record.Trial, events []record.Event) {
			us := func(ms float64) *int64 {
				at := int64(ms * 1000 * (1 + 0.001*float64(trial.Block)))
				return &at
			}
			for i := range events {
				events[i].Served = &record.Served{BadUS: us(147), GoodUS: us(149), AnsweredUS: us(150), Statuses: map[string]int{"404": 90, "200": 30}}
			}
			trial.Control.Attached = &record.Attached{Routes: 4, AllUS: us(2000), FirstUS: us(6000), NoneUS: us(3000), NoneFirstUS: us(4000), Writes: 7, Unwrites: 5}
			if spoil != nil {
				spoil(trial, events)
			}
		}}
	}))
}

func found(f record.Findings, name string) record.Finding {
	i := slices.IndexFunc(f.Findings, func(x record.Finding) bool { return x.Name == name && x.Cell["services"] == "10" })
	if i < 0 {
		return record.Finding{}
	}
	return f.Findings[i]
}

func TestRouteFindings(t *testing.T) {
	f := routesRun(t, nil)
	for name, want := range map[string]float64{
		"route_served": 150_000, "route_served_max": 150_000, "route_acked": 122_000, "route_served_after_ack": 28_000, "route_resolution": 3000,
		"attached_all": 2e6, "attached_all_since_first": 6e6, "attached_none": 3e6, "attached_none_since_first": 4e6,
		"gateway_status_writes": 7, "gateway_status_writes_down": 5, "gateway_status_writes_total": 12,
	} {
		if x := found(f, name); x.Verdict != record.VerdictMeasured || math.Abs(x.Estimate/want-1) > 0.05 {
			t.Errorf("%s: %+v, want %v", name, x, want)
		}
	}
	for _, name := range []string{"routes_unserved", "route_errors"} {
		if x := found(f, name); x.Name == "" || x.Estimate != 0 {
			t.Errorf("%s: %+v", name, x)
		}
	}
	if x := found(f, "route_served_p90"); x.Verdict == record.VerdictMeasured {
		t.Errorf("the 90th percentile of four routes: %+v", x)
	}
}

// Routes that are never served count as never served, failed requests are reported, and a status
// that never came counts as never.
func TestRouteFindingsOfLost(t *testing.T) {
	f := routesRun(t, func(trial *record.Trial, events []record.Event) {
		for i := range events[:3] {
			events[i].Served.GoodUS, events[i].Served.AnsweredUS = nil, nil
			events[i].Served.Statuses, events[i].Served.Failed = map[string]int{"404": 90, "503": 2, "error": 1}, 3
		}
		events[3].Served.Relapses, events[3].Served.Failed = 4, 4
		trial.Control.Attached.AllUS = nil
	})
	if x := found(f, "route_served"); x.Verdict == record.VerdictMeasured || x.Reason != record.ReasonNotReached {
		t.Errorf("three of four were never served: %+v", x)
	}
	if x := found(f, "routes_unserved"); x.Estimate != 3 {
		t.Errorf("%+v", x)
	}
	if x := found(f, "route_errors"); x.Estimate != 13 {
		t.Errorf("%+v", x)
	}
	if x := found(f, "route_acked"); x.Verdict != record.VerdictMeasured {
		t.Errorf("they were acknowledged: %+v", x)
	}
	if x := found(f, "attached_all"); x.Verdict == record.VerdictMeasured || x.Reason != record.ReasonNotReached {
		t.Errorf("%+v", x)
	}
}

// If not all routes could be deleted, the status during deletion is unknown: it did not take
// forever, nor was it written so few times.
func TestRouteFindingsOfKept(t *testing.T) {
	f := routesRun(t, func(trial *record.Trial, _ []record.Event) {
		a := trial.Control.Attached
		a.Kept, a.NoneUS, a.NoneFirstUS = true, nil, nil
	})
	for _, name := range []string{"attached_none", "attached_none_since_first", "gateway_status_writes_down", "gateway_status_writes_total"} {
		if x := found(f, name); x.Verdict == record.VerdictMeasured || x.Reason == record.ReasonNotReached {
			t.Errorf("%s: %+v", name, x)
		}
	}
	for _, name := range []string{"attached_all", "gateway_status_writes"} {
		if x := found(f, name); x.Verdict != record.VerdictMeasured {
			t.Errorf("%s: %+v", name, x)
		}
	}
}
