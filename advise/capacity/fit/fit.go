package fit

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
)

// Options configures a fit.
type Options struct {
	Seed  uint64
	Draws int // resamples of the trials; 0: 200
	// HoldOut excludes the trials of cells with these levels from the fit. [model.Model.HeldOut]
	// has their predictions.
	HoldOut record.Cell
}

// holdsOut reports whether a trial is excluded from the fit.
func (o Options) holdsOut(cell record.Cell) bool {
	for factor, level := range o.HoldOut {
		if cell[factor] != level {
			return false
		}
	}
	return len(o.HoldOut) > 0
}

// LeastTrials is the minimum number of trials for a fit.
const LeastTrials = 2

// Fit makes a model from the trials of runs on one kind of machine. It fails if a run is of another
// kind of study, or with a [TooFewError].
func Fit(runs []record.Run, o Options) (*model.Model, error) {
	o.Draws = cmp.Or(o.Draws, 200)
	trials, err := show(runs, o)
	if err != nil {
		return nil, err
	}
	all := trials.all
	if len(all) < LeastTrials {
		return nil, &TooFewError{len(all), Count(trials.left)}
	}
	f := &fitter{all: all, others: trials.others, cells: cellsOf(all)}
	out := &model.Model{Schema: model.Schema, Mix: map[string]float64{}, Runs: trials.sources, Notes: trials.notes}
	if n := f.alone(); n > 0 {
		out.Notes = append(out.Notes, model.Note{Code: model.NoteOneTrial, N: n, Of: len(f.cells)})
	}
	whole := f.settle(o.Seed)
	told := f.told(whole)
	out.Draws = f.draw(o)
	for i, d := range model.Definitions {
		out.Parameters = append(out.Parameters, f.parameter(d, i, whole, told[i], out.Draws))
	}
	measured(out, all)
	if err := f.residuals(out, whole, o.Seed); err != nil {
		return nil, err
	}
	if len(o.HoldOut) > 0 && len(trials.heldOut) == 0 {
		return nil, fmt.Errorf("no trial that can be used has %s", o.HoldOut.Key())
	}
	out.HeldOut, err = against(out, trials.heldOut, model.Options{Seed: o.Seed})
	return out, err
}

// TooFewError reports that too few trials are usable.
type TooFewError struct {
	Trials int
	Left   []model.LeftOut
}

func (e *TooFewError) Error() string {
	text := fmt.Sprintf("%s can be used, and a fit takes %d", words.Plural(e.Trials, "trial"), LeastTrials)
	for _, l := range e.Left {
		text += fmt.Sprintf("; left out: %d (%s)", l.Trials, l.Why)
	}
	return text
}

// Count groups left-out trials by reason, in order of appearance.
func Count(left []Left) (out []model.LeftOut) {
	for _, l := range left {
		i := slices.IndexFunc(out, func(o model.LeftOut) bool { return o.Why == l.Why })
		if i < 0 {
			i, out = len(out), append(out, model.LeftOut{Why: l.Why})
		}
		out[i].Trials++
	}
	return out
}

func sourceOf(run record.Run, used []*Observation, left []Left) model.Source {
	h := run.Header
	s := model.Source{Run: h.RunID, Study: h.Study, Machine: fmt.Sprintf("%d x %s", h.Machine.CPUs, h.Machine.CPUModel), Trials: len(used), Left: Count(left)}
	for _, o := range used { // the header describes one of several nodes
		if on := o.on[0]; on != "" && on != h.Machine.Words() {
			s.Machine = on
		}
	}
	for _, c := range h.Components {
		if c.Name == "istiod" {
			s.Istiod = c.Version
		}
	}
	return s
}

// cellsOf groups trials by run and cell, in order of appearance.
func cellsOf(all []*Observation) [][]*Observation {
	var out [][]*Observation
	index := map[string]int{}
	for _, o := range all {
		k, ok := index[o.cell()]
		if !ok {
			k = len(out)
			index[o.cell()] = k
			out = append(out, nil)
		}
		out[k] = append(out[k], o)
	}
	return out
}

// alone counts the cells that have one trial.
func (f *fitter) alone() int {
	n := 0
	for _, cell := range f.cells {
		if len(cell) == 1 {
			n++
		}
	}
	return n
}

// fitter is the state of a fit.
type fitter struct {
	all       []*Observation
	others    []*Observation // used only for certain parameters
	cells     [][]*Observation
	simulated map[*Observation]simulation
}

func (f *fitter) estimate(of []*Observation, p preference) *estimate {
	return estimateOf(of, f.simulated, f.others, p)
}

