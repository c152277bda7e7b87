package findings

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// windowFigures is a window with the data for its fields: the latency of all its requests, counting
// those without an answer as infinitely late, and that of the answered ones. In a window without
// answers both are the former.
type windowFigures struct {
	record.ScenarioWindow
	all, answered record.Latency
	services      []string
	zones         []string
}

// windowFields lists the fields of a window in assertions.
var windowFields = slices.Concat([]field[windowFigures]{
	{"name", "", func(w windowFigures) any { return w.Name }},
	{"from", "s", func(w windowFigures) any { return w.FromS }},
	{"to", "s", func(w windowFigures) any { return w.ToS }},
	{"requests", "", func(w windowFigures) any { return w.Requests }},
	{"answered", "", func(w windowFigures) any { return w.Answered }},
	{"failed", "", func(w windowFigures) any { return w.Failed }},
	{"unfinished", "", func(w windowFigures) any { return w.Unfinished }},
	{"failed_by", "", func(w windowFigures) any { return over(zeroes(clientKinds), w.FailedBy) }},
	{"error_share", "share", func(w windowFigures) any { return w.ErrorShare }},
	{"due", "rps", func(w windowFigures) any { return w.RateRPS }},
	{"rate", "rps", func(w windowFigures) any { return w.AnswerRPS }},
	{"longest_failing_run", "ms", func(w windowFigures) any { return w.LongestFailUS / 1e3 }},
	{"attempts", "", func(w windowFigures) any { return w.Attempts }},
	{"hidden", "", func(w windowFigures) any { return w.Hidden }},
	{"phantom", "", func(w windowFigures) any { return w.Phantom }},
	{"phantom_attempts", "", func(w windowFigures) any { return w.PhantomAttempts }},
	{"unreconciled", "", func(w windowFigures) any { return w.Unreconciled }},
	{"moved", "share", func(w windowFigures) any { return float64(w.MovedKeys) / float64(max(1, w.Keys)) }},
	{"cross_zone", "share", func(w windowFigures) any { return float64(w.CrossZone) / float64(max(1, w.Zoned)) }},
	{"zones", "", func(w windowFigures) any { return over(zeroes(w.zones), w.Zones) }},
	{"ready", "", func(w windowFigures) any { return over(zeroes(w.services), w.Ready) }},
	{"ejected", "", func(w windowFigures) any { return over(zeroes(w.services), w.Ejected) }},
	{"expected", "", func(w windowFigures) any { return expectedObject.of(w.Expected) }},
},
	quantileFields("latency", false, func(w windowFigures) record.Latency { return w.all }),
	quantileFields("answered", false, func(w windowFigures) record.Latency { return w.answered }))

// quantileFields returns a latency's percentiles and maximum, in ms. A percentile of too few requests
// is NaN (see [refusing]) unless few suffice.
func quantileFields[T any](name string, few bool, of func(T) record.Latency) []field[T] {
	var out []field[T]
	for _, q := range record.UpTo99() {
		out = append(out, field[T]{name + "_" + q.Name(), "ms", func(v T) any {
			if l := of(v); few || l.Known(q) || q == 1 {
				return l.At(q) / 1e3
			}
			return math.NaN()
		}})
	}
	return out
}

// expectedFields lists the calculated values.
var expectedFields = []field[record.ScenarioExpectation]{
	{"error_share", "share", func(e record.ScenarioExpectation) any { return e.ErrorShare }},
	{"attempts", "", func(e record.ScenarioExpectation) any { return e.Attempts }},
	{"demand", "rps", func(e record.ScenarioExpectation) any { return e.DemandRPS }},
	{"capacity", "rps", func(e record.ScenarioExpectation) any {
		if e.CapacityRPS <= 0 && e.Service == "" {
			return math.Inf(1) // unbounded
		}
		return e.CapacityRPS
	}},
	{"spare", "share", func(e record.ScenarioExpectation) any { return spare(e) }}, // capacity over demand, minus one
}

