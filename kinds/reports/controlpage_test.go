package reports

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/reporttest"
)

// Pages of studies of the control plane have a section for what they measure,
// with charts in it, and fit on a narrow screen.
func TestControlPageInBrowser(t *testing.T) {
	for _, c := range []struct {
		name string
		f    record.Findings
	}{
		{"control-plane-tuning", reporttest.Tuning(t)},
		{"phantom", reporttest.Phantom(t)},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := browser(t)
			complaints := open(t, ctx, c.f, 1200)
			checkCharts(t, ctx, 2)
			checkTables(t, ctx, c.f)
			eval[bool](t, ctx, `[...document.querySelectorAll('details')].every(d => d.open = true)`)
			for _, colours := range []string{"light", "dark"} {
				scheme(t, ctx, colours)
				if texts := eval[[]string](t, ctx, faint); len(texts) > 0 {
					t.Errorf("too faint in the %s: %q", colours, texts)
				}
				picture(t, ctx, c.name+"-"+colours)
			}
			if err := chromedp.Do(ctx, chromedp.EmulateViewport(360, 740)); err != nil {
				t.Fatal(err)
			}
			checkCharts(t, ctx, 2)
			if over := eval[float64](t, ctx, `document.documentElement.scrollWidth - window.innerWidth`); over > 0 {
				t.Errorf("a narrow screen scrolls sideways by %.0f pixels", over)
			}
			for _, complaint := range complaints() {
				t.Error(complaint)
			}
		})
	}
}
