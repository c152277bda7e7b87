package profile

import (
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

// Bounds on what a profile may hold; what is beyond them is cut and counted
// ([Profile.Cut]), not an error. A path of calls costs some 50 bytes.
const (
	maxPaths   = 1 << 20
	maxDepth   = 1024 // frames of a stack; the kernel's own bound is 127
	maxFrames  = 1 << 20
	maxThreads = 1 << 16
	maxText    = 128 << 20 // bytes of the names of functions, modules and threads
)

// maxWeight bounds a sample's weight as texts have it: it is eleven days in
// nanoseconds.
const maxWeight = 1e15

// maxTotal bounds the weight of all samples, so that sums of it and of a
// period stay numbers: it is 73 years in nanoseconds, which block profiles of
// a large server may reach.
const maxTotal = 1 << 61

// MemoryLimit is what a program that reads large profiles should ask of the
// garbage collector (runtime/debug.SetMemoryLimit), in bytes: what is kept is
// far less, and the rest is garbage that need not wait.
const MemoryLimit = 200 << 20

// NoTime is the time of samples that nobody noted it of.
const NoTime = -1

// Frame is a function in a stack.
type Frame struct {
	Name    string // "" where it is not known
	Module  string // path of the binary or library; [kernel.kallsyms], [vdso]; "" if unknown
	Kernel  bool
	Inlined bool // the compiler put it into its caller
	// Offset is where in the module's file it lies, in bytes; only of frames
	// that may still be named, until [Profile.Distrust]. 0 is unknown.
	Offset uint64
}

// Label is what people see of a frame: its name, or the module it lies in.
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

// Thread is who ran. Readers that know no thread use the zero value.
type Thread struct {
	Name     string
	PID, TID int
}

// Indexes into what a profile keeps once.
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
	TimeNS int64 // by a clock of the profiler's own; NoTime
}

// Binary is a program or library that frames lie in.
type Binary struct {
	Path    string `json:"path"`
	BuildID string `json:"build_id,omitempty"` // hexadecimal; "" if unknown
	// Type is what its file holds: [TypeFull], [TypeExports], [TypeStripped],
	// or "" where nobody looked.
	Type string `json:"type,omitempty"`
	// Resolved is the share of the weight of its innermost frames that have
	// a name; Weight is that of samples whose innermost frame lies in it.
	Resolved float64 `json:"resolved"`
	Weight   int64   `json:"weight"`
	// Text is the executable part of its file; zero where nobody looked.
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
	Notes    []string // what the reader left out, and what was found out about it
	// Cut counts samples whose stack was too deep or too new to be kept whole.
	Cut int64

	chunks  [][]Sample
	count   int   // of samples added
	total   int64 // their weight
	clipped bool  // more weight came than fits
	crowded bool  // more functions or threads came than fit
	// textBytes is what the names of frames and threads take.
	textBytes int
	frames    []Frame
	offsets   []uint32 // by frame: the farthest into its function that it was seen
	paths     []step
	threads   []Thread

	frameIndex  map[Frame]FrameID
	pathIndex   map[step]StackID
	threadIndex map[Thread]ThreadID
	alike       map[stackThread]place // of samples without a time
}

// stackThread is what makes samples without a time alike.
type stackThread struct {
	stack  StackID
	thread ThreadID
}

// place is where a sample is stored.
type place struct{ chunk, at uint32 }

// others stands for the functions and threads that no room is left for.
const others = "[others]"

// step is a stack as its caller's stack and one frame more.
type step struct {
	parent StackID
	frame  FrameID
}

// sampleChunk is how many samples are stored together: they never move.
const sampleChunk = 1 << 14

// New makes an empty profile.
func New(kind, unit string) *Profile {
	return &Profile{Kind: kind, Unit: unit, paths: make([]step, 1),
		frameIndex: map[Frame]FrameID{}, pathIndex: map[step]StackID{}, threadIndex: map[Thread]ThreadID{}, alike: map[stackThread]place{}}
}

// Frame keeps a frame once. Where there is no room for a new one it is that of
// all others.
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

// room takes room for a name, if there is any.
func (p *Profile) room(free bool, bytes int) bool {
	if !free || p.textBytes+bytes > maxText {
		p.crowded = true
		return false
	}
	p.textBytes += bytes
	return true
}

// Thread keeps a thread once. Where there is no room for a new one it is that
// of all others.
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

// Push is the stack that calls one frame more. It is false where the profile
// holds too many paths to keep a new one.
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

// stackOf keeps a stack given with its root first.
func (p *Profile) stackOf(frames iter.Seq[FrameID]) StackID {
	var at StackID
	depth := 0
	for f := range frames {
		next, ok := p.Push(at, f)
		if depth++; !ok || depth > maxDepth {
			p.Cut++
			break
		}
		at = next
	}
	return at
}

// Add adds a sample. Samples without a time that are alike are kept as one.
func (p *Profile) Add(s Sample) {
	p.count++
	if room := maxTotal - p.total; s.Weight > room {
		s.Weight, p.clipped = room, true
	}
	p.total += s.Weight
	key := stackThread{s.Stack, s.Thread}
	if s.TimeNS == NoTime {
		if have, ok := p.alike[key]; ok {
			p.chunks[have.chunk][have.at].Weight += s.Weight
			return
		}
	}
	if n := len(p.chunks); n == 0 || len(p.chunks[n-1]) == sampleChunk {
		size := sampleChunk
		if n == 0 {
			size = 64 // most profiles are small
		}
		p.chunks = append(p.chunks, make([]Sample, 0, size))
	}
	last := len(p.chunks) - 1
	if s.TimeNS == NoTime {
		p.alike[key] = place{uint32(last), uint32(len(p.chunks[last]))}
	}
	p.chunks[last] = append(p.chunks[last], s)
}

// Samples are all samples in the order in which they were added, those without
// a time that are alike together.
func (p *Profile) Samples() iter.Seq[Sample] {
	return func(yield func(Sample) bool) {
		for _, chunk := range p.chunks {
			for _, s := range chunk {
				if !yield(s) {
					return
				}
			}
		}
	}
}

// Len is the number of samples added; samples of formats that add up stacks
// count once for each stack.
func (p *Profile) Len() int { return p.count }

// Total is the weight of all samples.
func (p *Profile) Total() int64 { return p.total }

// plus adds weights of several profiles; what does not fit is left out.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Taken is how many samples the profiler took, as far as that is known.
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
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out
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

// deleted is what the kernel puts behind the path of a file that is gone.
const deleted = " (deleted)"

// userModules are modules in brackets that are no part of the kernel.
var userModules = map[string]bool{"[vdso]": true, "[vsyscall]": true, "[heap]": true, "[stack]": true, "[anon]": true, "[unknown]": true, "[uprobes]": true, others: true}

// kernelModule reports whether a module of a profile is the kernel or a part
// of it. Older perfs give addresses in its file (vmlinux), which look like a
// program's.
func kernelModule(module string) bool {
	if strings.HasSuffix(module, ".ko") || strings.Contains(module, ".ko.") || strings.HasPrefix(path.Base(module), "vmlinux") {
		return true
	}
	return strings.HasPrefix(module, "[") && strings.HasSuffix(module, "]") && !userModules[module] && !strings.HasPrefix(module, "[JIT]") && !strings.HasPrefix(module, "[stack:")
}
