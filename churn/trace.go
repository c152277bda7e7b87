package churn

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Trace is a recorded sequence of changes.
type Trace struct {
	Changes []TraceChange
}

// TraceChange is one of them.
type TraceChange struct {
	OffsetNS int64  // since the start
	Kind     string // one of Kinds, but mixed
}

// maxTraceLine bounds a line of a trace file, in bytes.
const maxTraceLine = 4096

// Validate says what is wrong with the trace.
func (t *Trace) Validate() error {
	if len(t.Changes) == 0 {
		return errors.New("churn: the trace has no changes")
	}
	if len(t.Changes) > MaxChanges {
		return fmt.Errorf("churn: the trace's %d changes are more than %d", len(t.Changes), MaxChanges)
	}
	last := int64(0)
	for i, c := range t.Changes {
		if c.OffsetNS < last {
			return fmt.Errorf("churn: change %d of the trace is before the one it follows", i)
		}
		last = c.OffsetNS
		if !traceable(c.Kind) {
			return fmt.Errorf("churn: change %d of the trace: no kind of change is called %.40q", i, c.Kind)
		}
	}
	return nil
}

func traceable(kind string) bool { return kind != KindMixed && slices.Contains(Kinds(), kind) }

// ParseTrace reads a recorded trace: a change a line, its offset in seconds
// since the start and its kind, with white space or a comma between. Empty
// lines and lines that begin with # are skipped. Offsets must not decrease.
// Errors name file (as given) and line; memory is bounded by [MaxChanges].
func ParseTrace(file string, r io.Reader) (*Trace, error) {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, maxTraceLine), maxTraceLine)
	t := &Trace{}
	line, last := 0, int64(0)
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%s:%d: %s", file, line, fmt.Sprintf(format, args...))
	}
	for sc.Scan() {
		line++
		text := strings.TrimSpace(sc.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		fields := strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ' ' || c == '\t' })
		if len(fields) != 2 {
			return nil, fail("want OFFSET_SECONDS KIND, got %.60q", text)
		}
		seconds, err := strconv.ParseFloat(fields[0], 64)
		if err != nil || !(seconds >= 0 && seconds < 1e9) {
			return nil, fail("offset %.40q: want seconds since the start, not negative", fields[0])
		}
		at := int64(math.Round(seconds * 1e9))
		if at < last {
			return nil, fail("offset %.40s: the change before it is later; offsets must not decrease", fields[0])
		}
		last = at
		if !traceable(fields[1]) {
			return nil, fail("kind %.40q: want one of %s", fields[1], strings.Join(slices.DeleteFunc(Kinds(), func(k string) bool { return k == KindMixed }), ", "))
		}
		if len(t.Changes) == MaxChanges {
			return nil, fail("more than %d changes", MaxChanges)
		}
		t.Changes = append(t.Changes, TraceChange{OffsetNS: at, Kind: fields[1]})
	}
	if err := sc.Err(); err != nil {
		line++
		if errors.Is(err, bufio.ErrTooLong) {
			return nil, fail("the line is longer than %d bytes", maxTraceLine)
		}
		return nil, fail("%v", err)
	}
	if len(t.Changes) == 0 {
		return nil, fmt.Errorf("%s: no changes in it", file)
	}
	return t, nil
}
