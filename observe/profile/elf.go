package profile

import (
	"bytes"
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
	TypeDebug    = "debug file"   // none of its own, but its debug file is at hand
	TypeGo       = "Go's table"   // the one that Go's runtime needs
)

// ELF is what a binary's file says of itself.
type ELF struct {
	BuildID string // of the GNU note; "" without one
	Type    string
	Go      bool // made by Go, whose runtime holds names of its own
	Text    Segment
	// Exports are the sizes of the exported functions, in bytes, by their names as
	// frames have them; only of a binary of [TypeExports].
	Exports map[string]uint64
}

// Bounds on what is read of a binary, in bytes. Whoever made it chose what its
// headers say: sections may be larger than memory, in a file that takes no
// room on the disk, or be compressed a thousand-fold.
const (
	maxNote     = 1 << 16 // a note section, or the names of the sections
	maxSections = 1 << 10
	maxSection  = 64 << 20  // a table of symbols, or their names
	maxELF      = 160 << 20 // in all
	maxExport   = 1 << 16   // a symbol's name
)

// rationed gives no more than a number of bytes.
type rationed struct {
	r    io.ReaderAt
	left int64
}

func (r *rationed) ReadAt(p []byte, at int64) (int, error) {
	if r.left -= int64(len(p)); r.left < 0 {
		return 0, fmt.Errorf("its tables are larger than %d MiB: %w", maxELF>>20, ErrFormat)
	}
	return r.r.ReadAt(p, at)
}

// sectionData is what the file has of a section: at most so many bytes, never
// unpacked. elf.Section.Data unpacks what is called .zdebug, to any size.
func sectionData(s *elf.Section, most uint64) ([]byte, error) {
	if s.ReaderAt == nil || s.Flags&elf.SHF_COMPRESSED != 0 || s.FileSize > most {
		return nil, fmt.Errorf("section %.40q is compressed, or larger than %d bytes: %w", s.Name, most, ErrFormat)
	}
	data := make([]byte, s.FileSize)
	if _, err := s.ReadAt(data, 0); err != nil {
		return nil, fmt.Errorf("ELF: %w (%w)", err, ErrFormat)
	}
	return data, nil
}

// ReadELF reads the parts of a binary that tell whether its names can be
// believed.
func ReadELF(r io.ReaderAt) (out ELF, err error) {
	defer func() {
		if broken := recover(); broken != nil {
			out, err = ELF{}, fmt.Errorf("ELF: %v: %w", broken, ErrFormat)
		}
	}()
	if err := checkNames(r); err != nil {
		return ELF{}, err
	}
	f, err := elf.NewFile(&rationed{r: r, left: maxELF})
	if err != nil {
		return ELF{}, fmt.Errorf("ELF: %w", err)
	}
	defer f.Close()
	out.Type, out.Text = TypeStripped, textSegment(f)
	for _, s := range f.Sections {
		switch {
		case s.Type == elf.SHT_NOTE:
			if data, err := sectionData(s, maxNote); err == nil && out.BuildID == "" {
				out.BuildID = gnuBuildID(data, f.ByteOrder)
			}
		case s.Type == elf.SHT_SYMTAB, s.Name == ".gnu_debugdata":
			out.Type = TypeFull
		case s.Name == ".gopclntab" || s.Name == ".data.rel.ro.gopclntab" || s.Name == ".note.go.buildid":
			out.Go = true
		}
	}
	if out.Type == TypeFull {
		return out, nil
	}
	if out.Exports, err = exports(f); err != nil {
		return out, fmt.Errorf("ELF: %w", err)
	}
	if len(out.Exports) > 0 {
		out.Type = TypeExports
	}
	return out, nil
}

