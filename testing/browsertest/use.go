package browsertest

import (
	"context"
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/meshtrial/meshtrial/testing/must"
)

// Click clicks on the element that an expression returns, once it exists.
func Click(t *testing.T, ctx context.Context, element string) {
	t.Helper()
	Shows(t, ctx, "an element to click: "+element, "("+element+" ?? null) !== null")
	at := Eval[[]float64](t, ctx, `(() => { const e = `+element+`; e.scrollIntoView({block: 'center', behavior: 'instant'});
		const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()`)
	must.OK(t, chromedp.Do(ctx, chromedp.MouseClickXY(at[0], at[1])))
}

// Press clicks on the button or link with a text.
func Press(t *testing.T, ctx context.Context, text string) {
	t.Helper()
	Click(t, ctx, fmt.Sprintf(`[...document.querySelectorAll('button:not(:disabled), a[href], summary')].find(e => e.textContent === %q && e.checkVisibility())`, text))
}

// Type types a text into the element that an expression returns.
func Type(t *testing.T, ctx context.Context, element, text string) {
	t.Helper()
	Click(t, ctx, element)
	must.OK(t, chromedp.Do(ctx, chromedp.KeyEvent(text)))
}

// Print returns the page as a PDF.
func Print(t *testing.T, ctx context.Context) []byte {
	t.Helper()
	pdf, err := chromedp.Run(ctx, chromedp.PrintToPDF())
	must.OK(t, err)
	return pdf
}
