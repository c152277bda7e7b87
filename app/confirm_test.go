package app

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/journal"
)

// Changes that affect connected proxies of others require MeshWide before the user is asked. A
// local lab is changed without asking.
func TestConfirmChanges(t *testing.T) {
	wide := []journal.Planned{{Object: "Sidecar istio-system/default", Done: journal.Made, Wide: []string{"sidecar_scope mesh: proxies know no Services but those of ./*"}}}
	narrow := []journal.Planned{{Object: "Deployment istio-system/istiod", Done: journal.Changed}}
	const unknown, uncounted = -1, -2 // istiod does not answer; the run opens no control plane
	refused := errors.New("no")
	for name, c := range map[string]struct {
		kind      string
		ownLab    bool
		changes   []journal.Planned
		connected int
		meshWide  bool
		asked     string // part of the question
		code      int
	}{
		"proxies of others":          {lab.KindCluster, false, wide, 12, false, "", errs.CodeUsage},
		"and mesh-wide":              {lab.KindCluster, false, wide, 12, true, "12 proxies of other users", errs.CodeFailure},
		"no proxies of others":       {lab.KindCluster, false, wide, 0, false, "mesh-wide changes: 0 proxies", errs.CodeFailure},
		"nothing mesh-wide":          {lab.KindCluster, false, narrow, unknown, false, "Deployment istio-system/istiod", errs.CodeFailure},
		"istiod does not answer":     {lab.KindCluster, false, wide, unknown, true, "", errs.CodeFailure},
		"not counted":                {lab.KindCluster, false, wide, uncounted, false, "", errs.CodeUsage},
		"not counted, and mesh-wide": {lab.KindCluster, false, wide, uncounted, true, "all proxies", errs.CodeFailure},
		"nothing to change":          {lab.KindCluster, false, nil, 12, false, "", errs.CodeOK},
		"a local lab":                {lab.KindLocal, false, wide, unknown, false, "", errs.CodeOK},
		"detached in a local lab":    {lab.KindCluster, true, wide, unknown, false, "", errs.CodeOK},
	} {
		t.Run(name, func(t *testing.T) {
			asked := ""
			o := RunOptions{Where: Where{Lab: c.kind}, OwnLab: c.ownLab, MeshWide: c.meshWide, Confirm: func(_ context.Context, text string) error {
				asked = text
				return refused
			}}
			connected := func(context.Context) (int, error) {
				if c.connected < 0 {
					return 0, errors.New("istiod does not answer")
				}
				return c.connected, nil
			}
			if c.connected == uncounted {
				connected = nil
			}
			err := o.confirmChanges(t.Context(), c.changes, connected)
			if errs.Code(err) != c.code || errors.Is(err, refused) != (c.asked != "") {
				t.Errorf("%v: exit code %d, want %d", err, errs.Code(err), c.code)
			}
			if !strings.Contains(asked, c.asked) || (asked == "") != (c.asked == "") {
				t.Errorf("asked %q, want %q", asked, c.asked)
			}
		})
	}
}
