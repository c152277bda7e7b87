package app

import (
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/internal/openmetrics"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/study"
)

// Phases of a run, as its metrics name them.
const (
	phaseStart  = "start"  // its lab and its cluster are made ready
	phaseDeploy = "deploy" // its pods
	phaseTrial  = "trial"
	phaseBlock  = "block" // between two blocks
)

// gauges are what a run's metrics say. They hear of the run from the runner's events alone, so
// that no scrape reaches a pod.
type gauges struct {
	now   func() time.Time
	study string

	mu      sync.Mutex
	phase   string
	plan    *study.Plan // nil before the first event
	at      runner.Event
	ended   int // trials
	valid   int
	invalid map[string]int // trials by failed check
	first   time.Time      // start of the first trial of this attempt
}

// serveMetrics serves a run's metrics, if its options say where, until the server is closed.
func (o *RunOptions) serveMetrics() (*openmetrics.Server, error) {
	server, err := openmetrics.Listen(o.Metrics)
	if server == nil {
		return nil, err
	}
	l := &gauges{now: time.Now, study: o.Study.Name, phase: phaseStart, invalid: map[string]int{}}
	server.Serve(l.page)
	o.Progress.Note("metrics at %s", server.URL())
	tell := o.Event
	o.Event = func(plan *study.Plan, e runner.Event) {
		l.hear(plan, e)
		if tell != nil {
			tell(plan, e)
		}
	}
	return server, nil
}

// hear takes an event of the run.
func (l *gauges) hear(plan *study.Plan, e runner.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.plan = plan
	switch e.Stage {
	case "deploy":
		if l.first.IsZero() { // later ones are of trials
			l.phase = phaseDeploy
		}
	case "block":
		l.phase = phaseBlock
	case "trial":
		l.phase, l.at = phaseTrial, e
		if e.Record == nil {
			if l.first.IsZero() {
				l.first = l.now()
			}
			return
		}
		l.ended++
		if e.Record.Validity.Valid {
			l.valid++
			return
		}
		for _, c := range e.Record.Validity.Checks {
			if !c.OK {
				l.invalid[c.Name]++
			}
		}
	}
}

// page adds the metrics as they are now.
func (l *gauges) page(page *openmetrics.Page) {
	l.mu.Lock()
	defer l.mu.Unlock()
	metric := func(name, help string) openmetrics.Metric {
		return openmetrics.Metric{Name: "meshtrial_run_" + name, Help: help}
	}
	of := []string{"study", l.study}
	phase := metric("phase", "1 for what the run is doing, otherwise 0.")
	for _, name := range []string{phaseStart, phaseDeploy, phaseTrial, phaseBlock} {
		is := 0.0
		if name == l.phase {
			is = 1
		}
		page.Gauge(phase, is, append(of, "phase", name)...)
	}
	trials := metric("trials", "Trials that have ended, by whether they are valid. Those before a resumption are not counted.")
	page.Counter(trials, float64(l.valid), append(of, "valid", "true")...)
	page.Counter(trials, float64(l.ended-l.valid), append(of, "valid", "false")...)
	for check, n := range l.invalid {
		page.Counter(metric("failed_checks", "Trials that are not valid, by each check that failed."), float64(n), append(of, "check", check)...)
	}
	if l.first.IsZero() {
		return
	}
	page.Gauge(metric("block", "Number of the block, from 1."), float64(l.at.Block+1), of...)
	page.Gauge(metric("blocks_max", "The most blocks that the run has."), float64(l.plan.Study.Blocks.Max), of...)
	page.Gauge(metric("trial", "Number of the trial in its block, from 1."), float64(l.at.Trial), of...)
	if l.at.Trials > 0 {
		page.Gauge(metric("block_trials", "Trials in a block."), float64(l.at.Trials), of...)
	}
	left := metric("remaining", "The longest that the run still takes. A stop rule may end it sooner.")
	left.Unit = "seconds"
	page.Gauge(left, l.remaining().Seconds(), of...)
}

func (l *gauges) remaining() time.Duration {
	trials := (l.plan.Study.Blocks.Max-l.at.Block)*l.at.Trials - l.at.Trial
	if l.at.Record == nil { // this one
		trials++
	}
	return longestLeft(l.plan, l.now().Sub(l.first), l.ended, trials)
}

// longestLeft is the longest that a run still takes which has ended trials since it was started
// or resumed, and spent that time: as many trials as there can be, at that pace, but no longer
// than the study's limit, which begins anew when a run is resumed. Before the first has ended,
// and in a search, it is what the plan expects.
func longestLeft(plan *study.Plan, spent time.Duration, ended, trials int) time.Duration {
	left := plan.Estimate().Max - spent
	if ended > 0 && !plan.Study.Chooses() {
		left = time.Duration(trials) * spent / time.Duration(ended)
	}
	if limit := plan.Study.Blocks.Limit; limit > 0 {
		left = min(left, limit-spent)
	}
	return max(left, 0)
}
