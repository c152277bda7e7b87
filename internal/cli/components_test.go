package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/meshtrial/meshtrial/components"
)

func TestComponentsScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/components"})
}

func TestComponentProgress(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out)
	p.component(components.Event{Component: "kubernetes", Phase: components.PhaseBuild, Detail: "k8s.io/api", Left: time.Minute})
	p.component(components.Event{Component: "kubernetes", Phase: components.PhaseReady})
	if out.Len() > 0 {
		t.Errorf("%q for nobody to look at", out.String())
	}
	p.component(components.Event{Component: "debian", Phase: components.PhaseNote, Detail: "runc is 2"})
	if out.String() != "debian: runc is 2\n" {
		t.Errorf("the note came out as %q", out.String())
	}
	out.Reset()
	p.width = 60
	p.component(components.Event{Component: "kubernetes", Phase: components.PhaseBuild, Detail: "k8s.io/" + strings.Repeat("x", 80), Left: 61 * time.Second})
	if !strings.Contains(out.String(), "build kubernetes (about 1m1s left)  k8s.io/") || strings.Contains(out.String(), "\n") {
		t.Errorf("on a terminal it came out as %q", out.String())
	}
}

func TestShorten(t *testing.T) {
	for in, want := range map[string]string{"sha256:0123456789abcdef": "sha256:0123456789ab", "h1:ab": "h1:ab", "": "-"} {
		if got := shorten(in); got != want {
			t.Errorf("shorten(%q) = %q, want %q", in, got, want)
		}
	}
}
