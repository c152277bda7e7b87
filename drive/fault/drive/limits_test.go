package drive

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

// limited is an execution whose begin takes most of the time, and which reports when it had to be
// proved and when its end began.
type limited struct {
	Execution
	stuck bool // its end lasts until it is cancelled
	proof time.Time
	ended time.Time
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

func (l *limited) End(ctx context.Context) error {
	l.ended = time.Now()
	if l.stuck {
		<-ctx.Done()
	}
	return ctx.Err()
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

// A step that cannot be reverted takes no more than its share of the time, and the others are
// reverted, the latest first.
func TestRevertBesideStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tl := &timeline{Driver: Driver{Emit: func(record.Event) {}}}
		all := []*limited{{}, {stuck: true}, {}, {stuck: true}}
		for i, one := range all {
			tl.standing = append(tl.standing, &occurrence{Occurrence: fault.Occurrence{Name: string(rune('a' + i)), Action: &fault.Remove{}}, execution: one})
		}
		began := time.Now()
		err := tl.revertAll(t.Context())
		if took := time.Since(began); took != RevertTime {
			t.Errorf("it took %v", took)
		}
		if got := err.Error(); !errors.Is(err, context.DeadlineExceeded) || strings.Count(got, "not reverted") != 2 || !strings.Contains(got, `"b"`) || !strings.Contains(got, `"d"`) {
			t.Errorf("%v", err)
		}
		if !slices.IsSortedFunc(all, func(a, b *limited) int { return b.ended.Compare(a.ended) }) || all[0].ended.Sub(began) >= RevertTime {
			t.Errorf("they ended at %v, %v, %v, %v", all[0].ended, all[1].ended, all[2].ended, all[3].ended)
		}
		must.OK(t, tl.revertAll(t.Context()))
	})
}
