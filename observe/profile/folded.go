package profile

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/internal/lines"
)

// Suffixes with which stackcollapse marks frames.
const (
	kernelMark  = "_[k]"
	inlinedMark = "_[i]"
)

// ReadFolded reads folded stacks, as written by stackcollapse-perf.pl and
// others: a line per stack, with its frames from the root joined by semicolons,
// then a space and its count.
func ReadFolded(r io.Reader) (*Profile, error) {
	p := New(KindCPU, UnitSamples)
	p.Period = 1
	number := 0
	for line, err := range lines.Of(r, maxLine) {
		number++
		switch {
		case err != nil:
		case line.Long:
			err = fmt.Errorf("more than %d bytes: %w", maxLine, ErrFormat)
		case len(bytes.TrimSpace(line.Text)) > 0:
			err = p.foldedLine(line.Text)
		}
		if err != nil {
			return nil, fmt.Errorf("folded stacks: line %d: %w", number, err)
		}
	}
	if p.count == 0 {
		return nil, fmt.Errorf("folded stacks: the file holds none: %w", ErrFormat)
	}
	p.noteCut()
	return p, nil
}

func (p *Profile) foldedLine(line []byte) error {
	cut := bytes.LastIndexByte(line, ' ')
	if cut <= 0 {
		return fmt.Errorf("no count after the stack: %w", ErrFormat)
	}
	weight, ok := parseDigits(line[cut+1:])
	if !ok || weight > maxWeight {
		return fmt.Errorf("the count %.40q is not an integer: %w", line[cut+1:], ErrFormat)
	}
	if weight == 0 {
		return nil
	}
	stack := p.stackOf(func(yield func(FrameID) bool) {
		for name := range bytes.SplitSeq(line[:cut], []byte(";")) {
			if !yield(p.Frame(foldedFrame(string(name)))) {
				return
			}
		}
	})
	p.Add(Sample{Stack: stack, Thread: p.Thread(Thread{}), Weight: weight, TimeNS: NoTime})
	return nil
}

// foldedFrame parses a frame with its marks. A module in brackets is a frame
// without a name.
func foldedFrame(name string) Frame {
	var f Frame
	if rest, ok := strings.CutSuffix(name, kernelMark); ok {
		name, f.Kernel = rest, true
	} else if rest, ok := strings.CutSuffix(name, inlinedMark); ok {
		name, f.Inlined = rest, true
	}
	switch {
	case name == "" || name == "[unknown]":
	case len(name) > 2 && strings.HasPrefix(name, "[") && strings.HasSuffix(name, "]"):
		f.Module = name
	default:
		f.Name = readable(name)
	}
	return f
}

// folded formats a frame for folded stacks.
func (f Frame) folded() string {
	name := strings.Map(func(r rune) rune {
		switch r {
		case ';':
			return ':'
		case '\n', '\r':
			return ' '
		}
		return r
	}, f.Label())
	switch {
	case f.Kernel:
		return name + kernelMark
	case f.Inlined:
		return name + inlinedMark
	}
	return name
}

// WriteFolded writes distinct folded stacks in sorted order, with the thread's
// name as the root if known. Values are numbers of samples, as in other
// programs, unless samples have different weights.
func (p *Profile) WriteFolded(w io.Writer) error {
	each := int64(1)
	if p.Unit == UnitNanoseconds && p.Period > 0 {
		each = p.Period
	}
	sums := map[string]int64{}
	type who struct {
		stack StackID
		name  string
	}
	merged := map[who]int64{}
	for s := range p.Samples() {
		merged[who{s.Stack, p.threads[s.Thread].Name}] += s.Weight
	}
	names := make([]string, len(p.frames))
	for i, f := range p.frames {
		names[i] = f.folded()
	}
	for key, weight := range merged {
		var parts []string
		for id := range p.Inner(key.stack) {
			parts = append(parts, names[id])
		}
		if key.name != "" {
			parts = append(parts, Frame{Name: key.name}.folded())
		}
		if len(parts) == 0 {
			parts = []string{"[unknown]"}
		}
		slices.Reverse(parts)
		sums[strings.Join(parts, ";")] += weight
	}
	for _, sum := range sums {
		if sum%each != 0 {
			each = 1 // weights differ
		}
	}
	out := bufio.NewWriter(w)
	for _, stack := range slices.Sorted(maps.Keys(sums)) {
		_, _ = out.WriteString(stack + " " + strconv.FormatInt(sums[stack]/each, 10) + "\n")
	}
	return out.Flush()
}