// stepFields lists the fields of one turn of a step in assertions. Times of events that never
// happened are infinite.
var stepFields = []field[record.ScenarioStep]{
	{"name", "", func(s record.ScenarioStep) any { return s.Name }},
	{"op", "", func(s record.ScenarioStep) any { return s.Op }},
	{"begin", "s", func(s record.ScenarioStep) any { return s.BeginS }},
	{"end", "s", func(s record.ScenarioStep) any {
		if s.EndS == 0 {
			return math.Inf(1)
		}
		return s.EndS
	}},
	{"late", "ms", func(s record.ScenarioStep) any { return s.LateUS / 1e3 }},
	{"detect", "ms", func(s record.ScenarioStep) any { return msOr(s.DetectUS, math.Inf(1)) }},
	{"eject", "ms", func(s record.ScenarioStep) any { return msOr(s.EjectUS, math.Inf(1)) }},
	{"recover", "ms", func(s record.ScenarioStep) any {
		if s.StillFailing {
			return math.Inf(1)
		}
		return msOr(s.RecoverUS, 0)
	}},
	{"shift", "ms", func(s record.ScenarioStep) any { return msOr(s.ShiftUS, 0) }},
	{"longest_failing_run", "ms", func(s record.ScenarioStep) any { return s.LongestFailUS / 1e3 }},
	{"failed", "", func(s record.ScenarioStep) any { return s.Failed }},
	{"proven", "", func(s record.ScenarioStep) any { return proven(s) }},
	{"still_failing", "", func(s record.ScenarioStep) any { return s.StillFailing }},
	{"prove", "ms", func(s record.ScenarioStep) any { // from its beginning until its proof
		if !proven(s) {
			return math.Inf(1)
		}
		return (s.ProvenS - s.BeginS) * 1e3
	}},
}

func proven(s record.ScenarioStep) bool { return s.Error == "" && s.ProvenS > 0 }

// msOr returns a time in ms, or never if it did not occur.
func msOr(us *float64, never float64) float64 {
	if us == nil {
		return never
	}
	return *us / 1e3
}

// ledgerFigures is the reconciliation of a whole trial.
type ledgerFigures struct {
	*ledger.Account
	services []string
}

// ledgerFields lists the fields of the reconciliation in assertions.
var ledgerFields = []field[ledgerFigures]{
	{"requests", "", func(a ledgerFigures) any { return a.Requests }},
	{"reconciled", "", func(a ledgerFigures) any { return a.Reconciled }},
	{"unreconciled", "", func(a ledgerFigures) any { return a.Classes[ledger.ClassUnreconciled] + a.Orphans }},
	{"orphans", "", func(a ledgerFigures) any { return a.Orphans }},
	{"ok", "", func(a ledgerFigures) any { return a.Classes[ledger.ClassOK] }},
	{"retried", "", func(a ledgerFigures) any { return a.Classes[ledger.ClassRetried] }},
	{"failed", "", func(a ledgerFigures) any { return a.Classes[ledger.ClassFailed] }},
	{"unfinished", "", func(a ledgerFigures) any { return a.Classes[ledger.ClassUnfinished] }},
	{"attempts", "", func(a ledgerFigures) any { return a.Amplification() }},
	{"hidden", "", func(a ledgerFigures) any { return a.Hidden }},
	{"lost", "", func(a ledgerFigures) any { return a.Lost }},
	{"phantom", "", func(a ledgerFigures) any { return a.Phantom.Requests }},
	{"phantom_attempts", "", func(a ledgerFigures) any { return a.Phantom.Attempts }},
	{"hops", "", func(a ledgerFigures) any {
		out := map[string]int64{}
		for _, hop := range ledger.Hops {
			out[string(hop)] = a.Hops[hop]
		}
		return out
	}},
	{"flags", "", func(a ledgerFigures) any {
		out := map[string]int64{}
		for _, f := range ledger.Flags {
			out[f.Short] = 0
		}
		for _, f := range a.Faults {
			if f.Flag != "" {
				out[f.Flag] += f.Count
			}
		}
		return out
	}},
	{"services", "", func(a ledgerFigures) any {
		out := zeroes(a.services)
		for _, f := range a.Faults {
			out[f.Service] += f.Count
		}
		return out
	}},
}

// gatewayFields lists the fields of a gateway's pod in assertions.
var gatewayFields = []field[record.ScenarioGateway]{
	{"pod", "", func(g record.ScenarioGateway) any { return g.Pod }},
	{"connections", "", func(g record.ScenarioGateway) any { return g.Connections }},
	{"closed", "", func(g record.ScenarioGateway) any { return g.Closed }},
	{"dropped", "", func(g record.ScenarioGateway) any { return g.Dropped }},
	{"requests", "", func(g record.ScenarioGateway) any { return g.Requests }},
}

