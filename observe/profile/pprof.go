package profile

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"

	"github.com/google/pprof/profile"
	"google.golang.org/protobuf/encoding/protowire"
)

// maxPprofValue limits a sample's value: block profiles sum up years of waiting,
// in nanoseconds.
const maxPprofValue = 1e17

// Limits of a file, in bytes. pprof's library uses far more memory than the file:
// an empty message of two bytes becomes a hundred. The limits allow two million
// samples with their threads, times and stacks: an hour of five busy CPUs.
const (
	maxPprof       = 256 << 20 // uncompressed
	maxPprofMemory = 2 << 30   // approximate memory after parsing
	maxLegacyPprof = 16 << 20  // in gperftools format: four bytes become two hundred
)

// Labels of samples. Go programs also use the first.
const (
	labelThread = "thread"
	labelPID    = "pid"
	labelTID    = "tid"
	labelTime   = "time_ns"
)

// ReadPprof reads a profile in pprof or gperftools format, compressed or not. Of
// several values it uses the one that the file names, or the last, which is time
// for CPU, mutex and block profiles, and memory in use for heap profiles.
func ReadPprof(r io.Reader) (*Profile, error) {
	in, err := parsePprof(r)
	if err == nil && len(in.SampleType) == 0 {
		err = errors.New("the file does not say what it counts")
	}
	if err != nil {
		return nil, fmt.Errorf("pprof: %w (%w)", err, ErrFormat)
	}
	which := pprofValue(in)
	kind := KindOther
	switch in.SampleType[which].Type {
	case "cpu", "samples", "wall":
		kind = KindCPU
	case "inuse_space", "alloc_space", "inuse_objects", "alloc_objects", "space", "objects":
		kind = KindHeap
	}
	p := New(kind, in.SampleType[which].Unit)
	if in.PeriodType != nil && in.PeriodType.Unit == p.Unit && kind == KindCPU {
		p.Period = max(in.Period, 0)
	}
	p.Notes = append(p.Notes, in.Comments...)
	for _, m := range in.Mapping {
		if m.File == "" {
			continue
		}
		if b := p.Binary(m.File); b != nil {
			b.BuildID = m.BuildID
			if m.Start>>32 == m.ID {
				// As assigned by WritePprof: addresses are link-time addresses.
				b.Text = Segment{Offset: m.Offset, Address: m.Start & (1<<32 - 1), Size: m.Limit - m.Start}
			}
		}
	}
	frames := pprofFrames{p: p, known: map[uint64][]FrameID{}}
	for _, sample := range in.Sample {
		if which >= len(sample.Value) || sample.Value[which] <= 0 || sample.Value[which] > maxPprofValue {
			continue
		}
		p.Add(Sample{Stack: p.stackOf(frames.stack(sample.Location)), Thread: p.Thread(pprofThread(sample)),
			Weight: sample.Value[which], TimeNS: pprofTime(sample)})
	}
	p.noteCut()
	return p, nil
}

// parsePprof parses a file within the limits, using pprof's library.
func parsePprof(r io.Reader) (p *profile.Profile, err error) {
	defer recoverFormat(&err)
	data, err := readBounded(r)
	if err == nil && bytes.HasPrefix(data, gzipMagic) {
		var packed *gzip.Reader
		if packed, err = gzip.NewReader(bytes.NewReader(data)); err == nil {
			data, err = readBounded(packed)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case isLegacyPprof(data):
		if len(data) > maxLegacyPprof {
			return nil, fmt.Errorf("more than %d MiB in gperftools' form", maxLegacyPprof>>20)
		}
		return profile.ParseData(data)
	}
	if err := boundPprof(data); err != nil {
		return nil, err
	}
	// Do not use ParseData: it decompresses doubly compressed data without a
	// limit.
	if p, err = profile.ParseUncompressed(data); err == nil {
		err = p.CheckValid()
	}
	return p, err
}

var gzipMagic = []byte{0x1f, 0x8b}

func readBounded(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxPprof+1))
	if err == nil && len(data) > maxPprof {
		err = fmt.Errorf("more than %d MiB", maxPprof>>20)
	}
	return data, err
}

