package profile

import (
	"bytes"
	"maps"
	"math"
	"slices"
	"strings"
)

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

// maxBinaries bounds how many modules are told apart by themselves.
const maxBinaries = 4096

// SetBuildIDs notes the build ids of binaries by their paths, as perf
// buildid-list prints them; of new ones as many as there is room for.
func (p *Profile) SetBuildIDs(ids map[string]string) {
	at := p.binaryIndex()
	for _, path := range slices.Sorted(maps.Keys(ids)) {
		if b := p.binaryAt(at, path); b != nil {
			b.BuildID = ids[path]
		}
	}
}

// binaryIndex finds many binaries by their paths.
func (p *Profile) binaryIndex() map[string]int {
	at := make(map[string]int, len(p.Binaries))
	for i, b := range p.Binaries {
		at[b.Path] = i
	}
	return at
}

// binaryAt is Binary with an index, which it keeps; nil where there is no room
// for one more.
func (p *Profile) binaryAt(at map[string]int, path string) *Binary {
	i, ok := at[path]
	if !ok {
		if i = len(p.Binaries); i >= maxBinaries {
			return nil
		}
		at[path] = i
		p.Binaries = append(p.Binaries, Binary{Path: strings.Clone(path)})
	}
	return &p.Binaries[i]
}
