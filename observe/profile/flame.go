package profile

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"html"
	"slices"
	"strings"
	"unicode"
)

// Node is a function as it was called from one place, with its weight and
// those it called, in the order of their names.
type Node struct {
	Frame Frame
	Total int64
	Calls []*Node
}

// Tree adds stacks up to a tree of calls. Its root is no function.
func (p *Profile) Tree() *Node {
	root := &Node{Frame: Frame{Name: "all"}}
	nodes := make([]*Node, len(p.paths)) // by path
	nodes[0] = root
	weights := p.pathWeights()
	root.Total = weights[0]
	for path := 1; path < len(p.paths); path++ {
		if weights[path] > 0 {
			parent := nodes[p.paths[path].parent]
			nodes[path] = &Node{Frame: p.frames[p.paths[path].frame], Total: weights[path]}
			parent.Calls = append(parent.Calls, nodes[path])
		}
	}
	for _, n := range nodes {
		if n != nil {
			slices.SortStableFunc(n.Calls, func(a, b *Node) int {
				return cmp.Or(cmp.Compare(a.Frame.Label(), b.Frame.Label()), cmp.Compare(a.Frame.Module, b.Frame.Module))
			})
		}
	}
	return root
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

// Sizes of a flame graph, in pixels.
const (
	flameWidth  = 1200
	flameRow    = 17
	flameTitle  = 40
	flameLetter = 6.6 // width of a letter of 11 px monospace
	flameThin   = 0.2 // boxes thinner than this are left out
)

// maxFlameRows bounds the height of a picture.
const maxFlameRows = 256

// Flame draws a flame graph as a self-contained SVG: each box is a function, as
// wide as its share of the total, above its caller, with a tooltip. The same
// stacks give the same picture.
func (p *Profile) Flame(title string) string {
	root := p.Tree()
	rows := min(root.Depth(), maxFlameRows)
	height := flameTitle + rows*flameRow + 10
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="100%%" `+
		`font-family="monospace" font-size="11">`+"\n", flameWidth, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", flameWidth, height)
	fmt.Fprintf(&b, `<text x="10" y="22" font-size="14">%s</text>`+"\n", html.EscapeString(printable(title)))
	if root.Total > 0 {
		drawFlame(&b, root, root.Total, 0, height-10-flameRow, p.Unit)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// printable replaces characters that XML does not allow or that hide text.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '\ufffd'
		}
		return r
	}, s)
}

// drawFlame draws a function and those that it called.
func drawFlame(b *strings.Builder, n *Node, total int64, x float64, y int, unit string) {
	width := float64(n.Total) / float64(total) * flameWidth
	if width < flameThin || y < flameTitle-flameRow {
		return
	}
	label := printable(n.Frame.Label())
	name := html.EscapeString(label)
	fmt.Fprintf(b, `<g><title>%s: %s, %.2f%%</title>`+
		`<rect x="%.2f" y="%d" width="%.2f" height="%d" fill="%s" stroke="#fff" stroke-width="0.3"/>`,
		name, inUnit(n.Total, unit), 100*float64(n.Total)/float64(total), x, y, width, flameRow-1, flameColour(n.Frame))
	if letters := int((width - 4) / flameLetter); letters >= 3 {
		fmt.Fprintf(b, `<text x="%.2f" y="%d">%s</text>`, x+2, y+12, html.EscapeString(shortName(label, letters)))
	}
	b.WriteString("</g>\n")
	for _, called := range n.Calls {
		drawFlame(b, called, total, x, y-flameRow, unit)
		x += float64(called.Total) / float64(total) * flameWidth
	}
}

func inUnit(value int64, unit string) string {
	if unit == UnitNanoseconds {
		return fmt.Sprintf("%.1f ms", float64(value)/1e6)
	}
	return fmt.Sprintf("%d %s", value, unit)
}

// shortName cuts the import path off a function's name, and then what is too
// long.
func shortName(name string, letters int) string {
	// The path ends at the last slash before a receiver or arguments.
	end := strings.IndexAny(name, "([")
	if end < 0 {
		end = len(name)
	}
	if slash := strings.LastIndex(name[:end], "/"); slash >= 0 {
		name = name[slash+1:]
	}
	if runes := []rune(name); len(runes) > letters {
		return string(runes[:letters-1]) + "…"
	}
	return name
}

// flameColour has a hue for the kernel, Go's runtime, the network, protobuf and
// the rest, and a shade for each function.
func flameColour(f Frame) string {
	h := fnv.New32a()
	h.Write([]byte(f.Label()))
	shade := int(h.Sum32() % 30)
	name, hue := f.Name, 35
	has := func(part string) bool { return strings.Contains(name, part) }
	switch {
	case f.Kernel:
		hue = 0
	case strings.HasPrefix(name, "runtime."):
		hue = 210
	case has("grpc") || strings.HasPrefix(name, "net.") || strings.HasPrefix(name, "syscall."):
		hue = 150
	case has("protobuf"), has("go-control-plane"), has("vtproto"):
		hue = 280
	}
	return fmt.Sprintf("hsl(%d,65%%,%d%%)", hue+shade/3, 62+shade/2)
}
