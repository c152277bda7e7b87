package xds_test

import (
	"testing"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/testing/eventually"
)

// A fleet that answers with a delay sends the same as one that answers
// immediately: it synchronizes, and acknowledges every response once.
func TestAnswersAfterAWhile(t *testing.T) {
	for _, mode := range []string{xds.ModeDelta, xds.ModeSotW} {
		var acks [2]map[string]int64
		for i, after := range []int{0, 2000} {
			s := newFake(t)
			spec := testSpec(s.address, 3)
			spec.Mode, spec.AnswerAfterUS = mode, after
			f := start(t, spec)
			synced(t, f)
			eventually.Holds(t, "every response to be acknowledged", func() bool {
				a := f.Account()
				for _, w := range a.Wire {
					if w.Acks != w.Responses {
						return false
					}
				}
				return len(a.Reconnects) == 0
			})
			acks[i] = map[string]int64{}
			for name, w := range f.Account().Wire {
				acks[i][name] = w.Acks
			}
		}
		for name, n := range acks[0] {
			if acks[1][name] != n {
				t.Errorf("%s: %s was acknowledged %d times, want %d", mode, name, acks[1][name], n)
			}
		}
	}
}
