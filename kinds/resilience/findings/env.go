package findings

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"

	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// assertWindow is a window as assertions see it. Here as below the tag unit says
// what a field is in: s, ms, rps, or a share of 1.
type assertWindow struct {
	Name              string           `json:"name"`
	From              float64          `json:"from" unit:"s"`
	To                float64          `json:"to" unit:"s"`
	Requests          int64            `json:"requests"`
	Answered          int64            `json:"answered"`
	Failed            int64            `json:"failed"`
	Unfinished        int64            `json:"unfinished"`
	FailedBy          map[string]int64 `json:"failed_by"`
	ErrorShare        float64          `json:"error_share" unit:"share"`
	Due               float64          `json:"due" unit:"rps"`
	Rate              float64          `json:"rate" unit:"rps"`
	LatencyP50        float64          `json:"latency_p50" unit:"ms"`
	LatencyP90        float64          `json:"latency_p90" unit:"ms"`
	LatencyP99        float64          `json:"latency_p99" unit:"ms"`
	LatencyMax        float64          `json:"latency_max" unit:"ms"`
	AnsweredP50       float64          `json:"answered_p50" unit:"ms"`
	AnsweredP90       float64          `json:"answered_p90" unit:"ms"`
	AnsweredP99       float64          `json:"answered_p99" unit:"ms"`
	AnsweredMax       float64          `json:"answered_max" unit:"ms"`
	LongestFailingRun float64          `json:"longest_failing_run" unit:"ms"`
	Attempts          float64          `json:"attempts"`
	Hidden            int64            `json:"hidden"`
	Phantom           int64            `json:"phantom"`
	PhantomAttempts   int64            `json:"phantom_attempts"`
	Unreconciled      int64            `json:"unreconciled"`
	Moved             float64          `json:"moved" unit:"share"`
	Ready             map[string]int64 `json:"ready"`
	Ejected           map[string]int64 `json:"ejected"`
	Expected          assertExpected   `json:"expected"`
}

// assertExpected is what arithmetic says.
type assertExpected struct {
	ErrorShare float64 `json:"error_share" unit:"share"`
	Attempts   float64 `json:"attempts"`
	Demand     float64 `json:"demand" unit:"rps"`
	Capacity   float64 `json:"capacity" unit:"rps"` // infinite where nothing bounds it
	Spare      float64 `json:"spare" unit:"share"`  // capacity over demand, less one
}

// assertStep is a step's turn. What never came took for ever: infinity.
type assertStep struct {
	Name              string  `json:"name"`
	Op                string  `json:"op"`
	Begin             float64 `json:"begin" unit:"s"` // seconds
	End               float64 `json:"end" unit:"s"`
	Late              float64 `json:"late" unit:"ms"` // milliseconds, as what follows
	Detect            float64 `json:"detect" unit:"ms"`
	Eject             float64 `json:"eject" unit:"ms"`
	Recover           float64 `json:"recover" unit:"ms"`
	LongestFailingRun float64 `json:"longest_failing_run" unit:"ms"`
	Failed            int64   `json:"failed"`
	Proven            bool    `json:"proven"`
	StillFailing      bool    `json:"still_failing"`
	Prove             float64 `json:"prove" unit:"ms"` // from its beginning until its proof
}

// assertLedger is the reconciliation of the whole trial.
type assertLedger struct {
	Requests        int64            `json:"requests"`
	Reconciled      bool             `json:"reconciled"`
	Unreconciled    int64            `json:"unreconciled"`
	Orphans         int64            `json:"orphans"`
	OK              int64            `json:"ok"`
	Retried         int64            `json:"retried"`
	Failed          int64            `json:"failed"`
	Unfinished      int64            `json:"unfinished"`
	Attempts        float64          `json:"attempts"`
	Hidden          int64            `json:"hidden"`
	Lost            int64            `json:"lost"`
	Phantom         int64            `json:"phantom"`
	PhantomAttempts int64            `json:"phantom_attempts"`
	Hops            map[string]int64 `json:"hops"`
	Flags           map[string]int64 `json:"flags"`
	Services        map[string]int64 `json:"services"`
}

