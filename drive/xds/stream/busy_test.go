package stream_test

import (
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/testing/eventually"
)

// A connection whose server reads nothing is busy: nothing else waits for it,
// and it can be closed.
func TestServerThatTakesNothing(t *testing.T) {
	c, _, ended := dial(t, options())
	wrote := make(chan error, 1)
	go func() { // its peer reads no more than the preface
		for {
			if _, err := c.Ping(); err != nil {
				wrote <- err
				return
			}
		}
	}()
	stuck := func() bool {
		done, _ := c.TryDo(func() {})
		if done {
			return false
		}
		time.Sleep(200 * time.Millisecond)
		done, _ = c.TryDo(func() {})
		return !done
	}
	eventually.Holds(t, "a write that does not end", stuck)
	begin := time.Now()
	c.Close()
	if took := time.Since(begin); took > 15*time.Second {
		t.Errorf("closed after %v", took)
	}
	for what, end := range map[string]chan error{"the write": wrote, "the connection": ended} {
		select {
		case <-end:
		case <-time.After(time.Minute):
			t.Errorf("%s did not end", what)
		}
	}
}
