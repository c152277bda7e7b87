package cli

import (
	"os"
	"testing"

	"github.com/meshtrial/meshtrial/internal/labtest"
	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets scripts run this test program as meshtrial, and tests share a
// lab.
func TestMain(m *testing.M) {
	testscript.Main(labtest.Sharing(m), map[string]func(){
		"meshtrial": func() { os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}
