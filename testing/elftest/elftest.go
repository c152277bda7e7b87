// Package elftest makes ELF files for tests of code that reads programs.
package elftest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
)

// Header returns the header of an empty program for a machine, followed by more.
func Header(t *testing.T, machine elf.Machine, more string) []byte {
	t.Helper()
	h := elf.Header64{Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Ehsize: 64, Phentsize: 56}
	var b bytes.Buffer
	must.OK(t, binary.Write(&b, binary.LittleEndian, h))
	b.WriteString(more)
	return b.Bytes()
}
