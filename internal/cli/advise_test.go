package cli

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestAdviseScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/advise",
		Setup: func(env *testscript.Env) error {
			return os.CopyFS(env.WorkDir+"/healthy", os.DirFS("../../kinds/testdata/control-plane"))
		},
	})
}
