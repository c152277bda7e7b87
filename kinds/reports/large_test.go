package reports

import (
	"context"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/systeminfo"
	"github.com/chromedp/chromedp"

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
	// Limits of the page of such a run. Those of time and memory hold with MESHTRIAL_BENCH_PAGE.
	largeBytes, largeNodes = 2 << 20, 6000
	largeOpens             = 2 * time.Second
	largeMemory            = 300 << 20
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

// The page of a large run is small, both as a file and served. With MESHTRIAL_BENCH_PAGE set, as in
// `make bench`, limits apply to the time in which it opens and to its memory.
func TestLargeRunInBrowser(t *testing.T) {
	judged := os.Getenv("MESHTRIAL_BENCH_PAGE") != ""
	ctx := browsertest.Start(t)
	folder := t.TempDir()
	path := filepath.Join(folder, "large")
	large(t, path)
	began := time.Now()
	run, _, err := store.Load(t.Context(), path)
	must.OK(t, err)
	f, err := analyses.All().Analyze(run)
	must.OK(t, err)
	t.Logf("loaded and analysed in %v", time.Since(began).Round(time.Millisecond))
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
		began := time.Now()
		browsertest.Visit(t, ctx, address)
		took := time.Since(began)
		nodes := browsertest.Eval[int](t, ctx, `document.querySelectorAll('*').length`)
		memory := rendererMemory(t, ctx)
		t.Logf("%s: %d bytes of HTML, %d nodes, opens in %v, the renderer takes %d MB", name, len(html), nodes, took.Round(time.Millisecond), memory>>20)
		if nodes > largeNodes {
			t.Errorf("%s: %d nodes", name, nodes)
		}
		if judged && (took > largeOpens || memory > largeMemory) {
			t.Errorf("%s: opens in %v, and the renderer takes %d MB", name, took, memory>>20)
		}
		browsertest.Picture(t, ctx, "large-"+name)
	}
}

// rendererMemory returns the resident memory of the largest renderer process.
func rendererMemory(t *testing.T, ctx context.Context) (most int64) {
	t.Helper()
	all, err := chromedp.CallBrowser(ctx, systeminfo.GetProcessInfo, cdp.Empty{})
	must.OK(t, err)
	for _, p := range all.ProcessInfo {
		if p.Type != "renderer" {
			continue
		}
		status, err := os.ReadFile(filepath.Join("/proc", strconv.FormatInt(p.ID, 10), "status"))
		must.OK(t, err)
		for line := range strings.Lines(string(status)) {
			if text, ok := strings.CutPrefix(line, "VmRSS:"); ok {
				kB, err := strconv.ParseInt(strings.Fields(text)[0], 10, 64)
				must.OK(t, err)
				most = max(most, kB<<10)
			}
		}
	}
	return most
}
