package reports

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/meshtrial/meshtrial/kinds"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/testing/browsertest"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/reporttest"
)

// open writes findings as HTML and opens the file in the browser.
func open(t *testing.T, ctx context.Context, f record.Findings, width int64) (complaints func() []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.html")
	must.OK(t, os.WriteFile(path, []byte(render(t, f, "html", report.Options{})), 0o600))
	complaints = browsertest.Watch(t, ctx, browsertest.File(path))
	browsertest.Size(t, ctx, width, 900)
	browsertest.Visit(t, ctx, browsertest.File(path))
	return complaints
}

type drawn struct {
	Name   string
	Width  float64
	Height float64
	Shapes int
	Broken int
}

// charts lists the charts of the page: shapes are marks with an extent, broken are attributes
// without a number where one belongs.
const charts = `[...document.querySelectorAll('.chart svg.plot')].map(svg => {
  const box = svg.getBoundingClientRect();
  const shapes = [...svg.querySelectorAll('.marks path, .marks rect')].filter(e => { const b = e.getBoundingClientRect(); return b.width > 0.5 || b.height > 0.5; });
  const broken = [...svg.querySelectorAll('*')].filter(e => [...e.attributes].some(a => /NaN|Infinity|undefined/.test(a.value)) || /NaN|Infinity|undefined/.test(e.textContent));
  return {Name: svg.getAttribute('aria-label') || '', Width: box.width, Height: box.height, Shapes: shapes.length, Broken: broken.length};
})`

// Pages of each kind draw their charts and tables, are legible in both schemes, can be used with
// the keyboard, and fit on a narrow screen.
func TestPageInBrowser(t *testing.T) {
	for _, c := range []struct {
		name   string
		f      record.Findings
		charts int  // minimum
		used   bool // it has a latency chart to read, and factors to filter by
	}{
		{"quick", reporttest.Quick(), 4, true},
		{"two-pod-latency", reporttest.TwoPod(), 4, true},
		{"ten-servers", reporttest.TenServers(t), 4, true},
		{"control-plane-tuning", reporttest.Tuning(t), 2, false},
		{"phantom", reporttest.Phantom(t), 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := browsertest.Start(t)
			complaints := open(t, ctx, c.f, 1200)
			checkCharts(t, ctx, c.charts)
			checkTables(t, ctx, c.f)
			browsertest.Eval[bool](t, ctx, `[...document.querySelectorAll('details')].every(d => d.open = true)`)
			background := map[string]bool{}
			for _, colours := range []string{"dark", "light"} {
				browsertest.Scheme(t, ctx, colours)
				background[browsertest.Eval[string](t, ctx, `getComputedStyle(document.body).backgroundColor`)] = true
			}
			if len(background) != 2 {
				t.Errorf("dark and light look the same: %v", background)
			}
			browsertest.Audit(t, ctx, c.name)
			if c.used {
				checkKeyboard(t, ctx)
				checkFilter(t, ctx, c.f)
			}
			browsertest.Size(t, ctx, 360, 740)
			checkCharts(t, ctx, c.charts)
			for _, complaint := range complaints() {
				t.Error(complaint)
			}
		})
	}
}

// checkCharts checks that every chart drew something, without broken numbers and with a name.
func checkCharts(t *testing.T, ctx context.Context, least int) {
	t.Helper()
	all := browsertest.Eval[[]drawn](t, ctx, charts)
	if len(all) < least {
		t.Errorf("only %d charts", len(all))
	}
	for _, chart := range all {
		if chart.Name == "" || chart.Width < 250 || chart.Height < 60 || chart.Shapes < 1 || chart.Broken > 0 {
			t.Errorf("chart is not right: %+v", chart)
		}
	}
	if text := browsertest.Eval[string](t, ctx, `document.body.innerText`); strings.Contains(text, "NaN") || strings.Contains(text, "undefined") || strings.Contains(text, "[object") {
		t.Error("the page shows NaN, undefined or an object")
	}
	if unnamed := browsertest.Eval[[]string](t, ctx, `[...document.querySelectorAll('section, input, fieldset, [role=img], [role=group], [role=region]')].filter(e =>
		!(e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.querySelector('legend') || e.closest('label'))).map(e => e.outerHTML.slice(0, 80))`); len(unnamed) > 0 {
		t.Errorf("no accessible name: %v", unnamed)
	}
}

