package profile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"testing"
)

// sparse is a file of any size whose beginning alone is not empty.
type sparse struct {
	head []byte
	size int64
	fill byte
}

func (s sparse) ReadAt(p []byte, at int64) (int, error) {
	n := int(min(int64(len(p)), max(s.size-at, 0)))
	for i := range p[:n] {
		p[i] = s.fill
	}
	if at < int64(len(s.head)) {
		copy(p[:n], s.head[at:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// object makes the head of a binary with the sections: the names of sections,
// then those given.
func object(t *testing.T, sections ...elf.Section64) []byte {
	t.Helper()
	var b bytes.Buffer
	header := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Shoff: 64, Ehsize: 64, Shentsize: 64, Shnum: uint16(len(sections) + 1), Shstrndx: 1}
	copy(header.Ident[:], elf.ELFMAG)
	header.Ident[elf.EI_CLASS], header.Ident[elf.EI_DATA], header.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	for _, part := range []any{header, elf.Section64{}, sections} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// A binary that was made to take all memory does not.
func TestELFBounds(t *testing.T) {
	names := elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: 4000, Size: 1}
	with := func(s elf.Section64, f func(*elf.Section64)) elf.Section64 {
		f(&s)
		return s
	}
	dynsym := elf.Section64{Type: uint32(elf.SHT_DYNSYM), Off: 4096, Size: 24 << 16, Link: 3, Entsize: 24}
	dynstr := elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: 4096, Size: 32 << 20}
	for _, tt := range []struct {
		name     string
		sections []elf.Section64
		ok       bool
	}{
		{"a large table of symbols", []elf.Section64{names, with(dynsym, func(s *elf.Section64) { s.Size = 8 << 30 }), dynstr}, false},
		{"large names of symbols", []elf.Section64{names, dynsym, with(dynstr, func(s *elf.Section64) { s.Size = 8 << 30 })}, false},
		{"large names of sections", []elf.Section64{with(names, func(s *elf.Section64) { s.Size = 8 << 30 })}, false},
		{"compressed names of sections", []elf.Section64{with(names, func(s *elf.Section64) { s.Flags = uint64(elf.SHF_COMPRESSED) })}, false},
		{"one long name of many symbols", []elf.Section64{names, dynsym, dynstr}, true},
	} {
		// Filled so that each symbol is a function of a name that has no end.
		file := sparse{head: object(t, tt.sections...), size: 16 << 30, fill: 0x12}
		file.head = append(file.head, make([]byte, 4096-len(file.head))...)
		if tt.ok {
			for range 1 << 16 {
				file.head = append(file.head, "\x10\x00\x20\x00\x12\x00\x01\x00\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01"...)
			}
		}
		var err error
		if took := allocated(func() { _, err = ReadELF(file) }); took > 200<<20 {
			t.Errorf("%s: %d MiB were taken", tt.name, took>>20)
		}
		if (err == nil) != tt.ok || err != nil && !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if _, err := ReadELF(sparse{head: append(object(t, names)[:60], 0, 0, 1, 0), size: 16 << 30}); !errors.Is(err, ErrFormat) {
		t.Errorf("sections without number: %v", err)
	}
}

// The exports of a library are those that the standard library finds.
func TestExports(t *testing.T) {
	lib := recorded(t, "exports.so")
	f, err := elf.NewFile(bytes.NewReader(lib))
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]uint64{}
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Section != elf.SHN_UNDEF {
			want[s.Name] = max(want[s.Name], s.Size)
		}
	}
	got, err := exports(f)
	if err != nil || len(want) == 0 || !maps.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}
