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

// Limits of a profile. Exceeding them truncates the profile and adds a note, but
// is not an error.
const (
	maxPaths    = 1 << 20 // about 50 bytes each
	maxDepth    = 1024    // frames per stack; the kernel's own limit is 127
	maxFrames   = 1 << 20
	maxThreads  = 1 << 16
	maxBinaries = 4096
	maxText     = 128 << 20 // total bytes of function, module and thread names
)

// maxWeight limits a sample's weight in text formats: eleven days in nanoseconds.
const maxWeight = 1e15

// maxTotal limits the weight of all samples so that sums do not overflow: 73
// years in nanoseconds, which block profiles of a large server may reach.
const maxTotal = 1 << 61

// MemoryLimit is the runtime/debug.SetMemoryLimit of programs that read large
// profiles, in bytes. Retained data takes far less; the rest is garbage.
const MemoryLimit = 200 << 20

// NoTime is the time of samples with unknown time.
const NoTime = -1

// Frame is a function in a stack.
type Frame struct {
	Name    string // "" if unknown
	Module  string // path of the binary or library; [kernel.kallsyms], [vdso]; "" if unknown
	Kernel  bool
	Inlined bool // the compiler inlined it into its caller
	// Offset is its offset in the module's file, in bytes, for frames that can
	// still be named, until [Profile.Distrust]; 0 if unknown.
	Offset uint64
}

// Label returns a frame's name, or its module in brackets if it has none.
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

// Thread is a thread; zero if the format has no threads.
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
	// Type is the kind of symbols in its file: [TypeFull], [TypeExports],
	// [TypeStripped], [TypeDebug], [TypeGo], or "" if it was not read.
	Type string `json:"type,omitempty"`
	// Resolved is the share of the weight of its innermost frames that have a
	// name. Weight is the weight of samples whose innermost frame is in it.
	Resolved float64 `json:"resolved"`
	Weight   int64   `json:"weight"`
	// Text is the executable part of its file; zero if it was not read.
	Text Segment `json:"text,omitzero"`
	// Doubt is why its names were removed: [DoubtBuild], [DoubtDeleted],
	// [DoubtGuessed], or "" if they were not. Why explains it in words.
	Doubt string `json:"doubt,omitempty"`
	Why   string `json:"why,omitempty"`
}

// Profile is a set of weighted stacks. Create one with [New].
type Profile struct {
	Kind   string
	Unit   string
	Period int64 // weight of one sample; 0 if unknown
	// Event is the perf event that was counted, such as cpu-clock; "" for other
	// profilers.
	Event    string
	Binaries []Binary
	Notes    []string // for display: what was omitted, and how names were found

	cut       int64 // samples whose stack exceeded the limits
	samples   []Sample
	count     int   // of samples added
	total     int64 // their weight
	clipped   bool  // the weight exceeded maxTotal
	crowded   bool  // functions or threads exceeded their limits
	textBytes int   // of the names of frames and threads
	frames    []Frame
	offsets   []uint32 // by frame: the farthest offset seen within its function
	paths     []step
	threads   []Thread

	frameIndex  map[Frame]FrameID
	pathIndex   map[step]StackID
	threadIndex map[Thread]ThreadID
	alike       map[stackThread]int // index of samples without a time
}

// stackThread identifies samples without a time.
type stackThread struct {
	stack  StackID
	thread ThreadID
}

// others stands for functions and threads beyond the limits.
const others = "[others]"

// step is a stack, as its caller's stack plus one frame.
type step struct {
	parent StackID
	frame  FrameID
}

// New returns an empty profile.
func New(kind, unit string) *Profile {
	return &Profile{Kind: kind, Unit: unit, paths: make([]step, 1),
		frameIndex: map[Frame]FrameID{}, pathIndex: map[step]StackID{}, threadIndex: map[Thread]ThreadID{},
		alike: map[stackThread]int{}}
}

// Frame returns the index of a frame, or that of [others] if there is no room for
// it.
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

// room reserves memory for a name, if available.
func (p *Profile) room(free bool, bytes int) bool {
	if !free || p.textBytes+bytes > maxText {
		p.crowded = true
		return false
	}
	p.textBytes += bytes
	return true
}

// Thread returns the index of a thread, or that of [others] if there is no room
// for it.
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

