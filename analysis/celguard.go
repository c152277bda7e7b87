package analysis

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/meshtrial/meshtrial/record"
)

// findingType is what a finding is called in expressions.
const findingType = "record.Finding"

// guarded makes an environment in which a figure that a finding does not have
// is an error, not the zero that stands in its record: an assertion about it
// can be neither true nor false.
func guarded(env *cel.Env) (*cel.Env, error) {
	return cel.CustomTypeProvider(guardedTypes{env.CELTypeProvider()})(env)
}

// guardedTypes guards the fields of findings.
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

// lacks says why a finding has no such field to judge by; nil if it has.
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

// errInvalid says that a finding is none.
func errInvalid(f record.Finding) error {
	return fmt.Errorf("%s is not valid: %s", describe(f), strings.Join(f.Warnings, "; "))
}
