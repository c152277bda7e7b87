package trial

import "github.com/meshtrial/meshtrial/runner"

// lasting judges the wait for what carries a trial's requests, once it is over: of what was
// there for an earlier trial another one is worth the wait, and what has never been there
// would keep each trial waiting as long.
func (t *scenarioTrial) lasting(err error) error {
	if runner.IsFutile(err) {
		return err // whatever was waited for
	}
	known := true
	for _, part := range t.scene.way() {
		switch {
		case t.carriers.Has(part):
		case err == nil:
			t.carriers = append(t.carriers, part)
		default:
			known = false
		}
	}
	if err == nil || known {
		return err
	}
	return runner.Futile(err)
}
