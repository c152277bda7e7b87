package profile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/internal/lines"
)

// maxLine limits the length of a text line, in bytes: C++ template symbols can
// be very long.
const maxLine = 1 << 20

// ErrFormat is returned for a file that is not in the expected format.
var ErrFormat = errors.New("not a profile")

// scriptReader reads the output of perf script: see the section FIELDS of its
// manual. A sample is a line
//
//	COMM PID/TID [CPU] SECONDS: PERIOD EVENT:
//
// then a line per frame, innermost first, and an empty line:
//
//	ADDRESS SYMBOL+0xOFFSET (MODULE)
//
// Without a call graph the only frame is in the sample's line. CPU, PERIOD,
// MODULE, PID, and one of SECONDS and EVENT may be missing (-F). Indentation of
// frames is optional because copies may have lost it.
type scriptReader struct {
	p    *Profile
	keep func(module string) bool // whether to keep offsets; may be nil
	kept map[string]bool          // by module: the result of keep

	frames  map[string]FrameID  // by symbol and module as written in the line
	threads map[string]ThreadID // by name and numbers as written in the line
	key     []byte              // scratch

	open    bool      // a sample's header was read
	skipped bool      // a header of another event was read
	alone   bool      // its only frame is in its line
	deep    bool      // it has too many frames
	head    Sample    // of the open sample
	stack   []FrameID // of the open sample, innermost first
	inlined []string  // names whose module is on the next frame

	timed  bool  // a header had a time
	others int64 // samples of other events
	broken int64 // lines that perf script does not print
	lost   int64 // PERF_RECORD_LOST
}

// ReadPerfScript reads the output of perf script. Memory grows with the
// distinct content of the file, not with its size. If there are several events,
// it uses the first. The error wraps [ErrFormat] if the file has no sample in
// this format.
func ReadPerfScript(r io.Reader) (*Profile, error) {
	return ReadPerfScriptOffsets(r, nil)
}

// ReadPerfScriptOffsets is like [ReadPerfScript], but keeps the file offsets of
// frames in modules for which keep returns true, so that [Profile.Symbolise]
// can name them. Each offset is then a separate frame, which takes memory. The
// offset of a caller is a byte of the call instruction, because perf's address
// is the return address.
func ReadPerfScriptOffsets(r io.Reader, keep func(module string) bool) (*Profile, error) {
	s := scriptReader{p: New(KindCPU, UnitSamples), keep: keep, kept: map[string]bool{},
		frames: map[string]FrameID{}, threads: map[string]ThreadID{}}
	for line, err := range lines.Of(r, maxLine) {
		switch {
		case err != nil:
			return nil, fmt.Errorf("perf script: %w", err)
		case line.Long:
			return nil, fmt.Errorf("perf script: a line of more than %d bytes: %w", maxLine, ErrFormat)
		case line.Cut && s.open && !bytes.HasSuffix(bytes.TrimRight(line.Text, " \t"), []byte(")")):
			s.open = false // the last sample is truncated in the middle of a line
			return s.finish(true)
		}
		if s.line(line.Text); s.p.count == 0 && s.broken > 1000 {
			break
		}
	}
	s.end()
	return s.finish(false)
}

func (s *scriptReader) finish(cut bool) (*Profile, error) {
	p := s.p
	if p.count == 0 || !s.timed && len(p.frames) == 0 { // prose may resemble headers without a time
		return nil, fmt.Errorf("perf script: no sample in the file (%d lines are of another form): %w", s.broken, ErrFormat)
	}
	note := func(format string, args ...any) { p.Notes = append(p.Notes, fmt.Sprintf(format, args...)) }
	if cut {
		note("the file ends in the middle of a line: it is truncated, and its last sample is left out")
	}
	if s.broken > 0 {
		note("%d lines are not perf script's and were left out", s.broken)
	}
	if s.others > 0 {
		note("%d samples of other events than %s were left out", s.others, p.Event)
	}
	if s.lost > 0 {
		note("perf lost records in %d places: the machine was too busy to write them", s.lost)
	}
	p.noteCut()
	return p, nil
}

// line processes one line without its terminator.
func (s *scriptReader) line(line []byte) {
	if len(line) == 0 {
		s.end()
		s.skipped = false
		return
	}
	indented := blank(line[0])
	switch framed := !s.alone && (s.open || s.skipped); {
	case line[0] == '#':
	case indented && framed && s.frame(line):
	case s.header(line): // a thread's name may be a number: it is not a frame
	case framed && (s.frame(line) || indented && s.bareFrame(line)):
	case indented:
		// A source line, a register, or a frame outside a sample.
		if !s.open && s.p.count == 0 && s.others == 0 {
			s.broken++
		}
	default:
		s.end()
		s.broken++
	}
}

