package sections

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/kinds/controlplane/findings"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/report"
)

// controlAnswers returns a control-plane study's answers in words: what never arrived, what
// searches found, what each lever does, and where the time goes.
func controlAnswers(f record.Findings) []string {
	answers := slices.Concat(tuningAnswers(f), soakAnswers(f), faultAnswers(f), report.SearchAnswers(f),
		trafficAnswers(f), routeAnswers(f), sidecarAnswers(f), recoveryAnswers(f))
	if f.Tuning == nil { // a tuning chose its cells by these figures
		answers = append(answers, leverAnswers(f)...)
	}
	if c, ok := describedCell(f); ok {
		answers = append(answers, cellAnswers(f, c)...)
	}
	return answers
}

// describedCell returns the cell whose convergence is described in full: the baseline, or the first
// with a valid trial.
func describedCell(f record.Findings) (record.CellSummary, bool) {
	described := func(c record.CellSummary) bool { return c.Valid > 0 && c.Control.Pairs > 0 }
	i := slices.IndexFunc(f.Cells, func(c record.CellSummary) bool { return c.Baseline && described(c) })
	if i < 0 {
		i = slices.IndexFunc(f.Cells, described)
	}
	if i < 0 {
		return record.CellSummary{}, false
	}
	return f.Cells[i], true
}

// faultAnswers describes changes that did not arrive.
func faultAnswers(f record.Findings) []string {
	var missed, pairs int64
	failed := 0
	var where []string
	for _, c := range f.Cells {
		missed, pairs, failed = missed+c.Control.Missed, pairs+c.Control.Pairs, failed+c.Control.Failed
		if c.Control.Missed > 0 {
			where = append(where, c.Label)
		}
	}
	var out []string
	if missed > 0 {
		if len(where) > 3 {
			where = append(where[:3], fmt.Sprintf("%d more", len(where)-3))
		}
		out = append(out, fmt.Sprintf("Some changes never arrived: of %s change-proxy pairs, %s never did (%s).",
			report.Count(missed+pairs), report.Count(missed), words.List(where)))
	}
	if failed > 0 {
		out = append(out, fmt.Sprintf("The API server refused %s.", words.Plural(failed, "change")))
	}
	return out
}

// maxLeverAnswers limits the number of levers with a sentence each; the table has all.
const maxLeverAnswers = 6

// leverAnswers describes what each cell changes against its baseline, starting with those that save
// the most pushes.
func leverAnswers(f record.Findings) []string {
	type lever struct {
		sentence string
		saved    float64
	}
	var levers []lever
	var idle []string // cells that change nothing
	plain := report.OwnValues(f)
	parts := []struct {
		name, what string
		saves      bool // levers are sorted by its savings
		real       bool // reported only if real: CPU is noisy
	}{
		{name: "pushes", what: "pushes", saves: true},
		{name: "convergence_p50", what: "the median time from commit to ACK"},
		{name: "istiod_cpu_per_change", what: "istiod's CPU time", saves: true, real: true},
	}
	differences := make([]map[string]record.Finding, len(parts))
	for i, p := range parts {
		differences[i] = report.Differences(f, p.name+finding.Overhead)
	}
	for _, c := range f.Cells {
		var said []string
		saved, moved := 0.0, false
		var about record.Finding
		for i, p := range parts {
			x, ok := differences[i][c.Cell.Key()]
			if !ok || p.real && x.Verdict != record.VerdictReal {
				continue
			}
			about = x
			part := leverPart(plain, p.name, x, p.what)
			if part.text == "" {
				continue
			}
			said, moved = append(said, part.text), moved || part.moved
			if p.saves && saved == 0 {
				saved = 1 - part.left
			}
		}
		switch {
		case len(said) == 0 || about.Against == nil:
		case !moved:
			idle = append(idle, c.Label)
		default:
			names, _ := report.Subjects(about)
			levers = append(levers, lever{fmt.Sprintf("%s %s.", report.UpperFirst(strings.Join(names, ", ")),
				words.List(said)), saved})
		}
	}
	slices.SortStableFunc(levers, func(a, b lever) int { return cmp.Compare(b.saved, a.saved) })
	var out []string
	for _, l := range levers[:min(len(levers), maxLeverAnswers)] {
		out = append(out, l.sentence)
	}
	if len(idle) > 0 {
		out = append(out, fmt.Sprintf("Neither pushes nor convergence differ from the baseline beyond the margin with %s.", words.List(idle)))
	}
	return out
}

// leverChange describes the change of one figure: "cuts pushes from 514 to 70".
type leverChange struct {
	text  string  // "" if unknown
	moved bool    // differs from the baseline
	left  float64 // remaining share of the baseline's value
}

