package study

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/lazyregexp"
	"github.com/meshtrial/meshtrial/record/finding"
)

// tuneNames are short names of what istiod's operators tune for.
var tuneNames = map[string]string{
	"convergence": "convergence_p99",
	"staleness":   "stale_proxy_seconds_per_change",
	"cpu":         "istiod_cpu_per_change",
	"memory":      "istiod_memory",
	"bytes":       "push_bytes_per_change",
}

// TuneFront are the findings whose Pareto front a tuning shows, as far as its trials
// have them.
var TuneFront = []string{"convergence_p99", "stale_proxy_seconds_per_change", "istiod_cpu_per_change", "pushes"}

// TuneNames lists what can be tuned for: the findings of the control plane that cells
// are compared by, all of which are better the less they are, and their short names.
func TuneNames() []string {
	var out []string
	for _, d := range ControlPlane.Findings().All() {
		if d.Compared && !d.Difference && !d.MoreIsBetter {
			out = append(out, d.Name)
		}
	}
	for short := range tuneNames {
		out = append(out, short)
	}
	slices.Sort(out)
	return out
}

// tuneFinding finds what is meant by a name.
func tuneFinding(name string) (string, *Error) {
	if !slices.Contains(TuneNames(), name) {
		return "", complain(CodeUnknown, errs.Suggest(name, TuneNames()), "%q is nothing to tune for", clip(name, 40))
	}
	if full, ok := tuneNames[name]; ok {
		return full, nil
	}
	return name, nil
}

// parseTuneGoal reads an objective: a finding, optionally with its weight, as pushes*2.
func parseTuneGoal(text string) (TuneGoal, *Error) {
	name, weight, weighted := strings.Cut(strings.TrimSpace(text), "*")
	g := TuneGoal{Weight: 1}
	var c *Error
	if g.Finding, c = tuneFinding(strings.TrimSpace(name)); c != nil {
		return g, c
	}
	if !weighted {
		return g, nil
	}
	if g.Weight, c = number(strings.TrimSpace(weight)); c == nil && (g.Weight < 0.01 || g.Weight > 100) {
		c = complain(CodeRange, "from 0.01 to 100, as pushes*2", "the weight %s is out of range", weight)
	}
	return g, c
}

// String writes an objective as a file has it.
func (g TuneGoal) String() string {
	if g.Weight == 1 {
		return g.Finding
	}
	return g.Finding + "*" + strconv.FormatFloat(g.Weight, 'f', -1, 64)
}

var reTuneBound = lazyregexp.New(`^\s*([a-z][a-z0-9_]*)\s*<=\s*([+-]?)\s*([0-9][0-9_.]*)\s*(%|[A-Za-z/]*)\s*$`)

// parseTuneBound reads a constraint: a finding and the most it may be, as
// convergence<=2s, or by how much more it may be than in use, as cpu<=+10%.
func parseTuneBound(text string) (TuneBound, *Error) {
	const hint = "as staleness<=2s, or cpu<=+10% for a tenth more than in use"
	m := reTuneBound.FindStringSubmatch(text)
	if m == nil {
		return TuneBound{}, complain(CodeInvalid, hint, "%q is no constraint", clip(text, 60))
	}
	var b TuneBound
	var c *Error
	if b.Finding, c = tuneFinding(m[1]); c != nil {
		return b, c
	}
	if b.Limit, c = number(m[3]); c != nil {
		return b, c
	}
	switch {
	case m[4] == "%" && m[2] == "":
		return b, complain(CodeInvalid, "write +"+m[3]+"% for more than in use, -"+m[3]+"% for less", "%q says per cent of nothing", clip(text, 60))
	case m[4] == "%":
		share, c := parseRatio(m[3] + "%")
		if c != nil {
			return b, c
		}
		if b.Limit = float64(share); m[2] == "-" {
			b.Limit = -b.Limit
		}
		if b.Limit <= -1 {
			return b, complain(CodeInvalid, "less than 100% less", "%q cannot be met", clip(text, 60))
		}
		b.Relative = true
		return b, nil
	case m[2] != "":
		return b, complain(CodeInvalid, hint, "%q has a sign and no per cent", clip(text, 60))
	}
	d := ControlPlane.Findings().Must(b.Finding)
	b.Unit = d.Unit
	for _, unit := range []string{m[4], m[4] + "/change"} {
		if one, ok := finding.Scale(d.Unit, unit); ok {
			if b.Limit *= one; math.IsInf(b.Limit, 0) {
				return b, complain(CodeRange, "", "%q is too large", clip(text, 60))
			}
			return b, nil
		}
	}
	return b, complain(CodeUnit, "possible: "+strings.Join(finding.Scales(d.Unit), ", "), "%q is not a unit of %s", clip(m[4], 40), b.Finding)
}

// String writes a constraint as a file has it.
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
