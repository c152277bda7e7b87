package reports

import (
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/kinds/analyses"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/testing/browsertest"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/runtest"
)

const largeStudy = `name: large
question: Which lever helps 2,000 sidecars?
control: {changes: 4, settle: 3s, quiet: 500ms, idle: 1s}
settings: {proxies: 2000, services: 5, namespaces: 2, endpoints: 2, change: endpoints-scale}
factors: {debounce_after: [100ms, 500ms, 1s, 2s]}
baseline: {debounce_after: 100ms}
blocks: {min: 40, max: 41, limit: 24h}
seed: 5
`

const (
	largeTrials, largeSidecars = 200, 2000
	// Limits of the page of such a run.
	largeBytes, largeNodes = 2 << 20, 6000
)

// large writes a run of largeTrials trials with largeSidecars simulated sidecars, without its end.
func large(t *testing.T, path string) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	w, err := runtest.Repeat("control-plane", path, []byte(largeStudy), func(trial *record.Trial, events []record.Event) {
		trial.Control.Proxies = largeSidecars
		debounce, err := time.ParseDuration(trial.Cell["debounce_after"])
		must.OK(t, err)
		for i := range events {
			e := &events[i]
			e.Expected, e.Seen = largeSidecars, record.Sightings{}
			for p := range largeSidecars {
				us := debounce.Microseconds() + int64(p)*50 + r.Int64N(20_000)
				e.Seen.Proxy = append(e.Seen.Proxy, int32(p))
				e.Seen.ReceivedUS = append(e.Seen.ReceivedUS, us)
				e.Seen.AckedUS = append(e.Seen.AckedUS, us+400)
			}
		}
	})
	must.OK(t, err)
	for range largeTrials {
		must.OK(t, must.Err(w.Next()))
	}
	must.OK(t, w.Close())
}

// The page of a large run is small, both as a file and served.
func TestLargeRunInBrowser(t *testing.T) {
	ctx := browsertest.Start(t)
	folder := t.TempDir()
	path := filepath.Join(folder, "large")
	large(t, path)
	run, _, err := store.Load(t.Context(), path)
	must.OK(t, err)
	f, err := analyses.All().Analyze(run)
	must.OK(t, err)
	file := filepath.Join(folder, "report.html")
	html := render(t, f, "html", report.Options{})
	must.OK(t, os.WriteFile(file, []byte(html), 0o600))
	if len(html) > largeBytes {
		t.Errorf("the report has %d bytes", len(html))
	}
	pages, _, entrance := serve(t, folder)
	browsertest.Size(t, ctx, 1200, 900)
	browsertest.Visit(t, ctx, entrance) // sets the cookie, and lists the run
	served := browsertest.Eval[string](t, ctx, `document.querySelector('#runs tbody a').href`)
	address, err := url.Parse(served)
	must.OK(t, err)
	must.OK(t, must.Err(pages.Document(t.Context(), address.Query()))) // rendered once, then cached
	for name, address := range map[string]string{"file": browsertest.File(file), "served": served} {
		browsertest.Visit(t, ctx, address)
		if nodes := browsertest.Eval[int](t, ctx, `document.querySelectorAll('*').length`); nodes > largeNodes {
			t.Errorf("%s: %d nodes", name, nodes)
		}
		browsertest.Picture(t, ctx, "large-"+name)
	}
}