// isLegacyPprof reports whether a file starts like those of gperftools and of
// older Go programs: CPU profiles with a zero word, where the first byte of
// others is a field's number; heap and contention profiles with text.
func isLegacyPprof(head []byte) bool {
	return slices.ContainsFunc([]string{"\x00", "heap profile:", "--- contention", "--- mutex:"}, func(start string) bool {
		return bytes.HasPrefix(head, []byte(start))
	})
}

// Fields of profile.proto that are not messages.
const (
	fieldSample   = 2 // its first two fields are packed lists of numbers
	fieldStrings  = 6
	fieldComments = 13 // a packed list of numbers
)

// boundPprof rejects a file that would take more than [maxPprofMemory].
func boundPprof(data []byte) error {
	const number, message, innerMessage = 16, 256, 128 // approximate bytes of memory
	var memory int64
	var walk func(data []byte, parent protowire.Number) error
	walk = func(data []byte, parent protowire.Number) error {
		for len(data) > 0 {
			field, kind, n := protowire.ConsumeTag(data)
			if n < 0 {
				return protowire.ParseError(n)
			}
			m := protowire.ConsumeFieldValue(field, kind, data[n:])
			if m < 0 {
				return protowire.ParseError(m)
			}
			value, _ := protowire.ConsumeBytes(data[n : n+m])
			data = data[n+m:]
			switch {
			case kind != protowire.BytesType:
				memory += number
			case parent == fieldSample && field <= 2, parent == 0 && field == fieldComments:
				for _, b := range value {
					memory += number * int64(1-b>>7) // the last byte of a number
				}
			case parent != 0:
				memory += innerMessage
			default:
				memory += message
				if field == fieldStrings {
					memory += int64(len(value))
				} else if err := walk(value, field); err != nil {
					return err
				}
			}
			if memory > maxPprofMemory {
				return fmt.Errorf("it would take more than %d MiB of memory", maxPprofMemory>>20)
			}
		}
		return nil
	}
	return walk(data, 0)
}

// pprofValue returns the index of the profile's value: the one that it names, as
// in TCMalloc's profiles, whose last value is not memory in use; otherwise the
// last.
func pprofValue(in *profile.Profile) int {
	at := slices.IndexFunc(in.SampleType, func(t *profile.ValueType) bool { return t.Type == in.DefaultSampleType })
	if at < 0 || in.DefaultSampleType == "" {
		return len(in.SampleType) - 1
	}
	isSpace := func(t *profile.ValueType) bool { return t.Type == "space" && t.Unit == "bytes" }
	if space := slices.IndexFunc(in.SampleType, isSpace); space >= 0 {
		return space // rather than the number of objects
	}
	return at
}

func pprofThread(s *profile.Sample) Thread {
	t := Thread{PID: int(numLabel(s, labelPID, 0)), TID: int(numLabel(s, labelTID, 0))}
	if names := s.Label[labelThread]; len(names) > 0 {
		t.Name = names[0]
	}
	return t
}

func pprofTime(s *profile.Sample) int64 {
	return max(numLabel(s, labelTime, NoTime), NoTime)
}

func numLabel(s *profile.Sample, key string, or int64) int64 {
	if values := s.NumLabel[key]; len(values) > 0 {
		return values[0]
	}
	return or
}

// pprofFrames converts locations to frames, each location once.
type pprofFrames struct {
	p     *Profile
	known map[uint64][]FrameID // by location: root first
}

// stack returns a sample's frames, root first. Locations are innermost first, and
// each is preceded by the functions inlined into it.
func (f pprofFrames) stack(locations []*profile.Location) iter.Seq[FrameID] {
	return func(yield func(FrameID) bool) {
		for _, location := range slices.Backward(locations) {
			for _, id := range f.location(location) {
				if !yield(id) {
					return
				}
			}
		}
		if len(locations) == 0 {
			yield(f.p.Frame(Frame{}))
		}
	}
}

