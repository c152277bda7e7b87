package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/advise/advice/gather"
	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/kinds/analyses"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/observe/signals"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// outcomes applies the shipped rules to a run, as the program analyzes it, and returns the
// outcome of each rule in each cell.
func outcomes(t *testing.T, run record.Run) map[string]map[string]advice.Judgement {
	t.Helper()
	findings, err := analyses.All().Analyze(run)
	must.OK(t, err)
	all, err := gather.OfRun(t.Context(), gather.Run{Dir: "run", Record: run, Findings: findings})
	must.OK(t, err)
	out := map[string]map[string]advice.Judgement{}
	for _, e := range all {
		out[e.Cell.Key()] = judgements(e)
	}
	return out
}

// judgements returns the judgements of all rules, with the first advice under "".
func judgements(e *advice.Evidence) map[string]advice.Judgement {
	r := advice.Judge(e)
	out := map[string]advice.Judgement{}
	for _, list := range [][]advice.Judgement{r.Advice, r.Undecided, r.RuledOut} {
		for _, j := range list {
			out[j.Rule] = j
		}
	}
	if len(r.Advice) > 0 {
		out[""] = r.Advice[0]
	}
	return out
}

// watched returns what a watch of a minute tells, whose pages come every few seconds.
func watched(t *testing.T, every int, pages func(second int, add func(page string, labels map[string]string))) map[*advice.Quantity]float64 {
	t.Helper()
	recorder, err := signals.OpenRecorder(t.TempDir())
	must.OK(t, err)
	defer recorder.Close()
	begin := time.Unix(1_700_000_000, 0)
	for second := 0; second <= 60; second += every {
		pages(second, func(page string, labels map[string]string) {
			must.OK(t, recorder.AppendPage(begin.Add(time.Duration(second)*time.Second), []byte(page), labels))
		})
	}
	metrics, err := gather.Metrics(t.Context(), recorder.Source(), signals.Options{Window: time.Minute + time.Millisecond}, begin.Add(time.Minute))
	must.OK(t, err)
	return metrics
}

// A bill computed from trials says what access logs and scripts cost. Low costs lead to no
// advice.
func TestAdviceOfBill(t *testing.T) {
	const text = `
name: bill
question: What does each part cost?
settings: {sidecars: server, rate: 1000, mtls: permissive, telemetry: "off"}
bill:
  parts:
    log: {telemetry: access-log-json}
    script: {filters: lua}
blocks: {min: 8, max: 8, limit: 10m}
stop: none
measures: [latency, cpu, memory]
`
	for _, c := range []struct {
		log, script float64 // microseconds per request, 100 without them
		holds       []string
	}{
		{40, 80, []string{"access_log", "costly_filter"}},
		{40, 5, []string{"access_log"}},
		{5, 80, []string{"costly_filter"}},
		{4, 5, nil},
	} {
		w := analysistest.Quiet()
		w.Noise = 0.004
		w.CPU = func(cell record.Cell, part string, rps float64) float64 {
			us := 100.0
			if part == record.PartServerProxy && cell[study.FactorTelemetry] == study.TelemetryJSON {
				us += c.log
			}
			if part == record.PartServerProxy && cell[dataplane.FactorFilters] == dataplane.PartLua {
				us += c.script
			}
			return us * 1e-6 * rps
		}
		all := outcomes(t, analysistest.Simulate(t, text, 8, 1, w))
		for cell, j := range all {
			for _, rule := range []string{"access_log", "costly_filter"} {
				want := advice.RuledOut
				if strings.Contains(strings.Join(c.holds, " "), rule) {
					want = advice.Holds
				}
				if got := j[rule]; got.Outcome != want || want == advice.Holds && got.Expect == nil {
					t.Errorf("log %g, script %g, cell %s: %s is %s: %+v", c.log, c.script, cell, rule, got.Outcome,
						got)
				}
			}
		}
		if len(all) == 0 {
			t.Error("no cells")
		}
	}
}

// recordedRun returns the recorded run of a real istiod that comes with the tests.
func recordedRun(t *testing.T) record.Run {
	t.Helper()
	run, _, err := store.Load(t.Context(), "../kinds/testdata/control-plane")
	must.OK(t, err)
	return run
}

// The rules read what istiod really writes: of the record of a healthy, real one they rule out each limit that
// gather's tests plant, and one that is planted in the record is found.
func TestAdviceOfRecord(t *testing.T) {
	whole := outcomes(t, recordedRun(t))
	if len(whole) == 0 {
		t.Fatal("no cells")
	}
	for cell, j := range whole {
		for _, rule := range []string{"debounce_long", "debounce_restless", "cpu_limit", "throttle", "locks", "slow_readers",
			"saturated_out", "saturated_in", "no_effect", "memory_limit", "reconnects", "rejected"} {
			if got := j[rule]; got.Outcome != advice.RuledOut {
				t.Errorf("%s is %s in cell %s of a record in which nothing is the matter: %+v", rule, got.Outcome, cell, got)
			}
		}
	}
	run := recordedRun(t)
	for i := range run.Trials {
		tr := &run.Trials[i]
		rises := tr.Control.Istiod
		tr.Cell[controlplane.FactorPushThrottle] = "1"
		n := rises["pilot_proxy_convergence_time_count"]
		rises["pilot_proxy_convergence_time_sum"], rises["pilot_proxy_queue_time_sum"] = 0.3*n, 0.27*n
	}
	findings := record.Findings{Cells: []record.CellSummary{{Cell: record.Cell{}}}}
	all, err := gather.OfRun(t.Context(), gather.Run{Dir: "run", Record: run, Findings: findings})
	if err != nil || len(all) != 1 {
		t.Fatalf("%d cells, %v", len(all), err)
	}
	if got := judgements(all[0]); got[""].Rule != "throttle" || got["throttle"].Expect == nil || len(got["throttle"].Try) == 0 {
		t.Errorf("the first is %q: %+v\n%v", got[""].Rule, got["throttle"], all[0].Metrics)
	}
}

