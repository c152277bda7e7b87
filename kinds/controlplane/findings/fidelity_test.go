package findings

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
)

// Costs of simulated sidecars state what real ones add, depending on how the simulated ones
// connect. A study with only real sidecars in some cell makes the comparison itself.
func TestRemarks(t *testing.T) {
	o := costOf(t, 3, func(int, *record.Trial) {})
	c := controlplane.Of(o.Plan.Study)
	said := func(want string) {
		t.Helper()
		if got := note.Words(remarks(o)); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
	said("cost it 1.18 times as much over mutual TLS, each on a connection of its own (95% interval 1.10 to 1.28);")
	c.AnswerAfter = 20e6
	said("cost it 1.11 times as much")
	c.Security = controlplane.SecurityPlaintext
	said("is unknown")
	c.StreamsPerConnection = 50
	said("cost it 1.34 times as much")
	c.Security = controlplane.SecurityTLS
	said("is unknown")
	for _, trial := range o.Valid(0) {
		trial.Control.Proxies, trial.Control.Gateways, trial.Control.RealProxies = 0, 0, 16
	}
	said("")
}