// end adds the open sample.
func (s *scriptReader) end() {
	if !s.open {
		return
	}
	s.flushInlined("", false)
	for n := len(s.stack); n > 1 && s.p.frames[s.stack[n-1]] == (Frame{}); n-- {
		s.stack = s.stack[:n-1] // the end-of-stack marker, or where unwinding failed
	}
	if s.deep {
		s.p.cut++
	}
	slices.Reverse(s.stack)
	s.head.Stack = s.p.stackOf(slices.Values(s.stack))
	s.p.Add(s.head)
	s.open = false
}

// header parses the first line of a sample. It returns false for other lines.
func (s *scriptReader) header(line []byte) bool {
	h, ok := parseScriptHeader(line)
	if !ok {
		return false
	}
	s.end()
	s.timed = s.timed || h.timeNS != NoTime
	address, symbol, module, alone := parseFrame(h.rest)
	s.skipped, s.alone = false, alone
	if bytes.HasPrefix(h.event, recordPrefix) {
		if bytes.HasPrefix(h.event, []byte("PERF_RECORD_LOST")) {
			s.lost++
		}
		return true
	}
	event := string(h.event)
	if cut := strings.IndexByte(event, ':'); cut > 0 && strings.Trim(event[cut:], ":ukhGHpPSDWe") == "" {
		event = event[:cut] // modifiers
	}
	if s.p.Event == "" {
		s.p.Event = event
		if h.period > 0 {
			s.p.Period, s.p.Unit = h.period, event
			if strings.Contains(event, "clock") {
				s.p.Unit = UnitNanoseconds
			}
		}
	}
	if event != s.p.Event {
		s.others++
		s.skipped = true
		return true
	}
	weight := int64(1)
	if s.p.Unit != UnitSamples {
		weight = min(h.period, maxWeight)
		if weight != s.p.Period {
			s.p.Period = 0 // it varies
		}
	}
	s.head = Sample{Thread: s.thread(h), Weight: weight, TimeNS: h.timeNS}
	s.stack, s.inlined, s.open, s.deep = s.stack[:0], s.inlined[:0], true, false
	if alone {
		s.add(address, symbol, module)
	}
	return true
}

// thread returns a header's thread, without allocating a string for a known
// one.
func (s *scriptReader) thread(h scriptHeader) ThreadID {
	id, ok := s.threads[string(h.who)]
	if !ok {
		id = s.p.Thread(Thread{Name: string(h.comm), PID: h.pid, TID: h.tid})
		if len(s.threads) < maxThreads && len(h.who) <= maxWho {
			s.threads[string(h.who)] = id
		}
	}
	return id
}

// maxWho limits the length, in bytes, of a thread's name and numbers used as a
// cache key; the kernel's names have up to 15.
const maxWho = 128

// frame parses a line of a stack. It returns false for other lines.
func (s *scriptReader) frame(line []byte) bool {
	address, symbol, module, ok := parseFrame(bytes.TrimLeft(line, " \t"))
	if ok && s.open {
		s.add(address, symbol, module)
	}
	return ok
}

// bareFrame is like frame, for a line without a module.
func (s *scriptReader) bareFrame(line []byte) bool {
	address, symbol, ok := cutAddress(bytes.TrimSpace(line))
	if ok && s.open {
		s.add(address, symbol, nil)
	}
	return ok
}

// kernelAddress reports whether an address is in the kernel's half, and is
// neither vsyscall nor the marker of failed unwinding.
func kernelAddress(address []byte) bool {
	return len(address) == 16 && bytes.HasPrefix(address, []byte("ffff")) &&
		!bytes.HasPrefix(address, []byte("ffffffffff6")) && !bytes.HasPrefix(address, []byte("ffffffffffffffff"))
}

// add adds a frame to the open sample.
func (s *scriptReader) add(address, symbol, module []byte) {
	if len(s.stack)+len(s.inlined) >= 4*maxDepth {
		s.deep = true
		return
	}
	symbol, offset := cutOffset(symbol)
	if string(module) == "inlined" {
		s.inlined = append(s.inlined, readable(string(symbol)))
		return
	}
	s.key = append(append(append(s.key[:0], symbol...), 0), module...)
	var at uint64
	kernel := kernelAddress(address)
	switch {
	case kernel:
		s.key = append(s.key, 0)
	case s.keepsOffsets(module):
		at, _ = strconv.ParseUint(string(address), 16, 64)
		if at > 0 && len(s.stack) > 0 {
			at-- // in the call rather than after it
		}
		s.key = binary.LittleEndian.AppendUint64(append(s.key, 0), at)
	}
	id, ok := s.frames[string(s.key)]
	if !ok {
		f := Frame{Name: readable(string(symbol)), Module: string(module), Offset: at}
		f.Kernel = kernel || kernelModule(f.Module)
		if f.Name == "[unknown]" {
			f.Name = ""
		}
		if f.Module == "[unknown]" {
			f.Module = ""
		}
		if id = s.p.Frame(f); !s.p.crowded {
			s.frames[string(s.key)] = id
		}
	}
	s.p.offsets[id] = max(s.p.offsets[id], offset)
	s.flushInlined(s.p.frames[id].Module, s.p.frames[id].Kernel)
	s.stack = append(s.stack, id)
}

