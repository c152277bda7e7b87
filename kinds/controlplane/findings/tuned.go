package findings

import (
	"cmp"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/stat/tuning"
	"github.com/meshtrial/meshtrial/study"
)

// fromTuning returns the source of the results of a tuning and the course of its search.
func fromTuning() analysis.Source {
	return analysis.Source{Of: finding.FromTuning, Add: func(o *analysis.Observations, f *record.Findings) {
		if o.Plan.Study.Tune != nil && len(o.Blocks) > 0 {
			f.Tuning = tuned(o)
			advice.Careful(f.Tuning)
			if x, ok := tunedFinding(o, f.Tuning); ok {
				f.Findings = append(f.Findings, x)
			}
			f.Warnings = append(f.Warnings, noteSearched.Of())
		}
	}}
}

// tunedFinding returns the effect of the recommended setting on the objectives, for use in
// assertions; false before there is a comparison.
func tunedFinding(o *analysis.Observations, t *record.Tuning) (record.Finding, bool) {
	i := slices.IndexFunc(t.Cells, func(c record.TunedCell) bool { return c.Recommended })
	if i < 0 || len(t.Confirmed) == 0 || t.Confirmed[0].Relative == nil {
		return record.Finding{}, false
	}
	d := t.Confirmed[0]
	x := o.Named(controlplane.FindingTuned, t.Cells[i].Cell)
	x.Against, x.Blocks, x.Verdict, x.Reason, x.Warnings = o.Short(tunedBase(o)), d.Blocks, d.Verdict, d.Reason, d.Warnings
	x.Estimate, x.Low, x.High = d.Relative.Estimate, d.Relative.Low, d.Relative.High
	return x, true
}

