package node

import (
	"os"
	"testing"

	"github.com/meshtrial/meshtrial/testing/leakcheck"
	"github.com/meshtrial/meshtrial/testing/must"
)

// cgroups is the machine's: the test may lack the right to look at its first
// process.
const cgroups = "/sys/fs/cgroup"

// asRoot skips a test for which the caller lacks privileges.
func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces and packet filters")
	}
}

func newServer(t *testing.T) *Server {
	t.Helper()
	s, err := New(Options{Control: "127.0.0.1:0", Token: "a token of a test", Cgroups: cgroups})
	must.OK(t, err)
	t.Cleanup(func() { s.listener.Close() })
	return s
}

func TestOffers(t *testing.T) {
	asRoot(t)
	leakcheck.Goroutines(t)
	s := newServer(t)
	offers := s.offers()
	if len(offers) == 0 {
		t.Error("nothing is offered")
	}
	for _, o := range offers {
		t.Logf("%s: %v: %s", o.What, o.OK, o.Detail)
		if !o.OK {
			t.Errorf("%s: %s", o.What, o.Detail)
		}
	}
}
