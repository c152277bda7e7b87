package study

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/invopop/jsonschema"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/lazyregexp"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/stat/tuning"
)

// Tune asks for the best setting of the study's levers. Earlier blocks decide which cells the next
// one tries, and further blocks compare the recommended cell with the current setting; see package
// tuning. Like [Search] it determines which cells are measured, so plans, runs and analysis all
// consult it. The kind defines the possible objectives ([Spec.TuneNames]).
type Tune struct {
	// Objectives are minimized together: the goal is the geometric mean of their ratios to the
	// current setting.
	Objectives []TuneGoal
	// Constraints must hold.
	Constraints []TuneBound
	// Trials limits the trials of the search; 0: see [Plan.TuneTrials].
	Trials int
	// Confirm is the number of blocks of the comparison.
	Confirm int
	// The search ends once the probability of a setting better by more than Better is below Doubt,
	// or once no cell is expected to improve by more than Gain.
	Better, Doubt, Gain Ratio
}

// TuneGoal is a finding to minimize, with its weight.
type TuneGoal struct {
	Finding string
	Weight  float64
}

// TuneBound is a constraint: a finding must not exceed a value in its own unit, or the value of the
// current setting by more than a share.
type TuneBound struct {
	Finding  string
	Limit    float64
	Unit     string // the finding's; "" for a share
	Relative bool
}

// tuneSection is the section tune, with the names of a kind.
func tuneSection(to **Tune, of Kind) Value {
	return Stated(to, defaultTune, func(t *Tune) Object { return tuneFields(t, of) })
}

func defaultTune() Tune {
	return Tune{Confirm: 4, Better: 0.05, Doubt: 0.1, Gain: 0.005}
}

func tuneFields(t *Tune, of Kind) Object {
	return Object{Name: "tune", Fields: []Field{
		{Name: "objectives", Required: true, Doc: "What to reduce: findings, or the short names " + strings.Join(shortNames(), ", ") + ". With several, the geometric mean of their ratios to the setting in use counts; pushes*2 counts twice.",
			Value: ListValue[TuneGoal]{To: &t.Objectives, Least: 1, Flow: true, Element: func(g *TuneGoal) Value {
				return Parsed(g, of.parseTuneGoal, TuneGoal.String, jsonschema.Schema{Type: "string", Examples: []any{"convergence"}})
			}}},
		{Name: "constraints", Doc: "Upper bounds, of a finding (staleness<=2s) or of its increase over the setting in use (cpu<=+10%).",
			Value: ListValue[TuneBound]{To: &t.Constraints, Flow: true, Element: func(b *TuneBound) Value {
				return Parsed(b, of.parseTuneBound, TuneBound.String, jsonschema.Schema{Type: "string", Examples: []any{"cpu<=+10%"}})
			}}},
		{Name: "trials", Doc: "Most trials that the search may take; if left out, a quarter of the cells, but at least 12.", Value: Int(&t.Trials, 4, 10_000).OmitZero()},
		{Name: "confirm", Doc: "Blocks of the comparison of the recommended setting with the one in use.", Value: Int(&t.Confirm, 2, 1000)},
		{Name: "better", Doc: "Relative improvement over the best so far that is worth searching for.", Value: Percent(&t.Better, 0, 10)},
		{Name: "doubt", Doc: "The search ends once the probability of such a setting falls below this.", Value: Percent(&t.Doubt, 0, 10)},
		{Name: "gain", Doc: "It also ends once no setting is expected to improve on the best by more than this share.", Value: Percent(&t.Gain, 0, 10)},
	}}
}

// fewestTrials is the default minimum number of trials of a search, given enough cells.
const fewestTrials = 12

// TuneTrials returns the maximum number of trials in the plan's search: the study's value, or a
// quarter of the cells but at least fewestTrials.
func (p *Plan) TuneTrials() int {
	if n := p.Study.Tune.Trials; n > 0 {
		return n
	}
	return max((len(p.Cells)+3)/4, min(fewestTrials, 2*len(p.Cells)))
}

// tuneLimit is the default time limit of a tuning.
const tuneLimit = 4 * time.Hour

