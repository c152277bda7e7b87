package trial

import (
	"errors"

	"github.com/meshtrial/meshtrial/run/runner"
)

// absent is the error of the wait for one part of a way.
type absent struct {
	part string
	error
}

func (a absent) Unwrap() error { return a.error }

// lasting judges the wait for what carries a trial's requests, once it is over: for one part
// after the other. Of what was there for an earlier trial another one is worth the wait. What
// has never been there may be slow to come once, to a node that has yet to pull its image;
// after a second trial without it each further one would wait as long.
func (t *scenarioTrial) lasting(err error) error {
	var a absent
	if err != nil && (runner.IsFutile(err) || !errors.As(err, &a)) {
		return err // whatever was waited for
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
