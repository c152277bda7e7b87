package profile

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
)

// Kinds of profiles.
const (
	KindCPU   = "cpu"
	KindHeap  = "heap"
	KindOther = "other"
)

// Units of weights.
const (
	UnitNanoseconds = "nanoseconds"
	UnitSamples     = "samples"
)

// Bounds of a profile. What exceeds them is cut and noted; it is not an error.
const (
	maxPaths    = 1 << 20 // each takes some 50 bytes
	maxDepth    = 1024    // frames of a stack; the kernel's own bound is 127
	maxFrames   = 1 << 20
	maxThreads  = 1 << 16
	maxBinaries = 4096
	maxText     = 128 << 20 // bytes of the names of functions, modules and threads
)

// maxWeight bounds a sample's weight in texts: eleven days in nanoseconds.
const maxWeight = 1e15

// maxTotal bounds the weight of all samples, so that sums do not overflow: 73
// years in nanoseconds, which block profiles of a large server may reach.
const maxTotal = 1 << 61

// MemoryLimit is the runtime/debug.SetMemoryLimit of programs that read large
// profiles, in bytes. What is kept takes far less; the rest is garbage.
const MemoryLimit = 200 << 20

// NoTime is the time of samples whose time is not known.
const NoTime = -1

// Frame is a function in a stack.
type Frame struct {
	Name    string // "" if unknown
	Module  string // path of the binary or library; [kernel.kallsyms], [vdso]; "" if unknown
	Kernel  bool
	Inlined bool // the compiler put it into its caller
	// Offset is its offset in the module's file, in bytes, of frames that may
	// still be named, until [Profile.Distrust]; 0 if unknown.
	Offset uint64
}

// Label is a frame's name, or else its module in brackets.
func (f Frame) Label() string {
	switch {
	case f.Name != "":
		return f.Name
	case f.Module == "":
		return "[unknown]"
	case strings.HasPrefix(f.Module, "["):
		return f.Module
	}
	return "[" + path.Base(strings.TrimSuffix(f.Module, deleted)) + "]"
}

// Thread is a thread; the zero value where the format has none.
type Thread struct {
	Name     string
	PID, TID int
}

// Indexes into a profile's tables.
type (
	FrameID  uint32
	StackID  uint32 // 0 is the empty stack
	ThreadID uint32
)

// Sample is a stack of a thread and its weight.
type Sample struct {
	Stack  StackID
	Thread ThreadID
	Weight int64 // in the profile's unit
	TimeNS int64 // by the profiler's own clock; or NoTime
}

// Binary is a program or library with frames.
type Binary struct {
	Path    string `json:"path"`
	BuildID string `json:"build_id,omitempty"` // hexadecimal; "" if unknown
	// Type is what its file holds: [TypeFull], [TypeExports], [TypeStripped],
	// [TypeDebug], [TypeGo], or "" if it was not read.
	Type string `json:"type,omitempty"`
	// Resolved is the share of the weight of its innermost frames that have
	// a name; Weight is that of samples whose innermost frame is in it.
	Resolved float64 `json:"resolved"`
	Weight   int64   `json:"weight"`
	// Text is the executable part of its file; zero if it was not read.
	Text Segment `json:"text,omitzero"`
	// Doubt is why its names were taken away: [DoubtBuild], [DoubtDeleted],
	// [DoubtGuessed], or "" if they were not. Why says it in words.
	Doubt string `json:"doubt,omitempty"`
	Why   string `json:"why,omitempty"`
}

// Profile is weighted stacks. Make one with [New].
type Profile struct {
	Kind   string
	Unit   string
	Period int64 // weight of one sample; 0 if unknown
	// Event is what perf counted, such as cpu-clock; "" for others.
	Event    string
	Binaries []Binary
	Notes    []string // for people: what was left out, and how it was named

	cut       int64 // samples whose stack exceeded the bounds
	samples   []Sample
	count     int   // of samples added
	total     int64 // their weight
	clipped   bool  // the weight exceeded maxTotal
	crowded   bool  // functions or threads exceeded their bounds
	textBytes int   // of the names of frames and threads
	frames    []Frame
	offsets   []uint32 // by frame: the farthest into its function that it was seen
	paths     []step
	threads   []Thread

	frameIndex  map[Frame]FrameID
	pathIndex   map[step]StackID
	threadIndex map[Thread]ThreadID
	alike       map[stackThread]int // place of samples without a time
}

