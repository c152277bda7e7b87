package profile

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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
