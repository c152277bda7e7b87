package profile

import (
	"cmp"
	"slices"
)

// Node is a function as it was called from one place, with its weight and
// those it called, in the order of their names.
type Node struct {
	Frame Frame
	Total int64
	Self  int64
	Calls []*Node
}

// Filter says which part of a profile a tree is of.
type Filter struct {
	Thread string // name of the threads; "" for all
	Space  string // [SpaceAll], [SpaceUser], [SpaceKernel]
	Invert bool   // the innermost function is the root: who called it
}

// Spaces of frames.
const (
	SpaceAll    = ""
	SpaceUser   = "user"   // frames of the kernel are left out: their time is their caller's
	SpaceKernel = "kernel" // only the kernel's frames, and only samples that have some
)

// Tree adds stacks up to a tree of calls. Its root is no function.
func (p *Profile) Tree(o Filter) *Node {
	root := &Node{Frame: Frame{Name: "all"}}
	type edge struct {
		parent *Node
		frame  Frame
	}
	at := map[edge]*Node{}
	var ids []FrameID
	merged := map[StackID]int64{}
	for s := range p.Samples() {
		if o.Thread == "" || p.threads[s.Thread].Name == o.Thread {
			merged[s.Stack] += s.Weight
		}
	}
	for stack, weight := range merged {
		ids = slices.AppendSeq(ids[:0], p.Inner(stack))
		if !o.Invert {
			slices.Reverse(ids)
		}
		ids = slices.DeleteFunc(ids, func(id FrameID) bool {
			return o.Space == SpaceUser && p.frames[id].Kernel || o.Space == SpaceKernel && !p.frames[id].Kernel
		})
		if o.Space == SpaceKernel && len(ids) == 0 {
			continue
		}
		n := root
		n.Total += weight
		for _, id := range ids {
			key := edge{n, p.frames[id]}
			next := at[key]
			if next == nil {
				next = &Node{Frame: p.frames[id]}
				at[key] = next
				n.Calls = append(n.Calls, next)
			}
			next.Total += weight
			n = next
		}
		n.Self += weight
	}
	root.sort()
	return root
}

func (n *Node) sort() {
	slices.SortFunc(n.Calls, func(a, b *Node) int {
		return cmp.Or(cmp.Compare(a.Frame.Label(), b.Frame.Label()), cmp.Compare(a.Frame.Module, b.Frame.Module), compareBool(a.Frame.Kernel, b.Frame.Kernel), compareBool(a.Frame.Inlined, b.Frame.Inlined))
	})
	for _, c := range n.Calls {
		c.sort()
	}
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// Depth is the number of functions on the longest path below the node, itself
// included.
func (n *Node) Depth() int {
	deepest := 0
	for _, c := range n.Calls {
		deepest = max(deepest, c.Depth())
	}
	return deepest + 1
}
