package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/journal"
)

// labOf is a lab of a kind.
type labOf struct {
	lab.Lab
	kind string
}

func (l labOf) Kind() string { return l.kind }

// What would hold for connected proxies of others wants more than --yes; nobody else is
// asked for it.
func TestAgree(t *testing.T) {
	wide := []journal.Planned{{Object: "Sidecar istio-system/default", Done: journal.Made, Wide: []string{"sidecar_scope mesh: proxies know no Services but those of ./*"}}}
	const uncounted = -2 // by a run that opens no control plane
	narrow := []journal.Planned{{Object: "Deployment istio-system/istiod", Done: journal.Changed}}
	for name, c := range map[string]struct {
		kind      string
		changes   []journal.Planned
		connected int
		flags     runFlags
		code      int
		said      string // in what is noted, or in the error and its hint
	}{
		"proxies of others, --yes":       {lab.KindCluster, wide, 12, runFlags{yes: true}, errs.CodeUsage, "mesh-wide, by sidecar_scope mesh: proxies know no Services but those of ./*\nconnected, and affected by what is mesh-wide: 12 proxies of others\nso it needs --mesh-wide: --yes is not enough"},
		"and --mesh-wide":                {lab.KindCluster, wide, 12, runFlags{yes: true, meshWide: true}, errs.CodeOK, "12 proxies of others"},
		"--mesh-wide alone, nobody here": {lab.KindCluster, wide, 12, runFlags{meshWide: true}, errs.CodeUsage, "--yes"},
		"no proxies of others":           {lab.KindCluster, wide, 0, runFlags{yes: true}, errs.CodeOK, "mesh-wide: 0 proxies"},
		"nothing mesh-wide":              {lab.KindCluster, narrow, -1, runFlags{yes: true}, errs.CodeOK, "Deployment istio-system/istiod"},
		"their number is not known":      {lab.KindCluster, wide, -1, runFlags{yes: true, meshWide: true}, errs.CodeFailure, "count the proxies"},
		"nobody counts":                  {lab.KindCluster, wide, uncounted, runFlags{yes: true}, errs.CodeUsage, "mesh-wide: all proxies of this control plane"},
		"nobody counts, --mesh-wide":     {lab.KindCluster, wide, uncounted, runFlags{yes: true, meshWide: true}, errs.CodeOK, "all proxies"},
		"a lab of our own":               {lab.KindLocal, wide, -1, runFlags{}, errs.CodeOK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var said bytes.Buffer
			env := &Env{Stdin: strings.NewReader("y\n"), Stdout: &said, Stderr: &said}
			connected := func(context.Context) (int, error) {
				if c.connected < 0 {
					return 0, errors.New("nobody answers")
				}
				return c.connected, nil
			}
			if c.connected == uncounted {
				connected = nil
			}
			err := agree(t.Context(), env, newProgress(env.Stderr), labOf{kind: c.kind}, c.changes, c.flags, connected)
			if errs.Code(err) != c.code {
				t.Errorf("%v: exit code %d, want %d", err, errs.Code(err), c.code)
			}
			if err != nil {
				said.WriteString(err.Error() + errs.Hint(err))
			}
			if !strings.Contains(said.String(), c.said) {
				t.Errorf("%s lacks %s", said.String(), c.said)
			}
			if needs := c.code == errs.CodeUsage && !c.flags.meshWide; strings.Contains(errs.Hint(err), "--mesh-wide") != needs {
				t.Errorf("hint %q", errs.Hint(err))
			}
		})
	}
}
