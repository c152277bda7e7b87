package findings

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// A field is a property of values of type T in expressions: a number, a text, a boolean, an object,
// or numbers by name. Its unit is s, ms, rps, share (of 1) or "".
type field[T any] struct {
	name string
	unit string
	of   func(T) any
}

// An object is a type of values in expressions, defined by a table of fields.
type object[T any] struct {
	kind *cel.Type
}

// objectFields holds the fields of all objects, by type name and field name.
var objectFields = map[string]map[string]*types.FieldType{}

// newObject defines an object by its fields. Their types are inferred from empty.
func newObject[T any](name string, fields []field[T], empty T) object[T] {
	byName := map[string]*types.FieldType{}
	for _, f := range fields {
		byName[f.name] = &types.FieldType{
			Type:    kindOf(f.of(empty)),
			IsSet:   func(any) bool { return true },
			GetFrom: func(v any) (any, error) { return f.of(v.(T)), nil },
		}
		if f.unit != "" {
			fieldUnits[f.name] = f.unit
		}
	}
	objectFields[name] = byName
	return object[T]{cel.ObjectType(name)}
}

// of wraps a value for expressions.
func (o object[T]) of(v T) ref.Val { return objectValue{o.kind, v} }

// kindOf returns the CEL type of a field's value.
func kindOf(v any) *cel.Type {
	switch v := v.(type) {
	case float64:
		return cel.DoubleType
	case int64:
		return cel.IntType
	case string:
		return cel.StringType
	case bool:
		return cel.BoolType
	case map[string]int64:
		return cel.MapType(cel.StringType, cel.IntType)
	case objectValue:
		return v.kind
	}
	panic(fmt.Sprintf("expressions know no %T", v))
}

// objectValue is an object's value. Expressions only read its fields.
type objectValue struct {
	kind  *cel.Type
	value any
}

func (o objectValue) ConvertToNative(to reflect.Type) (any, error) {
	return nil, fmt.Errorf("a %s cannot become a %v", o.kind, to)
}

func (o objectValue) ConvertToType(to ref.Type) ref.Val {
	if to == types.TypeType {
		return o.kind
	}
	return types.NewErr("a %s cannot become a %s", o.kind, to.TypeName())
}

func (o objectValue) Equal(other ref.Val) ref.Val {
	return types.Bool(reflect.DeepEqual(o.value, other.Value()))
}

func (o objectValue) Type() ref.Type { return o.kind }

func (o objectValue) Value() any { return o.value }

// objects provides the types and fields of objects.
type objects struct{ types.Provider }

func (p objects) FindStructType(name string) (*types.Type, bool) {
	if _, ok := objectFields[name]; ok {
		return types.NewTypeTypeWithParam(cel.ObjectType(name)), true
	}
	return p.Provider.FindStructType(name)
}

func (p objects) FindStructFieldType(name, of string) (*types.FieldType, bool) {
	if fields, ok := objectFields[name]; ok {
		found, ok := fields[of]
		return found, ok
	}
	return p.Provider.FindStructFieldType(name, of)
}
