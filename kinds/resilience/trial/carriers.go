package trial

import (
	"errors"

	"github.com/meshtrial/meshtrial/run/runner"
)

// absent is the error of waiting for one part of a way.
type absent struct {
	part string
	error
}

func (a absent) Unwrap() error { return a.error }

// lasting classifies failed waits for proxies, part by part. A part that an earlier trial had makes
// another trial worthwhile. A part that never existed may be slow once, on a node that has yet to
// pull its image. After a second trial without it, every further one would wait just as long.
func (t *scenarioTrial) lasting(err error) error {
	var a absent
	if err != nil && (runner.IsFutile(err) || !errors.As(err, &a)) {
		return err // the wait was for something else
	}
	for _, part := range t.scene.way() {
		known := t.carriers.Has(part)
		switch {
		case part != a.part && !known:
			t.carriers = append(t.carriers, part)
		case part != a.part:
		case known:
			return err
		case t.missed.Has(part):
			return runner.Futile(err)
		default:
			t.missed = append(t.missed, part)
			return err
		}
	}
	return err
}
