package findings

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/parser"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// sortAssertions checks assertions and separates those about single trials, which resilience
// studies can have, from those about the run's findings.
func sortAssertions(s *study.Study, exprs []study.Expr) (trials, whole []study.Expr, err error) {
	ofTrial, err := trialEnv(nil)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range exprs {
		if e.Timed {
			if _, err := compileMoment(e); err != nil {
				return nil, nil, err
			}
			trials = append(trials, e)
			continue
		}
		tree, issues := ofTrial.Parse(e.Text)
		if issues.Err() == nil {
			if m := mentions(tree); m["finding"] || m["findings"] || m["validity"] {
				if m["window"] || m["step"] || m["steps"] || m["windows"] || m["gateways"] || m["total"] || m["ledger"] || m["expected"] {
					return nil, nil, analysis.FaultAt(e, 1, 0, "write one assertion for each", "assertion: it mixes the run's findings with a single trial")
				}
				if err := analysis.CheckAssertions([]study.Expr{e}); err != nil {
					return nil, nil, err
				}
				whole = append(whole, e)
				continue
			}
		}
		tree, err := compileTrial(ofTrial, e)
		if err != nil {
			return nil, nil, err
		}
		if err := checkWindows(tree, e, &resilience.Of(s).Timeline); err != nil {
			return nil, nil, err
		}
		trials = append(trials, e)
	}
	return trials, whole, nil
}

func compileTrial(env *cel.Env, e study.Expr) (*cel.Ast, error) {
	return compileIn(env, e, "use window(name), step(name), total, windows, steps, ledger and expected; or, on their own, finding(name, cell), findings and validity")
}

// compileIn checks an expression; its error has the position.
func compileIn(env *cel.Env, e study.Expr, known string) (*cel.Ast, error) {
	tree, issues := env.Compile(e.Text)
	if issues.Err() != nil {
		first := issues.Errors()[0]
		hint := ""
		switch {
		case strings.Contains(first.Message, "undeclared reference"):
			hint = known
		case strings.Contains(first.Message, "found no matching overload for '_"):
			hint = "CEL does not mix whole and decimal numbers: write 2.0, not 2, with a share"
		}
		return nil, analysis.FaultAt(e, first.Location.Line(), first.Location.Column(), hint, "assertion: %s", first.Message)
	}
	if t := tree.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, analysis.FaultAt(e, 1, 0, "add a comparison, such as ... < 0.01", "assertion: the expression is %s, not true or false", analysis.WithArticle(t.String()))
	}
	return tree, nil
}

// checkWindows finds windows and steps that an expression names by literals and the timeline does
// not have.
func checkWindows(tree *cel.Ast, e study.Expr, timeline *fault.Timeline) error {
	steps, windows := []string(nil), []string{windowStart}
	for _, o := range timeline.Plan() {
		steps, windows = append(steps, o.Name), append(windows, o.Name)
		if o.For > 0 {
			windows = append(windows, o.Name+windowEnd)
		}
	}
	native := tree.NativeRep()
	for function, known := range map[string][]string{"window": windows, "step": steps} {
		for _, x := range ast.MatchDescendants(ast.NavigateAST(native), ast.FunctionMatcher(function)) {
			arg := x.AsCall().Args()[0]
			if arg.Kind() != ast.LiteralKind {
				continue
			}
			if name, ok := arg.AsLiteral().Value().(string); ok && !slices.Contains(known, name) {
				at := native.SourceInfo().GetStartLocation(arg.ID())
				return analysis.FaultAt(e, at.Line(), at.Column(), "there are "+strings.Join(known, ", "), "assertion: there is no %s %q", function, name)
			}
		}
	}
	return nil
}

// judge evaluates a trial's assertions and determines its verdict.
func (s *trialScenario) judge(exprs []study.Expr) {
	v := record.TrialVerdict{Trial: s.trial.ID, Block: s.trial.Block, Repeat: s.trial.Repeat, Verdict: record.VerdictPass, ErrorShare: s.total.ErrorShare, Assertions: []record.ScenarioAssertion{}}
	for _, e := range exprs {
		one := record.ScenarioAssertion{Expr: e.Text, Time: timeWords(e), Outcome: record.VerdictInconclusive}
		switch {
		case s.summary == nil:
			one.Detail = "the trial's requests are unknown"
		default:
			one.Outcome, one.Detail = s.judgeLate(e)
		}
		v.Assertions = append(v.Assertions, one)
		switch one.Outcome {
		case record.VerdictFail:
			v.Verdict = record.VerdictFail
		case record.VerdictInconclusive:
			if s.summary != nil {
				s.unknown = append(s.unknown, fmt.Sprintf("%s: %s", e.Text, one.Detail))
			}
		}
	}
	if len(s.unknown) > 0 {
		v.Verdict, v.Why = record.VerdictInconclusive, s.unknown
	}
	s.verdict = v
}

