package profile

import (
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
)

// Types of binaries by the names they hold.
const (
	TypeFull     = "symbols"      // a symbol table: every function has a name
	TypeExports  = "exports only" // only functions that others may call have one
	TypeStripped = "no symbols"   // none has
)

// ELF is what a binary's file says of itself.
type ELF struct {
	BuildID string // of the GNU note; "" without one
	Type    string
	Go      bool // made by Go, whose runtime holds names of its own
	// Exports are the sizes of the exported functions, in bytes; only of a
	// binary of [TypeExports].
	Exports map[string]uint64
}

// maxNote bounds a note section, in bytes.
const maxNote = 1 << 16

// ReadELF reads the parts of a binary that tell whether its names can be
// believed.
func ReadELF(r io.ReaderAt) (out ELF, err error) {
	defer func() {
		if broken := recover(); broken != nil {
			out, err = ELF{}, fmt.Errorf("ELF: %v: %w", broken, ErrFormat)
		}
	}()
	f, err := elf.NewFile(r)
	if err != nil {
		return ELF{}, fmt.Errorf("ELF: %w", err)
	}
	defer f.Close()
	out.Type = TypeStripped
	for _, s := range f.Sections {
		switch {
		case s.Type == elf.SHT_NOTE && s.Size <= maxNote:
			if data, err := s.Data(); err == nil && out.BuildID == "" {
				out.BuildID = gnuBuildID(data, f.ByteOrder)
			}
		case s.Type == elf.SHT_SYMTAB, s.Name == ".gnu_debugdata":
			out.Type = TypeFull
		case s.Name == ".gopclntab" || s.Name == ".note.go.buildid":
			out.Go = true
		}
	}
	if out.Type == TypeFull {
		return out, nil
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return out, nil // a static binary has none
	}
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) != elf.STT_FUNC || s.Section == elf.SHN_UNDEF || s.Name == "" {
			continue
		}
		if out.Exports == nil {
			out.Exports = map[string]uint64{}
		}
		out.Exports[s.Name] = max(out.Exports[s.Name], s.Size)
	}
	if len(out.Exports) > 0 {
		out.Type = TypeExports
	}
	return out, nil
}

// noteBuildID is NT_GNU_BUILD_ID.
const noteBuildID = 3

// gnuBuildID finds the build id among notes: each has the lengths of name and
// description, a type, and both, padded to four bytes.
func gnuBuildID(data []byte, order binary.ByteOrder) string {
	for len(data) >= 12 {
		name, desc, kind := uint64(order.Uint32(data)), uint64(order.Uint32(data[4:])), order.Uint32(data[8:])
		data = data[12:]
		nameEnd, descEnd := (name+3)&^3, (name+3)&^3+(desc+3)&^3
		if nameEnd+desc > uint64(len(data)) {
			return ""
		}
		if kind == noteBuildID && name == 4 && string(data[:4]) == "GNU\x00" {
			return hex.EncodeToString(data[nameEnd : nameEnd+desc])
		}
		if descEnd > uint64(len(data)) {
			return ""
		}
		data = data[descEnd:]
	}
	return ""
}