// keepsOffsets reports whether to keep the offsets of a module's frames.
func (s *scriptReader) keepsOffsets(module []byte) bool {
	if s.keep == nil {
		return false
	}
	keep, ok := s.kept[string(module)]
	if !ok {
		keep = bytes.HasPrefix(module, []byte("/")) && s.keep(string(module))
		if len(s.kept) < maxBinaries {
			s.kept[string(module)] = keep
		}
	}
	return keep
}

// flushInlined adds the frames that the compiler inlined into the next one.
// They share its module.
func (s *scriptReader) flushInlined(module string, kernel bool) {
	for _, name := range s.inlined {
		s.stack = append(s.stack, s.p.Frame(Frame{Name: name, Module: module, Kernel: kernel, Inlined: true}))
	}
	s.inlined = s.inlined[:0]
}

// scriptHeader is the first line of a sample. Its slices point into the line.
type scriptHeader struct {
	who      []byte // name and numbers of the thread
	comm     []byte
	pid, tid int
	timeNS   int64 // NoTime if missing
	period   int64 // 0 if missing
	event    []byte
	rest     []byte
}

// parseScriptHeader parses a sample's first line. Thread names may contain
// spaces, so it finds the time and parses in both directions from there. In a
// line without a time, an event follows the thread's number.
func parseScriptHeader(line []byte) (h scriptHeader, ok bool) {
	at, timeLen := findTime(line)
	if at < 0 {
		return parseTimeless(line)
	}
	if h.timeNS, ok = parseSeconds(line[at : at+timeLen-1]); !ok {
		return h, false
	}
	left := bytes.TrimRight(line[:at], " \t")
	for {
		cut := bytes.LastIndexAny(left, " \t")
		if cut <= 0 {
			return h, false // no name before the number
		}
		if h.setTask(left, cut+1) {
			break
		}
		left = bytes.TrimRight(left[:cut], " \t") // [CPU], flags
	}
	if len(h.comm) == 0 {
		return h, false
	}
	right := bytes.TrimSpace(line[at+timeLen:])
	if h.setEvent(right) {
		return h, true
	}
	h.period, h.event, h.rest = 0, nil, right // the event may be missing
	_, _, _, framed := parseFrame(right)
	return h, framed || len(right) == 0
}

// parseTimeless parses a sample's first line without a time. Prose may resemble
// one, so a frame or a tracepoint's fields must follow the event, and the
// thread's name must be short.
func parseTimeless(line []byte) (h scriptHeader, ok bool) {
	h.timeNS = NoTime
	for at := 1; at < min(len(line), maxWho); at++ {
		if line[at] < '0' || line[at] > '9' || !blank(line[at-1]) {
			continue
		}
		end := at
		for end < len(line) && !blank(line[end]) {
			end++
		}
		right := bytes.TrimLeft(line[end:], " \t")
		if len(right) > 0 && right[0] == '[' { // CPU
			if n := 1 + countDigits(right[1:]); n > 1 && n < len(right) && right[n] == ']' {
				right = right[n+1:]
			}
		}
		if !h.setTask(line[:end], at) || len(h.comm) == 0 || !h.setEvent(right) {
			continue
		}
		_, _, _, framed := parseFrame(h.rest)
		if framed || len(h.rest) == 0 || bytes.IndexByte(h.event, ':') > 0 {
			return h, true
		}
	}
	return h, false
}

// setTask parses the thread's numbers from an index on, and its name before
// them.
func (h *scriptHeader) setTask(left []byte, at int) (ok bool) {
	if h.pid, h.tid, ok = parseTask(left[at:]); ok {
		h.who = bytes.TrimLeft(left, " \t")
		h.comm = bytes.Trim(left[:at], " \t")
	}
	return ok
}

