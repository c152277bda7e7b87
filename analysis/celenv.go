package analysis

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// lookup finds the finding that an expression names.
type lookup func(name string, cell record.Cell) (record.Finding, error)

// newEnv declares what assertions can use. A nil lookup suffices for compiling.
func newEnv(find lookup) (*cel.Env, error) {
	finding := cel.ObjectType(findingType)
	var env *cel.Env // converts findings by its own types
	get := func(name, cell ref.Val) ref.Val {
		found, err := call(find, name, cell)
		if err != nil {
			return types.WrapErr(err)
		}
		return findingValue(env.CELTypeAdapter(), found)
	}
	env, err := cel.NewEnv(
		cel.CrossTypeNumericComparisons(true),
		ext.NativeTypes(reflect.TypeFor[record.Finding](), reflect.TypeFor[record.Ratio](), reflect.TypeFor[note.Note](),
			reflect.TypeFor[record.ValiditySummary](), reflect.TypeFor[record.InvalidReason](), ext.ParseStructTag("json")),
		guarded,
		cel.Variable("findings", cel.ListType(finding)),
		cel.Variable("validity", cel.ObjectType("record.ValiditySummary")),
		cel.Function("finding",
			cel.Overload("finding_name", []*cel.Type{cel.StringType}, finding,
				cel.UnaryBinding(func(name ref.Val) ref.Val { return get(name, nil) })),
			cel.Overload("finding_name_cell", []*cel.Type{cel.StringType, cel.MapType(cel.StringType, cel.DynType)}, finding,
				cel.BinaryBinding(func(name, cell ref.Val) ref.Val { return get(name, cell) })),
		),
	)
	if err != nil {
		return nil, fmt.Errorf("declare what assertions speak of: %w", err)
	}
	return env, nil
}

// call evaluates the lookup of an expression.
func call(find lookup, name, cell ref.Val) (record.Finding, error) {
	if find == nil {
		return record.Finding{}, errors.New("there are no findings yet")
	}
	levels := record.Cell{}
	if mapper, ok := cell.(traits.Mapper); ok {
		for it := mapper.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			levels[fmt.Sprint(key.Value())] = fmt.Sprint(mapper.Get(key).Value())
		}
	}
	return find(fmt.Sprint(name.Value()), levels)
}

// findingFields returns the fields of a finding by their names in expressions.
func findingFields() []string {
	t := reflect.TypeFor[record.Finding]()
	var out []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		out = append(out, name)
	}
	return out
}

// checkNames finds unknown findings and factors that an expression names in literals.
func checkNames(a *cel.Ast, e study.Expr) error {
	native := a.NativeRep()
	place := func(x ast.Expr) (line, column int) {
		at := native.SourceInfo().GetStartLocation(x.ID())
		return at.Line(), at.Column()
	}
	for _, x := range ast.MatchDescendants(ast.NavigateAST(native), ast.FunctionMatcher("finding")) {
		args := x.AsCall().Args()
		if args[0].Kind() == ast.LiteralKind {
			if name, ok := args[0].AsLiteral().Value().(string); ok && !study.IsFinding(name) {
				line, column := place(args[0])
				return FaultAt(e, line, column, "findings are "+strings.Join(study.FindingNames(), ", "), "assertion: unknown finding %q", name)
			}
		}
		if len(args) < 2 || args[1].Kind() != ast.MapKind {
			continue
		}
		for _, entry := range args[1].AsMap().Entries() {
			key := entry.AsMapEntry().Key()
			if key.Kind() != ast.LiteralKind {
				continue
			}
			factor, ok := key.AsLiteral().Value().(string)
			if _, known := study.FactorByName(factor); ok && !known {
				line, column := place(key)
				return FaultAt(e, line, column, "factors are "+strings.Join(study.FactorNames(), ", "), "assertion: unknown factor %q", factor)
			}
		}
	}
	return nil
}
