package cli

import (
	"os"
	"testing"

	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets scripts run this test program as meshtrial, tests share a lab,
// and tests of interrupts run it as a command that ends when they want.
func TestMain(m *testing.M) {
	if os.Getenv(slowlyEnding) != "" {
		os.Exit(endSlowly())
	}
	testscript.Main(labtest.Sharing(m), map[string]func(){
		"meshtrial": func() { os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}
