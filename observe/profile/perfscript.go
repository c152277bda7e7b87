package profile

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// maxLine bounds a line of perf script, in bytes: C++ symbols of templates
// may be very long.
const maxLine = 1 << 20

// ErrFormat is the error of a file that is not what it was taken for.
var ErrFormat = errors.New("not a profile")

// scriptReader reads what perf script prints: see the section FIELDS of its
// manual. A sample is a line
//
//	COMM PID/TID [CPU] SECONDS: PERIOD EVENT:
//
// then a line for each frame, the innermost first, and an empty line:
//
//	ADDRESS SYMBOL+0xOFFSET (MODULE)
//
// Without call graph the only frame stands in the sample's line. What perf
// script was not asked for (-F) is missing: CPU, PERIOD, MODULE, PID, and of
// SECONDS and EVENT one. Frames need no indentation, which copies may have lost.
//
// Not every perf writes symbols of C++ and Rust as their sources have them: those of
// Debian print them as they stand in the binary.
type scriptReader struct {
	p       *Profile
	known   map[string]FrameID // symbol and module as they stand in the line
	kernel  map[string]FrameID // likewise of the kernel's addresses
	names   map[string]ThreadID
	stack   []FrameID // innermost first
	inlined []string  // names whose module the next frame tells
	head    Sample
	key     []byte // scratch
	keep    func(module string) bool
	kept    map[string]bool // what keep said
	open    bool            // a sample's header was read
	skipped bool            // one of another event was
	alone   bool            // it has its only frame in its line
	timed   bool            // a header had a time
	deep    bool            // frames beyond maxDepth
	others  int64           // samples of other events
	broken  int64           // lines that are none of perf script's
	lost    int64           // PERF_RECORD_LOST
}

// ReadPerfScript reads the text of perf script. It keeps neither text nor
// samples' stacks, so that memory grows with what is different in the file.
// Of several events it takes the first. An error that wraps [ErrFormat] says
// that the file has no sample of perf script's form.
func ReadPerfScript(r io.Reader) (*Profile, error) {
	return ReadPerfScriptPlaces(r, nil)
}

// ReadPerfScriptPlaces is [ReadPerfScript] that keeps where in their files the
// frames lie of modules for which keep is true, so that [Profile.Symbolise]
// can name them. Each place is a frame of its own then, which takes memory. Of
// callers it is a byte of the call, as perf's address is that of its return.
func ReadPerfScriptPlaces(r io.Reader, keep func(module string) bool) (*Profile, error) {
	s := scriptReader{p: New(KindCPU, UnitSamples), keep: keep, kept: map[string]bool{}, known: map[string]FrameID{}, kernel: map[string]FrameID{}, names: map[string]ThreadID{}}
	in := bufio.NewReaderSize(r, maxLine)
	whole := true
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return nil, fmt.Errorf("perf script: a line of more than %d bytes: %w", maxLine, ErrFormat)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("perf script: %w", err)
		}
		if err != nil {
			whole = len(line) == 0
			if !whole && s.open && !frameWhole(line) {
				s.open = false // the last sample stops in mid-line
			} else if len(line) > 0 {
				s.line(line)
				whole = true
			}
			s.end()
			break
		}
		if s.line(line[:len(line)-1]); s.p.count == 0 && s.broken > 1000 {
			break
		}
	}
	return s.finish(whole)
}

// frameWhole reports whether a line without its end may still be whole.
func frameWhole(line []byte) bool {
	return bytes.HasSuffix(bytes.TrimRight(line, " \t\r"), []byte(")"))
}

func (s *scriptReader) finish(whole bool) (*Profile, error) {
	p := s.p
	if p.count == 0 || !s.timed && len(p.frames) == 0 { // prose may look like headers without a time
		return nil, fmt.Errorf("perf script: no sample in the file (%d lines are of another form): %w", s.broken, ErrFormat)
	}
	if !whole {
		p.Notes = append(p.Notes, "the file ends in the middle of a line: it is truncated, and its last sample is left out")
	}
	if s.broken > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%d lines are not perf script's and were left out", s.broken))
	}
	if s.others > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%d samples of other events than %s were left out", s.others, p.Event))
	}
	if s.lost > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("perf lost records in %d places: the machine was too busy to write them", s.lost))
	}
	p.noteCut()
	return p, nil
}

func (p *Profile) noteCut() {
	if p.Cut > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%d samples have stacks deeper than %d frames, or came when %d different stacks had been seen: their inner frames are cut off", p.Cut, maxDepth, maxPaths))
	}
	if p.crowded {
		p.Notes = append(p.Notes, fmt.Sprintf("there are more than %d functions or %d threads, or %d MiB of their names: the rest is told together as %s", maxFrames, maxThreads, maxText>>20, others))
	}
	if p.clipped {
		p.Notes = append(p.Notes, fmt.Sprintf("the weights are too large to add up: what is beyond %d %s was left out, and shares are wrong", int64(maxTotal), p.Unit))
	}
}

