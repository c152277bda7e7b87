package trial

import "github.com/meshtrial/meshtrial/runner"

// lasting judges the wait for what carries a trial's requests, once it is over. Of what was
// there for an earlier trial another one is worth the wait. What has never been there may be
// slow to come once, to a node that has yet to pull its image; after a second trial without
// it each further one would wait as long.
func (t *scenarioTrial) lasting(err error) error {
	if runner.IsFutile(err) {
		return err // whatever was waited for
	}
	again := false
	for _, part := range t.scene.way() {
		switch {
		case t.carriers.Has(part):
		case err == nil:
			t.carriers = append(t.carriers, part)
		case t.missed.Has(part):
			again = true
		default:
			t.missed = append(t.missed, part)
		}
	}
	if again {
		return runner.Futile(err)
	}
	return err
}