// known replaces an unknown value by 0.
func known(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

// tuned describes what a search tried and found, and the result of the comparison.
func tuned(o *analysis.Observations) *record.Tuning {
	t := o.Plan.Study.Tune
	last := o.Blocks[len(o.Blocks)-1] + 1
	searched := 0
	for _, block := range o.Blocks {
		if searchedBlock(o, block) {
			searched = block + 1
		}
	}
	p := tuningProblem(o, searched)
	trials := tuningTrials(o, p, searched)
	out := &record.Tuning{Grid: len(o.Plan.Cells), Trials: len(trials), Most: p.Rules.Trials, Blocks: searched}
	for i := range o.Run.Trials {
		out.Seconds += o.Run.Trials[i].Ended.Sub(o.Run.Trials[i].Started).Seconds()
	}
	for _, g := range t.Objectives {
		out.Objectives = append(out.Objectives, g.String())
	}
	for _, b := range t.Constraints {
		out.Constraints = append(out.Constraints, boundWords(b))
	}
	recommended, blocks := comparing(o, last)
	if _, more := nextTuned(o, searched-1); blocks > 0 || !more { // else it was interrupted within a block
		d := decide(o, searched)
		out.Lacking = d.Lacking
		if out.Stop = d.Stop; recommended == tunedBase(o) && d.Stop != "" {
			recommended = chosen(o, d)
		}
	}
	belief := p.Believe(trials)
	tunedCells(o, out, p, belief, trials, recommended)
	if recommended != tunedBase(o) {
		out.Recommended, out.Present = moved(o, recommended, last)
	}
	confirm(o, out, recommended, last)
	return out
}

// tunedCells fills in the measures and the cells that were tried.
func tunedCells(o *analysis.Observations, out *record.Tuning, p *tuning.Problem, b *tuning.Belief, trials []tuning.Trial, recommended int) {
	counts := map[int]int{}
	read := map[[2]int]bool{} // cells and measures with a value in some trial
	for _, t := range trials {
		counts[t.Cell]++
		for i, v := range t.Values {
			read[[2]int{t.Cell, i}] = read[[2]int{t.Cell, i}] || !math.IsNaN(v)
		}
	}
	var axes []int
	for i, m := range p.Measures {
		def := o.Plan.Study.Kind.Findings().Must(m.Name)
		one := record.TunedMeasure{Finding: m.Name, Unit: o.Plan.Study.UnitOf(def)}
		if !slices.ContainsFunc(trials, func(t tuning.Trial) bool { return !math.IsNaN(t.Values[i]) }) {
			one.Missing = "no trial has one"
		} else if !slices.ContainsFunc(trials, func(t tuning.Trial) bool { return !math.IsNaN(t.Values[i]) && t.Values[i] != 0 }) {
			one.Missing = "it is 0 in all trials"
		} else {
			one.NoiseRatio = known(b.Noise(i))
			if one.Axis = slices.Contains(controlplane.TuneFront, m.Name) || m.Weight > 0; one.Axis {
				axes = append(axes, i)
			}
		}
		out.Measures = append(out.Measures, one)
	}
	var rows [][]float64
	why := reasons(o, out.Blocks)
	for c := range o.Plan.Cells {
		if counts[c] == 0 {
			continue
		}
		goal := b.Goal(c)
		cell := record.TunedCell{Cell: o.Short(c), Label: o.Plan.Label(o.Plan.Cells[c]), Trials: counts[c], Why: why[c],
			Objective: record.Ratio{Estimate: goal.Value, Low: goal.Low, High: goal.High}, Allowed: b.Allowed(c),
			Present: c == p.Space.Base, Recommended: c == recommended && c != p.Space.Base}
		for i := range p.Measures {
			v := record.TunedValue{}
			if e, ok := b.Of(i, c); ok && out.Measures[i].Missing == "" && read[[2]int{c, i}] {
				v = record.TunedValue{Known: true, Estimate: e.Value, Low: e.Low, High: e.High}
			}
			cell.Values = append(cell.Values, v)
		}
		row := make([]float64, len(axes))
		for k, i := range axes {
			if row[k] = cell.Values[i].Estimate; !cell.Values[i].Known {
				row[k] = math.NaN() // only predicted, so not on the front
			}
		}
		rows, out.Cells = append(rows, row), append(out.Cells, cell)
	}
	for i, on := range tuning.Front(rows) {
		out.Cells[i].Front = on
	}
	slices.SortStableFunc(out.Cells, func(x, y record.TunedCell) int { return cmp.Compare(x.Objective.Estimate, y.Objective.Estimate) })
}

// reasons returns why the search's blocks tried their cells for the first time.
func reasons(o *analysis.Observations, blocks int) map[int]string {
	out := map[int]string{}
	for _, block := range o.Blocks {
		if block >= blocks {
			break
		}
		for _, c := range decide(o, block).Cells {
			if _, known := out[c.Cell]; !known {
				out[c.Cell] = c.Why
			}
		}
	}
	return out
}

// moved returns the levers that differ between the recommended and the current cell, with their
// levels in each.
func moved(o *analysis.Observations, recommended, before int) (to, from record.Cell) {
	to, from = record.Cell{}, record.Cell{}
	found := foundLevers(o, before)
	now, then := o.Plan.Cells[tunedBase(o)], o.Plan.Cells[recommended]
	for _, f := range controlplane.Levers() {
		level := then[f.Name]
		if !f.Sets(level) || level == now[f.Name] {
			continue
		}
		present := now[f.Name]
		if !f.Sets(present) {
			if present = found[f.Name]; present == "" {
				present = f.Usual
			}
		}
		if level != present {
			to[f.Name], from[f.Name] = level, present
		}
	}
	if _, moves := from[controlplane.FactorSidecarHosts]; moves && from[controlplane.FactorSidecarScope] == controlplane.SidecarScopeNone {
		from[controlplane.FactorSidecarHosts] = study.LevelNone // without a Sidecar there are no hosts
	}
	return to, from
}

// confirm compares the recommended cell with the current one, in the blocks dedicated to that.
func confirm(o *analysis.Observations, out *record.Tuning, recommended, before int) {
	base := tunedBase(o)
	fresh := o.Within(func(block int) bool { return block < before && compares(o, block) })
	out.ConfirmBlocks = len(fresh.Blocks)
	if len(fresh.Blocks) == 0 || recommended == base {
		return
	}
	measures := []analysis.Measure{objective(fresh)}
	for _, m := range o.Measures() {
		if m.Compared && !o.Unread(m) && m.Name != measures[0].Name {
			measures = append(measures, m)
		}
	}
	added := slices.Concat(fresh.Added(recommended, base, measures[:1]), fresh.Added(recommended, base, measures[1:])) // the objective on its own
	for i, m := range measures {
		added[i] = fresh.WithoutSurvivors(added[i], m, recommended, base)
		d := record.TunedDifference{Finding: added[i]}
		if m.Name != TunedObjective { // its value has no unit
			d.Before, d.After = plainValue(fresh, base, m), plainValue(fresh, recommended, m)
		}
		out.Confirmed = append(out.Confirmed, d)
	}
	out.Verdict = added[0].Verdict
	for _, b := range o.Plan.Study.Tune.Constraints {
		out.Kept = append(out.Kept, kept(fresh, b, recommended, base))
	}
}

// plainValue returns a cell's own value of a measure, unknown if some trial did not reach it.
func plainValue(o *analysis.Observations, cell int, m analysis.Measure) record.TunedValue {
	e, ok := o.Value(cell, m)
	if lost, _ := o.UnreachedIn(cell, m); lost > 0 || !ok || !stat.Finite(e.Value) {
		return record.TunedValue{}
	}
	out := record.TunedValue{Known: true, Estimate: e.Value, Low: e.Value, High: e.Value}
	if e.Defined() {
		out.Low, out.High = e.Low, e.High
	}
	return out
}

// TunedObjective is the name of the combined objectives of a tuning in its comparison.
const TunedObjective = "objective"

// objective returns the geometric mean of the objectives for each trial. As in the search,
// percentiles need no minimum number of changes: both settings have the same number.
func objective(o *analysis.Observations) analysis.Measure {
	goals := o.Plan.Study.Tune.Objectives
	if len(goals) == 1 {
		m, _, _ := o.MeasureNamed(goals[0].Finding)
		return m.Searched()
	}
	m := analysis.Measure{Def: finding.Def{Name: TunedObjective, Unit: finding.UnitRatio, Compared: true}}
	m.Of = func(o *analysis.Observations, t *record.Trial) float64 {
		sum, weights := 0.0, 0.0
		for _, g := range goals {
			v := tuningValue(o, g.Finding, t)
			if !(v > 0) {
				return math.NaN() // no ratio to zero
			}
			sum += g.Weight * math.Log(v)
			weights += g.Weight
		}
		return math.Exp(sum / weights)
	}
	return m
}

// boundWords formats a constraint for users.
func boundWords(b study.TuneBound) string {
	if b.Relative {
		return b.String()
	}
	return b.Finding + "<=" + words.Quantity(b.Limit, b.Unit)
}

// kept evaluates a constraint by the comparison, for the recommended and the current setting.
func kept(o *analysis.Observations, b study.TuneBound, recommended, base int) record.TunedBound {
	out := record.TunedBound{Constraint: boundWords(b)}
	out.Verdict, out.Says = held(o, b, recommended, base)
	out.Present, _ = held(o, b, base, base)
	return out
}

// held returns the verdict on whether a cell meets a constraint, with the figures.
func held(o *analysis.Observations, b study.TuneBound, cell, base int) (verdict string, says note.Note) {
	m, _, ok := o.MeasureNamed(b.Finding)
	if !ok {
		return record.VerdictInconclusive, noteNoValidTrials.Of()
	}
	m = m.Searched()
	if b.Relative && cell == base {
		if b.Limit >= 0 {
			return record.TunedMet, noteReference.Of()
		}
		return record.TunedBroken, noteLessThanItself.Of()
	}
	if verdict, says := keptUnreached(o, b, m, cell, base); verdict != "" {
		return verdict, says
	}
	var estimate, low, high float64
	if b.Relative {
		_, e := o.Apart(cell, base, m, 0)
		if !e.Defined() {
			return record.VerdictInconclusive, noteNoValidTrials.Of()
		}
		estimate, low, high = e.Value, e.Low, e.High
		kind := noteMoreThanInUse
		if estimate < 0 {
			kind = noteLessThanInUse
		}
		says = kind.Of(words.Percent(math.Abs(estimate)), words.Percent(low), words.Percent(high))
	} else {
		f, ok := o.Plain(cell, m)
		if !ok || f.Verdict == record.VerdictInvalid {
			return record.VerdictInconclusive, noteNoValidTrials.Of()
		}
		estimate, low, high = f.Estimate, f.Low, f.High
		says = noteValue.Of(m.Say(estimate), m.Say(low), m.Say(high))
	}
	switch {
	case high <= b.Limit:
		return record.TunedMet, says
	case low > b.Limit:
		return record.TunedBroken, says
	}
	return record.VerdictInconclusive, says
}

// keptUnreached evaluates a constraint if some trials did not reach its finding. The figures of the
// other trials must not replace it: what never arrived is beyond every limit. It returns no verdict
// if all trials reached it.
func keptUnreached(o *analysis.Observations, b study.TuneBound, m analysis.Measure, recommended, base int) (verdict string, says note.Note) {
	if lost, all := o.UnreachedIn(base, m); b.Relative && lost > 0 {
		return record.VerdictInconclusive, noteUnreachedInUse.Of(lost, all)
	}
	lost, all := o.UnreachedIn(recommended, m)
	switch share := missedShare(o, o.Valid(recommended), groupOf(m)); {
	case lost == 0:
		return "", note.Note{}
	case m.Beyond > 0 && share > m.Beyond: // over all trials together
		return record.TunedBroken, noteLostShare.Of(words.Percent(share), string(groupOf(m)), lost, all)
	case lost == all:
		return record.TunedBroken, noteUnreached.Of(lost, all)
	default:
		return record.VerdictInconclusive, noteUnreached.Of(lost, all)
	}
}