// fieldUnits are the units of fields by name, wherever they stand.
var fieldUnits = unitsOf(map[string]string{}, assertWindow{}, assertExpected{}, assertStep{}, assertLedger{})

// unitsOf adds the units of the structs' fields.
func unitsOf(units map[string]string, structs ...any) map[string]string {
	for _, s := range structs {
		for field := range reflect.TypeOf(s).Fields() {
			if unit := field.Tag.Get("unit"); unit != "" {
				units[field.Tag.Get("json")] = unit
			}
		}
	}
	return units
}

// clientKinds are the kinds of failure that clients know.
var clientKinds = []string{ledger.OutcomeConnect, ledger.OutcomeTimeout, ledger.OutcomeReset, ledger.OutcomeEOF, ledger.OutcomeProtocol, ledger.OutcomeStatus, ledger.OutcomeTLS, ledger.OutcomeOther}

func zeroes(names []string) map[string]int64 {
	out := map[string]int64{}
	for _, n := range names {
		out[n] = 0
	}
	return out
}

func (s *trialScenario) services() []string {
	var out []string
	for _, one := range s.study.Scenario.Graph.Services {
		out = append(out, one.Name)
	}
	return out
}

// assertWindow is a window as assertions see it, of the latency of all its
// requests. Of a window in which none was answered that of the answered is theirs.
func (s *trialScenario) assertWindow(w record.ScenarioWindow, all record.Latency) assertWindow {
	answered := enough(w.Latency, w.Answered, 0, math.NaN())
	if w.Answered == 0 {
		answered = all
	}
	out := assertWindow{
		Name: w.Name, From: w.FromS, To: w.ToS, Requests: w.Requests, Answered: w.Answered, Failed: w.Failed, Unfinished: w.Unfinished,
		FailedBy: zeroes(clientKinds), ErrorShare: w.ErrorShare, Due: w.RateRPS, Rate: w.AnswerRPS,
		LatencyP50: all.P50 / 1e3, LatencyP90: all.P90 / 1e3, LatencyP99: all.P99 / 1e3, LatencyMax: all.Max / 1e3,
		AnsweredP50: answered.P50 / 1e3, AnsweredP90: answered.P90 / 1e3, AnsweredP99: answered.P99 / 1e3, AnsweredMax: answered.Max / 1e3,
		LongestFailingRun: w.LongestFailUS / 1e3, Attempts: w.Attempts, Hidden: w.Hidden, Phantom: w.Phantom, PhantomAttempts: w.PhantomAttempts,
		Unreconciled: w.Unreconciled, Ready: zeroes(s.services()), Ejected: zeroes(s.services()), Expected: expectedOf(w.Expected),
	}
	if w.Keys > 0 {
		out.Moved = float64(w.MovedKeys) / float64(w.Keys)
	}
	for k, v := range w.FailedBy {
		out.FailedBy[k] = v
	}
	for k, v := range w.Ready {
		out.Ready[k] = int64(v)
	}
	for k, v := range w.Ejected {
		out.Ejected[k] = int64(v)
	}
	return out
}

func expectedOf(e record.ScenarioExpectation) assertExpected {
	out := assertExpected{ErrorShare: e.ErrorShare, Attempts: e.Attempts, Demand: e.DemandRPS, Capacity: e.CapacityRPS, Spare: spare(e)}
	if e.CapacityRPS <= 0 && e.Service == "" {
		out.Capacity = math.Inf(1)
	}
	return out
}

func assertStepOf(one record.ScenarioStep) assertStep {
	ms := func(us *float64, never float64) float64 {
		if us == nil {
			return never
		}
		return *us / 1e3
	}
	out := assertStep{Name: one.Name, Op: one.Op, Begin: one.BeginS, End: one.EndS, Late: one.LateUS / 1e3, Detect: ms(one.DetectUS, math.Inf(1)), Eject: ms(one.EjectUS, math.Inf(1)),
		Recover: ms(one.RecoverUS, 0), LongestFailingRun: one.LongestFailUS / 1e3, Failed: one.Failed, Proven: one.Error == "" && one.ProvenS > 0, StillFailing: one.StillFailing, Prove: math.Inf(1)}
	if out.Proven {
		out.Prove = (one.ProvenS - one.BeginS) * 1e3
	}
	if one.StillFailing {
		out.Recover = math.Inf(1)
	}
	if out.End == 0 {
		out.End = math.Inf(1)
	}
	return out
}

