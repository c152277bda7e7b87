package observe

import (
	"fmt"
	"hash/fnv"
	"html"
	"sort"
	"strings"
)

// Measures of a flame graph, in pixels.
const (
	flameWidth  = 1200
	flameRow    = 17
	flameTitle  = 40
	flameLetter = 6.6 // width of a letter of 11 px monospace
	flameThin   = 0.2 // boxes thinner than this are left out
)

// flameNode is a function as it was called from one place.
type flameNode struct {
	name  string
	value int64
	calls map[string]*flameNode
}

// Flame draws a flame graph as a self-contained SVG: each box a function, as
// wide as its share of the total, above the one that called it. Boxes name
// themselves and their share when pointed at. It is the same for the same
// stacks.
func (s Stacks) Flame(title string) string {
	root := &flameNode{name: "all", calls: map[string]*flameNode{}}
	depth := 1
	for _, stack := range s.Stack {
		root.value += stack.Value
		at := root
		for _, frame := range stack.Frames {
			next := at.calls[frame]
			if next == nil {
				next = &flameNode{name: frame, calls: map[string]*flameNode{}}
				at.calls[frame] = next
			}
			next.value += stack.Value
			at = next
		}
		depth = max(depth, len(stack.Frames)+1)
	}
	height := flameTitle + depth*flameRow + 10
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="100%%" font-family="monospace" font-size="11">`+"\n", flameWidth, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", flameWidth, height)
	fmt.Fprintf(&b, `<text x="10" y="22" font-size="14">%s</text>`+"\n", html.EscapeString(title))
	if root.value > 0 {
		drawFlame(&b, root, root.value, 0, height-10-flameRow, s.Unit)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// drawFlame draws a box and those above it.
func drawFlame(b *strings.Builder, n *flameNode, total int64, x float64, y int, unit string) {
	width := float64(n.value) / float64(total) * flameWidth
	if width < flameThin {
		return
	}
	name := html.EscapeString(n.name)
	fmt.Fprintf(b, `<g><title>%s: %s, %.2f%%</title><rect x="%.2f" y="%d" width="%.2f" height="%d" fill="%s" stroke="#fff" stroke-width="0.3"/>`,
		name, inUnit(n.value, unit), 100*float64(n.value)/float64(total), x, y, width, flameRow-1, flameColour(n.name))
	if letters := int((width - 4) / flameLetter); letters >= 3 {
		fmt.Fprintf(b, `<text x="%.2f" y="%d">%s</text>`, x+2, y+12, html.EscapeString(shortName(n.name, letters)))
	}
	b.WriteString("</g>\n")
	names := make([]string, 0, len(n.calls))
	for called := range n.calls {
		names = append(names, called)
	}
	sort.Strings(names)
	for _, called := range names {
		drawFlame(b, n.calls[called], total, x, y-flameRow, unit)
		x += float64(n.calls[called].value) / float64(total) * flameWidth
	}
}

// inUnit writes a value for people.
func inUnit(value int64, unit string) string {
	if unit == "nanoseconds" {
		return fmt.Sprintf("%.1f ms", float64(value)/1e6)
	}
	return fmt.Sprintf("%d %s", value, unit)
}

// shortName cuts the import path off a function's name, and then its end.
func shortName(name string, letters int) string {
	// The path ends at the last slash before the receiver or arguments.
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

// flameColour gives the runtime, the network, protobuf and the rest hues of
// their own, a little different for each function.
func flameColour(name string) string {
	h := fnv.New32a()
	h.Write([]byte(name))
	shade := int(h.Sum32() % 30)
	hue := 35
	switch {
	case strings.HasPrefix(name, "runtime."):
		hue = 210
	case strings.Contains(name, "grpc") || strings.HasPrefix(name, "net.") || strings.HasPrefix(name, "syscall."):
		hue = 150
	case strings.Contains(name, "protobuf") || strings.Contains(name, "go-control-plane") || strings.Contains(name, "vtproto"):
		hue = 280
	}
	return fmt.Sprintf("hsl(%d,65%%,%d%%)", hue+shade/3, 62+shade/2)
}