// line takes one line without its end.
func (s *scriptReader) line(line []byte) {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	if len(line) == 0 {
		s.end()
		s.skipped = false
		return
	}
	indented := blank(line[0])
	switch framed := !s.alone && (s.open || s.skipped); {
	case line[0] == '#':
	case indented && framed && s.frame(line):
	case s.header(line): // a thread's name may be a number: it is no frame
	case framed && (s.frame(line) || indented && s.bareFrame(line)):
	case indented:
		// A source line, a register, or a frame that belongs to nothing.
		if !s.open && s.p.count == 0 && s.others == 0 {
			s.broken++
		}
	default:
		s.end()
		s.broken++
	}
}

// end closes the sample that is open.
func (s *scriptReader) end() {
	if !s.open {
		return
	}
	s.flushInlined("", false)
	for n := len(s.stack); n > 1 && s.p.frames[s.stack[n-1]] == (Frame{}); n-- {
		s.stack = s.stack[:n-1] // the end of the way up, or where it was lost
	}
	if s.deep {
		s.p.Cut++
	}
	s.head.Stack = s.p.stackOf(func(yield func(FrameID) bool) {
		for _, id := range slices.Backward(s.stack) {
			if !yield(id) {
				return
			}
		}
	})
	s.p.Add(s.head)
	s.open = false
}

