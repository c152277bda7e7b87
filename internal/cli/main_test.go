package cli

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets scripts run this test program as meshmark.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"meshmark": func() { os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}
