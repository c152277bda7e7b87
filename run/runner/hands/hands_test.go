package hands_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner/hands"
	"github.com/meshtrial/meshtrial/run/site"
)

// A trial that lost a generator is repeated once, and its record says so whatever
// the result. Other errors do not repeat it.
func TestAgainIfLost(t *testing.T) {
	two := hands.Hands{What: "generator", Pods: make([]site.Pod, 2)}
	gone, other := two.Lost(errors.New("load pod b: gone")), errors.New("observe node n: gone")
	if (hands.Hands{Pods: make([]site.Pod, 1)}).Lost(other) != other || two.Lost(nil) != nil {
		t.Error("one generator was one of several, or none was lost")
	}
	for name, c := range map[string]struct {
		ends     []error // of the attempts
		find     error
		attempts int
		warned   bool
		err      string
	}{
		"nothing":      {[]error{nil}, nil, 1, false, ""},
		"another":      {[]error{other}, nil, 1, false, "observe node n"},
		"lost":         {[]error{gone, nil}, nil, 2, false, ""}, // the trial is judged by its evidence
		"lost twice":   {[]error{gone, gone}, nil, 2, true, "load pod b"},
		"then another": {[]error{gone, other}, nil, 2, true, "observe node n"},
		"not back":     {[]error{gone}, errors.New("no ready pod"), 1, false, "load pod b: gone; its pod was not found afterwards: no ready pod"},
	} {
		n := 0
		trial, err := hands.AgainIfLost(t.Context(), func(lost []string) (record.Trial, error) {
			n++
			if (len(lost) > 0) != (n > 1) {
				t.Errorf("%s: attempt %d is told %q", name, n, lost)
			}
			return record.Trial{}, c.ends[n-1]
		}, func(error) error { return c.find })
		if n != c.attempts || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %d attempts, %v", name, n, err)
		}
		if w := trial.Validity.Warnings; (len(w) == 1) != c.warned || c.warned && w[0].String() != "the trial was repeated: the generator was lost: load pod b: gone" {
			t.Errorf("%s: %q", name, w)
		}
	}
}
