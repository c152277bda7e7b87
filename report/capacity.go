package report

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/stat"
)

// capacityWords names the outputs of a capacity model in legends.
var capacityWords = map[string]string{
	model.OutConvergenceP50: "convergence p50", model.OutConvergenceP99: "convergence p99", model.OutStale: "time out of date",
	model.OutPushes: "pushes", model.OutPushesPerChange: "pushes per change", model.OutBytes: "sent", model.OutCPU: "istiod's CPU", model.OutMemory: "memory of a replica",
}

// unitless returns a unit as it appears in text.
func unitless(unit string) string {
	switch unit {
	case "1", "1/s":
		return strings.TrimPrefix(unit, "1")
	}
	return unit
}

// short formats a given number, or one with at most three reliable digits.
func short(v float64) string { return model.Figure(v, 3) }

// RenderModel writes a model: its parameters, and how well it predicts.
func RenderModel(w io.Writer, m *model.Model, opt Options) error {
	t := newText(opt)
	trials := 0
	for _, r := range m.Runs {
		trials += r.Trials
	}
	t.line(t.paint(StyleStrong, fmt.Sprintf("Capacity model of %s in %s", words.Plural(trials, "trial"), words.Plural(len(m.Runs), "run"))))
	for _, r := range m.Runs {
		t.wrap("  ", clean(fmt.Sprintf("%s of %s on %s: %s", r.Run, r.Study, r.Machine, words.Plural(r.Trials, "trial"))))
		for _, left := range r.Left {
			t.wrap("    left out, ", clean(fmt.Sprintf("%d: %s", left.Trials, left.Why)))
		}
	}
	t.tables(parametersTable(m), residualsTable(m))
	for _, part := range []struct {
		title string
		cells []model.Cell
	}{{"Measured beside predicted, each cell by a fit without it", m.Cells}, {"Held out: neither the fit nor the residuals were shown these", m.HeldOut}} {
		if len(part.cells) > 0 {
			t.tables(cellsTable(part.title, part.cells))
			if words := coverage(part.cells); words != "" {
				t.wrap("", words)
			}
		}
	}
	t.list("Not told by these runs", untold(m))
	t.list("Notes", texts(m.Notes))
	return t.writeTo(w)
}

func parametersTable(m *model.Model) Table {
	t := Table{Title: "Parameters", Columns: []Column{{Head: "parameter"}, {Head: "estimate (90% interval)", Right: true}, {Head: "what it is", Keep: 1}}}
	for _, p := range m.Parameters {
		if p.Assumed {
			continue
		}
		t.Rows = append(t.Rows, []Text{{S: p.Name}, {S: spanned(p.Unit, p.Interval)}, {S: p.Meaning}})
	}
	return t
}

// texts returns values in words.
func texts[T fmt.Stringer](values []T) []string {
	var out []string
	for _, v := range values {
		out = append(out, v.String())
	}
	return out
}

// untold lists what the runs do not determine, grouped by reason.
func untold(m *model.Model) []string {
	var keys []string
	names := map[string][]string{}
	for _, p := range m.Assumptions() {
		key := fmt.Sprintf("%s; `%s` would tell", p.Because(), p.Study)
		if _, ok := names[key]; !ok {
			keys = append(keys, key)
		}
		names[key] = append(names[key], p.Name+" "+spanned(p.Unit, p.Interval))
	}
	var out []string
	for _, key := range keys {
		out = append(out, strings.Join(names[key], ", ")+": "+key+".")
	}
	return out
}

// spanned formats an estimate with its interval, if it has one. Intervals may be several
// times as wide as the estimate, so the precision of each end is chosen separately.
func spanned(unit string, i model.Interval) string {
	s := ScaleFor(unitless(unit), i.Estimate)
	if !i.Known() {
		return s.Value(i.Estimate)
	}
	return Join(s.Plain(i.Estimate), s.Unit) + " (" + s.Plain(i.Low) + "–" + s.Plain(i.High) + ")"
}

func residualsTable(m *model.Model) Table {
	t := Table{Title: "How far off predictions are for cells that the fit was not shown",
		Columns: []Column{{Head: "what"}, {Head: "cells", Right: true}, {Head: "median error", Right: true}, {Head: "spread of the logarithm", Right: true, Keep: 1}}}
	for _, r := range m.Residuals {
		t.Rows = append(t.Rows, []Text{{S: capacityWords[r.Output]}, {S: Count(r.Cells)}, {S: percentText(r.Median)}, {S: Fixed(r.Spread, 3)}})
	}
	return t
}

