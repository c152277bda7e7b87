package app

import (
	"fmt"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/lab/components"
)

// recorder is a [Progress] that records its calls.
type recorder struct {
	said  []string
	notes strings.Builder
	going bool
}

func (p *recorder) Say(format string, args ...any) {
	p.said, p.going = append(p.said, fmt.Sprintf(format, args...)), true
}

func (p *recorder) Note(format string, args ...any) { fmt.Fprintf(&p.notes, format+"\n", args...) }

func (p *recorder) Component(components.Event) {}

func (p *recorder) Clear() { p.going = false }

// A build without a commit has the version that the linker was given.
func TestStamp(t *testing.T) {
	if got := Version(); got != unstamped {
		t.Fatalf("tests are version %s", got)
	}
	stamp = "v1.2.3"
	defer func() { stamp = "" }()
	if got := Version(); got != "v1.2.3" {
		t.Errorf("with a stamp: %s", got)
	}
	if got := VersionOf(&debug.BuildInfo{}); got != unstamped {
		t.Errorf("another program without a commit has this one's stamp: %s", got)
	}
}