// judgeLate evaluates an assertion, and again without the requests that left late through the
// clients' own fault. If these make the difference, the outcome is unknown.
func (s *trialScenario) judgeLate(e study.Expr) (outcome, detail string) {
	outcome, detail = s.judgeOne(e)
	if s.punctual == nil {
		return outcome, detail
	}
	if without, other := s.punctual.judgeOne(e); without != outcome {
		return record.VerdictInconclusive, fmt.Sprintf("the clients themselves may have sent %d requests late, by up to %s ms, and these decide: with them %s (%s), without them %s (%s)",
			s.late, short(s.trial.Scenario.Lag.Max()/1e3), outcome, detail, without, other)
	}
	return outcome, detail
}

func (s *trialScenario) judgeOne(e study.Expr) (outcome, detail string) {
	if e.Timed {
		return s.judgeMoments(e)
	}
	return s.judgeWhole(e)
}

// timeWords describes the part of the timeline that an assertion covers.
func timeWords(e study.Expr) string {
	if !e.Timed {
		return ""
	}
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if e.After != "" {
		add("after %s", e.After)
	}
	if e.Until != "" {
		add("until %s", e.Until)
	}
	if e.Within > 0 {
		add("within %s", e.Within)
	}
	if e.For > 0 {
		add("for %s", e.For)
	}
	if len(out) == 0 {
		return "all the time"
	}
	return strings.Join(out, ", ")
}

// judgeWhole evaluates an assertion about the whole trial.
func (s *trialScenario) judgeWhole(e study.Expr) (outcome, detail string) {
	env, err := trialEnv(s)
	if err != nil {
		return record.VerdictInconclusive, err.Error()
	}
	tree, err := compileTrial(env, e)
	if err != nil {
		return record.VerdictInconclusive, err.Error()
	}
	values := s.trialValues()
	held, err := holds(env, tree, values)
	if err != nil {
		return record.VerdictInconclusive, err.Error()
	}
	detail = strings.Join(compared(env, tree, values), ", ")
	if detail == "" {
		detail = fmt.Sprint(held)
	}
	if held {
		return record.VerdictPass, detail
	}
	return record.VerdictFail, detail
}

func holds(env *cel.Env, tree *cel.Ast, values any) (bool, error) {
	program, err := env.Program(tree, cel.CostLimit(10_000_000))
	if err != nil {
		return false, err
	}
	return evaluate(program, values)
}

// maxCompared limits the number of values in a detail.
const maxCompared = 6

// compared returns the values that an expression compares, each with its text.
func compared(env *cel.Env, tree *cel.Ast, values any) []string {
	var out []string
	native := tree.NativeRep()
	for _, x := range ast.MatchDescendants(ast.NavigateAST(native), func(x ast.NavigableExpr) bool {
		return x.Kind() == ast.CallKind && slices.Contains([]string{"_<_", "_<=_", "_>_", "_>=_", "_==_", "_!=_"}, x.AsCall().FunctionName())
	}) {
		for _, side := range x.AsCall().Args() {
			if side.Kind() == ast.LiteralKind || len(out) >= maxCompared {
				continue
			}
			text, err := parser.Unparse(side, native.SourceInfo())
			if err != nil {
				continue
			}
			own, issues := env.Compile(text)
			if issues.Err() != nil { // for example a macro's variable
				continue
			}
			program, err := env.Program(own, cel.CostLimit(10_000_000))
			if err != nil {
				continue
			}
			value, _, err := program.Eval(values)
			if err != nil {
				continue
			}
			if words := fmt.Sprintf("%s is %s", text, valueWords(unitOf(side), value.Value())); !slices.Contains(out, words) {
				out = append(out, words)
			}
		}
	}
	return out
}

// unitOf returns the unit of an expression that is a field; "" for any other, such as the ratio of
// two fields.
func unitOf(of ast.Expr) string {
	if of.Kind() != ast.SelectKind {
		return ""
	}
	return fieldUnits[of.AsSelect().FieldName()]
}

// valueWords formats a value with its unit: s, ms, rps, share (of 1), or "".
func valueWords(unit string, value any) string {
	v, ok := value.(float64)
	if !ok {
		return fmt.Sprint(value)
	}
	switch {
	case math.IsInf(v, 1) && (unit == "s" || unit == "ms"):
		return "never"
	case math.IsInf(v, 1):
		return "infinite"
	case unit == "share":
		return resilience.Percent(v)
	case unit == "rps":
		return short(v) + "/s"
	case unit != "":
		return short(v) + " " + unit
	}
	return short(v)
}

func short(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }
