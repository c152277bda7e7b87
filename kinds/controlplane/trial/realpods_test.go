package trial

import (
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/run/runner"
)

// Tokens outlast every wait of their trial, and not by hours.
func TestTokenLife(t *testing.T) {
	s, cell, _ := controlCell(t)
	trial := &controlTrial{c: &controlPlane{study: s}, job: runner.Job{Cell: cell}, ids: make([]population.Identity, 100)}
	least := connectLeast + 100*connectEach + s.Control.Idle + s.ChangeTime(cell) + s.Control.Settle
	if life := trial.tokenLife(); life < least || life > time.Hour {
		t.Errorf("%v, want at least %v and at most an hour", life, least)
	}
	if life := (&controlTrial{c: trial.c, job: trial.job}).tokenLife(); life < tokenLeast {
		t.Errorf("%v, shorter than an API server gives", life)
	}
}
