package profile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
)

// Types of binaries, by the functions that their files can name.
const (
	TypeFull     = "symbols"      // a symbol table: every function
	TypeExports  = "exports only" // only exported functions
	TypeStripped = "no symbols"   // none
	TypeDebug    = "debug file"   // none, but a debug file named them
	TypeGo       = "Go's table"   // none, but the table of Go's runtime named them
)

// ELF is the symbol information of a binary.
type ELF struct {
	BuildID string // hexadecimal; "" without one
	Type    string
	Text    Segment
	// Exports has the sizes of the exported functions, in bytes, by frame name;
	// only for a binary of [TypeExports].
	Exports map[string]uint64
}

// Segment is the part of a binary that the kernel maps to run it: Size bytes
// of the file from Offset, linked at Address.
type Segment struct {
	Offset  uint64 `json:"offset"`
	Address uint64 `json:"address"`
	Size    uint64 `json:"size"`
}

// linked converts a file offset to an address as used by symbols.
func (s Segment) linked(offset uint64) (uint64, bool) {
	if offset < s.Offset || offset-s.Offset >= s.Size {
		return 0, false
	}
	return offset - s.Offset + s.Address, true
}

// ReadELF reads the symbol information of a binary. The error wraps
// [ErrFormat].
func ReadELF(r io.ReaderAt) (out ELF, err error) {
	defer recoverFormat(&err)
	f, err := openELF(r)
	if err != nil {
		return ELF{}, err
	}
	out = ELF{BuildID: buildID(f), Type: TypeStripped, Text: textSegment(f)}
	if f.SectionByType(elf.SHT_SYMTAB) != nil || f.Section(".gnu_debugdata") != nil {
		out.Type = TypeFull
		return out, nil
	}
	symbols, err := functions(f, elf.SHT_DYNSYM)
	if err != nil {
		return out, err
	}
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			if out.Exports == nil {
				out.Type, out.Exports = TypeExports, map[string]uint64{}
			}
			name := readable(s.Name)
			out.Exports[name] = max(out.Exports[name], s.Size)
		}
	}
	return out, nil
}

// Limits on what is read of a binary. Containers bring their own binaries.
// Their headers may claim any size, in a sparse file or compressed a
// thousandfold, and their names may overlap, so that copying them would fill
// any memory.
const (
	maxSections     = 1 << 10
	maxSectionNames = 64 << 10  // bytes
	maxSymbols      = 64 << 20  // bytes of a symbol table
	maxNames        = 256 << 20 // bytes of the names of symbols
)

func openELF(r io.ReaderAt) (*elf.File, error) {
	err := boundHeaders(r)
	if err != nil {
		return nil, err
	}
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, fmt.Errorf("ELF: %w (%w)", err, ErrFormat)
	}
	return f, nil
}

// boundHeaders rejects headers for which elf.NewFile, which has no limits of
// its own, would allocate too much. It leaves unreadable headers to
// elf.NewFile. It also rejects files for machines other than 64-bit
// little-endian ones, on which no mesh runs.
func boundHeaders(r io.ReaderAt) error {
	var h elf.Header64
	var names elf.Section64 // the section with section names
	read := func(at int64, into any) {
		_ = binary.Read(io.NewSectionReader(r, at, int64(binary.Size(into))), binary.LittleEndian, into)
	}
	read(0, &h)
	read(int64(h.Shoff)+int64(h.Shstrndx)*int64(h.Shentsize), &names)
	switch {
	case h.Ident[elf.EI_CLASS] != byte(elf.ELFCLASS64), h.Ident[elf.EI_DATA] != byte(elf.ELFDATA2LSB):
		return fmt.Errorf("ELF: not a file of a 64-bit little-endian machine: %w", ErrFormat)
	case h.Phentsize > 64, h.Shentsize > 64: // more than any ELF's
		return fmt.Errorf("ELF: entries of its headers are larger than 64 bytes: %w", ErrFormat)
	case h.Shoff > 0 && h.Shnum == 0, h.Shnum > maxSections: // 0: more than fit into the field
		return fmt.Errorf("ELF: more than %d sections: %w", maxSections, ErrFormat)
	case names.Size > maxSectionNames, elf.SectionFlag(names.Flags)&elf.SHF_COMPRESSED != 0:
		return fmt.Errorf("ELF: the names of its sections are compressed, or larger than %d KiB: %w",
			maxSectionNames>>10, ErrFormat)
	}
	return nil
}

// sectionData reads an uncompressed section of at most that many bytes.
func sectionData(s *elf.Section, most uint64) ([]byte, error) {
	if s.Flags&elf.SHF_COMPRESSED != 0 || s.FileSize > most {
		return nil, fmt.Errorf("ELF: section %.40q is compressed, or larger than %d bytes: %w", s.Name, most, ErrFormat)
	}
	data, err := s.Data()
	if err != nil {
		return nil, fmt.Errorf("ELF: %w (%w)", err, ErrFormat)
	}
	return data, nil
}

// functions reads the functions defined by a symbol table. debug/elf would copy
// all names, including those of versions, without a limit.
func functions(f *elf.File, kind elf.SectionType) ([]elf.Symbol, error) {
	table := f.SectionByType(kind)
	if table == nil || int64(table.Link) >= int64(len(f.Sections)) {
		return nil, nil
	}
	data, err := sectionData(table, maxSymbols)
	if err != nil {
		return nil, err
	}
	names, err := sectionData(f.Sections[table.Link], maxNames)
	if err != nil {
		return nil, err
	}
	var out []elf.Symbol
	for room := maxNames; len(data) >= elf.Sym64Size; data = data[elf.Sym64Size:] {
		var s elf.Sym64
		_, _ = binary.Decode(data, f.ByteOrder, &s)
		kind := elf.ST_TYPE(s.Info)
		if kind != elf.STT_FUNC && kind != elf.STT_GNU_IFUNC || elf.SectionIndex(s.Shndx) == elf.SHN_UNDEF ||
			int64(s.Name) >= int64(len(names)) {
			continue
		}
		name, _, ended := bytes.Cut(names[s.Name:], []byte{0})
		if room -= len(name); room < 0 {
			return nil, fmt.Errorf("ELF: the names of its symbols take more than %d MiB: %w", maxNames>>20, ErrFormat)
		}
		if ended && len(name) > 0 {
			out = append(out, elf.Symbol{Name: string(name), Info: s.Info, Value: s.Value, Size: s.Size})
		}
	}
	return out, nil
}

// recoverFormat turns a panic into an error that wraps [ErrFormat], because the
// libraries that read files are not hardened against invalid input.
func recoverFormat(err *error) {
	if broken := recover(); broken != nil {
		*err = fmt.Errorf("%v: %w", broken, ErrFormat)
	}
}

// buildID returns the binary's GNU build ID: a note with a header of 12 bytes,
// the name "GNU\0", and the ID.
func buildID(f *elf.File) string {
	s := f.Section(".note.gnu.build-id")
	if s == nil || s.Type != elf.SHT_NOTE || s.Size > 1<<16 {
		return ""
	}
	note, err := s.Data()
	if err != nil || len(note) < 16 {
		return ""
	}
	id := note[16:]
	return hex.EncodeToString(id[:min(uint64(f.ByteOrder.Uint32(note[4:])), uint64(len(id)))])
}

// textSegment returns the first executable segment of a file. Debug files list
// it without its contents and without its position in the binary.
func textSegment(f *elf.File) Segment {
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && p.Filesz > 0 {
			return Segment{p.Off, p.Vaddr, p.Filesz}
		}
	}
	return Segment{}
}
