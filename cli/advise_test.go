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
			for name, run := range map[string]string{"healthy": "control-plane", "data-plane": "data-plane",
				"resilience": "resilience"} {
				if err := os.CopyFS(env.WorkDir+"/"+name, os.DirFS("../kinds/testdata/"+run)); err != nil {
					return err
				}
			}
			return nil
		},
	})
}
