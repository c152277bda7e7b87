package detached

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// A log that breaks off is read on where it broke: no line is lost, and none comes
// twice.
func TestLines(t *testing.T) {
	const (
		first  = "2026-11-26T10:00:00.100000000Z block 1 of at most 3\n"
		second = "2026-11-26T10:00:00.200000000Z   indented: yes\n"
		third  = "2026-11-26T10:00:01.000000000Z \n"
		fourth = "2026-11-26T10:00:02Z the end\n"
	)
	var out strings.Builder
	f := follower{out: &out}
	read := func(log io.Reader, want bool) {
		t.Helper()
		if ended, err := f.lines(log); err != nil || ended != want {
			t.Errorf("ended: %t, %v", ended, err)
		}
	}
	read(io.MultiReader(strings.NewReader(first+second[:40]), broken{}), false)
	read(strings.NewReader(first+second+third[:20]), true)
	read(strings.NewReader(second+third+fourth), true)
	read(strings.NewReader(fourth), true)
	if want := "block 1 of at most 3\n  indented: yes\n\nthe end\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	f.out = full{}
	if _, err := f.lines(strings.NewReader("2026-11-26T10:00:03Z more\n")); err == nil {
		t.Error("nobody reads, and it goes on")
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestParseLine(t *testing.T) {
	at, text := parseLine("2026-11-26T10:00:00.5Z a b\n")
	if !at.Equal(time.Date(2026, 11, 26, 10, 0, 0, 5e8, time.UTC)) || text != "a b\n" {
		t.Errorf("%v %q", at, text)
	}
	for _, line := range []string{"", "\n", "unable to retrieve container logs\n", "2026-11-26T10:00:00Z"} {
		if at, text := parseLine(line); !at.IsZero() || text != line {
			t.Errorf("%q: %v %q", line, at, text)
		}
	}
}
