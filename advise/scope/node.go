package scope

// node is a value of a resource, in JSON or in protobuf, so that the rules of
// attribution are written once. A missing value is a node that is empty in
// every respect, never nil.
type node interface {
	// get returns the field of that (proto) name. Through a packed message
	// (google.protobuf.Any) it looks into the message.
	get(name string) node
	// each calls f with the elements of a list.
	each(f func(node))
	// members calls f with the entries of a map.
	members(f func(key string, value node))
	// text is the value of a string, otherwise "".
	text() string
	// size is what the value takes of its parent, in bytes.
	size() int64
}

// path follows fields.
func path(n node, names ...string) node {
	for _, name := range names {
		n = n.get(name)
	}
	return n
}