func percentText(share float64) string { return Fixed(100*share, 1) + "%" }

// cellsTable compares measurements with predictions.
func cellsTable(title string, cells []model.Cell) Table {
	t := Table{Title: title, Columns: []Column{{Head: "proxies", Right: true}, {Head: "services", Right: true}, {Head: "changes/s", Right: true}, {Head: "what"}, {Head: "measured", Right: true}, {Head: "predicted", Right: true}, {Head: "off by", Right: true}}}
	for _, c := range cells {
		for _, a := range c.Outputs {
			s := ScaleFor(unitless(a.Unit), a.Measured, a.Predicted)
			predicted := s.Value(a.Predicted)
			if a.High > 0 {
				predicted = spanned(a.Unit, model.Interval{Estimate: a.Predicted, Low: a.Low, High: a.High})
			}
			off := Dash
			if a.Measured > 0 {
				off = Text{S: percentText(a.Predicted/a.Measured - 1)}
			}
			t.Rows = append(t.Rows, []Text{{S: Count(c.Proxies)}, {S: Count(c.Services)}, {S: Fixed(c.Rate, 2)}, {S: capacityWords[a.Output]}, {S: s.Value(a.Measured)}, {S: predicted}, off})
		}
	}
	return t
}

// coverage describes the errors of predictions, and how many measured points lie within
// their intervals, if there are any.
func coverage(cells []model.Cell) string {
	within, all := 0, 0
	errors := map[string][]float64{}
	for _, c := range cells {
		for _, a := range c.Outputs {
			if a.High == 0 || !(a.Measured > 0) {
				continue
			}
			all++
			if a.Measured >= a.Low && a.Measured <= a.High {
				within++
			}
			errors[a.Output] = append(errors[a.Output], math.Abs(a.Predicted/a.Measured-1))
		}
	}
	if all == 0 {
		return ""
	}
	var medians []string
	for _, d := range model.Outputs {
		if e := errors[d.Name]; len(e) > 0 {
			medians = append(medians, capacityWords[d.Name]+" "+percentText(stat.Median(e)))
		}
	}
	return fmt.Sprintf("%d of %d measured points lie within their 90%% intervals. Median error: %s.", within, all, strings.Join(medians, ", "))
}

// RenderAgainst writes a comparison of a run with a model's predictions for it.
func RenderAgainst(w io.Writer, cells []model.Cell, left []model.LeftOut, opt Options) error {
	t := newText(opt)
	t.table(cellsTable("Measured beside predicted", cells))
	if words := coverage(cells); words != "" {
		t.line("")
		t.wrap("", words)
	}
	var out []string
	for _, l := range left {
		out = append(out, fmt.Sprintf("%d: %s", l.Trials, l.Why))
	}
	t.list("Left out", out)
	return t.writeTo(w)
}

// RenderPrediction writes a model's prediction for a mesh.
func RenderPrediction(w io.Writer, p *model.Prediction, opt Options) error {
	t := newText(opt)
	m := p.Mesh
	t.line(t.paint(StyleStrong, fmt.Sprintf("%s, %s, %s", words.Plural(m.Proxies, "proxy"), words.Plural(m.Services, "service"), changesPerSecond(m.Rate))))
	t.wrap("", fmt.Sprintf("%s of istiod with %s, debouncing %s up to %s.", words.Plural(m.Replicas, "replica"), coresEach(m),
		ScaleFor("s", m.DebounceAfter).Value(m.DebounceAfter), ScaleFor("s", m.DebounceMax).Value(m.DebounceMax)))
	outside(t, p.Outside)
	t.table(predictionTable(p))
	t.line("")
	if p.Pairs == 0 {
		t.wrap("", "No proxy needed any of the changes that were simulated: how long they take is not known.")
	}
	if all := m.CPUs(); p.Output(model.OutCPU).High >= all {
		t.wrap("", fmt.Sprintf("Istiod may take all of its CPUs: there its interval ends, at %s.", ScaleFor("cores", all).Value(all)))
	}
	if p.KeepsUp {
		t.wrap("", fmt.Sprintf("istiod keeps up: its push queue empties again and again, and %s of its CPUs is in use.", percentText(p.Utilisation)))
	} else {
		t.wrapStyled("", "istiod does not keep up: its push queue is never empty. Changes merge, so that each sweep over the proxies brings what came since the last.", StyleBad)
	}
	if p.Overlapped > 0.01 {
		t.wrap("", fmt.Sprintf("%s of the pushes begin before the previous one has reached every proxy.", percentText(p.Overlapped)))
	}
	if l := p.Loss; l != nil {
		t.line("")
		t.wrap("", "Loss of a replica: "+lossWords(l))
	}
	if l := p.Limits; l != nil {
		t.line("")
		t.wrap("", limitWords(m, l))
	}
	if len(p.Assumed) > 0 {
		t.line("")
		t.wrap("", "Assumed, since the runs do not tell: "+strings.Join(p.Assumed, ", ")+".")
	}
	return t.writeTo(w)
}

