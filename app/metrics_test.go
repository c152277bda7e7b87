package app

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/openmetrics"
	"github.com/meshtrial/meshtrial/internal/openmetrics/openmetricstest"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

const measuredStudy = `
name: measured
question: How far is it?
factors: {sidecars: [none, both]}
baseline: {sidecars: none}
blocks: {min: 2, max: 4, limit: 1h}
`

// What a run's metrics say follows from its events.
func TestRunMetrics(t *testing.T) {
	plan := studytest.Plan(t, measuredStudy)
	now := time.Unix(1e9, 0)
	l := &gauges{now: func() time.Time { return now }, study: "measured", phase: phaseStart, invalid: map[string]int{}}
	read := func() map[string]float64 {
		t.Helper()
		var page openmetrics.Page
		var text bytes.Buffer
		l.page(&page)
		must.OK(t, page.Write(&text))
		return openmetricstest.Read(t, text.Bytes())
	}
	check := func(want map[string]float64) {
		t.Helper()
		got := read()
		for series, value := range want {
			series = strings.Replace("meshtrial_run_"+series, "{", `{study="measured",`, 1)
			if !strings.Contains(series, "{") {
				series += `{study="measured"}`
			}
			if v, ok := got[series]; !ok || v != value {
				t.Errorf("%s is %v (%v), want %v", series, v, ok, value)
			}
		}
	}
	check(map[string]float64{`phase{phase="start"}`: 1, `phase{phase="trial"}`: 0, `trials_total{valid="true"}`: 0})
	if _, ok := read()[`meshtrial_run_remaining_seconds{study="measured"}`]; ok {
		t.Error("it is known how long a run takes that has not begun")
	}
	l.hear(plan, runner.Event{Stage: "deploy", Text: "deploying"})
	check(map[string]float64{`phase{phase="deploy"}`: 1, `phase{phase="start"}`: 0})

	start := runner.Event{Stage: "trial", Block: 0, Trial: 1, Trials: 3}
	l.hear(plan, start)
	check(map[string]float64{`phase{phase="trial"}`: 1, "block": 1, "blocks_max": 4, "trial": 1, "block_trials": 3,
		"remaining_seconds": plan.Estimate().Max.Seconds()})
	l.hear(plan, runner.Event{Stage: "deploy", Text: "deployment 2: all pods recreated"})
	now = now.Add(10 * time.Second)
	end := start
	end.Record = &record.Trial{Validity: record.Validity{Valid: true}}
	l.hear(plan, end)
	check(map[string]float64{`phase{phase="trial"}`: 1, `trials_total{valid="true"}`: 1, `trials_total{valid="false"}`: 0, "remaining_seconds": 110})
	l.hear(plan, runner.Event{Stage: "block"})
	start.Block, start.Trial = 2, 2
	l.hear(plan, start)
	check(map[string]float64{"block": 3, "trial": 2, "remaining_seconds": 50}) // that one, another, and three more
	now = now.Add(2 * time.Second)
	end = start
	end.Record = &record.Trial{Validity: record.Validity{Checks: []record.Check{{Name: "schedule-lag"}, {Name: "balanced", OK: true}, {Name: "cpu-edges"}}}}
	l.hear(plan, end)
	check(map[string]float64{`trials_total{valid="true"}`: 1, `trials_total{valid="false"}`: 1, `failed_checks_total{check="schedule-lag"}`: 1,
		`failed_checks_total{check="cpu-edges"}`: 1, "remaining_seconds": 24})
	now = now.Add(time.Hour - 13*time.Second)
	l.hear(plan, start)
	check(map[string]float64{"remaining_seconds": 1}) // of the limit
	l.hear(plan, runner.Event{Stage: "block"})
	check(map[string]float64{`phase{phase="block"}`: 1, `phase{phase="trial"}`: 0})
}

// A run serves metrics before its lab is opened, and passes its events on.
func TestRunServesMetrics(t *testing.T) {
	heard := 0
	said := &recorder{}
	o := RunOptions{Study: studytest.Parse(t, measuredStudy), Metrics: "0", Progress: said, Event: func(*study.Plan, runner.Event) { heard++ }}
	server, err := o.serveMetrics()
	must.OK(t, err)
	defer server.Close()
	plan := studytest.Plan(t, measuredStudy)
	for n, c := range []struct {
		event runner.Event
		want  float64 // trial
	}{
		{runner.Event{Stage: "trial", Trial: 2, Trials: 3}, 2},
		{runner.Event{Stage: runner.StageQuiet}, 2},
		{runner.Event{Stage: "trial", Trial: 3, Trials: 3}, 2}, // none comes in a window; the page would show it
		{runner.Event{Stage: runner.StageLoud}, 3},
	} {
		o.Event(plan, c.event)
		resp, err := http.Get(server.URL())
		must.OK(t, err)
		page, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		must.OK(t, err)
		if got := openmetricstest.Read(t, page)[`meshtrial_run_trial{study="measured"}`]; got != c.want || heard != n+1 {
			t.Errorf("after %+v: trial %v, want %v; %d events heard", c.event, got, c.want, heard)
		}
	}
	if !strings.Contains(said.notes.String(), server.URL()) {
		t.Errorf("said %q", said.notes.String())
	}
	none := RunOptions{}
	if server, err := none.serveMetrics(); server != nil || err != nil || none.Event != nil {
		t.Errorf("%v, %v", server, err)
	}
}
