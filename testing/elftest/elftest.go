// Package elftest makes ELF files for tests of code that reads programs.
package elftest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os/exec"
	"path/filepath"
	"slices"
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

// Spinner builds the program that spins for the tests of profiles, with flags of go build.
func Spinner(t *testing.T, flags ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "spinner")
	args := slices.Concat([]string{"build", "-o", path}, flags,
		[]string{"github.com/meshtrial/meshtrial/observe/profile/perf/testdata/spin"})
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}
