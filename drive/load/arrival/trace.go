package arrival

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// MaxTraceRequests limits a recorded trace and its memory.
const MaxTraceRequests = 10_000_000

// maxTraceLine bounds one line of a trace file, in bytes.
const maxTraceLine = 4096

// maxTracePayload limits a payload in a trace, in bytes.
const maxTracePayload = 64 << 20

// Trace is a recorded schedule.
type Trace struct {
	// OffsetsNS are the intended offsets in nanoseconds; they never decrease.
	OffsetsNS []int64 `json:"offsets_ns"`
	// PayloadBytes gives each request's payload size; nil for the run's own.
	PayloadBytes []int32 `json:"payload_bytes,omitempty"`
}

// Validate checks the trace.
func (t *Trace) Validate() error {
	if len(t.OffsetsNS) == 0 {
		return fmt.Errorf("it has no requests")
	}
	if len(t.OffsetsNS) > MaxTraceRequests {
		return fmt.Errorf("%d requests are more than %d", len(t.OffsetsNS), MaxTraceRequests)
	}
	if t.PayloadBytes != nil && len(t.PayloadBytes) != len(t.OffsetsNS) {
		return fmt.Errorf("%d payload sizes for %d requests", len(t.PayloadBytes), len(t.OffsetsNS))
	}
	last := int64(0)
	for i, at := range t.OffsetsNS {
		if at < last {
			return fmt.Errorf("offsets_ns[%d]: %d comes after %d; offsets must not decrease", i, at, last)
		}
		last = at
	}
	for i, n := range t.PayloadBytes {
		if n < 0 || n > maxTracePayload {
			return fmt.Errorf("payload_bytes[%d]: %d is not between 0 and %d", i, n, maxTracePayload)
		}
	}
	return nil
}

// MaxPayload returns the largest payload of the trace in bytes; -1 if it has none.
func (t *Trace) MaxPayload() int {
	if len(t.PayloadBytes) == 0 {
		return -1
	}
	return int(slices.Max(t.PayloadBytes))
}

// Replay returns the trace's requests up to durationS seconds.
func (t *Trace) Replay(durationS float64) Schedule {
	return &replay{trace: t, end: int64(math.Round(durationS * 1e9))}
}

type replay struct {
	trace *Trace
	i     int
	end   int64
}

// Next implements [Schedule].
func (r *replay) Next() (Request, bool) {
	if r.i >= len(r.trace.OffsetsNS) || r.trace.OffsetsNS[r.i] >= r.end {
		return Request{}, false
	}
	req := Request{Offset: r.trace.OffsetsNS[r.i], PayloadBytes: -1}
	if r.trace.PayloadBytes != nil {
		req.PayloadBytes = r.trace.PayloadBytes[r.i]
	}
	r.i++
	return req, true
}

// ParseTrace reads a recorded trace: one request per line, its intended offset in seconds,
// then optionally white space or a comma and its payload size in bytes. Either every line
// has a size or none. Empty lines and lines that begin with # are skipped. Offsets must not
// decrease. Errors name file (as given) and line.
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
		if len(fields) < 1 || len(fields) > 2 {
			return nil, fail("want OFFSET_SECONDS [PAYLOAD_BYTES], got %.60q", text)
		}
		seconds, err := strconv.ParseFloat(fields[0], 64)
		if err != nil || !(seconds >= 0 && seconds < 1e9) {
			return nil, fail("offset %.40q: want seconds since the start, not negative", fields[0])
		}
		at := int64(math.Round(seconds * 1e9))
		if at < last {
			return nil, fail("offset %s: the request before it is later; offsets must not decrease", fields[0])
		}
		last = at
		if len(t.OffsetsNS) == MaxTraceRequests {
			return nil, fail("more than %d requests", MaxTraceRequests)
		}
		if len(t.OffsetsNS) > 0 && (t.PayloadBytes != nil) != (len(fields) == 2) {
			return nil, fail("either every line has a payload size or none")
		}
		t.OffsetsNS = append(t.OffsetsNS, at)
		if len(fields) == 2 {
			n, err := strconv.ParseInt(fields[1], 10, 32)
			if err != nil || n < 0 || n > maxTracePayload {
				return nil, fail("payload size %.40q: want bytes, between 0 and %d", fields[1], maxTracePayload)
			}
			t.PayloadBytes = append(t.PayloadBytes, int32(n))
		}
	}
	if err := sc.Err(); err != nil {
		line++
		if err == bufio.ErrTooLong {
			return nil, fail("the line is longer than %d bytes", maxTraceLine)
		}
		return nil, fail("%v", err)
	}
	if len(t.OffsetsNS) == 0 {
		return nil, fmt.Errorf("%s: no requests in it", file)
	}
	return t, nil
}
