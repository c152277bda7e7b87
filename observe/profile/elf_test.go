package profile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
)

// sparse is a file of arbitrary size with content only at its beginning.
type sparse struct {
	head []byte
	size int64
}

func (s sparse) ReadAt(p []byte, at int64) (int, error) {
	n := int(min(int64(len(p)), max(s.size-at, 0)))
	clear(p[:n])
	if at < int64(len(s.head)) {
		copy(p[:n], s.head[at:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// object returns the beginning of a binary with the sections, the first of
// which has their names.
func object(t *testing.T, sections ...elf.Section64) []byte {
	t.Helper()
	var b bytes.Buffer
	header := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Shoff: 64, Ehsize: 64,
		Shentsize: 64, Shnum: uint16(len(sections) + 1), Shstrndx: 1}
	copy(header.Ident[:], append([]byte(elf.ELFMAG), byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1))
	for _, part := range []any{header, elf.Section64{}, sections} {
		must.OK(t, binary.Write(&b, binary.LittleEndian, part))
	}
	return b.Bytes()
}

// A binary crafted to exhaust memory does not.
func TestELFBounds(t *testing.T) {
	names := elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: 4000, Size: 1}
	dynsym := elf.Section64{Type: uint32(elf.SHT_DYNSYM), Off: 4096, Size: 24 << 16, Link: 3, Entsize: 24}
	dynstr := elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: 4096, Size: 32 << 20}
	huge := func(s elf.Section64) elf.Section64 {
		s.Size = 8 << 30
		return s
	}
	packed := names
	packed.Flags = uint64(elf.SHF_COMPRESSED)
	manyPrograms := object(t, names)
	binary.LittleEndian.PutUint16(manyPrograms[0x36:], 60_000) // size of each
	binary.LittleEndian.PutUint16(manyPrograms[0x38:], 60_000) // number of them
	uncounted := object(t, names)
	binary.LittleEndian.PutUint16(uncounted[0x3c:], 0) // the first section has the number of sections
	for name, head := range map[string][]byte{
		"table of symbols":             object(t, names, huge(dynsym), dynstr),
		"names of symbols":             object(t, names, dynsym, huge(dynstr)),
		"names of sections":            object(t, huge(names)),
		"compressed names of sections": object(t, packed),
		"sections":                     object(t, append([]elf.Section64{names}, make([]elf.Section64, maxSections)...)...),
		"sections beyond the header":   uncounted,
		"program headers":              manyPrograms,
	} {
		file := sparse{head: head, size: 16 << 30}
		var err error
		if took := allocated(func() { _, err = ReadELF(file) }); took > 2<<20 || !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v, %d KiB allocated", name, err, took>>10)
		}
	}
}

// Names of symbols may overlap: each of 4,096 here has a megabyte.
func TestOverlappingNames(t *testing.T) {
	const count, length = 4096, 1 << 20
	names := append(bytes.Repeat([]byte("x"), length), 0)
	var table bytes.Buffer
	symbol := elf.Sym64{Info: byte(elf.STT_FUNC), Shndx: 1, Value: 1, Size: 1}
	for range count {
		symbol.Name++
		must.OK(t, binary.Write(&table, binary.LittleEndian, symbol))
	}
	for _, tt := range []struct {
		kind elf.SectionType
		read func(io.ReaderAt) error
	}{
		{elf.SHT_DYNSYM, func(r io.ReaderAt) error { _, err := ReadELF(r); return err }},
		{elf.SHT_SYMTAB, func(r io.ReaderAt) error { _, err := readSymbols(r); return err }},
	} {
		file := object(t, elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: 4000, Size: 1},
			elf.Section64{Type: uint32(tt.kind), Off: 4096, Size: uint64(table.Len()), Link: 3, Entsize: 24},
			elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: 4096 + uint64(table.Len()), Size: uint64(len(names))})
		file = slices.Concat(file, make([]byte, 4096-len(file)), table.Bytes(), names)
		var err error
		if took := allocated(func() { err = tt.read(bytes.NewReader(file)) }); took > 2*maxNames || !errors.Is(err, ErrFormat) {
			t.Errorf("%v: %v, %d MiB allocated", tt.kind, err, took>>20)
		}
	}
}

// The names in Go's table may overlap too.
func TestGoTableBounds(t *testing.T) {
	const count, length, head = 4096, 1 << 20, 8 + 8*8
	for _, tt := range []struct {
		name  string
		count uint64
		step  uint32 // between names
		err   error
	}{
		{"alike", count, 0, ErrFormat},
		{"overlapping", count, 1, ErrFormat},
		{"short", 64, length / 64, nil},
		{"too many", maxGoFunctions + 1, 0, ErrFormat},
	} {
		order := binary.LittleEndian
		data := append(order.AppendUint32(nil, 0xfffffff1), 0, 0, 1, 8)
		for _, v := range []uint64{tt.count, 0, 0, head, 0, 0, 0, head + length + 1} {
			data = order.AppendUint64(data, v)
		}
		data = append(append(data, bytes.Repeat([]byte("x"), length)...), 0)
		for i := range uint32(count) {
			data = order.AppendUint32(order.AppendUint32(data, i), 8*(count+i))
		}
		for i := range uint32(count) {
			data = order.AppendUint32(order.AppendUint32(data, i), min(i*tt.step, length))
		}
		if err := boundGoTable(data, order); !errors.Is(err, tt.err) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
