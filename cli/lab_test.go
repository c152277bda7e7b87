package cli

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestLabScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/lab"})
}
