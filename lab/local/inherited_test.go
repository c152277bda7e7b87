package local

import (
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/testing/must"
)

// TestKeepInherited: a program that is started afterwards lacks a file that this one inherited.
func TestKeepInherited(t *testing.T) {
	fd, err := unix.Open("/dev/null", unix.O_RDONLY, 0) // without O_CLOEXEC, as if inherited
	must.OK(t, err)
	defer unix.Close(fd)
	has := func() bool {
		out, err := exec.Command("ls", "-l", "/proc/self/fd").Output()
		must.OK(t, err)
		return strings.Count(string(out), "/dev/null") > 1 // one is its standard input
	}
	before := has()
	keepInherited()
	if !before || has() {
		t.Errorf("the file was there %v, and is there afterwards %v", before, has())
	}
}