func (s *trialScenario) assertLedger() assertLedger {
	a := s.account
	out := assertLedger{
		Requests: a.Requests, Reconciled: a.Reconciled, Unreconciled: a.Classes[ledger.ClassUnreconciled] + a.Orphans, Orphans: a.Orphans, OK: a.Classes[ledger.ClassOK], Retried: a.Classes[ledger.ClassRetried],
		Failed: a.Classes[ledger.ClassFailed], Unfinished: a.Classes[ledger.ClassUnfinished], Attempts: a.Amplification(), Hidden: a.Hidden, Lost: a.Lost,
		Phantom: a.Phantom.Requests, PhantomAttempts: a.Phantom.Attempts, Hops: map[string]int64{}, Flags: map[string]int64{}, Services: zeroes(s.services()),
	}
	for _, hop := range ledger.Hops {
		out.Hops[string(hop)] = a.Hops[hop]
	}
	for _, f := range ledger.Flags {
		out.Flags[f.Short] = 0
	}
	for _, f := range a.Faults {
		if f.Flag != "" {
			out.Flags[f.Flag] += f.Count
		}
		out.Services[f.Service] += f.Count
	}
	return out
}

// trialEnv declares what assertions about one trial speak of; a nil trial is
// enough to compile.
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
	window, step := objectOf[assertWindow](), objectOf[assertStep]()
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, fmt.Errorf("declare what assertions speak of: %w", err)
	}
	env, err = cel.NewEnv(
		cel.CustomTypeAdapter(refusing{registry}),
		cel.CrossTypeNumericComparisons(true),
		ext.NativeTypes(reflect.TypeFor[assertWindow](), reflect.TypeFor[assertStep](), reflect.TypeFor[assertLedger](), reflect.TypeFor[assertExpected](), ext.ParseStructTag("json")),
		cel.Variable("total", window), cel.Variable("windows", cel.ListType(window)), cel.Variable("steps", cel.ListType(step)),
		cel.Variable("ledger", objectOf[assertLedger]()), cel.Variable("expected", objectOf[assertExpected]()),
		cel.Function("window", cel.Overload("window_name", []*cel.Type{cel.StringType}, window, cel.UnaryBinding(named(func(name string) (any, error) {
			for i, w := range s.windows {
				if slices.Contains(w.Names, name) {
					return s.assertWindow(w, s.latency[i]), nil
				}
			}
			return nil, fmt.Errorf("this trial has no window %q", name)
		})))),
		cel.Function("step", cel.Overload("step_name", []*cel.Type{cel.StringType}, step, cel.UnaryBinding(named(func(name string) (any, error) {
			for _, one := range s.steps {
				if one.Name == name {
					return assertStepOf(one.ScenarioStep), nil
				}
			}
			return nil, fmt.Errorf("this trial has no step %q", name)
		})))),
	)
	if err != nil {
		return nil, fmt.Errorf("declare what assertions speak of: %w", err)
	}
	return env, nil
}

// trialValues are the variables of trialEnv.
func (s *trialScenario) trialValues() map[string]any {
	windows, steps := make([]assertWindow, len(s.windows)), make([]assertStep, len(s.steps))
	for i, w := range s.windows {
		windows[i] = s.assertWindow(w, s.latency[i])
	}
	for i, one := range s.steps {
		steps[i] = assertStepOf(one.ScenarioStep)
	}
	return map[string]any{"total": s.assertWindow(s.total, s.totalLatency), "windows": windows, "steps": steps, "ledger": s.assertLedger(), "expected": expectedOf(s.total.Expected)}
}