// exports are the sizes of the functions in a binary's dynamic symbol table; a
// static binary has none. elf.File.DynamicSymbols has no bounds: a table of a
// million symbols may give all of them the same name of many megabytes.
func exports(f *elf.File) (map[string]uint64, error) {
	table := f.SectionByType(elf.SHT_DYNSYM)
	if table == nil || int(table.Link) <= 0 || int(table.Link) >= len(f.Sections) {
		return nil, nil
	}
	texts := f.Sections[table.Link]
	for _, s := range []*elf.Section{table, texts} {
		if s.Size > maxSection || s.Flags&elf.SHF_COMPRESSED != 0 {
			return nil, fmt.Errorf("section %.40q is compressed, or larger than %d MiB: %w", s.Name, maxSection>>20, ErrFormat)
		}
	}
	symbols, err := sectionData(table, maxSection)
	if err != nil {
		return nil, nil // it is cut off
	}
	names, err := sectionData(texts, maxSection)
	if err != nil {
		return nil, nil
	}
	out := map[string]uint64{}
	size, text := elf.Sym64Size, 0
	if f.Class == elf.ELFCLASS32 {
		size = elf.Sym32Size
	}
	for ; len(symbols) >= size && text <= maxSection; symbols = symbols[size:] {
		s := symbolOf(f, symbols)
		if elf.ST_TYPE(s.Info) != elf.STT_FUNC || elf.SectionIndex(s.Shndx) == elf.SHN_UNDEF || int64(s.Name) >= int64(len(names)) {
			continue
		}
		name := names[s.Name:min(int(s.Name)+maxExport, len(names))]
		end := bytes.IndexByte(name, 0)
		if end <= 0 {
			continue
		}
		text += end
		as := readable(string(name[:end]))
		out[as] = max(out[as], s.Size)
	}
	return out, nil
}

// symbolOf reads a symbol of either class.
func symbolOf(f *elf.File, b []byte) elf.Sym64 {
	o := f.ByteOrder
	if f.Class == elf.ELFCLASS32 {
		return elf.Sym64{Name: o.Uint32(b), Size: uint64(o.Uint32(b[8:])), Info: b[12], Shndx: o.Uint16(b[14:])}
	}
	return elf.Sym64{Name: o.Uint32(b), Info: b[4], Shndx: o.Uint16(b[6:]), Size: o.Uint64(b[16:])}
}

// checkNames refuses a binary whose sections are too many, or have names that
// are too long or compressed: elf.NewFile would make copies of them without a
// bound. Offsets are those of Elf64_Ehdr and Elf64_Shdr, and of their narrow
// forms, in elf(5).
func checkNames(r io.ReaderAt) error {
	var head, section [64]byte
	if _, err := r.ReadAt(head[:52], 0); err != nil {
		return nil // too short for one, which elf.NewFile says
	}
	_, _ = r.ReadAt(head[52:], 52)
	var o binary.ByteOrder = binary.LittleEndian
	if elf.Data(head[elf.EI_DATA]) == elf.ELFDATA2MSB {
		o = binary.BigEndian
	}
	table, each, number, index := o.Uint64(head[0x28:]), o.Uint16(head[0x3a:]), o.Uint16(head[0x3c:]), o.Uint16(head[0x3e:])
	narrow := elf.Class(head[elf.EI_CLASS]) == elf.ELFCLASS32
	if narrow {
		table, each, number, index = uint64(o.Uint32(head[0x20:])), o.Uint16(head[0x2e:]), o.Uint16(head[0x30:]), o.Uint16(head[0x32:])
	}
	if table == 0 {
		return nil
	}
	if number == 0 || number > maxSections { // none means that there are more than the header can say
		return fmt.Errorf("ELF: more than %d sections: %w", maxSections, ErrFormat)
	}
	if _, err := r.ReadAt(section[:40], int64(table)+int64(index)*int64(each)); err != nil {
		return nil
	}
	flags, size := o.Uint64(section[8:]), o.Uint64(section[32:])
	if narrow {
		flags, size = uint64(o.Uint32(section[8:])), uint64(o.Uint32(section[20:]))
	}
	if flags&uint64(elf.SHF_COMPRESSED) != 0 || size > maxNote {
		return fmt.Errorf("ELF: the names of its sections are compressed, or larger than %d KiB: %w", maxNote>>10, ErrFormat)
	}
	return nil
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
