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

// gauges collects the metrics of a run from the runner's events alone, so that a scrape reaches
// no pod. In a measured window they stand still.
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
	g := &gauges{now: time.Now, study: o.Study.Name, phase: phaseStart, invalid: map[string]int{}}
	server.Serve(g.page)
	o.Progress.Note("metrics at %s", server.URL())
	tell := o.Event
	o.Event = func(plan *study.Plan, e runner.Event) {
		g.hear(plan, e)
		switch e.Stage { // a window is not to be disturbed
		case runner.StageQuiet:
			server.Hold()
		case runner.StageLoud:
			server.Release()
		}
		if tell != nil {
			tell(plan, e)
		}
	}
	return server, nil
}

// hear records an event of the run.
func (g *gauges) hear(plan *study.Plan, e runner.Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.plan = plan
	switch e.Stage {
	case "deploy":
		if g.first.IsZero() { // later ones are of trials
			g.phase = phaseDeploy
		}
	case "block":
		g.phase = phaseBlock
	case "trial":
		g.phase, g.at = phaseTrial, e
		if e.Record == nil {
			if g.first.IsZero() {
				g.first = g.now()
			}
			return
		}
		g.ended++
		if e.Record.Validity.Valid {
			g.valid++
			return
		}
		for _, c := range e.Record.Validity.Checks {
			if !c.OK {
				g.invalid[c.Name]++
			}
		}
	}
}

// page adds the current values.
func (g *gauges) page(page *openmetrics.Page) {
	g.mu.Lock()
	defer g.mu.Unlock()
	metric := func(name, help string) openmetrics.Metric {
		return openmetrics.Metric{Name: "meshtrial_run_" + name, Help: help}
	}
	of := []string{"study", g.study}
	phase := metric("phase", "1 for the current phase of the run, otherwise 0.")
	for _, name := range []string{phaseStart, phaseDeploy, phaseTrial, phaseBlock} {
		is := 0.0
		if name == g.phase {
			is = 1
		}
		page.Gauge(phase, is, append(of, "phase", name)...)
	}
	trials := metric("trials", "Trials ended since the run was started or resumed, by validity.")
	page.Counter(trials, float64(g.valid), append(of, "valid", "true")...)
	page.Counter(trials, float64(g.ended-g.valid), append(of, "valid", "false")...)
	for check, n := range g.invalid {
		page.Counter(metric("failed_checks", "Trials that are not valid, by each check that failed."), float64(n), append(of, "check", check)...)
	}
	if g.first.IsZero() {
		return
	}
	page.Gauge(metric("block", "Number of the block, from 1."), float64(g.at.Block+1), of...)
	page.Gauge(metric("blocks_max", "Maximum number of blocks."), float64(g.plan.Study.Blocks.Max), of...)
	page.Gauge(metric("trial", "Number of the trial in its block, from 1."), float64(g.at.Trial), of...)
	if g.at.Trials > 0 {
		page.Gauge(metric("block_trials", "Trials in a block."), float64(g.at.Trials), of...)
	}
	left := metric("remaining", "Upper estimate of the remaining time. A stop rule may end the run sooner.")
	left.Unit = "seconds"
	page.Gauge(left, g.remaining().Seconds(), of...)
}

func (g *gauges) remaining() time.Duration {
	trials := (g.plan.Study.Blocks.Max-g.at.Block)*g.at.Trials - g.at.Trial
	if g.at.Record == nil { // this one
		trials++
	}
	return longestLeft(g.plan, g.now().Sub(g.first), g.ended, trials)
}

// longestLeft is an upper estimate of a run's remaining time: trials more at the pace of the ended
// ones, which took spent since the run was started or resumed, within the study's limit, which
// starts over on a resume. Before the first trial has ended, and in a search, it is the plan's
// estimate.
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
