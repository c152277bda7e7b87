package components

import (
	"context"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
)

// A tool is required only by what it makes or inspects, and not by what is already in the
// cache.
func TestNeeds(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no go, no apt-get, no python3
	names := []string{"envoy@" + DefaultEnvoy, "runc"}
	ask := func(b *Builder, names ...string) map[string]Need {
		needs, err := b.Needs(t.Context(), names...)
		must.OK(t, err)
		out := map[string]Need{}
		for _, n := range needs {
			out[n.Name] = n
			if n.Err != nil && errs.Hint(n.Err) == "" {
				t.Errorf("%s: %v, without a hint", n.Name, n.Err)
			}
		}
		return out
	}
	b := &Builder{cache: cache{dir: t.TempDir()}, source: embeddedSource(), archive: apt{}, goUnits: goUnits("")}
	needs := ask(b, names...)
	if needs["apt-get"].Err == nil || needs["python3 with pip"].Err == nil || needs["components"].Err != nil || !strings.HasPrefix(needs["components"].Detail, "0 of 2") {
		t.Errorf("without tools: %+v", needs)
	}
	if _, asked := needs["go"]; asked {
		t.Errorf("go is asked for by what it does not build: %+v", needs)
	}
	if needs := ask(b, "istiod"); needs["go"].Err == nil || len(needs) != 2 {
		t.Errorf("of a Go program: %+v", needs)
	}

	b.archive = fakeArchive{}
	for _, unit := range []string{"envoy-" + DefaultEnvoy, "debian", "istio"} { // as if they had been made
		jobs, err := b.jobs([]string{unit}, newMeter(nil))
		must.OK(t, err)
		made := jobs[0].recipe
		made.make = makeNothing
		must.OK(t, must.Err(b.cache.ensure(t.Context(), made)))
	}
	needs = ask(b, names...)
	if len(needs) != 1 || needs["components"].Detail != "2 of 2 are in the cache" {
		t.Errorf("with a filled cache: %+v", needs)
	}
	if needs := ask(b, "istiod"); len(needs) != 1 {
		t.Errorf("of a Go program that is there: %+v", needs)
	}
	if _, err := b.Needs(t.Context(), "nosuch"); errs.Code(err) != errs.CodeUsage {
		t.Errorf("of what is no component: %v", err)
	}
}

func makeNothing(context.Context, string) ([]Version, error) { return nil, nil }
