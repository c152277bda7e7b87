package profile

import (
	"bytes"
	"cmp"
	"debug/elf"
	"debug/gosym"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// symbols has the functions of a binary by address.
type symbols struct {
	buildID   string
	text      Segment      // the executable segment, if the file still has it
	functions []elf.Symbol // by address, one per address
	table     *gosym.Table // from Go's runtime, if there are no functions
}

// Errors of [Profile.Symbolise].
var (
	ErrNoSymbols  = errors.New("it has no symbol table")
	ErrOtherBuild = errors.New("it has another build id than what ran")
	ErrNoText     = errors.New("neither it nor the profile says where the code was in the binary: name the binary too")
	ErrNoMatch    = errors.New("it names nothing of what ran")
)

// readSymbols reads the functions of a binary or of its debug file. For a Go
// program without a symbol table it uses the table of Go's runtime, which perf
// does not read. The error wraps [ErrNoSymbols] or [ErrFormat].
func readSymbols(r io.ReaderAt) (out *symbols, err error) {
	defer recoverFormat(&err)
	f, err := openELF(r)
	if err != nil {
		return nil, err
	}
	out = &symbols{buildID: buildID(f), text: textSegment(f)}
	all, err := functions(f, elf.SHT_SYMTAB)
	if err != nil {
		return nil, err
	}
	out.functions = slices.DeleteFunc(all, func(s elf.Symbol) bool { return s.Size == 0 })
	if len(out.functions) == 0 {
		out.table, err = goTable(f)
		return out, err
	}
	// If an address has several names, use the global one.
	slices.SortFunc(out.functions, func(a, b elf.Symbol) int {
		return cmp.Or(cmp.Compare(a.Value, b.Value), cmp.Compare(b.Size, a.Size),
			-cmp.Compare(elf.ST_BIND(a.Info), elf.ST_BIND(b.Info)), cmp.Compare(a.Name, b.Name))
	})
	out.functions = slices.CompactFunc(out.functions, func(a, b elf.Symbol) bool { return a.Value == b.Value })
	return out, nil
}

// goTable reads the function table that Go's runtime needs and stripping
// preserves. Its addresses are relative to the start of Go's code. That is the
// start of .text in the output of Go's linker, but not in that of a C linker
// (cgo), where every name would be wrong. The table is therefore used only if it
// finds Go's start code at the program's entry point.
func goTable(f *elf.File) (*gosym.Table, error) {
	section := f.Section(".gopclntab")
	if section == nil {
		section = f.Section(".data.rel.ro.gopclntab") // in position-independent programs
	}
	text := f.Section(".text")
	if section == nil || section.Type == elf.SHT_NOBITS || text == nil {
		return nil, ErrNoSymbols
	}
	data, err := sectionData(section, maxGoTable)
	if err != nil {
		return nil, err
	}
	if err := boundGoTable(data, f.ByteOrder); err != nil {
		return nil, err
	}
	table, err := gosym.NewTable(nil, gosym.NewLineTable(data, text.Addr))
	if err != nil {
		return nil, fmt.Errorf("ELF: %w (%w)", err, ErrFormat)
	}
	if start := table.PCToFunc(f.Entry); start == nil || !strings.HasPrefix(start.Name, "_rt0_") {
		return nil, ErrNoSymbols
	}
	return table, nil
}

// Limits of Go's table: gosym allocates about 300 bytes per function.
const (
	maxGoTable     = 128 << 20 // bytes
	maxGoFunctions = 1 << 20
)

// boundGoTable rejects a table for which gosym would allocate too much: it
// copies names, which may overlap. It panics if the table refers beyond its end.
// The layout is that of runtime/symtab.go since Go 1.18.
func boundGoTable(data []byte, order binary.ByteOrder) error {
	const magic118, magic120 = 0xfffffff0, 0xfffffff1
	if magic := order.Uint32(data); magic != magic118 && magic != magic120 {
		return ErrNoSymbols
	}
	word := func(i int) uint64 { return order.Uint64(data[8+8*i:]) }
	count, names, funcs := word(0), data[word(3):], data[word(7):]
	if count > maxGoFunctions {
		return fmt.Errorf("ELF: more than %d functions in Go's table: %w", maxGoFunctions, ErrFormat)
	}
	room := maxNames
	for i := range count {
		function := funcs[order.Uint32(funcs[8*i+4:]):] // starts with the address and the offset of the name
		name, _, _ := bytes.Cut(names[order.Uint32(function[4:]):], []byte{0})
		if room -= len(name); room < 0 {
			return fmt.Errorf("ELF: the names in Go's table take more than %d MiB: %w", maxNames>>20, ErrFormat)
		}
	}
	return nil
}

// find returns the name of the function at a link-time address. Addresses beyond
// a function's end have no name.
func (s *symbols) find(address uint64) (name string, ok bool) {
	if s.table != nil {
		if f := s.table.PCToFunc(address); f != nil {
			return f.Name, f.Name != ""
		}
		return "", false
	}
	i, found := slices.BinarySearchFunc(s.functions, address, func(f elf.Symbol, address uint64) int {
		return cmp.Compare(f.Value, address)
	})
	if !found {
		i--
	}
	if i < 0 || address-s.functions[i].Value >= s.functions[i].Size {
		return "", false
	}
	return readable(s.functions[i].Name), true
}

// readable returns a symbol's name as in the source, without LLVM's suffix for
// split or cloned functions. Not every perf demangles names.
func readable(name string) (out string) {
	defer func() {
		if recover() != nil {
			out = name
		}
	}()
	if cut := strings.Index(name, ".llvm."); cut > 0 {
		name = name[:cut]
	}
	return demangle.Filter(name, demangle.LLVMStyle)
}

// Unnamed lists the user-space binaries with frames that have an offset but no
// name, most expensive first. Weight is that of samples whose innermost frame is
// such a frame.
func (p *Profile) Unnamed() []Binary {
	weights := map[string]int64{}
	for _, f := range p.frames {
		if f.Name == "" && f.Offset != 0 {
			weights[f.Module] = 0
		}
	}
	for s := range p.Samples() {
		if s.Stack == 0 {
			continue
		}
		if f := p.frames[p.paths[s.Stack].frame]; f.Name == "" && f.Offset != 0 {
			weights[f.Module] = plus(weights[f.Module], s.Weight)
		}
	}
	var out []Binary
	for _, b := range p.Binaries {
		if weight, ok := weights[b.Path]; ok {
			b.Weight = weight
			out = append(out, b)
		}
	}
	slices.SortStableFunc(out, func(a, b Binary) int { return cmp.Compare(b.Weight, a.Weight) })
	return out
}

// Symbolise names the frames of a binary that have an offset but no name, from
// the symbols in its file or debug file, whose build ID must match the binary's.
// The error wraps [ErrFormat] or one of [ErrNoSymbols] and the others.
func (p *Profile) Symbolise(path string, file io.ReaderAt) error {
	s, err := readSymbols(file)
	if err != nil {
		return err
	}
	b := p.Binary(path)
	if b == nil {
		return ErrNoMatch
	}
	text := cmp.Or(b.Text, s.text)
	switch {
	case s.buildID != b.BuildID:
		return ErrOtherBuild
	case text == (Segment{}):
		return ErrNoText
	}
	names := map[FrameID]string{}
	for id, f := range p.frames {
		if f.Module != b.Path || f.Name != "" || f.Offset == 0 {
			continue
		}
		if address, ok := text.linked(f.Offset); ok {
			if name, ok := s.find(address); ok {
				names[FrameID(id)] = name
			}
		}
	}
	if len(names) == 0 {
		return ErrNoMatch
	}
	b.Type, b.Doubt, b.Why = TypeDebug, "", ""
	if s.table != nil {
		b.Type = TypeGo
	}
	p.rewrite(func(id FrameID, f Frame) Frame {
		if name, ok := names[id]; ok {
			f.Name, f.Offset = name, 0
		}
		return f
	}, false)
	return nil
}

// forgetOffsets drops the offsets of frames, and joins consecutive frames
// without names in a module.
func (p *Profile) forgetOffsets() {
	p.rewrite(func(_ FrameID, f Frame) Frame {
		f.Offset = 0
		return f
	}, true)
}

// rewrite replaces frames, and the paths through them. With join, consecutive
// frames without names in a module become one.
func (p *Profile) rewrite(replace func(FrameID, Frame) Frame, join bool) {
	changed := false
	frameTo := make([]FrameID, len(p.frames))
	for id := range frameTo {
		before := p.frames[id]
		frameTo[id] = FrameID(id)
		if after := replace(FrameID(id), before); after != before {
			frameTo[id] = p.Frame(after)
			p.offsets[frameTo[id]] = max(p.offsets[frameTo[id]], p.offsets[id])
			changed = true
		}
		changed = changed || join && before.Name == ""
	}
	if !changed {
		return
	}
	stackTo := make([]StackID, len(p.paths))
	old := p.paths
	p.paths, p.pathIndex = make([]step, 1, len(old)), map[step]StackID{}
	for i := 1; i < len(old); i++ {
		parent, frame := stackTo[old[i].parent], frameTo[old[i].frame]
		if join && parent != 0 && p.paths[parent].frame == frame && p.frames[frame].Name == "" {
			stackTo[i] = parent
			continue
		}
		stackTo[i], _ = p.Push(parent, frame)
	}
	clear(p.alike)
	for i := range p.samples {
		one := &p.samples[i]
		if one.Stack = stackTo[one.Stack]; one.TimeNS == NoTime {
			p.alike[stackThread{one.Stack, one.Thread}] = i
		}
	}
}
