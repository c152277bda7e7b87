package cli

import (
	"os"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/meshtrial/meshtrial/testing/labtest"
)

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