// checkTables compares the page with the values of its document.
func checkTables(t *testing.T, ctx context.Context, f record.Findings) {
	t.Helper()
	p := pageOf(t, f)
	var want [][][]string
	for _, s := range p.Sections {
		for _, table := range s.Tables {
			var rows [][]string
			for _, row := range table.Rows {
				var texts []string
				for _, text := range row {
					texts = append(texts, text.S)
				}
				rows = append(rows, texts)
			}
			want = append(want, rows)
		}
	}
	got := browsertest.Eval[[][][]string](t, ctx, `[...document.querySelectorAll('table.data')].map(t => [...t.tBodies[0].rows].map(r => [...r.cells].map(c => c.textContent)))`)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("tables show\n%v, want\n%v", got, want)
	}
	if got := browsertest.Eval[string](t, ctx, `document.querySelector('h1').textContent`); got != p.Answers[0] {
		t.Errorf("headline %q, want %q", got, p.Answers[0])
	}
}

// checkKeyboard reads a value off a chart with the arrow keys.
func checkKeyboard(t *testing.T, ctx context.Context) {
	t.Helper()
	must.OK(t, chromedp.Do(ctx, chromedp.Focus(chromedp.CSS("#latency .chart")), chromedp.KeyEvent(kb.ArrowLeft), chromedp.KeyEvent(kb.ArrowLeft)))
	if text := browsertest.Eval[string](t, ctx, `document.querySelector('#latency .readout:not([hidden])')?.innerText ?? ''`); !strings.Contains(text, "p99.9") {
		t.Errorf("arrow keys read %q off the latency chart", text)
	}
	must.OK(t, chromedp.Do(ctx, chromedp.KeyEvent(kb.Escape)))
	if !browsertest.Eval[bool](t, ctx, `document.querySelector('#latency .readout').hidden`) {
		t.Error("Escape does not put the reading away")
	}
}

// checkFilter removes one level of the first factor and restores it.
func checkFilter(t *testing.T, ctx context.Context, f record.Findings) {
	t.Helper()
	status := func() string {
		return browsertest.Eval[string](t, ctx, `document.querySelector('.filters .status').textContent`)
	}
	all := fmt.Sprintf("%d of %d cells shown", len(f.Cells), len(f.Cells))
	if got := status(); got != all {
		t.Errorf("status %q, want %q", got, all)
	}
	rows := `document.querySelectorAll('table.data tbody tr').length`
	before := browsertest.Eval[int](t, ctx, rows)
	browsertest.Eval[bool](t, ctx, `document.querySelector('.filters input').click() ?? true`)
	left := len(f.Cells) - len(f.Cells)/len(f.Factors[0].Levels)
	if got := status(); got != fmt.Sprintf("%d of %d cells shown", left, len(f.Cells)) || browsertest.Eval[int](t, ctx, rows) >= before {
		t.Errorf("after a filter: %q, %d rows of %d", got, browsertest.Eval[int](t, ctx, rows), before)
	}
	browsertest.Eval[bool](t, ctx, `document.querySelector('.filters button').click() ?? true`)
	if got := status(); got != all || browsertest.Eval[int](t, ctx, rows) != before {
		t.Errorf("after Show all: %q", got)
	}
	// With nothing selected the page says so and stays intact.
	browsertest.Eval[bool](t, ctx, `[...document.querySelectorAll('.filters fieldset:first-of-type input')].forEach(i => i.click()) ?? true`)
	if n := browsertest.Eval[int](t, ctx, `document.querySelectorAll('.empty').length`); n < 3 {
		t.Errorf("with no cell selected only %d sections say so", n)
	}
	browsertest.Eval[bool](t, ctx, `document.querySelector('.filters button').click() ?? true`)
}

