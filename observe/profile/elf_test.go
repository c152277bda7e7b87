package profile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"testing"
)

// sparse is a file of any size with only a beginning.
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

// object makes the beginning of a binary with the sections, the first of which
// has their names.
func object(t *testing.T, sections ...elf.Section64) []byte {
	t.Helper()
	var b bytes.Buffer
	header := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Shoff: 64, Ehsize: 64,
		Shentsize: 64, Shnum: uint16(len(sections) + 1), Shstrndx: 1}
	copy(header.Ident[:], append([]byte(elf.ELFMAG), byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1))
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
	dynsym := elf.Section64{Type: uint32(elf.SHT_DYNSYM), Off: 4096, Size: 24 << 16, Link: 3, Entsize: 24}
	dynstr := elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: 4096, Size: 32 << 20}
	huge := func(s elf.Section64) elf.Section64 {
		s.Size = 8 << 30
		return s
	}
	for name, sections := range map[string][]elf.Section64{
		"table of symbols": {names, huge(dynsym), dynstr},
		"names of symbols": {names, dynsym, huge(dynstr)},
	} {
		file := sparse{head: object(t, sections...), size: 16 << 30}
		var err error
		if took := allocated(func() { _, err = ReadELF(file) }); took > 1<<20 || !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v, %d KiB allocated", name, err, took>>10)
		}
	}
}
