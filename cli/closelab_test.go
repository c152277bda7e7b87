package cli

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/lab"
)

// closing is a lab that is only closed.
type closing struct {
	lab.Lab
	stays  bool
	closed int
}

func (c *closing) Stays() bool { return c.stays }

func (c *closing) Close() error {
	c.closed++
	return nil
}

// Only a lab that ends is said to end.
func TestCloseLab(t *testing.T) {
	for _, stays := range []bool{true, false} {
		var out strings.Builder
		p := newProgress(&out)
		p.width = 80 // as on a terminal
		l := &closing{stays: stays}
		if err := closeLab(l, p); err != nil || l.closed != 1 {
			t.Errorf("stays %v: closed %d times, %v", stays, l.closed, err)
		}
		if said := strings.Contains(out.String(), "taking the lab down"); said == stays {
			t.Errorf("stays %v: %q", stays, out.String())
		}
	}
}