// The trials determine a parameter if preferences move it by at most toldWithin of its largest
// value, or if its share of every cell is below negligible.
const (
	toldWithin = 0.5
	negligible = 0.01
)

// told reports which parameters the trials determine individually, not only in a sum with others.
func (f *fitter) told(whole *estimate) (told [model.Parameters]bool) {
	low, high, share := whole.values, whole.values, whole.shares
	for first := range roles {
		for second := range roles {
			if first == second {
				continue
			}
			e := f.estimate(f.all, preference{true, first, second})
			for p, v := range e.values {
				low[p], high[p], share[p] = math.Min(low[p], v), math.Max(high[p], v), math.Max(share[p], e.shares[p])
			}
		}
	}
	for p := range told {
		told[p] = whole.fitted[p] && (high[p]-low[p] <= toldWithin*high[p] || share[p] < negligible)
	}
	return told
}

// assumedWithin is the factor within which an assumed value is correct, in either direction, nine
// times in ten.
const assumedWithin = 3

// draw fits trials resampled within their cells, each time with another preference. Parameters
// without evidence in the trials are drawn around their assumed values.
func (f *fitter) draw(o Options) [][]float64 {
	rng := rand.New(rand.NewPCG(o.Seed, 0x666974))
	var out [][]float64
	for range o.Draws {
		var drawn []*Observation
		for _, cell := range f.cells {
			for range cell {
				drawn = append(drawn, cell[rng.IntN(len(cell))])
			}
		}
		e := f.estimate(drawn, prefers(rng))
		for p := range e.values {
			if off := math.Exp(math.Log(assumedWithin) / 1.645 * rng.NormFloat64()); !e.fitted[p] {
				e.values[p] *= off
			}
		}
		e.values[model.Parallel] = math.Max(1, e.values[model.Parallel])
		out = append(out, e.values[:])
	}
	return out
}

func (f *fitter) parameter(d model.Definition, i int, whole *estimate, told bool, draws [][]float64) model.Fitted {
	out := model.Fitted{Name: d.Name, Unit: d.Unit, Meaning: d.Meaning, Interval: model.Interval{Estimate: whole.values[i], Low: whole.values[i], High: whole.values[i]}}
	switch {
	case !whole.fitted[i]:
		out.Assumed, out.Study = true, d.Study
	case !told:
		out.Assumed, out.Undivided, out.Study = true, true, d.Study
	case f.alone() == len(f.cells):
		return out // the scatter between trials is unknown
	}
	var values []float64
	for _, draw := range draws {
		values = append(values, draw[i])
	}
	slices.Sort(values)
	if n := len(values); n > 0 {
		out.Low = math.Min(out.Estimate, values[int(0.05*float64(n-1))])
		out.High = math.Max(out.Estimate, values[int(math.Ceil(0.95*float64(n-1)))])
	}
	return out
}

// measured records the range of the trials.
func measured(out *model.Model, all []*Observation) {
	span := func(of func(o *Observation) float64) [2]float64 {
		c := column(all, of)
		return [2]float64{slices.Min(c), slices.Max(c)}
	}
	out.Measured = model.Span{
		Proxies:  span(proxies),
		Services: span(func(o *Observation) float64 { return o.Services }),
		Rate:     span(func(o *Observation) float64 { return o.Rate }),
		Cores:    span(func(o *Observation) float64 { return o.Cores }),
	}
	for _, o := range all {
		for _, c := range o.Replay.Changes {
			out.Mix[o.Replay.Kinds[c.Kind]]++
		}
	}
}

// measures are what trials measured of the outputs.
var measures = map[string]func(o *Observation) float64{
	model.OutConvergenceP50: func(o *Observation) float64 { return o.P50 },
	model.OutConvergenceP99: func(o *Observation) float64 { return o.P99 },
	model.OutPushes:         func(o *Observation) float64 { return total(o.Pushes[:]) / o.Replay.Window },
	model.OutBytes:          func(o *Observation) float64 { return total(o.Bytes[:]) / o.Replay.Window },
	model.OutCPU:            func(o *Observation) float64 { return o.CPU / o.Replay.Window },
	model.OutMemory:         func(o *Observation) float64 { return o.Memory },
}

func total(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum
}

