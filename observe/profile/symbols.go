package profile

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// Segment is the part of a binary that the kernel maps to run it: so many
// bytes of the file from Offset on, at Address as it was linked.
type Segment struct {
	Offset  uint64 `json:"offset"`
	Address uint64 `json:"address"`
	Size    uint64 `json:"size"`
}

// linked turns a place in the file into the address that symbols have.
func (s Segment) linked(offset uint64) (uint64, bool) {
	if offset < s.Offset || offset-s.Offset >= s.Size {
		return 0, false
	}
	return offset - s.Offset + s.Address, true
}

// textSegment is the first part of a file that may be run. Debug files have it
// without its bytes: where they were in the binary these no longer say.
func textSegment(f *elf.File) Segment {
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && p.Filesz > 0 {
			return Segment{p.Off, p.Vaddr, p.Filesz}
		}
	}
	return Segment{}
}

// Symbols are the names of a binary's functions by their addresses.
type Symbols struct {
	BuildID string
	// Text is the part that runs, if the file still has it.
	Text Segment
	// Type is [TypeFull], or [TypeGo] for Go's own table.
	Type string

	at    []symbol // by address
	names io.ReaderAt
	table *goTable
}

// symbol is a function: its name begins at a byte of the table of names.
type symbol struct {
	from, size uint64
	name       uint32
	local      bool
}

// ErrNoSymbols is the error of a file without a table of its functions.
var ErrNoSymbols = errors.New("it has no table of its functions")

// ReadSymbols reads the table of functions of a binary or of its debug file.
// Of a Go program without one it takes the table that Go's runtime uses. The
// reader must stay open while names are asked for. The error wraps
// [ErrNoSymbols] or [ErrFormat].
func ReadSymbols(r io.ReaderAt) (out *Symbols, err error) {
	defer func() {
		if broken := recover(); broken != nil {
			out, err = nil, fmt.Errorf("ELF: %v: %w", broken, ErrFormat)
		}
	}()
	if err := checkNames(r); err != nil {
		return nil, err
	}
	f, err := elf.NewFile(&rationed{r: r, left: maxELF})
	if err != nil {
		return nil, fmt.Errorf("ELF: %w (%w)", err, ErrFormat)
	}
	defer f.Close()
	out = &Symbols{Text: textSegment(f), Type: TypeFull}
	for _, s := range f.Sections {
		if s.Type == elf.SHT_NOTE && out.BuildID == "" {
			if data, err := sectionData(s, maxNote); err == nil {
				out.BuildID = gnuBuildID(data, f.ByteOrder)
			}
		}
	}
	if err := out.readTable(f, r); err == nil || !errors.Is(err, ErrNoSymbols) {
		return out, err
	}
	return out, out.readGo(f)
}

// readTable reads a symbol table but for its names, which are read when they
// are asked for: they may be many megabytes.
func (s *Symbols) readTable(f *elf.File, r io.ReaderAt) error {
	table := f.SectionByType(elf.SHT_SYMTAB)
	if table == nil || int(table.Link) <= 0 || int(table.Link) >= len(f.Sections) {
		return ErrNoSymbols
	}
	texts := f.Sections[table.Link]
	if table.Size > maxSection || (table.Flags|texts.Flags)&elf.SHF_COMPRESSED != 0 {
		return fmt.Errorf("section %.40q is compressed, or larger than %d MiB: %w", table.Name, maxSection>>20, ErrFormat)
	}
	data, err := sectionData(table, maxSection)
	if err != nil {
		return err
	}
	size := elf.Sym64Size
	if f.Class == elf.ELFCLASS32 {
		size = elf.Sym32Size
	}
	for ; len(data) >= size; data = data[size:] {
		one := functionOf(f.Class, f.ByteOrder, data)
		if kind := elf.ST_TYPE(one.Info); kind != elf.STT_FUNC && kind != elf.STT_GNU_IFUNC || elf.SectionIndex(one.Shndx) == elf.SHN_UNDEF || one.Size == 0 {
			continue
		}
		s.at = append(s.at, symbol{one.Value, one.Size, one.Name, elf.ST_BIND(one.Info) == elf.STB_LOCAL})
	}
	if len(s.at) == 0 {
		return ErrNoSymbols
	}
	slices.SortFunc(s.at, func(a, b symbol) int {
		local := func(s symbol) int {
			if s.local {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(local(a), local(b)), cmp.Compare(a.name, b.name))
	})
	s.names = io.NewSectionReader(r, int64(texts.Offset), int64(texts.FileSize))
	return nil
}

// functionOf reads a symbol of either class with its address.
func functionOf(class elf.Class, o binary.ByteOrder, b []byte) elf.Sym64 {
	if class == elf.ELFCLASS32 {
		return elf.Sym64{Name: o.Uint32(b), Value: uint64(o.Uint32(b[4:])), Size: uint64(o.Uint32(b[8:])), Info: b[12], Shndx: o.Uint16(b[14:])}
	}
	return elf.Sym64{Name: o.Uint32(b), Info: b[4], Shndx: o.Uint16(b[6:]), Value: o.Uint64(b[8:]), Size: o.Uint64(b[16:])}
}

// Find names the function that an address, as it was linked, lies in: never
// one that ends before it.
func (s *Symbols) Find(address uint64) (name string, ok bool) {
	if s.table != nil {
		return s.table.find(address)
	}
	// The last that begins at or before it; of several there, the first.
	after, _ := slices.BinarySearchFunc(s.at, address, func(s symbol, a uint64) int {
		if s.from <= a {
			return -1
		}
		return 1
	})
	if after == 0 {
		return "", false
	}
	from := s.at[after-1].from
	for i := after - 1; i >= 0 && s.at[i].from == from; i-- {
		if address-from < s.at[i].size {
			if read, good := s.text(s.at[i].name); good {
				name, ok = read, true
			}
		}
	}
	return name, ok
}

// text reads a name, and writes it as people do.
func (s *Symbols) text(at uint32) (string, bool) {
	var b []byte
	for chunk := make([]byte, 256); len(b) < maxExport; {
		n, err := s.names.ReadAt(chunk, int64(at)+int64(len(b)))
		if end := bytes.IndexByte(chunk[:n], 0); end >= 0 {
			b = append(b, chunk[:end]...)
			return readable(string(b)), len(b) > 0
		}
		b = append(b, chunk[:n]...)
		if err != nil {
			return "", false
		}
	}
	return "", false
}

// readable is a symbol's name as its source has it. What LLVM appends to
// functions that it made of others says nothing to people.
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