// momentEnv declares what expressions about moments speak of. current is the
// moment that functions ask; nil is enough to compile.
func momentEnv(current *record.Moment) (*cel.Env, error) {
	of := func(which func(*record.Moment) map[string]int) func(ref.Val) ref.Val {
		return func(service ref.Val) ref.Val {
			if current == nil {
				return types.WrapErr(errors.New("there is no moment yet"))
			}
			return types.Int(which(current)[fmt.Sprint(service.Value())])
		}
	}
	options := []cel.EnvOption{
		cel.CrossTypeNumericComparisons(true),
		cel.Function("ready", cel.Overload("ready_service", []*cel.Type{cel.StringType}, cel.IntType, cel.UnaryBinding(of(func(m *record.Moment) map[string]int { return m.Ready })))),
		cel.Function("ejected", cel.Overload("ejected_service", []*cel.Type{cel.StringType}, cel.IntType, cel.UnaryBinding(of(func(m *record.Moment) map[string]int { return m.Ejected })))),
	}
	for _, v := range momentVariables {
		t := cel.DoubleType
		if v.whole {
			t = cel.IntType
		}
		options = append(options, cel.Variable(v.name, t))
	}
	env, err := cel.NewEnv(options...)
	if err != nil {
		return nil, fmt.Errorf("declare what a moment is: %w", err)
	}
	return env, nil
}

// momentVariables are what expressions about moments can ask for.
var momentVariables = []struct {
	name  string
	whole bool
	unit  string
	of    func(*record.Moment) any
}{
	{"error_share", false, "share", func(m *record.Moment) any { return m.ErrorShare }},
	{"rate", false, "rps", func(m *record.Moment) any { return m.RateRPS }},
	{"requests", true, "", func(m *record.Moment) any { return m.Requests }},
	{"failed", true, "", func(m *record.Moment) any { return m.Failed }},
	{"latency_p50", false, "ms", func(m *record.Moment) any { return m.P50MS }},
	{"latency_p90", false, "ms", func(m *record.Moment) any { return m.P90MS }},
	{"latency_p99", false, "ms", func(m *record.Moment) any { return m.P99MS }},
	{"latency_max", false, "ms", func(m *record.Moment) any { return m.MaxMS }},
	{"answered_p50", false, "ms", func(m *record.Moment) any { return m.Answered.P50MS }},
	{"answered_p90", false, "ms", func(m *record.Moment) any { return m.Answered.P90MS }},
	{"answered_p99", false, "ms", func(m *record.Moment) any { return m.Answered.P99MS }},
	{"answered_max", false, "ms", func(m *record.Moment) any { return m.Answered.MaxMS }},
	{"ready", true, "", func(m *record.Moment) any { return int64(sum(m.Ready)) }},
	{"ejected", true, "", func(m *record.Moment) any { return int64(sum(m.Ejected)) }},
	{"at", false, "s", func(m *record.Moment) any { return m.AtS }},
}

func momentValues(m *record.Moment) map[string]any {
	out := map[string]any{}
	for _, v := range momentVariables {
		out[v.name] = v.of(m)
	}
	return out
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

// Condition says of a moment whether a step's condition holds.
type Condition struct {
	program cel.Program
	current *record.Moment
	text    string
}

// CompileCondition checks the condition of a step: CEL over the variables of a
// second, as error_share and latency_p99 (ms), ready(service) and
// ejected(service). It is not safe for use from several goroutines.
func CompileCondition(text string) (*Condition, error) {
	c := &Condition{current: &record.Moment{}, text: text}
	env, err := momentEnv(c.current)
	if err != nil {
		return nil, err
	}
	tree, err := compileMoment(env, study.Expr{Text: text, Pos: study.Pos{File: "when"}})
	if err != nil {
		return nil, err
	}
	if c.program, err = env.Program(tree, cel.CostLimit(1_000_000)); err != nil {
		return nil, fmt.Errorf("condition %q: %w", text, err)
	}
	return c, nil
}

// Holds evaluates the condition.
func (c *Condition) Holds(m record.Moment) (bool, error) {
	*c.current = m
	value, _, err := c.program.Eval(momentValues(&m))
	if err != nil {
		return false, fmt.Errorf("condition %q: %w", c.text, err)
	}
	held, ok := value.Value().(bool)
	if !ok {
		return false, fmt.Errorf("condition %q gave %v, not true or false", c.text, value.Value())
	}
	return held, nil
}

// objectOf is the type of a value of ours as expressions know it.
func objectOf[T any]() *cel.Type { return cel.ObjectType(reflect.TypeFor[T]().String()) }