// With two replicas read separately, one that holds most of the proxies is reported, and so is
// one that has just started. An even distribution is not.
func TestAdviceOfReplicas(t *testing.T) {
	for name, c := range map[string]struct {
		proxies []int
		cds     float64 // clusters that each replica sends per second, though nothing is pushed
		want    string
	}{
		"even":         {[]int{50, 50}, 0, ""},
		"nearly even":  {[]int{60, 40}, 0, ""},
		"one has most": {[]int{95, 5}, 0, "unbalanced"},
		"one has none": {[]int{100, 0}, 0, "unbalanced"},
		// Typical of proxies that choose a replica at random.
		"chance":           {[]int{10, 8, 7, 6, 6, 6, 5, 5, 4, 3}, 0, ""},
		"more than chance": {[]int{20, 5, 5, 5, 5, 4, 4, 4, 4, 4}, 0, "unbalanced"},
		"few proxies":      {[]int{29, 1}, 0, ""},
		// istiod has no such series before the first proxy connects.
		"one is new":    {[]int{100, -1}, 0, "unbalanced"},
		"all come anew": {[]int{50, 50}, 3, "reconnects"},
	} {
		metrics := watched(t, 1, func(second int, add func(string, map[string]string)) {
			for i, proxies := range c.proxies {
				page := fmt.Sprintf("pilot_services 10\nprocess_start_time_seconds 1\nistiod_uptime_seconds %d\npilot_xds_pushes{type=\"cds\"} %g\npilot_proxy_convergence_time_count 7\n",
					1000+second, 1000+c.cds*float64(second))
				if proxies >= 0 {
					page += fmt.Sprintf("pilot_xds{version=\"1.31\"} %d\n", proxies)
				}
				add(page, map[string]string{"app": "istiod", "pod": fmt.Sprintf("istiod-%d", i)})
			}
		})
		levers := map[string]string{controlplane.FactorIstiodReplicas: fmt.Sprint(len(c.proxies)),
			controlplane.FactorConnectionAge: "5m"}
		got := judgements(&advice.Evidence{Metrics: metrics, Levers: levers})
		if j := got[""]; c.want == "unbalanced" && (len(j.Try) != 1 || j.Expect == nil ||
			j.Expect.High >= j.Expect.Now) {
			t.Errorf("%s, of connections that live for 5 minutes: %+v", name, j)
		}
		if first := got[""].Rule; first != c.want {
			t.Errorf("%s: the first advice is %q: %+v %v", name, first, got["unbalanced"], metrics)
		}
		if c.want == "" && (got["unbalanced"].Outcome != advice.RuledOut ||
			got["reconnects"].Outcome != advice.RuledOut) {
			t.Errorf("%s: unbalanced is %s, reconnects %s", name, got["unbalanced"].Outcome,
				got["reconnects"].Outcome)
		}
	}
}

// If an istiod counted rejections earlier and none while it is watched, it is unknown whether
// proxies still run on the configuration before the rejected one: istiod sends the rejected
// configuration again only when it changes.
func TestAdviceOfEarlierRejections(t *testing.T) {
	for name, c := range map[string]struct {
		page string // a format that takes the second
		want string
	}{
		"never":              {"", advice.RuledOut},
		"before":             {"pilot_total_xds_rejects{type=\"lds\"} 3\n", advice.NotEnough},
		"meanwhile":          {"pilot_total_xds_rejects{type=\"lds\"} %d\n", advice.Holds},
		"for the first time": {"pilot_total_xds_rejects{type=\"lds\"} 1\n", advice.NotEnough},
	} {
		metrics := watched(t, 1, func(second int, add func(string, map[string]string)) {
			page := "pilot_services 10\npilot_xds{version=\"1.31\"} 5\n"
			if name != "for the first time" || second > 30 {
				page += strings.Replace(c.page, "%d", fmt.Sprint(3+second), 1)
			}
			add(page, map[string]string{"app": "istiod", "pod": "istiod-0"})
		})
		got := judgements(&advice.Evidence{Metrics: metrics})["rejected"]
		if got.Outcome != c.want || c.want == advice.NotEnough &&
			(len(got.Missing) != 1 || got.Missing[0].Name != "rejected_before") {
			t.Errorf("%s: %+v %v", name, got, metrics)
		}
	}
}