func (f pprofFrames) location(l *profile.Location) []FrameID {
	if ids, ok := f.known[l.ID]; ok {
		return ids
	}
	var frame Frame
	m := l.Mapping
	if m != nil {
		frame.Module, frame.Kernel = m.File, kernelModule(m.File)
	}
	var ids []FrameID
	if len(l.Line) == 0 {
		switch {
		case frame.Module == "" && l.Address != 0:
			frame.Name = fmt.Sprintf("0x%x", l.Address)
		case frame.Module != "" && !frame.Kernel && l.Address >= m.Start && l.Address < m.Limit && l.Address != 0:
			frame.Offset = l.Address - m.Start + m.Offset
		}
		ids = append(ids, f.p.Frame(frame))
	}
	for i, line := range slices.Backward(l.Line) {
		named := frame
		if line.Function != nil {
			named.Name = line.Function.Name
		}
		named.Inlined = i < len(l.Line)-1
		ids = append(ids, f.p.Frame(named))
	}
	f.known[l.ID] = ids
	return ids
}

// WritePprof writes the profile in pprof format, compressed. Threads and times
// become labels. [ReadPprof] restores what was written.
func (p *Profile) WritePprof(w io.Writer) error {
	kind := p.Kind
	if kind == KindHeap {
		kind = "inuse_space"
	}
	out := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: kind, Unit: p.Unit}},
		PeriodType: &profile.ValueType{Type: kind, Unit: p.Unit}, Period: p.Period, Comments: p.Notes,
	}
	b := pprofBuilder{p: p, out: out, mappings: map[string]*profile.Mapping{},
		functions: map[string]*profile.Function{}, locations: map[string]*profile.Location{}}
	for _, binary := range p.Binaries {
		m := b.mapping(binary.Path)
		m.BuildID = binary.BuildID
		if t := binary.Text; t.Size > 0 && t.Address+t.Size < 1<<32 {
			m.Start, m.Offset = m.ID<<32+t.Address, t.Offset
			m.Limit = m.Start + t.Size
		}
	}
	type key struct {
		stack  StackID
		thread ThreadID
		time   int64
	}
	at := map[key]*profile.Sample{}
	for s := range p.Samples() {
		k := key{s.Stack, s.Thread, s.TimeNS}
		if have := at[k]; have != nil {
			have.Value[0] += s.Weight
			continue
		}
		sample := &profile.Sample{Value: []int64{s.Weight}, Location: b.stack(s.Stack)}
		b.labels(sample, p.threads[s.Thread], s.TimeNS)
		at[k] = sample
		out.Sample = append(out.Sample, sample)
	}
	if err := out.Write(w); err != nil {
		return fmt.Errorf("pprof: %w", err)
	}
	return nil
}

type pprofBuilder struct {
	p         *Profile
	out       *profile.Profile
	mappings  map[string]*profile.Mapping
	functions map[string]*profile.Function
	locations map[string]*profile.Location
	scratch   []FrameID
}

func (b *pprofBuilder) mapping(file string) *profile.Mapping {
	m := b.mappings[file]
	if m == nil {
		// Each mapping has its own range of link-time addresses, for programs
		// that resolve names.
		n := uint64(len(b.out.Mapping) + 1)
		m = &profile.Mapping{ID: n, Start: n << 32, Limit: (n + 1) << 32, File: file, HasFunctions: true}
		b.out.Mapping, b.mappings[file] = append(b.out.Mapping, m), m
	}
	return m
}

func (b *pprofBuilder) function(name string) *profile.Function {
	f := b.functions[name]
	if f == nil {
		f = &profile.Function{ID: uint64(len(b.out.Function) + 1), Name: name, SystemName: name}
		b.out.Function, b.functions[name] = append(b.out.Function, f), f
	}
	return f
}