// momentFields lists the fields of expressions about moments.
var momentFields = slices.Concat([]field[*record.Moment]{
	{"error_share", "share", func(m *record.Moment) any { return m.ErrorShare }},
	{"rate", "rps", func(m *record.Moment) any { return m.RateRPS }},
	{"requests", "", func(m *record.Moment) any { return m.Requests }},
	{"failed", "", func(m *record.Moment) any { return m.Failed }},
}, quantileFields("latency", true, func(m *record.Moment) record.Latency { return m.Latency }),
	quantileFields("answered", true, func(m *record.Moment) record.Latency { return m.Answered }),
	[]field[*record.Moment]{
		{"ready", "", func(m *record.Moment) any { return int64(sum(m.Ready)) }},
		{"ejected", "", func(m *record.Moment) any { return int64(sum(m.Ejected)) }},
		{"at", "s", func(m *record.Moment) any { return m.AtS }},
	})

func momentValues(m *record.Moment) map[string]any {
	out := map[string]any{}
	for _, f := range momentFields {
		out[f.name] = f.of(m)
	}
	return out
}

// The objects visible to assertions.
var (
	expectedObject = newObject("expected", expectedFields, record.ScenarioExpectation{})
	windowObject   = newObject("window", windowFields, windowFigures{})
	stepObject     = newObject("step", stepFields, record.ScenarioStep{})
	gatewayObject  = newObject("gateway", gatewayFields, record.ScenarioGateway{})
	ledgerObject   = newObject("ledger", ledgerFields, ledgerFigures{Account: &ledger.Account{}})
)

// fieldUnits maps field names to units, across all objects.
var fieldUnits = map[string]string{}

// clientKinds lists the kinds of failure that clients record.
var clientKinds = []string{ledger.OutcomeConnect, ledger.OutcomeTimeout, ledger.OutcomeReset, ledger.OutcomeEOF, ledger.OutcomeProtocol, ledger.OutcomeStatus, ledger.OutcomeTLS, ledger.OutcomeStream, ledger.OutcomeOther}

// over overlays numbers on the zeros of names without any.
func over[N int | int64](out map[string]int64, numbers map[string]N) map[string]int64 {
	for name, n := range numbers {
		out[name] = int64(n)
	}
	return out
}

func zeroes(names []string) map[string]int64 {
	out := map[string]int64{}
	for _, n := range names {
		out[n] = 0
	}
	return out
}

func (s *trialScenario) services() []string { return resilience.Of(s.study).Names() }

// trialEnv declares the variables of assertions about one trial. A nil trial is enough to compile.
func trialEnv(s *trialScenario) (*cel.Env, error) {
	var env *cel.Env
	named := func(of func(name string) (any, error)) func(ref.Val) ref.Val {
		return func(name ref.Val) ref.Val {
			if s == nil {
				return types.WrapErr(errors.New("there is no trial yet"))
			}
			v, err := of(fmt.Sprint(name.Value()))
			if err != nil {
				return types.WrapErr(err)
			}
			return env.CELTypeAdapter().NativeToValue(v)
		}
	}
	window, step := windowObject.kind, stepObject.kind
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, fmt.Errorf("declare the variables of assertions: %w", err)
	}
	env, err = cel.NewEnv(
		cel.CustomTypeAdapter(refusing{registry}), cel.CustomTypeProvider(objects{registry}),
		cel.CrossTypeNumericComparisons(true),
		cel.Variable("total", window), cel.Variable("windows", cel.ListType(window)), cel.Variable("steps", cel.ListType(step)),
		cel.Variable("gateways", cel.ListType(gatewayObject.kind)), cel.Variable("ledger", ledgerObject.kind), cel.Variable("expected", expectedObject.kind),
		cel.Function("window", cel.Overload("window_name", []*cel.Type{cel.StringType}, window, cel.UnaryBinding(named(func(name string) (any, error) {
			for i, w := range s.windows {
				if slices.Contains(w.Names, name) {
					return s.windowValue(w, s.latency[i]), nil
				}
			}
			return nil, fmt.Errorf("this trial has no window %q", name)
		})))),
		cel.Function("step", cel.Overload("step_name", []*cel.Type{cel.StringType}, step, cel.UnaryBinding(named(func(name string) (any, error) {
			for _, one := range s.steps {
				if one.Name == name {
					return stepObject.of(one.ScenarioStep), nil
				}
			}
			return nil, fmt.Errorf("this trial has no step %q", name)
		})))),
	)
	if err != nil {
		return nil, fmt.Errorf("declare the variables of assertions: %w", err)
	}
	return env, nil
}

