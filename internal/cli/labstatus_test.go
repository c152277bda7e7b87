package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/local"
)

func TestStatusOfLinkerd(t *testing.T) {
	for version, want := range map[string]bool{"edge-1": true, "": false} {
		var out bytes.Buffer
		if err := printStatus(&out, &local.Status{State: local.StateRunning, ID: "a", Images: lab.Images{LinkerdVersion: version}}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), "linkerd "); got != want || !strings.Contains(out.String(), version) {
			t.Errorf("version %q:\n%s", version, out.String())
		}
	}
}
