package scope

import (
	"bytes"
	"encoding/json"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// node is a value of a resource in JSON or protobuf, so that the attribution rules are written only
// once. A missing value is an empty node, never nil.
type node interface {
	// get returns the field with this proto name. It looks through a packed message
	// (google.protobuf.Any).
	get(name string) node
	// each calls f with each element of a list.
	each(f func(node))
	// members calls f with each entry of a map.
	members(f func(key string, value node))
	// text returns the value of a string, or "" for other types.
	text() string
	// size is the number of bytes that the value takes in its parent.
	size() int64
}

// path follows a path of fields.
func path(n node, names ...string) node {
	for _, name := range names {
		n = n.get(name)
	}
	return n
}

// jsonNode is a JSON value that is known to be well-formed, since the decoder has read it; nil is
// the missing value. It finds fields by skipping over others, without building a tree.
type jsonNode []byte

func (n jsonNode) size() int64 { return int64(len(n)) }

func (n jsonNode) get(name string) node {
	var found jsonNode
	n.walk(func(key, value []byte) bool {
		if string(unquoted(key)) == name {
			found = value
			return false
		}
		return true
	})
	return found
}

func (n jsonNode) members(f func(string, node)) {
	n.walk(func(key, value []byte) bool {
		f(jsonNode(key).text(), jsonNode(value))
		return true
	})
}

func (n jsonNode) each(f func(node)) {
	if len(n) == 0 || n[0] != '[' {
		return
	}
	for i := blank(n, 1); i < len(n) && n[i] != ']'; {
		end := skip(n, i)
		f(n[i:end])
		if i = blank(n, end); i < len(n) && n[i] == ',' {
			i = blank(n, i+1)
		}
	}
}

func (n jsonNode) text() string {
	if len(n) == 0 || n[0] != '"' {
		return ""
	}
	if bytes.IndexByte(n, '\\') < 0 {
		return string(unquoted(n))
	}
	var s string
	if json.Unmarshal(n, &s) != nil {
		return ""
	}
	return s
}

// walk calls f with each key (including quotes) and value of an object until f returns false.
func (n jsonNode) walk(f func(key, value []byte) bool) {
	if len(n) == 0 || n[0] != '{' {
		return
	}
	for i := blank(n, 1); i < len(n) && n[i] == '"'; {
		end := skip(n, i)
		value := blank(n, blank(n, end)+1) // after the colon
		valueEnd := skip(n, value)
		if value >= len(n) || !f(n[i:end], n[value:valueEnd]) {
			return
		}
		if i = blank(n, valueEnd); i < len(n) && n[i] == ',' {
			i = blank(n, i+1)
		}
	}
}

func unquoted(s []byte) []byte {
	if len(s) < 2 {
		return nil
	}
	return s[1 : len(s)-1]
}

// blank returns the first position from i on that is not whitespace.
func blank(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return min(i, len(b))
}

// skip returns the position after the value that begins at i.
func skip(b []byte, i int) int {
	if i >= len(b) {
		return len(b)
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		for depth := 0; i < len(b); i++ {
			switch b[i] {
			case '"':
				i = skipString(b, i) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
		return len(b)
	}
	for i < len(b) && bytes.IndexByte([]byte(" \n\t\r,]}"), b[i]) < 0 {
		i++
	}
	return i
}

func skipString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// protoNode is a value in a protobuf message; the zero value is the missing one. A
// google.protobuf.Struct looks like the map that it represents.
type protoNode struct {
	value protoreflect.Value
	field protoreflect.FieldDescriptor // for a list or a map, otherwise nil
	bytes int64
}

func (n protoNode) size() int64 { return n.bytes }

func (n protoNode) message() protoreflect.Message {
	if n.field != nil || !n.value.IsValid() {
		return nil
	}
	m, ok := n.value.Interface().(protoreflect.Message)
	if !ok || !m.IsValid() {
		return nil
	}
	return m
}

// ofMessage makes a node from a message, or from its content if it is packed.
func ofMessage(m protoreflect.Message, bytes int64) protoNode {
	switch inner := m.Interface().(type) {
	case *anypb.Any:
		// A message of an unknown type stays packed and shows no fields.
		if unpacked, err := inner.UnmarshalNew(); err == nil {
			return ofMessage(unpacked.ProtoReflect(), bytes)
		}
	case *structpb.Value:
		switch v := inner.GetKind().(type) {
		case *structpb.Value_StructValue:
			return ofMessage(v.StructValue.ProtoReflect(), bytes)
		case *structpb.Value_ListValue:
			list := v.ListValue.ProtoReflect()
			return ofField(list, list.Descriptor().Fields().ByName("values"), bytes)
		case *structpb.Value_StringValue:
			return protoNode{value: protoreflect.ValueOfString(v.StringValue), bytes: bytes}
		}
	}
	return protoNode{value: protoreflect.ValueOfMessage(m), bytes: bytes}
}

// ofField makes a node from a field that is set.
func ofField(m protoreflect.Message, field protoreflect.FieldDescriptor, bytes int64) protoNode {
	value := m.Get(field)
	switch {
	case field.IsList(), field.IsMap():
		return protoNode{value: value, field: field, bytes: bytes}
	case field.Message() != nil:
		return ofMessage(value.Message(), bytes)
	}
	return protoNode{value: value, bytes: bytes}
}

func (n protoNode) get(name string) node {
	if n.field != nil && n.field.IsMap() {
		return n.entry(name)
	}
	m := n.message()
	if m == nil {
		return protoNode{}
	}
	if s, ok := m.Interface().(*structpb.Struct); ok {
		value, ok := s.GetFields()[name]
		if !ok {
			return protoNode{}
		}
		return ofMessage(value.ProtoReflect(), int64(proto.Size(value)))
	}
	field := m.Descriptor().Fields().ByName(protoreflect.Name(name))
	if field == nil || !m.Has(field) {
		return protoNode{}
	}
	var bytes int64
	if field.Message() != nil && !field.IsList() && !field.IsMap() {
		bytes = elementSize(field, m.Get(field).Message())
	}
	return ofField(m, field, bytes)
}

// elementSize returns the number of bytes that a message takes in its parent: tag, length, content.
func elementSize(field protoreflect.FieldDescriptor, m protoreflect.Message) int64 {
	return int64(protowire.SizeTag(field.Number()) + protowire.SizeBytes(proto.Size(m.Interface())))
}

func (n protoNode) each(f func(node)) {
	if n.field == nil || !n.field.IsList() {
		return
	}
	list := n.value.List()
	for i := range list.Len() {
		if n.field.Message() != nil {
			m := list.Get(i).Message()
			f(ofMessage(m, elementSize(n.field, m)))
		} else {
			f(protoNode{value: list.Get(i)})
		}
	}
}

func (n protoNode) members(f func(string, node)) {
	if n.field == nil || !n.field.IsMap() || n.field.MapValue().Message() == nil {
		return
	}
	n.value.Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
		entry := protowire.SizeTag(1) + protowire.SizeBytes(len(key.String())) +
			protowire.SizeTag(2) + protowire.SizeBytes(proto.Size(value.Message().Interface()))
		f(key.String(), ofMessage(value.Message(), int64(protowire.SizeTag(n.field.Number())+protowire.SizeBytes(entry))))
		return true
	})
}

func (n protoNode) text() string {
	if n.field != nil || !n.value.IsValid() {
		return ""
	}
	s, _ := n.value.Interface().(string)
	return s
}

// entry finds a key in a map of messages, such as metadata.filter_metadata.
func (n protoNode) entry(name string) node {
	var found node = protoNode{}
	n.members(func(key string, value node) {
		if key == name {
			found = value
		}
	})
	return found
}
