package advice

import (
	"fmt"
	"math"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/internal/errs"
)

type program = cel.Program

// Maps that expressions may speak of beside quantities.
const (
	varLevers = "levers" // levels of levers, by the factor's name
	varLimits = "limits" // what holds a part back, by the part: see record.LimitConcurrency
)

// textMaps lists them.
var textMaps = []string{varLevers, varLimits}

// newEnv declares what expressions speak of.
func newEnv(quantities []Quantity) (*cel.Env, error) {
	options := []cel.EnvOption{cel.CrossTypeNumericComparisons(true)}
	for _, name := range textMaps {
		options = append(options, cel.Variable(name, cel.MapType(cel.StringType, cel.StringType)))
	}
	for _, q := range quantities {
		options = append(options, cel.Variable(q.Name, cel.DoubleType))
	}
	return cel.NewEnv(options...)
}

// compile checks an expression that gives a value of a type. Of all quantities, known are
// those that it may speak of.
func (e *expr) compile(env *cel.Env, want *cel.Type, all, known []string) error {
	checked, issues := env.Compile(e.Text)
	if issues.Err() != nil {
		first := issues.Errors()[0]
		return analysis.FaultAt(e.Expr, first.Location.Line(), first.Location.Column(), "", "%s", first.Message)
	}
	if t := checked.OutputType(); !t.IsExactType(want) {
		return analysis.FaultAt(e.Expr, 1, 0, "", "the expression is %s, not %s", analysis.WithArticle(t.String()), analysis.WithArticle(want.String()))
	}
	e.uses = namesOf(checked, all)
	for _, name := range e.uses {
		if !inMaps(name) && !slices.Contains(known, name) {
			return analysis.FaultAt(e.Expr, 1, 0, "a quantity speaks of those above it", "%s is not known here", name)
		}
	}
	var err error
	e.program, err = env.Program(checked, cel.EvalOptions(cel.OptPartialEval), cel.CostLimit(1_000_000))
	if err != nil {
		return analysis.FaultAt(e.Expr, 1, 0, "", "%v", err)
	}
	return nil
}

func inMaps(name string) bool {
	return slices.ContainsFunc(textMaps, func(m string) bool { return len(name) > len(m) && name[:len(m)+1] == m+"." })
}

// namesOf lists what an expression speaks of: of all quantities by their names, and of the
// textMaps "levers.NAME". Other names are the expression's own, of a comprehension.
func namesOf(checked *cel.Ast, all []string) []string {
	var out []string
	add := func(name string) {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	for _, x := range ast.MatchDescendants(ast.NavigateAST(checked.NativeRep()), ast.AllMatcher()) {
		switch x.Kind() {
		case ast.IdentKind:
			if slices.Contains(all, x.AsIdent()) {
				add(x.AsIdent())
			}
		case ast.SelectKind:
			if of := x.AsSelect().Operand(); of.Kind() == ast.IdentKind {
				add(of.AsIdent() + "." + x.AsSelect().FieldName())
			}
		case ast.CallKind:
			args := x.AsCall().Args()
			if x.AsCall().FunctionName() != operators.Index || len(args) != 2 || args[0].Kind() != ast.IdentKind || args[1].Kind() != ast.LiteralKind {
				continue
			}
			add(args[0].AsIdent() + "." + fmt.Sprint(args[1].AsLiteral().Value()))
		}
	}
	return out
}

// Truth is the answer of a condition.
type Truth int

// Answers of conditions. The zero value is that it is not known.
const (
	Unknown Truth = iota
	False
	True
)

// scope is what expressions are evaluated over.
type scope struct {
	numbers map[string]float64
	texts   map[string]map[string]string // of the textMaps
}

// has reports whether something is known.
func (s *scope) has(name string) bool {
	if _, ok := s.numbers[name]; ok {
		return true
	}
	for _, m := range textMaps {
		if inMaps(name) && name[:len(m)] == m {
			_, ok := s.texts[m][name[len(m)+1:]]
			return ok
		}
	}
	return false
}

// lacks lists what an expression speaks of and nobody knows.
func (s *scope) lacks(e *expr) []string {
	return slices.DeleteFunc(slices.Clone(e.uses), s.has)
}

// eval evaluates an expression; what is not known makes the result unknown where it
// matters: false && unknown is false.
func (s *scope) eval(e *expr) (any, error) {
	values := map[string]any{}
	for name, v := range s.numbers {
		values[name] = v
	}
	for _, m := range textMaps {
		of := s.texts[m]
		if of == nil {
			of = map[string]string{}
		}
		values[m] = of
	}
	var unknown []*cel.AttributePatternType
	for _, name := range s.lacks(e) {
		pattern := cel.AttributePattern(name)
		for _, m := range textMaps {
			if inMaps(name) && name[:len(m)] == m {
				pattern = cel.AttributePattern(m).QualString(name[len(m)+1:])
			}
		}
		unknown = append(unknown, pattern)
	}
	vars, err := cel.PartialVars(values, unknown...)
	if err != nil {
		return nil, err
	}
	out, _, err := e.program.Eval(vars)
	switch {
	case err != nil:
		return nil, errs.WithHint(fmt.Errorf("%s: %s: %w", e.Pos, e.text(), err), "the rule is wrong: its expression cannot be evaluated")
	case types.IsUnknown(out):
		return nil, nil
	}
	return out.Value(), nil
}

// truth evaluates a condition.
func (s *scope) truth(e *expr) (Truth, error) {
	v, err := s.eval(e)
	switch b, ok := v.(bool); {
	case err != nil || !ok:
		return Unknown, err
	case b:
		return True, nil
	}
	return False, nil
}

// number evaluates an expression that gives a number; false where it is not known, or
// none that is finite.
func (s *scope) number(e *expr) (float64, bool, error) {
	v, err := s.eval(e)
	n, ok := v.(float64)
	return n, ok && !math.IsNaN(n) && !math.IsInf(n, 0), err
}
