package browsertest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/meshtrial/meshtrial/testing/module"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Audit checks that the page is accessible and legible in both color schemes, and fits on a phone.
func Audit(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	for _, colours := range []string{"dark", "light"} {
		Scheme(t, ctx, colours)
		for _, text := range Faint(t, ctx) {
			t.Errorf("%s: too faint in the %s: %s", name, colours, text)
		}
		violations(t, ctx, name+" in the "+colours)
		Picture(t, ctx, name+"-"+colours)
	}
	Size(t, ctx, 360, 740)
	if over := Eval[float64](t, ctx, `document.documentElement.scrollWidth - window.innerWidth`); over > 0 {
		t.Errorf("%s: a narrow screen scrolls sideways by %.0f pixels", name, over)
	}
	violations(t, ctx, name+" on a narrow screen")
	Picture(t, ctx, name+"-narrow")
	Size(t, ctx, 1200, 900)
}

// violations reports what axe-core finds, if the packages of ui/web are installed.
func violations(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	root, err := module.Root()
	must.OK(t, err)
	source, err := os.ReadFile(filepath.Join(root, "ui", "web", "node_modules", "axe-core", "axe.min.js"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Logf("%s: not audited: the packages of ui/web are not installed (make node-packages)", name)
		return
	}
	must.OK(t, err)
	must.OK(t, must.Err(chromedp.Run(ctx, chromedp.Evaluate[bool](string(source)+"\ntrue"))))
	for _, found := range Eval[[]string](t, ctx, `axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.flatMap(v => v.nodes.map(n => v.id + ': ' + v.help + ': ' + n.html.slice(0, 160))))`) {
		t.Errorf("%s: %s", name, found)
	}
}

// Faint lists texts whose contrast with their background is below 4.5, the level AA of WCAG 2 for
// small text. Unlike axe-core it includes the texts of charts.
func Faint(t *testing.T, ctx context.Context) []string {
	t.Helper()
	return Eval[[]string](t, ctx, faint)
}

const faint = `(() => {
  const parse = c => { const m = c.match(/[\d.]+/g).map(Number); return {rgb: m.slice(0, 3), a: m.length > 3 ? m[3] : 1}; };
  const light = rgb => { const [r, g, b] = rgb.map(v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = e => { if (e.closest('.flame')) return parse(getComputedStyle(e.previousElementSibling).fill).rgb;
    for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.a > 0.99) return c.rgb; } return [255, 255, 255]; };
  const out = new Set();
  for (const e of document.querySelectorAll('body *')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || !e.checkVisibility() || e.closest('script, style, noscript, .flame .miss, .flame .above, .flame title')) continue;
    const style = getComputedStyle(e);
    const [a, b] = [light(parse(e instanceof SVGElement ? style.fill : style.color).rgb), light(behind(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) out.add(ratio.toFixed(2) + ' ' + e.tagName + '.' + (e.getAttribute('class') || '') + ' ' + e.textContent.slice(0, 30));
  }
  return [...out];
})()`
