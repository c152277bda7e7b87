package analysis

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

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
				return FaultAt(e, line, column, cmp.Or(errs.Nearest(name, study.FindingNames()), "docs/study.md lists the findings"), "assertion: unknown finding %q", name)
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
				return FaultAt(e, line, column, cmp.Or(errs.Nearest(factor, study.FactorNames()), "docs/study.md lists the factors"), "assertion: unknown factor %q", factor)
			}
		}
	}
	return nil
}

const findingType = "record.Finding"

// guarded returns an environment in which a value that a finding does not have is an error
// instead of the zero in its record: an assertion about it is neither true nor false.
func guarded(env *cel.Env) (*cel.Env, error) {
	return cel.CustomTypeProvider(guardedTypes{env.CELTypeProvider()})(env)
}

// guardedTypes guards fields of values whose type is known at compile time.
type guardedTypes struct{ types.Provider }

func (p guardedTypes) FindStructFieldType(structType, name string) (*types.FieldType, bool) {
	field, ok := p.Provider.FindStructFieldType(structType, name)
	if !ok || structType != findingType {
		return field, ok
	}
	return &types.FieldType{Type: field.Type, IsSet: field.IsSet, GetFrom: func(target any) (any, error) {
		f, ok := target.(record.Finding)
		if !ok {
			return nil, fmt.Errorf("%T is no finding", target)
		}
		if err := lacks(f, name); err != nil {
			return nil, err
		}
		return field.GetFrom(target)
	}}, true
}

// guardedFinding guards fields of values whose type is known only at evaluation, such as
// dyn(findings[0]).
type guardedFinding struct {
	ref.Val // the finding, as converted from the Go type
	finding record.Finding
}

// Get returns a field by name.
func (g guardedFinding) Get(field ref.Val) ref.Val {
	if name, ok := field.(types.String); ok {
		if err := lacks(g.finding, string(name)); err != nil {
			return types.WrapErr(err)
		}
	}
	fields, ok := g.Val.(traits.Indexer)
	if !ok {
		return types.MaybeNoSuchOverloadErr(field)
	}
	return fields.Get(field)
}

// IsSet implements has(finding.field).
func (g guardedFinding) IsSet(field ref.Val) ref.Val {
	fields, ok := g.Val.(traits.FieldTester)
	if !ok {
		return types.MaybeNoSuchOverloadErr(field)
	}
	return fields.IsSet(field)
}

// Equal compares with another finding, guarded or not.
func (g guardedFinding) Equal(other ref.Val) ref.Val {
	if o, ok := other.(guardedFinding); ok {
		other = o.Val
	}
	return g.Val.Equal(other)
}

// findingValue returns a finding for expressions, with its warnings as text.
func findingValue(adapter types.Adapter, f record.Finding) ref.Val {
	f.Warnings = slices.Clone(f.Warnings)
	for i := range f.Warnings {
		f.Warnings[i].Text = f.Warnings[i].String()
	}
	return guardedFinding{Val: adapter.NativeToValue(f), finding: f}
}

func findingValues(adapter types.Adapter, findings []record.Finding) ref.Val {
	out := make([]ref.Val, len(findings))
	for i, f := range findings {
		out[i] = findingValue(adapter, f)
	}
	return types.NewRefValList(adapter, out)
}

// lacks returns an error if a finding does not have the value of a field, or nil.
func lacks(f record.Finding, field string) error {
	missing := false
	switch field {
	case "estimate", "low", "high":
	case "relative":
		missing = f.Relative == nil
	case "minimum_detectable_effect":
		missing = f.MDE == 0
	default:
		return nil
	}
	switch {
	case f.Verdict == record.VerdictInvalid:
		return errInvalid(f)
	case field == "high" && f.OpenAbove():
		return fmt.Errorf("%s at %s has no upper end: no level that was tried lies beyond it for sure", f.Name, cellWords(f.Cell))
	case missing:
		return fmt.Errorf("%s at %s has no %s", f.Name, cellWords(f.Cell), field)
	}
	return nil
}

// errInvalid returns the error for a finding without a figure.
func errInvalid(f record.Finding) error {
	return fmt.Errorf("%s is not valid: %s", describe(f), note.Words(f.Warnings))
}
