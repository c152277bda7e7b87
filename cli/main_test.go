package cli

import (
	"bytes"
	"context"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/meshtrial/meshtrial/testing/labtest"
)

// runIn runs a command line and returns what it printed.
func runIn(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	var out, said bytes.Buffer
	err = Run(ctx, args, &Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &said})
	return out.String(), said.String(), err
}

// succeeds runs a command line that must succeed, and returns what it printed.
func succeeds(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	stdout, stderr, err := runIn(t.Context(), args...)
	if err != nil {
		t.Fatalf("%q: %v\n%s", args, err, stderr)
	}
	return stdout, stderr
}

// contains checks that a text has all of some parts.
func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in:\n%s", part, text)
		}
	}
}

// TestMain lets scripts run this test program as meshtrial, lets tests share a lab, and lets
// tests of interrupts run it as a command that ends when they want.
func TestMain(m *testing.M) {
	if os.Getenv(slowlyEnding) != "" {
		os.Exit(endSlowly())
	}
	testscript.Main(labtest.Sharing(m), map[string]func(){
		"meshtrial": func() { os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// lockedBuffer can be read while it is written to.
type lockedBuffer struct {
	mu   sync.Mutex
	text []byte
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p...)
	return len(p), nil
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text)
}
