package drive

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/record"
)

// limited is an execution whose begin takes most of the time, and which reports when it had to be
// proved.
type limited struct {
	Execution
	proof time.Time
}

func (*limited) Target() string { return "" }

func (*limited) Begin(context.Context) error {
	time.Sleep(fault.ProofTime * 2 / 3)
	return nil
}

func (l *limited) Prove(ctx context.Context) (string, error) {
	<-ctx.Done()
	l.proof = time.Now()
	return "", ctx.Err()
}

// A step begins and is proved within the time that timelines leave between moves.
func TestProofIncludesBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, sent := &limited{}, time.Now()
		(&timeline{Driver: Driver{Emit: func(record.Event) {}}}).act(t.Context(), record.Event{}, one.Begin, one.Prove)
		if took := one.proof.Sub(sent); took != fault.ProofTime {
			t.Errorf("its proof ended after %v", took)
		}
	})
}