// stackThread identifies samples without a time.
type stackThread struct {
	stack  StackID
	thread ThreadID
}

// others stands for the functions and threads beyond the bounds.
const others = "[others]"

// step is a stack as its caller's stack and one frame more.
type step struct {
	parent StackID
	frame  FrameID
}

// New makes an empty profile.
func New(kind, unit string) *Profile {
	return &Profile{Kind: kind, Unit: unit, paths: make([]step, 1),
		frameIndex: map[Frame]FrameID{}, pathIndex: map[step]StackID{}, threadIndex: map[Thread]ThreadID{},
		alike: map[stackThread]int{}}
}

// Frame is the index of a frame, or of [others] if there is no room for it.
func (p *Profile) Frame(f Frame) FrameID {
	id, ok := p.frameIndex[f]
	if !ok && !p.room(len(p.frames) < maxFrames, len(f.Name)+len(f.Module)) {
		f = Frame{Module: others}
		id, ok = p.frameIndex[f]
	}
	if !ok {
		f.Name, f.Module = strings.Clone(f.Name), strings.Clone(f.Module)
		id = FrameID(len(p.frames))
		p.frames, p.offsets = append(p.frames, f), append(p.offsets, 0)
		p.frameIndex[f] = id
	}
	return id
}

// room reserves memory for a name, if there is any.
func (p *Profile) room(free bool, bytes int) bool {
	if !free || p.textBytes+bytes > maxText {
		p.crowded = true
		return false
	}
	p.textBytes += bytes
	return true
}

// Thread is the index of a thread, or of [others] if there is no room for it.
func (p *Profile) Thread(t Thread) ThreadID {
	id, ok := p.threadIndex[t]
	if !ok && !p.room(len(p.threads) < maxThreads, len(t.Name)) {
		t = Thread{Name: others}
		id, ok = p.threadIndex[t]
	}
	if !ok {
		t.Name = strings.Clone(t.Name)
		id = ThreadID(len(p.threads))
		p.threads = append(p.threads, t)
		p.threadIndex[t] = id
	}
	return id
}

// Push is the stack that calls one frame more. It reports false if there is no
// room for a new one.
func (p *Profile) Push(parent StackID, frame FrameID) (StackID, bool) {
	s := step{parent, frame}
	id, ok := p.pathIndex[s]
	if !ok {
		if len(p.paths) > maxPaths {
			return parent, false
		}
		id = StackID(len(p.paths))
		p.paths = append(p.paths, s)
		p.pathIndex[s] = id
	}
	return id, true
}

// stackOf is the index of a stack, given with its root first.
func (p *Profile) stackOf(frames iter.Seq[FrameID]) StackID {
	var at StackID
	depth := 0
	for f := range frames {
		next, ok := p.Push(at, f)
		if depth++; !ok || depth > maxDepth {
			p.cut++
			break
		}
		at = next
	}
	return at
}

// Add adds a sample. Samples without a time are added up by stack and thread.
func (p *Profile) Add(s Sample) {
	p.count++
	if room := maxTotal - p.total; s.Weight > room {
		s.Weight, p.clipped = room, true
	}
	p.total += s.Weight
	key := stackThread{s.Stack, s.Thread}
	if s.TimeNS == NoTime {
		if at, ok := p.alike[key]; ok {
			p.samples[at].Weight += s.Weight
			return
		}
		p.alike[key] = len(p.samples)
	}
	p.samples = append(p.samples, s)
}

// Samples are all samples in the order in which they were added.
func (p *Profile) Samples() iter.Seq[Sample] { return slices.Values(p.samples) }

// Len is the number of samples added. Formats that add up stacks have one for
// each stack.
func (p *Profile) Len() int { return p.count }

// Total is the weight of all samples.
func (p *Profile) Total() int64 { return p.total }