// resolveTune fills in the baseline of a tuning: the levers as installed, or at their first level.
// The search and the comparison determine the number of blocks.
func (d *Decoder) resolveTune(s *Study) {
	if s.Tune == nil {
		return
	}
	if s.Baseline == nil {
		s.Baseline = record.Cell{}
		for _, f := range s.Factors {
			if len(f.Levels) == 0 {
				continue // the plan reports it
			}
			if s.Baseline[f.Factor] = f.Levels[0]; slices.Contains(f.Levels, LevelInstalled) {
				s.Baseline[f.Factor] = LevelInstalled
			}
		}
	}
	s.Blocks.Max = 10_000 // trials are what limits it
	if blocks := d.Root.Get("blocks"); blocks == nil || blocks.Get("min") == nil {
		s.Blocks.Min = 2
	}
	if blocks := d.Root.Get("blocks"); blocks == nil || blocks.Get("limit") == nil {
		s.Blocks.Limit = tuneLimit
	}
}

// checkTune finds errors in a tuning.
func (d *Decoder) checkTune(s *Study) {
	t := s.Tune
	if t == nil {
		return
	}
	for _, other := range []struct {
		name  string
		there bool
	}{{"search", len(s.Search) > 0}, {"stop", s.Stop != nil}} {
		if other.there {
			d.Fail(d.Pos(other.name), CodeConflict, "leave one of them out", "a tuning study decides itself what to measure and when to end, so it cannot have %s", other.name)
		}
	}
	if len(s.Factors) == 0 {
		d.Fail(d.Pos("tune"), CodeUnknown, "vary one, for example factors: {debounce_after: [installed, 300ms, 1s]}", "nothing to tune: no lever varies")
	}
	var levers []string
	for _, f := range s.Kind.Factors() {
		if f.IsLever() {
			levers = append(levers, f.Name)
		}
	}
	for _, f := range s.Factors {
		if !slices.Contains(levers, f.Factor) && f.Factor != FactorVariant {
			d.Fail(d.Pos("factors", f.Factor), CodeConflict, "fix it in settings; tuning sets "+strings.Join(levers, ", "), "%s is not a lever, so it cannot be tuned", f.Factor)
		}
	}
	for _, v := range s.Chosen() {
		for name := range v.Levels {
			if !slices.Contains(levers, name) {
				d.Fail(d.variantPos(s, v.Name, name), CodeConflict, "fix it in settings; tuning sets "+strings.Join(levers, ", "), "variant %s sets %s, which is not a lever", v.Name, name)
			}
		}
	}
	measured := func(at string, i int, name string) {
		if def := s.Kind.Findings().Must(name); !s.Measured(def.Probe) {
			d.Fail(d.Pos("tune", at, i), CodeConflict, "add "+def.Probe+" to measures", "%s needs measure %s, which this study leaves out", name, def.Probe)
		}
	}
	for i, g := range t.Objectives {
		measured("objectives", i, g.Finding)
		if slices.ContainsFunc(t.Objectives[:i], func(o TuneGoal) bool { return o.Finding == g.Finding }) {
			d.Fail(d.Pos("tune", "objectives", i), CodeDuplicate, "pushes*2 counts twice", "%s is listed as an objective twice", g.Finding)
		}
	}
	for i, b := range t.Constraints {
		measured("constraints", i, b.Finding)
	}
}

// checkTunePlan finds conflicts between a tuning and the plan's cells.
func (d *Decoder) checkTunePlan(p *Plan) {
	t := p.Study.Tune
	if t == nil {
		return
	}
	if n := len(p.Cells); n < 2 || n > tuning.MostCells {
		d.Fail(d.Pos("factors"), CodeConflict, "name fewer levels, or exclude combinations", "tuning needs 2 to %d cells, and this study has %d", tuning.MostCells, n)
	}
	if p.bases() != 1 {
		d.Fail(d.Pos("baseline"), CodeConflict, "name one level for every lever that varies", "tuning compares with one setting, that in use, and this study has %d", p.bases())
	}
}

// bases returns the number of cells that others are compared with.
func (p *Plan) bases() (n int) {
	for _, doubled := range p.doubled {
		if doubled {
			n++
		}
	}
	return n
}

// tuneNames lists the possible objectives: the findings used to compare cells, all of which are
// better when smaller, and their short names.
func (k Kind) tuneNames() []string {
	var out []string
	for _, d := range k.Findings().All() {
		if d.Compared && !d.Difference && !d.MoreIsBetter {
			out = append(out, d.Name)
		}
	}
	for short := range k.spec().TuneNames {
		out = append(out, short)
	}
	slices.Sort(out)
	return out
}