// Push returns the stack that extends parent by one frame. It returns false if
// there is no room for a new one.
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

// stacksIn adds a profile's stacks to another, and returns their indexes there. If that is full, callers stand for
// their callees.
func (p *Profile) stacksIn(other *Profile) []StackID {
	to := make([]StackID, len(p.paths))
	for i := 1; i < len(p.paths); i++ {
		old := p.paths[i].frame
		frame := other.Frame(p.frames[old])
		other.offsets[frame] = max(other.offsets[frame], p.offsets[old])
		to[i], _ = other.Push(to[p.paths[i].parent], frame)
	}
	return to
}

// stack returns the index of a stack, given root first.
func (p *Profile) stack(frames []Frame) StackID {
	ids := make([]FrameID, len(frames))
	for i, f := range frames {
		ids[i] = p.Frame(f)
	}
	return p.stackOf(slices.Values(ids))
}

// stackOf is stack for frames of the profile.
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

// Add adds a sample. Samples without a time are summed by stack and thread.
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

// Samples returns all samples in the order in which they were added.
func (p *Profile) Samples() iter.Seq[Sample] { return slices.Values(p.samples) }

// Len returns the number of added samples. Aggregating formats have one per
// stack.
func (p *Profile) Len() int { return p.count }

// Total returns the weight of all samples.
func (p *Profile) Total() int64 { return p.total }

// plus adds weights of several profiles without overflow.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Taken returns the number of samples that the profiler took, if known.
func (p *Profile) Taken() int64 {
	if p.Period > 0 {
		return (p.Total() + p.Period/2) / p.Period
	}
	if p.Unit == UnitSamples || p.Unit == "count" {
		return p.Total()
	}
	return int64(p.count)
}

// Threads returns all threads in order of appearance.
func (p *Profile) Threads() []Thread { return p.threads }

// Inner returns a stack's frames, innermost first.
func (p *Profile) Inner(s StackID) iter.Seq[FrameID] {
	return func(yield func(FrameID) bool) {
		for ; s != 0; s = p.paths[s].parent {
			if !yield(p.paths[s].frame) {
				return
			}
		}
	}
}

// Frames returns a stack's frames, root first.
func (p *Profile) Frames(s StackID) []Frame {
	var out []Frame
	for id := range p.Inner(s) {
		out = append(out, p.frames[id])
	}
	slices.Reverse(out)
	return out
}

// noteCut notes what exceeded the profile's limits.
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

// Span returns the times of the first and the last sample, in nanoseconds; ok is
// false if samples have no times.
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

// Binary returns the binary with a path, adding it if necessary; nil if there is no room for another one.
func (p *Profile) Binary(path string) *Binary {
	i := slices.IndexFunc(p.Binaries, func(b Binary) bool { return b.Path == path })
	if i < 0 {
		if i = len(p.Binaries); i >= maxBinaries {
			return nil
		}
		p.Binaries = append(p.Binaries, Binary{Path: strings.Clone(path)})
	}
	return &p.Binaries[i]
}

// SetBuildIDs sets the build IDs of binaries by path.
func (p *Profile) SetBuildIDs(ids map[string]string) {
	for _, path := range slices.Sorted(maps.Keys(ids)) {
		if b := p.Binary(path); b != nil {
			b.BuildID = ids[path]
		}
	}
}

// deleted is the suffix that the kernel appends to the path of a deleted file.
const deleted = " (deleted)"

// userModules lists modules in brackets that are not part of the kernel.
var userModules = map[string]bool{"[vdso]": true, "[vsyscall]": true, "[heap]": true, "[stack]": true, "[anon]": true,
	"[unknown]": true, "[uprobes]": true, others: true}

// kernelModule reports whether a module of a profile is the kernel or part of it.
// Older versions of perf print addresses in the kernel's file (vmlinux), which
// look like a program's.
func kernelModule(module string) bool {
	if strings.HasSuffix(module, ".ko") || strings.Contains(module, ".ko.") ||
		strings.HasPrefix(path.Base(module), "vmlinux") {
		return true
	}
	return strings.HasPrefix(module, "[") && strings.HasSuffix(module, "]") && !userModules[module] &&
		!strings.HasPrefix(module, "[JIT]") && !strings.HasPrefix(module, "[stack:")
}