// plus adds weights of several profiles without overflow.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Taken is how many samples the profiler took, as far as is known.
func (p *Profile) Taken() int64 {
	if p.Period > 0 {
		return (p.Total() + p.Period/2) / p.Period
	}
	if p.Unit == UnitSamples || p.Unit == "count" {
		return p.Total()
	}
	return int64(p.count)
}

// Threads are all threads, in the order in which they were seen.
func (p *Profile) Threads() []Thread { return p.threads }

// Inner are a stack's frames, the innermost first.
func (p *Profile) Inner(s StackID) iter.Seq[FrameID] {
	return func(yield func(FrameID) bool) {
		for ; s != 0; s = p.paths[s].parent {
			if !yield(p.paths[s].frame) {
				return
			}
		}
	}
}

// Frames are a stack's frames, the root first.
func (p *Profile) Frames(s StackID) []Frame {
	var out []Frame
	for id := range p.Inner(s) {
		out = append(out, p.frames[id])
	}
	slices.Reverse(out)
	return out
}

// noteCut notes what did not fit into the profile's bounds.
func (p *Profile) noteCut() {
	note := func(format string, args ...any) { p.Notes = append(p.Notes, fmt.Sprintf(format, args...)) }
	if p.cut > 0 {
		note("%d samples have stacks deeper than %d frames, or came when %d different stacks had been seen: "+
			"their inner frames are cut off", p.cut, maxDepth, maxPaths)
	}
	if p.crowded {
		note("there are more than %d functions or %d threads, or %d MiB of their names: the rest is added up as %s",
			maxFrames, maxThreads, maxText>>20, others)
	}
	if p.clipped {
		note("the weights are too large to add up: what is beyond %d %s was left out, and shares are wrong",
			int64(maxTotal), p.Unit)
	}
}

// Span is the time from the first sample to the last, in nanoseconds; ok is
// false where samples have no time.
func (p *Profile) Span() (from, to int64, ok bool) {
	for s := range p.Samples() {
		if s.TimeNS == NoTime {
			return 0, 0, false
		}
		if !ok || s.TimeNS < from {
			from = s.TimeNS
		}
		if !ok || s.TimeNS > to {
			to = s.TimeNS
		}
		ok = true
	}
	return from, to, ok
}

// Binary finds a binary by its path, or adds it.
func (p *Profile) Binary(path string) *Binary {
	for i := range p.Binaries {
		if p.Binaries[i].Path == path {
			return &p.Binaries[i]
		}
	}
	p.Binaries = append(p.Binaries, Binary{Path: strings.Clone(path)})
	return &p.Binaries[len(p.Binaries)-1]
}

// SetBuildIDs sets the build ids of binaries by their paths.
func (p *Profile) SetBuildIDs(ids map[string]string) {
	at := p.binaryIndex()
	for _, path := range slices.Sorted(maps.Keys(ids)) {
		if b := p.binaryAt(at, path); b != nil {
			b.BuildID = ids[path]
		}
	}
}

// binaryIndex has the indexes of binaries by their paths, for [Profile.binaryAt].
func (p *Profile) binaryIndex() map[string]int {
	at := make(map[string]int, len(p.Binaries))
	for i, b := range p.Binaries {
		at[b.Path] = i
	}
	return at
}

// binaryAt is [Profile.Binary] with an index, which it updates. It is nil if
// there is no room for one more.
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

// deleted is what the kernel appends to the path of a deleted file.
const deleted = " (deleted)"

// userModules are modules in brackets that are not part of the kernel.
var userModules = map[string]bool{"[vdso]": true, "[vsyscall]": true, "[heap]": true, "[stack]": true, "[anon]": true,
	"[unknown]": true, "[uprobes]": true, others: true}

// kernelModule reports whether a module of a profile is the kernel or a part
// of it. Older perfs print addresses in the kernel's file (vmlinux), which look
// like a program's.
func kernelModule(module string) bool {
	if strings.HasSuffix(module, ".ko") || strings.Contains(module, ".ko.") ||
		strings.HasPrefix(path.Base(module), "vmlinux") {
		return true
	}
	return strings.HasPrefix(module, "[") && strings.HasSuffix(module, "]") && !userModules[module] &&
		!strings.HasPrefix(module, "[JIT]") && !strings.HasPrefix(module, "[stack:")
}