// header takes the line that begins a sample; it reports false for others.
func (s *scriptReader) header(line []byte) bool {
	h, ok := parseScriptHeader(line)
	if !ok {
		return false
	}
	s.end()
	s.timed = s.timed || h.timeNS != NoTime
	address, symbol, module, alone := parseFrame(h.rest)
	s.skipped, s.alone = false, alone
	if bytes.HasPrefix(h.event, []byte("PERF_RECORD_")) {
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
			s.p.Period = h.period
			switch {
			case strings.Contains(event, "clock"):
				s.p.Unit = UnitNanoseconds
			default:
				s.p.Unit = event
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

// thread finds a header's thread without making a string of what is known.
func (s *scriptReader) thread(h scriptHeader) ThreadID {
	id, ok := s.names[string(h.who)]
	if !ok {
		id = s.p.Thread(Thread{Name: string(h.comm), PID: h.pid, TID: h.tid})
		if len(s.names) < maxThreads && len(h.who) <= maxWho {
			s.names[string(h.who)] = id
		}
	}
	return id
}

// maxWho is how long a thread's name and numbers may be to be kept as they
// stand in the line, in bytes: the kernel's names have 15.
const maxWho = 128

// frame takes a line of a stack; it reports false for others.
func (s *scriptReader) frame(line []byte) bool {
	address, symbol, module, ok := parseFrame(bytes.TrimLeft(line, " \t"))
	if ok && s.open {
		s.add(address, symbol, module)
	}
	return ok
}

// bareFrame is frame for a line without a module, which perf was not asked for.
func (s *scriptReader) bareFrame(line []byte) bool {
	address, symbol, ok := cutAddress(bytes.TrimSpace(line))
	if ok && s.open {
		s.add(address, symbol, nil)
	}
	return ok
}

// add adds a frame to the sample that is open.
func (s *scriptReader) add(address, symbol, module []byte) {
	kernel := len(address) == 16 && bytes.HasPrefix(address, []byte("ffff")) && !bytes.HasPrefix(address, []byte("ffffffffff6")) && !bytes.HasPrefix(address, []byte("ffffffffffffffff"))
	if len(s.stack)+len(s.inlined) >= 4*maxDepth {
		s.deep = true
		return
	}
	symbol, offset := cutOffset(symbol)
	if string(module) == "inlined" {
		s.inlined = append(s.inlined, readable(string(symbol)))
		return
	}
	known := s.known
	if kernel {
		known = s.kernel
	}
	// Symbol and module stand side by side in the line, but for the offset.
	key := append(append(append(s.key[:0], symbol...), 0), module...)
	var at uint64
	if !kernel && s.keep != nil && s.keeps(module) {
		at = parseHex(address)
		if at > 0 && len(s.stack) > 0 {
			at--
		}
		key = binary.LittleEndian.AppendUint64(append(key, 0), at)
	}
	s.key = key
	id, ok := known[string(key)]
	if !ok {
		f := Frame{Name: readable(string(symbol)), Module: string(module), Kernel: kernel || kernelModule(string(module)), Offset: at}
		if f.Name == "[unknown]" {
			f.Name = ""
		}
		if f.Module == "[unknown]" {
			f.Module = ""
		}
		if id = s.p.Frame(f); !s.p.crowded {
			known[string(key)] = id
		}
	}
	s.p.offsets[id] = max(s.p.offsets[id], offset)
	if len(s.inlined) > 0 {
		s.flushInlined(s.p.frames[id].Module, s.p.frames[id].Kernel)
	}
	s.stack = append(s.stack, id)
}

// keeps says whether the places of a module's frames are asked for.
func (s *scriptReader) keeps(module []byte) bool {
	keep, ok := s.kept[string(module)]
	if !ok {
		keep = len(module) > 0 && module[0] == '/' && s.keep(string(module))
		if len(s.kept) < maxBinaries {
			s.kept[string(module)] = keep
		}
	}
	return keep
}

// parseHex reads up to sixteen hexadecimal digits.
func parseHex(b []byte) (n uint64) {
	for _, c := range b {
		if c >= 'a' {
			n = n<<4 | uint64(c-'a'+10)
		} else {
			n = n<<4 | uint64(c-'0')
		}
	}
	return n
}

// flushInlined keeps frames that the compiler put into the one that follows
// them, whose module is theirs.
func (s *scriptReader) flushInlined(module string, kernel bool) {
	for _, name := range s.inlined {
		s.stack = append(s.stack, s.p.Frame(Frame{Name: name, Module: module, Kernel: kernel, Inlined: true}))
	}
	s.inlined = s.inlined[:0]
}

// scriptHeader is the line of a sample, taken apart. Its slices are of the
// line.
type scriptHeader struct {
	who      []byte // name and numbers of the thread, as they stand
	comm     []byte
	pid, tid int
	timeNS   int64 // NoTime for none
	period   int64 // 0 for none
	event    []byte
	rest     []byte
}

// parseScriptHeader takes a sample's line apart. Names of threads may hold
// spaces, so that it looks for the time, and goes from there to both sides. A
// line without a time has an event after the thread's number.
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
	h.period, h.event, h.rest = 0, nil, right // perf was not asked for events
	_, _, _, framed := parseFrame(right)
	return h, framed || len(right) == 0
}

// parseTimeless takes a line apart that has no time. As nothing else in it is
// sure, what follows the event must be a frame or a tracepoint's fields, and the
// thread's name is short.
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

// setTask reads the thread's number from a place on, and its name before that.
func (h *scriptHeader) setTask(left []byte, at int) (ok bool) {
	if h.pid, h.tid, ok = parseTask(left[at:]); ok {
		h.who = bytes.TrimLeft(left, " \t")
		h.comm = bytes.Trim(left[:at], " \t")
	}
	return ok
}

// setEvent reads the period, if there is one, the event, and what follows it.
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
	if bytes.HasPrefix(h.event, []byte("PERF_RECORD_")) {
		return true
	}
	if len(h.event) < 2 || h.event[len(h.event)-1] != ':' {
		return false
	}
	h.event = bytes.TrimRight(h.event, ":")
	return len(h.event) > 0
}

func blank(c byte) bool { return c == ' ' || c == '\t' }

// parseFrame takes a line of a stack apart, without what is blank before it.
func parseFrame(line []byte) (address, symbol, module []byte, ok bool) {
	address, rest, ok := cutAddress(line)
	if !ok {
		return nil, nil, nil, false
	}
	symbol, module, ok = cutModule(rest)
	return address, symbol, module, ok
}

// cutAddress takes a frame's address off its beginning.
func cutAddress(line []byte) (address, rest []byte, ok bool) {
	digits := 0
	for digits < len(line) && hexDigit(line[digits]) {
		digits++
	}
	if digits == 0 || digits > 16 || digits >= len(line) || line[digits] != ' ' {
		return nil, nil, false
	}
	return line[:digits], line[digits+1:], true
}

// findTime finds a word of the form 123.456789: that has something before it.
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

// parseTask reads TID or PID/TID; those of threads that are gone may be -1.
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
	negative := len(b) > 1 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	n, ok := parseDigits(b)
	if !ok || n > math.MaxInt32 {
		return 0, false
	}
	if negative {
		n = -n
	}
	return int(n), true
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

func countDigits(b []byte) int {
	for i, c := range b {
		if c < '0' || c > '9' {
			return i
		}
	}
	return len(b)
}

func hexDigit(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }

// parseSeconds reads seconds with decimals as nanoseconds.
func parseSeconds(b []byte) (int64, bool) {
	whole, fraction, _ := bytes.Cut(b, []byte("."))
	seconds, ok := parseDigits(whole)
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

// cutModule takes the module in parentheses off a frame's end. Functions have
// parentheses of their own, and so has a module that was deleted.
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

// cutOffset takes +0x1f off a symbol's end.
func cutOffset(symbol []byte) ([]byte, uint32) {
	i := bytes.LastIndex(symbol, []byte("+0x"))
	if i <= 0 || i+3 == len(symbol) {
		return symbol, 0
	}
	n := uint64(0)
	for _, c := range symbol[i+3:] {
		switch {
		case c >= '0' && c <= '9':
			n = n<<4 | uint64(c-'0')
		case c >= 'a' && c <= 'f':
			n = n<<4 | uint64(c-'a'+10)
		default:
			return symbol, 0
		}
		n = min(n, math.MaxUint32)
	}
	return symbol[:i], uint32(n)
}
