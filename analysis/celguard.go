package analysis

import (
	"fmt"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
)

// findingType is the type of findings in expressions.
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

// findingValues returns findings for expressions.
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
