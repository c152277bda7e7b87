package cli

import (
	"io"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/internal/errs"
)

func TestAdviseScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/assesslimits",
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

// If no rule could be decided, the exit code is 4.
func TestAdviseDecidesNothing(t *testing.T) {
	err := (&limitsFlags{}).show(&Env{Stdout: io.Discard}, []advice.Report{advice.Judge(&advice.Evidence{Source: "nothing"})})
	if errs.Code(err) != errs.CodeInvalid {
		t.Errorf("%v has exit code %d", err, errs.Code(err))
	}
}