func changesPerSecond(rate float64) string {
	if rate == 1 {
		return "1 change per second"
	}
	return short(rate) + " changes per second"
}

// coresEach says what the replicas of istiod have.
func coresEach(m model.Mesh) string {
	out := short(m.Cores) + " core"
	if m.Cores != 1 {
		out += "s"
	}
	if m.Replicas > 1 {
		out += " each"
	}
	return out
}

// predictionTable has a row for each output.
func predictionTable(p *model.Prediction) Table {
	table := Table{Columns: []Column{{Head: "what"}, {Head: fmt.Sprintf("predicted (%.0f%% interval)", 100*p.Level), Right: true}, {Head: "what it is", Keep: 1}}}
	for _, o := range p.Outputs {
		value := spanned(o.Unit, o.Interval)
		if p.Pairs == 0 && (o.Name == model.OutConvergenceP50 || o.Name == model.OutConvergenceP99) {
			value = "–"
		}
		table.Rows = append(table.Rows, []Text{{S: capacityWords[o.Name]}, {S: value}, {S: o.Meaning}})
	}
	return table
}

// outside says how far a mesh lies from what was measured.
func outside(t *textWriter, o model.Outside) {
	if o.Extrapolates() {
		t.line("")
		t.wrapStyled("", fmt.Sprintf("Extrapolates: %s times beyond what was measured.", short(o.Times)), StyleBad)
		for _, what := range o.Beyond {
			t.wrap("  ", what.String())
		}
	}
	if len(o.Below) > 0 {
		t.line("")
		t.wrap("", "Below what was measured, which makes no interval wider:")
		for _, what := range o.Below {
			t.wrap("  ", what.String())
		}
	}
}

func seconds(v float64) string { return ScaleFor("s", v).Value(v) }

func lossWords(l *model.Loss) string {
	out := fmt.Sprintf("%s proxies come to %s%s. ", Count(l.Proxies), words.Plural(l.Replicas, "replica"), model.TimesBeyond(l.Times))
	if l.Away == 0 {
		out += fmt.Sprintf("Half of them have their configuration after %s, all after %s", seconds(l.Half), seconds(l.All))
	} else {
		out += fmt.Sprintf("They do not all come back: %s of them do not have their configuration after %s", Count(l.Away), seconds(l.All))
	}
	if l.Refused >= 1 {
		out += fmt.Sprintf("; %s attempts are refused meanwhile", Count(int(l.Refused)))
	}
	p99 := "no change that a proxy needs comes meanwhile"
	if l.Pairs > 0 {
		p99 = fmt.Sprintf("p99 of convergence is %s then", seconds(l.ConvergenceP99))
	}
	out += fmt.Sprintf(". Serving them takes %s of CPU; %s.", seconds(l.CPU), p99)
	if len(l.Assumed) > 0 {
		out += " Assumed: " + strings.Join(l.Assumed, ", ") + "."
	}
	return out
}

func limitWords(m model.Mesh, l *model.Limits) string {
	rate, proxies := "at no rate with "+words.Plural(m.Proxies, "proxy")+": ", fmt.Sprintf("with no number of proxies at %s: ", changesPerSecond(m.Rate))
	if l.Rate > 0 {
		rate = fmt.Sprintf("up to %s with %s%s; above that ", changesPerSecond(l.Rate), words.Plural(m.Proxies, "proxy"), model.TimesBeyond(l.RateBeyond))
	}
	if l.Proxies > 0 {
		proxies = fmt.Sprintf("up to %s at %s%s; above that ", words.Plural(l.Proxies, "proxy"), changesPerSecond(m.Rate), model.TimesBeyond(l.ProxiesBeyond))
	}
	out := fmt.Sprintf("It converges, with p99 within %s, %s%s. It does so %s%s.", seconds(l.BoundS), rate, l.RateEnd, proxies, l.ProxiesEnd)
	if l.Rate > 0 || l.Proxies > 0 {
		out += " These ends are estimates without intervals."
	}
	return out
}
