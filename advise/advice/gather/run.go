package gather

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/advise/advice/variables"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/observe/signals"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Run is the input for evidence.
type Run struct {
	Dir      string
	Record   record.Run
	Findings record.Findings
	// Series holds the metrics that the run recorded for each replica; nil if it did not.
	Series signals.Source
	Known  *variables.Known // about its istiod; nil if its program was not asked
	// Facts returns further facts of a cell from its trials, with notes; may be nil.
	Facts func(trials []*record.Trial) (map[*advice.Quantity]float64, []string)
}

// OfRun returns evidence for each cell of a run, in the findings' order.
func OfRun(ctx context.Context, r Run) ([]*advice.Evidence, error) {
	var out []*advice.Evidence
	for i := range r.Findings.Cells {
		e, err := r.cell(ctx, &r.Findings.Cells[i])
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

func (r *Run) cell(ctx context.Context, cell *record.CellSummary) (*advice.Evidence, error) {
	e := &advice.Evidence{Source: "run " + r.Dir, Cell: cell.Cell, Known: r.Known,
		Metrics:  map[*advice.Quantity]float64{},
		Findings: map[string]record.Finding{}, Facts: map[*advice.Quantity]float64{}, Levers: map[string]string{},
		Limits: map[string]string{}}
	trials := r.trials(cell.Cell, e)
	r.findings(cell, e)
	if len(trials) > 0 {
		levels(trials[len(trials)-1], e.Levers)
		r.effects(trials[0].Cell, cell.Cell, e)
		facts(trials, e.Facts)
		if r.Facts != nil {
			more, notes := r.Facts(trials)
			maps.Copy(e.Facts, more)
			e.Notes = append(e.Notes, notes...)
		}
	}
	return e, r.metrics(ctx, trials, e)
}

// trials returns a cell's trials for evidence: the valid ones or, if there are none, those
// whose istiod counts cover the whole window, which raises a doubt.
func (r *Run) trials(cell record.Cell, e *advice.Evidence) []*record.Trial {
	var valid, others []*record.Trial
	for i := range r.Record.Trials {
		t := &r.Record.Trials[i]
		switch {
		case !t.Cell.Has(cell):
		case t.Validity.Valid:
			valid = append(valid, t)
		case t.Control != nil && t.Control.Istiod != nil && istiodLived(t):
			others = append(others, t)
		}
	}
	if len(valid) > 0 || len(others) == 0 {
		return valid
	}
	failed := ""
	for _, c := range others[0].Validity.Checks {
		if !c.OK && failed == "" {
			failed = ", as for " + c.Name + ": " + c.Detail
		}
	}
	e.Doubt = fmt.Sprintf("no trial of this cell is valid%s; what istiod counted is taken from %d that are not",
		failed, len(others))
	return others
}

// istiodLived reports whether the same istiod ran from begin to end of a trial, so its counts
// cover the window.
func istiodLived(t *record.Trial) bool {
	return !slices.ContainsFunc(t.Validity.Checks,
		func(c record.Check) bool { return c.Name == "istiod-lived" && !c.OK })
}

// findings adds a cell's own findings, its threads, and the costs of its parts.
func (r *Run) findings(cell *record.CellSummary, e *advice.Evidence) {
	for _, f := range r.Findings.Findings {
		if f.Against == nil && f.Verdict != record.VerdictInvalid && f.Cell.Key() == cell.Cell.Key() {
			e.Findings[f.Name] = f
		}
	}
	for part, t := range cell.Threads {
		if e.Limits[part] = t.Limit; t.Limit == "" {
			e.Limits[part] = "none"
		}
		e.Facts[advice.ProxyThrottled] = max(e.Facts[advice.ProxyThrottled], t.ThrottledRatio)
		workers := 0.0
		for _, row := range t.Rows {
			if row.Worker {
				workers++
				e.Facts[advice.WorkerBusiest] = max(e.Facts[advice.WorkerBusiest], row.UserRatio+row.SystemRatio)
			}
		}
		switch {
		case t.Limit == record.LimitConcurrency && workers > 0:
			e.Facts[advice.WorkerThreads] = max(e.Facts[advice.WorkerThreads], workers)
		case t.Limit == record.LimitCPU && t.QuotaCores > 0:
			e.Facts[advice.ProxyCPULimit] = max(e.Facts[advice.ProxyCPULimit], t.QuotaCores)
		}
	}
	for _, b := range r.Findings.Bills {
		if cell.Cell.Has(b.Cell) {
			r.bill(b, e.Facts)
		}
	}
}

// bill adds the costs of access logs and of the most expensive extension from a bill, each as
// a share of the CPU time per request of the server's sidecar with that part.
func (r *Run) bill(b record.Bill, facts map[*advice.Quantity]float64) {
	for _, part := range b.Parts {
		price, ok := part.Figures[dataplane.BillCPU]
		q := billed(part)
		if !ok || q == nil || price.Verdict != record.VerdictReal {
			continue
		}
		total := 0.0
		for i := range r.Findings.Cells {
			c := &r.Findings.Cells[i]
			if cpu := c.CPUPerRequest[record.PartServerProxy]; c.Cell[study.FactorVariant] == part.Name &&
				c.Cell.Has(b.Cell) {
				total = max(total, cpu.UserUS+cpu.SystemUS)
			}
		}
		if total > 0 {
			facts[q] = max(facts[q], price.Estimate/total)
		}
	}
}

// billed returns the quantity for a part of a bill; nil for parts that nobody would give up,
// and those with a price known beforehand.
func billed(part record.BillPart) *advice.Quantity {
	filter := part.Levels[dataplane.FactorFilters]
	switch {
	case strings.HasPrefix(part.Levels[study.FactorTelemetry], "access-log") &&
		!strings.Contains(part.Levels[study.FactorTelemetry], "+"), filter == dataplane.PartOTLPLog:
		return advice.AccessLogShare
	case filter == dataplane.PartLua, filter == dataplane.PartWasm, strings.HasPrefix(filter, dataplane.PartEnvoyFilter):
		return advice.FilterShare
	}
	return nil
}

// levels adds the levels of levers in a trial, as named by its cell or as found.
func levels(t *record.Trial, out map[string]string) {
	for _, f := range controlplane.Levers() {
		level := t.Cell[f.Name]
		if !f.Sets(level) && t.Control != nil {
			level = t.Control.Installed[f.Name]
		}
		if f.Sets(level) {
			out[f.Name] = level
		}
	}
}

// effects adds what the run measured of changing one lever of this cell while the others
// stayed the same.
func (r *Run) effects(full, short record.Cell, e *advice.Evidence) {
	for _, f := range r.Findings.Findings {
		if f.Against == nil || f.Verdict == record.VerdictInvalid || f.Against.Key() != short.Key() {
			continue
		}
		i := slices.IndexFunc(r.Record.Trials, func(t record.Trial) bool { return t.Cell.Has(f.Cell) })
		if i < 0 {
			continue
		}
		if lever, level, ok := oneLever(full, r.Record.Trials[i].Cell); ok && slices.Contains(shownEffects, f.Name) {
			e.Effects = append(e.Effects, advice.Measured{Lever: lever, Level: level, Finding: f})
		}
	}
}

// shownEffects lists the differences that advice shows.
var shownEffects = []string{"convergence_p50_overhead", "convergence_p99_overhead", "pushes_overhead",
	"istiod_cpu_per_change_overhead"}

// oneLever returns the lever if two cells differ only in one.
func oneLever(a, b record.Cell) (lever, level string, ok bool) {
	for factor, l := range b {
		if a[factor] == l || factor == study.FactorVariant {
			continue
		}
		if _, is := controlplane.LeverByName(factor); !is || lever != "" {
			return "", "", false
		}
		lever, level = factor, l
	}
	return lever, level, lever != ""
}

// epoch is when the samples of a cell begin: any time would do.
var epoch = time.Unix(1_000_000_000, 0)

// metrics answers queries from istiod's counts in all of a cell's windows together. Queries
// that distinguish replicas are answered from the run's series at the end of the last window.
func (r *Run) metrics(ctx context.Context, trials []*record.Trial, e *advice.Evidence) error {
	moments, seconds, fell, err := counted(trials)
	if err != nil || seconds <= 0 {
		return err
	}
	if len(fell) > 0 {
		e.Notes = append(e.Notes, fmt.Sprintf("left out, because they fell in a window, as when istiod restarts: %s",
			strings.Join(fell[:min(len(fell), mostNamed)], ", ")))
	}
	e.WindowS = seconds
	held, err := signals.Held("istiod's counts in the trials", moments)
	if err != nil {
		return err
	}
	o := signals.Options{Window: time.Duration(seconds*1000+1) * time.Millisecond}
	last := trials[len(trials)-1]
	window := time.Duration(last.Window.Seconds * float64(time.Second))
	for _, q := range advice.Quantities() {
		switch {
		case !q.PerReplica:
			err = answer(ctx, e.Metrics, q, held, o, moments[1].At)
		case r.Series != nil:
			err = answer(ctx, e.Metrics, q, r.Series, signals.Options{Window: window}, last.Window.Start.Add(window))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// counted returns two moments between which counters rise by as much as in all windows
// together; gauges are means over trials. Counters that fell are named and left out.
func counted(trials []*record.Trial) (moments []signals.Moment, seconds float64, fell []string, err error) {
	rises, gauges, count := map[string]float64{}, map[string]float64{}, map[string]float64{}
	for _, t := range trials {
		if t.Control == nil || t.Control.Istiod == nil {
			continue
		}
		seconds += t.Window.Seconds
		for key, v := range t.Control.Istiod {
			rises[key] += v
			if v < 0 && !slices.Contains(fell, key) {
				fell = append(fell, key)
			}
		}
		for key, v := range t.Control.IstiodGauges {
			gauges[key] += v
			count[key]++
		}
	}
	slices.Sort(fell)
	for _, key := range fell {
		delete(rises, key)
	}
	for key := range gauges {
		gauges[key] /= count[key]
	}
	end := epoch.Add(time.Duration(seconds*1000) * time.Millisecond)
	moments = []signals.Moment{{At: epoch}, {At: end}}
	for _, part := range []struct {
		values map[string]float64
		rising bool
	}{{rises, true}, {gauges, false}} {
		for _, key := range slices.Sorted(maps.Keys(part.values)) {
			s, err := sample(key)
			if err != nil {
				return nil, 0, nil, err
			}
			if part.rising {
				moments[0].Samples = append(moments[0].Samples, s)
			}
			s.Value = part.values[key]
			moments[1].Samples = append(moments[1].Samples, s)
		}
	}
	return moments, seconds, fell, nil
}

// mostNamed is the maximum number of series that a note names.
const mostNamed = 5

// sample parses a series as spelled in records, without istiod's own label.
func sample(key string) (signals.Sample, error) {
	l, err := parser.NewParser(parser.Options{}).ParseMetric(key)
	if err != nil {
		return signals.Sample{}, fmt.Errorf("a trial's record names a series %s: %w", strconv.Quote(key), err)
	}
	s := signals.Sample{Labels: l.Map()}
	s.Name = s.Labels["__name__"]
	delete(s.Labels, "__name__")
	s.Labels["app"] = "istiod"
	return s, nil
}
