package profile

import (
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// Types of binaries, by the functions that their files name.
const (
	TypeFull     = "symbols"      // a symbol table: every function
	TypeExports  = "exports only" // only exported functions
	TypeStripped = "no symbols"   // none
	TypeDebug    = "debug file"   // none, but a debug file named them
	TypeGo       = "Go's table"   // none, but the table of Go's runtime named them
)

// ELF is what a binary's file says about its symbols.
type ELF struct {
	BuildID string // hexadecimal; "" without one
	Type    string
	Text    Segment
	// Exports are the sizes of the exported functions, in bytes, by their
	// names as frames have them; only of a binary of [TypeExports].
	Exports map[string]uint64
}

// Segment is the part of a binary that the kernel maps to run it: Size bytes
// of the file from Offset, linked at Address.
type Segment struct {
	Offset  uint64 `json:"offset"`
	Address uint64 `json:"address"`
	Size    uint64 `json:"size"`
}

// linked turns an offset in the file into the address that symbols have.
func (s Segment) linked(offset uint64) (uint64, bool) {
	if offset < s.Offset || offset-s.Offset >= s.Size {
		return 0, false
	}
	return offset - s.Offset + s.Address, true
}

// ReadELF reads how far the symbols of a binary go. The error wraps
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
	symbols, err := f.DynamicSymbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return out, fmt.Errorf("ELF: %w (%w)", err, ErrFormat)
	}
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Section != elf.SHN_UNDEF && s.Name != "" {
			if out.Exports == nil {
				out.Type, out.Exports = TypeExports, map[string]uint64{}
			}
			name := readable(s.Name)
			out.Exports[name] = max(out.Exports[name], s.Size)
		}
	}
	return out, nil
}

// maxSection bounds a table that is read of a binary, in bytes. Containers
// bring their own binaries, whose headers may claim any size.
const maxSection = 512 << 20

func openELF(r io.ReaderAt) (*elf.File, error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, fmt.Errorf("ELF: %w (%w)", err, ErrFormat)
	}
	for _, s := range f.Sections {
		if s.Size > maxSection && s.Type != elf.SHT_NOBITS && s.Type != elf.SHT_PROGBITS {
			return nil, fmt.Errorf("ELF: section %.40q is larger than %d MiB: %w", s.Name, maxSection>>20, ErrFormat)
		}
	}
	return f, nil
}

// recoverFormat turns a panic into an error that wraps [ErrFormat]: the
// libraries that read files are not hardened against garbage.
func recoverFormat(err *error) {
	if broken := recover(); broken != nil {
		*err = fmt.Errorf("%v: %w", broken, ErrFormat)
	}
}

// buildID is the binary's GNU build id: a note of a header of 12 bytes, the
// name "GNU\0", and the id.
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

// textSegment is the first part of a file that is executable. Debug files list
// it without its bytes, and no longer say where in the binary it was.
func textSegment(f *elf.File) Segment {
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && p.Filesz > 0 {
			return Segment{p.Off, p.Vaddr, p.Filesz}
		}
	}
	return Segment{}
}
