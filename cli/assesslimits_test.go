package cli

import (
	"io"
	"testing"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/internal/errs"
)

// If no rule could be decided, the exit code is 4.
func TestAdviseDecidesNothing(t *testing.T) {
	err := (&limitsFlags{}).show(&Env{Stdout: io.Discard}, []advice.Report{advice.Judge(&advice.Evidence{Source: "nothing"})})
	if errs.Code(err) != errs.CodeInvalid {
		t.Errorf("%v has exit code %d", err, errs.Code(err))
	}
}