// shortNames lists the short names of what studies of any kind can be tuned for.
func shortNames() []string {
	var out []string
	for _, k := range tunable() {
		out = slices.AppendSeq(out, maps.Keys(k.spec().TuneNames))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// tuneFinding resolves a name to a finding.
func (k Kind) tuneFinding(name string) (string, *Error) {
	if names := k.tuneNames(); !slices.Contains(names, name) {
		return "", Complain(CodeUnknown, errs.Suggest(name, names), "cannot tune for %q", Clip(name, 40))
	}
	if full, ok := k.spec().TuneNames[name]; ok {
		return full, nil
	}
	return name, nil
}

// parseTuneGoal parses an objective: a finding with an optional weight, such as pushes*2.
func (k Kind) parseTuneGoal(text string) (TuneGoal, *Error) {
	name, weight, weighted := strings.Cut(strings.TrimSpace(text), "*")
	g := TuneGoal{Weight: 1}
	var c *Error
	if g.Finding, c = k.tuneFinding(strings.TrimSpace(name)); c != nil {
		return g, c
	}
	if !weighted {
		return g, nil
	}
	if g.Weight, c = Number(strings.TrimSpace(weight)); c == nil && (g.Weight < 0.01 || g.Weight > 100) {
		c = Complain(CodeRange, "use a weight from 0.01 to 100, such as pushes*2", "the weight %s is out of range", weight)
	}
	return g, c
}

// String formats an objective as written in a file.
func (g TuneGoal) String() string {
	if g.Weight == 1 {
		return g.Finding
	}
	return g.Finding + "*" + strconv.FormatFloat(g.Weight, 'f', -1, 64)
}

var reTuneBound = lazyregexp.New(`^\s*([a-z][a-z0-9_]*)\s*<=\s*([+-]?)\s*([0-9][0-9_.]*)\s*(%|[A-Za-z/]*)\s*$`)

// parseTuneBound parses a constraint: a finding with its maximum, such as convergence<=2s, or with
// its maximum increase over the current setting, such as cpu<=+10%.
func (k Kind) parseTuneBound(text string) (TuneBound, *Error) {
	const hint = "write staleness<=2s, or cpu<=+10% for at most a tenth more than in use"
	m := reTuneBound.FindStringSubmatch(text)
	if m == nil {
		return TuneBound{}, Complain(CodeInvalid, hint, "%q is not a constraint", Clip(text, 60))
	}
	var b TuneBound
	var c *Error
	if b.Finding, c = k.tuneFinding(m[1]); c != nil {
		return b, c
	}
	if b.Limit, c = Number(m[3]); c != nil {
		return b, c
	}
	switch {
	case m[4] == "%" && m[2] == "":
		return b, Complain(CodeInvalid, "write +"+m[3]+"% for more than in use, -"+m[3]+"% for less", "%q is a percentage without a sign", Clip(text, 60))
	case m[4] == "%":
		share, c := ParseRatio(m[3] + "%")
		if c != nil {
			return b, c
		}
		if b.Limit = float64(share); m[2] == "-" {
			b.Limit = -b.Limit
		}
		if b.Limit <= -1 {
			return b, Complain(CodeInvalid, "ask for less than 100% below the value in use", "%q cannot be satisfied", Clip(text, 60))
		}
		b.Relative = true
		return b, nil
	case m[2] != "":
		return b, Complain(CodeInvalid, hint, "%q has a sign but no percent sign", Clip(text, 60))
	}
	d := k.Findings().Must(b.Finding)
	b.Unit = d.Unit
	for _, unit := range []string{m[4], m[4] + "/change"} {
		if one, ok := finding.Scale(d.Unit, unit); ok {
			if b.Limit *= one; math.IsInf(b.Limit, 0) {
				return b, Complain(CodeRange, "", "%q is too large", Clip(text, 60))
			}
			return b, nil
		}
	}
	return b, Complain(CodeUnit, "possible: "+strings.Join(finding.Scales(d.Unit), ", "), "%q is not a unit of %s", Clip(m[4], 40), b.Finding)
}

// String formats a constraint as written in a file.
func (b TuneBound) String() string {
	if b.Relative {
		sign := "+"
		if b.Limit < 0 {
			sign = "-"
		}
		return b.Finding + "<=" + sign + Ratio(math.Abs(b.Limit)).String()
	}
	return b.Finding + "<=" + strconv.FormatFloat(b.Limit, 'f', -1, 64) + " " + b.Unit
}
