package reports

import (
	"slices"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/reporttest"
)

// Pages of studies of the control plane have a section for what they measure,
// with charts in it, and fit on a narrow screen.
func TestControlPageInBrowser(t *testing.T) {
	for _, c := range []struct {
		name     string
		f        record.Findings
		sections []string
	}{
		{"control-plane-tuning", reporttest.Tuning(t), []string{"convergence", "waterfall", "overhead", "published", "amplification", "control-cost", "machine", "memory", "validity", "drift", "findings", "about", "study"}},
		{"phantom", reporttest.Phantom(t), []string{"gone", "overhead", "control-cost", "machine", "memory", "validity", "findings", "about", "study"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := browser(t)
			complaints := open(t, ctx, c.f, 1200)
			checkCharts(t, ctx, 4)
			if got := eval[[]string](t, ctx, `[...document.querySelectorAll('main > section')].map(s => s.id)`); !slices.Equal(got, c.sections) {
				t.Errorf("sections %v, want %v", got, c.sections)
			}
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
			checkCharts(t, ctx, 4)
			if over := eval[float64](t, ctx, `document.documentElement.scrollWidth - window.innerWidth`); over > 0 {
				t.Errorf("a narrow screen scrolls sideways by %.0f pixels", over)
			}
			for _, complaint := range complaints() {
				t.Error(complaint)
			}
		})
	}
}