// residuals predicts every cell with a fit that excludes it. With a single cell nothing is left to
// fit, and the cell itself is predicted.
func (f *fitter) residuals(out *model.Model, whole *estimate, seed uint64) error {
	ratios := map[string][]float64{} // predicted to measured
	for i, cell := range f.cells {
		e := whole
		if len(f.cells) > 1 {
			var others []*Observation
			for k, c := range f.cells {
				if k != i {
					others = append(others, c...)
				}
			}
			e = f.estimate(others, preference{})
		}
		c, err := compare(&e.values, cell, seed)
		if err != nil {
			return err
		}
		for _, a := range c.Outputs {
			if a.Measured > 0 && a.Predicted > 0 {
				ratios[a.Output] = append(ratios[a.Output], a.Predicted/a.Measured)
			}
		}
		out.Cells = append(out.Cells, c)
	}
	if len(f.cells) == 1 {
		out.Notes = append(out.Notes, model.Note{Code: model.NoteOneCell})
	}
	for _, d := range model.Outputs {
		all := ratios[d.Name]
		if len(all) == 0 {
			continue
		}
		squares := 0.0
		for _, ratio := range all {
			squares += math.Pow(math.Log(ratio), 2)
		}
		out.Residuals = append(out.Residuals, model.Residual{
			Output: d.Name,
			Spread: math.Sqrt(squares / float64(len(all))),
			Cells:  len(all),
			Median: stat.MedianOf(all, func(ratio float64) float64 { return math.Abs(ratio - 1) }),
		})
	}
	return nil
}

// compare returns the measurements of a cell's trials and the values that the parameters predict,
// as medians over the trials.
func compare(v *model.Values, cell []*Observation, seed uint64) (model.Cell, error) {
	return beside(cell, func(mesh model.Mesh) (out []model.Interval, err error) {
		r, err := v.Simulate(mesh, seed)
		if err != nil {
			return nil, err
		}
		for _, y := range v.Simulated(mesh, r) {
			out = append(out, model.Interval{Estimate: y})
		}
		return out, nil
	})
}

// beside returns the measurements of a cell and the predictions of the outputs for each of its
// trials, replaying its own changes: their timing decides what was merged. Both are medians over
// the trials.
func beside(cell []*Observation, predict func(model.Mesh) ([]model.Interval, error)) (model.Cell, error) {
	o := cell[0]
	out := model.Cell{
		Run: o.Run, Cell: o.Cell, Proxies: o.Proxies, Services: int(math.Round(o.Services)), Rate: o.Rate, Trials: len(cell),
	}
	predicted := make([][]model.Interval, len(cell))
	for i, trial := range cell {
		var err error
		if predicted[i], err = predict(trial.Mesh()); err != nil {
			return out, err
		}
	}
	for k, d := range model.Outputs {
		of := measures[d.Name]
		if of == nil {
			continue
		}
		y := measuredOf(cell, of)
		if !stat.Finite(y) {
			continue
		}
		middle := func(of func(model.Interval) float64) float64 {
			var all []float64
			for _, p := range predicted {
				all = append(all, of(p[k]))
			}
			return medianFinite(all)
		}
		out.Outputs = append(out.Outputs, model.Against{Output: d.Name, Unit: d.Unit, Measured: y,
			Predicted: middle(func(i model.Interval) float64 { return i.Estimate }),
			Low:       middle(func(i model.Interval) float64 { return i.Low }),
			High:      middle(func(i model.Interval) float64 { return i.High })})
	}
	return out, nil
}

// measuredOf returns the median over a cell's trials. It ranks infinite values, which were not
// reached, above all others.
func measuredOf(cell []*Observation, of func(o *Observation) float64) float64 {
	got := slices.DeleteFunc(column(cell, of), math.IsNaN)
	if len(got) == 0 {
		return math.NaN()
	}
	return stat.Median(got)
}

// Against predicts the trials of a run, cell by cell and with intervals, using a model that was not
// fitted to it. It leaves out trials on machines other than the most common one.
func Against(m *model.Model, run record.Run, o model.Options) ([]model.Cell, []Left, error) {
	all, left, err := Observe(run)
	if err != nil {
		return nil, left, err
	}
	most := usual(all)
	all = slices.DeleteFunc(all, func(one *Observation) bool {
		why := one.apart(most)
		if why.Code != "" {
			left = append(left, Left{one.Trial, why})
		}
		return why.Code != ""
	})
	cells, err := against(m, all, o)
	return cells, left, err
}

// against predicts trials, cell by cell.
func against(m *model.Model, all []*Observation, o model.Options) (out []model.Cell, err error) {
	for _, cell := range cellsOf(all) {
		c, err := beside(cell, func(mesh model.Mesh) (out []model.Interval, err error) {
			p, err := m.Predict(mesh, o)
			if err != nil {
				return nil, err
			}
			for _, o := range p.Outputs {
				out = append(out, o.Interval)
			}
			return out, nil
		})
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}
