package yamltree

import (
	"fmt"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// convert converts a node of the library, with aliases expanded.
func (r *reader) convert(n ast.Node, depth int) (*Node, *Error) {
	if r.values++; r.values > r.Values {
		return nil, r.fail(n, "aliases count as often as they are used", "more than %d values", r.Values)
	}
	if depth > r.Depth {
		return nil, r.fail(n, "", "nested too deep")
	}
	out := &Node{}
	out.Line, out.Column = r.place(firstToken(n))
	switch n := n.(type) {
	case *ast.NullNode:
		out.Kind = Null
	case *ast.StringNode:
		out.Text = n.Value
		out.Quoted = n.Token.Type == token.SingleQuoteType || n.Token.Type == token.DoubleQuoteType
	case *ast.LiteralNode:
		out.Text, out.Quoted = n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		out.Text = n.GetToken().Value
	case *ast.MappingNode:
		return out, r.mapping(out, n.Values, depth)
	case *ast.MappingValueNode:
		return out, r.mapping(out, []*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		out.Kind = Sequence
		for _, v := range n.Values {
			if v == nil {
				return nil, r.fail(n, "", "an entry of the list is empty")
			}
			item, err := r.convert(v, depth+1)
			if err != nil {
				return nil, err
			}
			out.Values = append(out.Values, item)
		}
	case *ast.AnchorNode:
		switch {
		case !r.Aliases:
			return nil, r.noAliases(n)
		case n.Name == nil || n.Value == nil:
			return nil, r.fail(n, "", "an anchor without a name or value")
		}
		r.anchors[n.Name.GetToken().Value] = n.Value
		return r.convert(n.Value, depth+1)
	case *ast.AliasNode:
		return r.alias(n, depth)
	case *ast.TagNode:
		return nil, r.fail(n, "leave the tag out", "a %s has no tags", r.What)
	case *ast.MergeKeyNode:
		return nil, r.noMerge(n)
	default:
		return nil, r.fail(n, "", "a %s cannot hold this", r.What)
	}
	return out, nil
}

func (r *reader) noAliases(n ast.Node) *Error {
	return r.fail(n, "write the values out", "a %s has no anchors and aliases", r.What)
}

func (r *reader) noMerge(n ast.Node) *Error {
	return r.fail(n, "write the fields out", "a %s has no merge keys", r.What)
}

func (r *reader) alias(n *ast.AliasNode, depth int) (*Node, *Error) {
	if !r.Aliases {
		return nil, r.noAliases(n)
	}
	if n.Value == nil {
		return nil, r.fail(n, "", "an alias without a name")
	}
	name := n.Value.GetToken().Value
	to, ok := r.anchors[name]
	if !ok {
		return nil, r.fail(n, "anchors come before their aliases", "there is no anchor &%s", name)
	}
	if r.open[name] {
		return nil, r.fail(n, "", "alias *%s contains itself", name)
	}
	r.open[name] = true
	defer delete(r.open, name)
	return r.convert(to, depth+1)
}

func (r *reader) mapping(out *Node, values []*ast.MappingValueNode, depth int) *Error {
	out.Kind = Mapping
	seen := make(map[string]int, len(values))
	for _, v := range values {
		if v == nil || v.Key == nil || v.Value == nil {
			return &Error{Line: out.Line, Column: out.Column, Msg: "a field lacks its name or value"}
		}
		if v.Key.IsMergeKey() {
			return r.noMerge(v.Key)
		}
		key, err := r.convert(v.Key, depth+1)
		if err != nil {
			return err
		}
		if key.Kind != Scalar {
			return r.fail(v.Key, "", "a field's name must be a word")
		}
		if first := seen[key.Text]; first > 0 {
			return r.fail(v.Key, fmt.Sprintf("the first is at line %d", first), "field %q is given twice", clip(key.Text))
		}
		seen[key.Text] = key.Line
		value, err := r.convert(v.Value, depth+1)
		if err != nil {
			return err
		}
		// A missing value gets the position of its name.
		if value.Kind == Null && value.Line < key.Line {
			value.Line, value.Column = key.Line, key.Column
		}
		out.Keys = append(out.Keys, key)
		out.Values = append(out.Values, value)
	}
	return nil
}

func clip(s string) string {
	if runes := []rune(s); len(runes) > 40 {
		return string(runes[:40]) + "..."
	}
	return s
}