// setEvent parses the optional period, the event, and the rest.
func (h *scriptHeader) setEvent(right []byte) (ok bool) {
	right, h.period = bytes.TrimLeft(right, " \t"), 0
	if n := countDigits(right); n > 0 && n < len(right) && right[n] == ' ' {
		if h.period, ok = parseDigits(right[:n]); !ok {
			return false
		}
		right = bytes.TrimLeft(right[n:], " \t")
	}
	end := bytes.IndexByte(right, ' ')
	if end < 0 {
		end = len(right)
	}
	h.event, h.rest = right[:end], bytes.TrimSpace(right[end:])
	if bytes.HasPrefix(h.event, recordPrefix) {
		return true
	}
	if len(h.event) < 2 || h.event[len(h.event)-1] != ':' {
		return false
	}
	h.event = bytes.TrimRight(h.event, ":")
	return len(h.event) > 0
}

// recordPrefix is the prefix of events that are records other than samples.
var recordPrefix = []byte("PERF_RECORD_")

func blank(c byte) bool { return c == ' ' || c == '\t' }

// parseFrame parses a line of a stack without its indentation.
func parseFrame(line []byte) (address, symbol, module []byte, ok bool) {
	address, rest, ok := cutAddress(line)
	if !ok {
		return nil, nil, nil, false
	}
	symbol, module, ok = cutModule(rest)
	return address, symbol, module, ok
}

// cutAddress splits a frame's line after the address.
func cutAddress(line []byte) (address, rest []byte, ok bool) {
	digits := len(line) - len(bytes.TrimLeft(line, "0123456789abcdef"))
	if digits == 0 || digits > 16 || digits >= len(line) || line[digits] != ' ' {
		return nil, nil, false
	}
	return line[:digits], line[digits+1:], true
}

// findTime finds a word of the form 123.456789: after the first column.
func findTime(line []byte) (at, length int) {
	for i := 1; i < len(line); i++ {
		if line[i] < '0' || line[i] > '9' || !blank(line[i-1]) {
			continue
		}
		n := countDigits(line[i:])
		if j := i + n; j < len(line) && line[j] == '.' {
			m := countDigits(line[j+1:])
			if k := j + 1 + m; m > 0 && k < len(line) && line[k] == ':' && (k+1 == len(line) || line[k+1] == ' ') {
				return i, k + 1 - i
			}
		}
		i += n
	}
	return -1, 0
}

// parseTask parses TID or PID/TID, which may be -1 for ended threads.
func parseTask(b []byte) (pid, tid int, ok bool) {
	first, second, both := bytes.Cut(b, []byte("/"))
	a, ok := parseInt(first)
	if !ok {
		return 0, 0, false
	}
	if !both {
		return 0, a, true
	}
	c, ok := parseInt(second)
	return a, c, ok
}

func parseInt(b []byte) (int, bool) {
	n, err := strconv.ParseInt(string(b), 10, 32)
	return int(n), err == nil && b[0] != '+'
}

func parseDigits(b []byte) (n int64, ok bool) {
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, true
}

func countDigits(b []byte) int { return len(b) - len(bytes.TrimLeft(b, "0123456789")) }

// parseSeconds parses decimal seconds as nanoseconds.
func parseSeconds(b []byte) (int64, bool) {
	integer, fraction, _ := bytes.Cut(b, []byte("."))
	seconds, ok := parseDigits(integer)
	if !ok || seconds > math.MaxInt64/2_000_000_000 {
		return 0, false
	}
	ns := int64(0)
	for i := range 9 {
		ns *= 10
		if i < len(fraction) {
			ns += int64(fraction[i] - '0')
		}
	}
	return seconds*1_000_000_000 + ns, true
}

// cutModule splits a frame's line before the module in parentheses. Functions
// and deleted modules may also contain parentheses.
func cutModule(line []byte) (symbol, module []byte, ok bool) {
	line = bytes.TrimRight(line, " \t")
	if len(line) == 0 || line[len(line)-1] != ')' {
		return line, nil, false
	}
	depth := 0
	for i := len(line) - 1; i >= 0; i-- {
		switch line[i] {
		case ')':
			depth++
		case '(':
			if depth--; depth > 0 {
				continue
			}
			if i > 0 && line[i-1] != ' ' {
				return line, nil, false
			}
			module = line[i+1 : len(line)-1]
			symbol = bytes.TrimRight(line[:i], " ")
			if cut, offset := cutOffset(module); offset > 0 && len(cut) > 0 {
				module = cut // -F +dsoff
			}
			return symbol, module, len(symbol) > 0 && len(module) > 0
		}
	}
	return line, nil, false
}

// cutOffset removes +0x1f from the end of a symbol.
func cutOffset(symbol []byte) ([]byte, uint32) {
	i := bytes.LastIndex(symbol, []byte("+0x"))
	if i <= 0 || i+3 == len(symbol) || len(bytes.TrimLeft(symbol[i+3:], "0123456789abcdef")) > 0 {
		return symbol, 0
	}
	n, _ := strconv.ParseUint(string(symbol[i+3:]), 16, 32) // the maximum on overflow
	return symbol[:i], uint32(n)
}