func TestHostileNamesInBrowser(t *testing.T) {
	ctx := browsertest.Start(t)
	complaints := open(t, ctx, reporttest.Hostile(), 1200)
	checkCharts(t, ctx, 4)
	for _, complaint := range complaints() {
		t.Error(complaint)
	}
	if n := browsertest.Eval[int](t, ctx, `document.querySelectorAll('img, iframe, object, embed, b, i, u, script:not([type="application/json"]):not([type=module])').length`); n != 0 {
		t.Errorf("findings became %d elements", n)
	}
	if n := browsertest.Eval[int](t, ctx, `document.scripts.length`); n != 2 {
		t.Errorf("%d scripts, want 2", n)
	}
	text := browsertest.Eval[string](t, ctx, `document.getElementById('app').textContent`)
	for _, want := range []string{"<img src=x onerror=alert(2)>", "<i>both</i>", "</script><script>alert(1)</script>", `\u202eabc\u2028`} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not show %q as text", want)
		}
	}
	if strings.ContainsAny(text, "\u202e\x1b\x07") {
		t.Error("characters that hide or reorder text reach the reader")
	}
	// Even an injected element cannot act: the policy names one script.
	browsertest.Eval[bool](t, ctx, `(() => { const s = document.createElement('script'); s.textContent = 'window.ran = true'; document.body.append(s); return true; })()`)
	if browsertest.Eval[bool](t, ctx, `window.ran === true`) {
		t.Error("the content security policy lets another script run")
	}
	if !browsertest.Eval[bool](t, ctx, `new Promise(done => fetch('https://example.invalid/').then(() => done(false), () => done(true)))`) {
		t.Error("the content security policy lets the page fetch")
	}
	browsertest.Picture(t, ctx, "hostile")
}

// Findings with next to nothing in them must still make a page.
func TestSparsePagesInBrowser(t *testing.T) {
	ctx := browsertest.Start(t)
	invalid := reporttest.Quick()
	invalid.Validity = record.ValiditySummary{Trials: 8, Invalid: 8, Blocks: 2, Reasons: []record.InvalidReason{{Check: "mode_active", Trials: 8, Example: "the server's proxy counted no request"}}}
	invalid.Findings, invalid.NoiseFloor, invalid.Assertions = nil, nil, nil
	for i := range invalid.Cells {
		c := &invalid.Cells[i]
		*c = record.CellSummary{Cell: c.Cell, Label: c.Label, Baseline: c.Baseline, Trials: 2}
	}
	for name, f := range map[string]record.Findings{"empty": {Kind: record.KindDataPlane}, "invalid": invalid, "single": reporttest.Fixture("single", "", nil, 3)} {
		complaints := open(t, ctx, f, 1000)
		text := browsertest.Eval[string](t, ctx, `document.body.innerText`)
		if strings.Contains(text, "NaN") || strings.Contains(text, "undefined") || len(text) < 100 {
			t.Errorf("%s: %s", name, text)
		}
		for _, complaint := range complaints() {
			t.Errorf("%s: %s", name, complaint)
		}
		browsertest.Picture(t, ctx, name)
	}
}

func TestPageIsOneSmallFile(t *testing.T) {
	var b bytes.Buffer
	must.OK(t, kinds.Reports().Render(&b, record.Findings{Kind: record.KindDataPlane}, "html", report.Options{}))
	if b.Len() > 400<<10 {
		t.Errorf("the page alone has %d bytes", b.Len())
	}
}

// TestPictureOfARun draws the picture of a report for the README from the findings.json of a run:
//
//	MESHTRIAL_PICTURE_OF=$PWD/runs/RUN/findings.json go test ./kinds/reports -run PictureOfARun
//
// docs/report.png is the top of the page. The whole page goes to the folder in MESHTRIAL_PICTURES,
// if set.
func TestPictureOfARun(t *testing.T) {
	path := os.Getenv("MESHTRIAL_PICTURE_OF")
	if path == "" {
		t.Skip("MESHTRIAL_PICTURE_OF names no findings.json")
	}
	data, err := os.ReadFile(path)
	must.OK(t, err)
	var f record.Findings
	must.OK(t, json.Unmarshal(data, &f))
	ctx := browsertest.Start(t)
	complaints := open(t, ctx, f, 1060)
	checkCharts(t, ctx, 4)
	browsertest.Picture(t, ctx, f.Study)
	must.OK(t, chromedp.Do(ctx, chromedp.EmulateViewport(1060, 1760, chromedp.EmulateScale(0.85))))
	browsertest.Eval[bool](t, ctx, browsertest.Settle)
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	must.OK(t, err)
	must.OK(t, os.WriteFile(filepath.Join("..", "..", "docs", "report.png"), png, 0o644))
	t.Logf("docs/report.png: %d bytes", len(png))
	for _, complaint := range complaints() {
		t.Error(complaint)
	}
}