// stack returns a stack's locations, innermost first. A frame and those inlined
// into it are one location.
func (b *pprofBuilder) stack(s StackID) []*profile.Location {
	b.scratch = slices.AppendSeq(b.scratch[:0], b.p.Inner(s))
	var out []*profile.Location
	for i := 0; i < len(b.scratch); {
		end := i
		for end < len(b.scratch)-1 && b.p.frames[b.scratch[end]].Inlined {
			end++
		}
		out = append(out, b.location(b.scratch[i:end+1]))
		i = end + 1
	}
	return out
}

func (b *pprofBuilder) location(frames []FrameID) *profile.Location {
	key := fmt.Sprint(frames)
	l := b.locations[key]
	if l != nil {
		return l
	}
	l = &profile.Location{ID: uint64(len(b.out.Location) + 1)}
	outer := b.p.frames[frames[len(frames)-1]]
	if outer.Kernel && !kernelModule(outer.Module) {
		outer.Module = "[kernel]"
	}
	if outer.Module != "" {
		l.Mapping = b.mapping(outer.Module)
		if m := l.Mapping; outer.Offset >= m.Offset && outer.Offset-m.Offset < m.Limit-m.Start && outer.Offset != 0 {
			l.Address = m.Start + outer.Offset - m.Offset
		} else if outer.Name != "" {
			l.Address = m.Start>>32<<32 + l.ID // any unique address
		}
	}
	for _, id := range frames {
		if f := b.p.frames[id]; f.Name != "" || len(frames) > 1 {
			l.Line = append(l.Line, profile.Line{Function: b.function(f.Name)})
		}
	}
	b.out.Location, b.locations[key] = append(b.out.Location, l), l
	return l
}

func (b *pprofBuilder) labels(s *profile.Sample, t Thread, timeNS int64) {
	if t.Name != "" {
		s.Label = map[string][]string{labelThread: {t.Name}}
	}
	s.NumLabel, s.NumUnit = map[string][]int64{}, map[string][]string{}
	if t.PID != 0 || t.TID != 0 {
		s.NumLabel[labelPID], s.NumLabel[labelTID] = []int64{int64(t.PID)}, []int64{int64(t.TID)}
	}
	if timeNS != NoTime {
		s.NumLabel[labelTime], s.NumUnit[labelTime] = []int64{timeNS}, []string{UnitNanoseconds}
	}
}

// ErrReset is returned if a profile that counts from a server's start is smaller
// than an earlier one.
var ErrReset = errors.New("counted less than before: the server was restarted")

// Since returns the difference of two profiles that count from the server's
// start. The error wraps [ErrReset] if the total decreased.
func Since(before, after *Profile) (*Profile, error) {
	if before.Unit != after.Unit {
		return nil, fmt.Errorf("profiles of %s and of %s cannot be compared", before.Unit, after.Unit)
	}
	if after.Total() < before.Total() {
		return nil, ErrReset
	}
	had := before.byText()
	out := New(after.Kind, after.Unit)
	out.Binaries, out.Period = slices.Clone(after.Binaries), after.Period
	texts := after.byText()
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		if gained := texts[key].weight - had[key].weight; gained > 0 {
			out.Add(Sample{Stack: out.stack(after.Frames(texts[key].stack)), Thread: out.Thread(Thread{}), Weight: gained, TimeNS: NoTime})
		}
	}
	return out, nil
}

type weighed struct {
	stack  StackID
	weight int64
}

// byText sums stacks by their text, which is comparable between profiles.
func (p *Profile) byText() map[string]weighed {
	out := map[string]weighed{}
	for stack, weight := range p.stackWeights() {
		var key []byte
		for id := range p.Inner(stack) {
			key = append(append(key, p.frames[id].Label()...), 0)
		}
		have := out[string(key)]
		out[string(key)] = weighed{stack, have.weight + weight}
	}
	return out
}