// trialValues returns the values of the variables of trialEnv.
func (s *trialScenario) trialValues() map[string]any {
	windows, steps := make([]ref.Val, len(s.windows)), make([]ref.Val, len(s.steps))
	for i, w := range s.windows {
		windows[i] = s.windowValue(w, s.latency[i])
	}
	for i, one := range s.steps {
		steps[i] = stepObject.of(one.ScenarioStep)
	}
	gateways := []ref.Val{}
	for _, g := range s.gateways() {
		gateways = append(gateways, gatewayObject.of(g))
	}
	return map[string]any{
		"total": s.windowValue(s.total, s.totalLatency), "windows": windows, "steps": steps, "gateways": gateways,
		"ledger": ledgerObject.of(ledgerFigures{s.account, s.services()}), "expected": expectedObject.of(s.total.Expected),
	}
}

// windowValue returns a window as assertions see it; all is the latency of all its requests.
func (s *trialScenario) windowValue(w record.ScenarioWindow, all record.Latency) ref.Val {
	answered := w.Latency
	if w.Answered == 0 {
		answered = all
	}
	return windowObject.of(windowFigures{w, all, answered, s.services(), s.zoneNames()})
}

// momentEnv declares the variables of expressions about moments. Functions read the moment that
// current points to.
func momentEnv(current *record.Moment) (*cel.Env, error) {
	of := func(which func(*record.Moment) map[string]int) func(ref.Val) ref.Val {
		return func(service ref.Val) ref.Val { return types.Int(which(current)[fmt.Sprint(service.Value())]) }
	}
	options := []cel.EnvOption{
		cel.CrossTypeNumericComparisons(true),
		cel.Function("ready", cel.Overload("ready_service", []*cel.Type{cel.StringType}, cel.IntType, cel.UnaryBinding(of(func(m *record.Moment) map[string]int { return m.Ready })))),
		cel.Function("ejected", cel.Overload("ejected_service", []*cel.Type{cel.StringType}, cel.IntType, cel.UnaryBinding(of(func(m *record.Moment) map[string]int { return m.Ejected })))),
	}
	for _, f := range momentFields {
		options = append(options, cel.Variable(f.name, kindOf(f.of(&record.Moment{}))))
	}
	env, err := cel.NewEnv(options...)
	if err != nil {
		return nil, fmt.Errorf("declare the variables of a moment: %w", err)
	}
	return env, nil
}

// mentions lists the variables and functions that an expression names.
func mentions(a *cel.Ast) map[string]bool {
	out := map[string]bool{}
	for _, x := range ast.MatchDescendants(ast.NavigateAST(a.NativeRep()), func(ast.NavigableExpr) bool { return true }) {
		switch x.Kind() {
		case ast.IdentKind:
			out[x.AsIdent()] = true
		case ast.CallKind:
			out[x.AsCall().FunctionName()] = true
		}
	}
	return out
}

// Condition is an expression about moments, such as the condition of a step.
type Condition struct {
	program cel.Program
	current record.Moment
	text    string
	names   map[string]bool // that it mentions
}

// CompileCondition checks the condition of a step: a CEL expression over the variables of a second,
// such as error_share and latency_p99 (ms), ready(service) and ejected(service). The result is not
// safe for concurrent use.
func CompileCondition(text string) (*Condition, error) {
	return compileMoment(study.Expr{Text: text, Pos: study.Pos{File: "when"}})
}

func compileMoment(e study.Expr) (*Condition, error) {
	c := &Condition{text: e.Text}
	env, err := momentEnv(&c.current)
	if err != nil {
		return nil, err
	}
	tree, err := compileIn(env, e, "of a moment, use "+momentNames())
	if err != nil {
		return nil, err
	}
	c.names = mentions(tree)
	if c.program, err = env.Program(tree, cel.CostLimit(1_000_000)); err != nil {
		return nil, fmt.Errorf("condition %q: %w", e.Text, err)
	}
	return c, nil
}

// Holds evaluates the condition.
func (c *Condition) Holds(m record.Moment) (bool, error) {
	held, err := c.holds(m, momentValues(&m))
	if err != nil {
		return false, fmt.Errorf("condition %q: %w", c.text, err)
	}
	return held, nil
}

func (c *Condition) holds(m record.Moment, values map[string]any) (bool, error) {
	c.current = m
	return evaluate(c.program, values)
}

// evaluate returns whether an expression holds.
func evaluate(program cel.Program, values any) (bool, error) {
	value, _, err := program.Eval(values)
	if err != nil {
		return false, err
	}
	held, ok := value.Value().(bool)
	if !ok {
		return false, fmt.Errorf("the expression gave %v, not true or false", value.Value())
	}
	return held, nil
}
