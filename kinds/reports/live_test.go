package reports

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/testing/browsertest"
	"github.com/meshtrial/meshtrial/testing/loopback"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/runtest"
	"github.com/meshtrial/meshtrial/ui/live"
)

// serve serves pages until the test ends.
func serve(t *testing.T, dirs ...string) (pages *app.Pages, server *live.Server, entrance string) {
	t.Helper()
	pages, err := app.NewPages(dirs)
	must.OK(t, err)
	server, entrance = live.New(pages, 50*time.Millisecond)
	ctx, stop := context.WithCancel(t.Context())
	address := loopback.Serve(t, func(l net.Listener) error { return server.Serve(ctx, l) }, stop)
	return pages, server, "http://" + address + entrance
}

// watchServer is [browsertest.Watch] for the pages of a server.
func watchServer(t *testing.T, ctx context.Context, entrance string) (complaints func() []string) {
	t.Helper()
	complaints = browsertest.Watch(t, ctx, entrance[:strings.LastIndexByte(entrance, '/')])
	browsertest.Size(t, ctx, 1200, 900)
	return complaints
}

// audit audits a page that has at least so many charts.
func audit(t *testing.T, ctx context.Context, name string, charts int) {
	t.Helper()
	browsertest.Audit(t, ctx, "live-"+name)
	checkCharts(t, ctx, charts)
}

// A page of runs lists them, shows one as it grows without losing the reader's place, and compares
// two.
func TestLivePageInBrowser(t *testing.T) {
	folder := t.TempDir()
	const hostile = `"><img src=x onerror=alert(2)>`
	runtest.Copy(t, "data-plane", filepath.Join(folder, "growing"), "r1", 3)
	runtest.Copy(t, "data-plane", filepath.Join(folder, "whole"), "r2", runtest.All)
	runtest.Copy(t, "resilience", filepath.Join(folder, hostile), "r3", runtest.All)
	ctx := browsertest.Start(t)
	_, _, entrance := serve(t, folder)
	complaints := watchServer(t, ctx, entrance)
	browsertest.Visit(t, ctx, entrance)
	base := browsertest.Eval[string](t, ctx, `location.href`)
	if strings.Contains(base, "token") {
		t.Errorf("the token stays in the address %s", base)
	}
	rows := browsertest.Eval[[]string](t, ctx, `[...document.querySelectorAll('#runs tbody th')].map(e => e.textContent)`)
	if len(rows) != 3 || !strings.Contains(strings.Join(rows, "\n"), hostile) {
		t.Errorf("the index lists %q", rows)
	}
	audit(t, ctx, "index", 0)

	runOf := `[...document.querySelectorAll('#runs tbody a')].find(a => a.textContent === 'growing').href`
	browsertest.Visit(t, ctx, browsertest.Eval[string](t, ctx, runOf))
	browsertest.Shows(t, ctx, "three trials", `document.querySelector('.standing .facts')?.textContent.includes('3 trials') ?? false`)
	if label := browsertest.Eval[string](t, ctx, `getComputedStyle(document.querySelector('h1'), '::after').content`); label != `"provisional"` {
		t.Errorf("the headline of a run that goes on is marked %s", label)
	}
	audit(t, ctx, "run", 2)
	browsertest.Eval[bool](t, ctx, `document.querySelector('.filters input').click() ?? true`)
	browsertest.Eval[bool](t, ctx, `(() => { const d = [...document.querySelectorAll('main details')].at(-2); d.open = true; d.scrollIntoView({behavior: 'instant'}); return true; })()`)
	place := `Math.round([...document.querySelectorAll('main details')].at(-2).closest('section').getBoundingClientRect().top)`
	before := browsertest.Eval[int](t, ctx, place)
	runtest.Grow(t, "data-plane", filepath.Join(folder, "growing"), 6)
	browsertest.Shows(t, ctx, "six trials", `document.querySelector('.standing .facts').textContent.includes('6 trials')`)
	if !browsertest.Eval[bool](t, ctx, `[...document.querySelectorAll('main details')].at(-2).open`) {
		t.Error("details that were open are not any more")
	}
	if !browsertest.Eval[bool](t, ctx, `document.querySelector('.filters input').checked === false`) {
		t.Error("a level that was switched off is shown again")
	}
	if after := browsertest.Eval[int](t, ctx, place); after < before-3 || after > before+3 {
		t.Errorf("what the reader looks at moved from %d to %d", before, after)
	}

	browsertest.Visit(t, ctx, base)
	browsertest.Eval[bool](t, ctx, `['growing', 'whole'].forEach(name => document.querySelector('[aria-label="Compare ' + name + '"]').click()) ?? true`)
	browsertest.Eval[bool](t, ctx, `[...document.querySelectorAll('button')].find(b => b.textContent === 'Compare the two').click() ?? true`)
	browsertest.Shows(t, ctx, "a comparison", `document.querySelectorAll('#comparison tbody tr').length > 0`)
	audit(t, ctx, "compare", 1)
	browsertest.Visit(t, ctx, base)
	browsertest.Eval[bool](t, ctx, `[...document.querySelectorAll('#trends a')][0].click() ?? true`)
	browsertest.Shows(t, ctx, "a trend", `document.querySelector('#runs') !== null && document.querySelector('.now nav a') !== null`)
	audit(t, ctx, "trend", 1)
	for _, complaint := range complaints() {
		t.Error(complaint)
	}
}

// TestPictureOfALivePage draws docs/page.png if MESHTRIAL_PICTURE_OF_PAGE is set: the top of the
// page of a recorded run in progress.
func TestPictureOfALivePage(t *testing.T) {
	if os.Getenv("MESHTRIAL_PICTURE_OF_PAGE") == "" {
		t.Skip("MESHTRIAL_PICTURE_OF_PAGE is not set")
	}
	folder := t.TempDir()
	path := filepath.Join(folder, "run")
	runtest.Copy(t, "data-plane", path, "20261130-120000-07d1", 5)
	lock, _, err := store.Resume(path, nil, 0) // the run has a writer
	must.OK(t, err)
	defer lock.Close()
	ctx := browsertest.Start(t)
	_, _, entrance := serve(t, folder)
	browsertest.Visit(t, ctx, entrance)
	must.OK(t, chromedp.Do(ctx, chromedp.EmulateViewport(1060, 900, chromedp.EmulateScale(0.85))))
	browsertest.Visit(t, ctx, browsertest.Eval[string](t, ctx, `document.querySelector('#runs tbody a').href`))
	browsertest.Eval[bool](t, ctx, browsertest.Settle)
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	must.OK(t, err)
	must.OK(t, os.WriteFile(filepath.Join("..", "..", "docs", "page.png"), png, 0o644))
}