// leverPart describes the change of a measure.
func leverPart(plain map[string]record.Finding, measure string, x record.Finding, what string) leverChange {
	base, ok := report.MeasuredIn(plain, x.Against)(measure)
	if _, own := report.MeasuredIn(plain, x.Cell)(measure); !ok || !own {
		return leverChange{left: 1}
	}
	// The verdict covers the blocks that have both cells, in which the two differ by the estimate.
	// All valid trials together may differ otherwise.
	after := base.Estimate + x.Estimate
	s := report.ScaleFor(x.Unit, math.Max(after, base.Estimate))
	value := s.Value
	if x.Unit == finding.UnitPushes { // the sentence names the unit
		value = s.Plain
	}
	verb := "raises"
	switch {
	case x.Verdict == record.VerdictNoEffect:
		return leverChange{"leaves " + what + " at " + value(base.Estimate), false, 1}
	case x.Verdict != record.VerdictReal || base.Estimate <= 0 || after < 0:
		return leverChange{left: 1}
	case x.Estimate < 0:
		verb = "cuts"
	}
	return leverChange{fmt.Sprintf("%s %s from %s to %s", verb, what, s.Plain(base.Estimate), value(after)), true,
		after / base.Estimate}
}

// cellAnswers describes the measured parts of one cell: how long changes take, where the time goes,
// what istiod reports, and what changes cost.
func cellAnswers(f record.Findings, c record.CellSummary) []string {
	measured := report.MeasuredIn(report.OwnValues(f), c.Cell)
	out := convergenceAnswers(f, c, measured)
	if x, ok := measured("istiod_cpu_per_change"); ok {
		with := ""
		if len(out) == 0 && len(f.Cells) > 1 { // no previous sentence names the cell
			with = "With " + report.CellWords(c.Label) + ", "
		}
		out = append(out, report.UpperFirst(fmt.Sprintf("%sa change costs istiod %s of CPU time.", with,
			report.WithInterval(report.ScaleOf(x).Bare(), x))))
	}
	return out
}

// convergenceAnswers returns the sentences about time.
func convergenceAnswers(f record.Findings, c record.CellSummary, measured report.Lookup) []string {
	k := c.Control
	in := "Half"
	switch {
	case c.Baseline:
		in = "In the baseline (" + c.Label + "), half"
	case len(f.Cells) > 1:
		in = "With " + report.CellWords(c.Label) + ", half"
	}
	if k.Convergence == (record.Latency{}) {
		if k.Applied == nil {
			return nil
		}
		s := report.ScaleFor("us", k.Applied.Max())
		return []string{fmt.Sprintf("%s of the changes are active in an Envoy %s after commit, and all that arrived within %s.", in, s.Value(k.Applied.At(0.5)), s.Value(k.Applied.Max()))}
	}
	s := report.ScaleFor("us", cmp.Or(k.Convergence.At(0.99), k.Convergence.Max()))
	p99 := ""
	if x, ok := measured("convergence_p99"); ok {
		p99 = s.Quantity(x.Estimate, x.Low, x.High)
	} else if v, ok := c.Values["convergence_p99"]; ok {
		p99 = s.Value(v)
	}
	first := fmt.Sprintf("%s of the %s change-proxy pairs take at most %s from commit to ACK", in, report.Count(k.Acknowledged), s.Value(k.Convergence.At(0.5)))
	if p99 != "" {
		first += fmt.Sprintf(", and 1 in 100 takes more than %s", p99)
	}
	out := []string{first + "."}
	half, okHalf := measured("convergence_median")
	if last, ok := measured("convergence_last"); ok && okHalf {
		out = append(out, fmt.Sprintf("Of %s, half reach half of their proxies within %s and the last one within %s.", words.Plural(k.Followed, "change"), s.Value(half.Estimate), s.Value(last.Estimate)))
	}
	longest := record.Stage{}
	for _, stage := range k.Stages {
		if stage.MeanUS > longest.MeanUS {
			longest = stage
		}
	}
	if longest.MeanUS > 0 && k.MeanUS > 0 {
		s := report.ScaleFor("us", k.MeanUS)
		out = append(out, fmt.Sprintf("Of %s on average, %s takes %s (%s).", s.Value(k.MeanUS),
			stageWords[longest.Name], s.Value(longest.MeanUS), report.Percent(longest.MeanUS/k.MeanUS)))
	}
	reported, ok := measured("reported_convergence_p99")
	if hidden, okHidden := measured("hidden_convergence_p99"); ok && okHidden {
		says := report.ScaleOf(reported).Value(reported.Estimate)
		if findings.FirstBucket.In(reported.Warnings) {
			says += ", interpolated within the first histogram bucket"
		}
		out = append(out, "istiod's own p99 says "+says+hiddenWords(hidden)+".")
	}
	return out
}

// hiddenWords describes what istiod's own percentile hides, if its interval excludes zero.
func hiddenWords(hidden record.Finding) string {
	s := report.ScaleOf(hidden)
	switch {
	case hidden.Low > 0:
		return ": it hides " + s.Value(hidden.Estimate)
	case hidden.High < 0: // its buckets are wide
		return ", more than the true value: the figure is interpolated across a wide histogram bucket"
	}
	return fmt.Sprintf("; whether it hides anything is inconclusive: the true value is between %s below and %s above it", s.Value(-hidden.Low), s.Value(hidden.High))
}

// stageWords names the stages in a sentence.
var stageWords = map[string]string{
	record.StageWatch: "istiod's watch of the API server", record.StageDebounce: "debouncing", record.StagePushContext: "computing the push context",
	record.StageQueue: "waiting for a proxy's turn", record.StageGenerate: "generating resources", record.StageWire: "the wire", record.StageAck: "the acknowledgement",
}
