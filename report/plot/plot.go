// Package plot draws plots as self-contained SVG: points over each other on equal
// logarithmic axes, and figures of two sources beside each other, a row for each
// ([Scatter], [Beside]); [Page] has their colours, in light and dark. It is pure.
package plot

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Measures of plots, in pixels.
const (
	side      = 250.0 // of a square panel
	marginX   = 74.0
	bottomY   = 40.0
	topY      = 44.0
	rightX    = 14.0
	rowHeight = 30.0
	rowLabel  = 430.0
	rowWidth  = 400.0
)

// logAxis is a logarithmic axis from one pixel to another.
type logAxis struct{ low, high, from, to float64 }

// logAxisFor holds all values, with a margin; those not above 0 have no place on it.
func logAxisFor(values []float64, from, to float64) logAxis {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if v > 0 && !math.IsInf(v, 0) {
			low, high = math.Min(low, v), math.Max(high, v)
		}
	}
	if low > high {
		low, high = 1, 10
	}
	return logAxis{math.Log10(low / 1.4), math.Log10(high * 1.4), from, to}
}

// at is a value's pixel, at the axis' ends for what lies beyond.
func (a logAxis) at(v float64) float64 {
	x := a.low
	if v > 0 {
		x = math.Min(a.high, math.Max(a.low, math.Log10(v)))
	}
	return a.from + (x-a.low)/(a.high-a.low)*(a.to-a.from)
}

// ticks are round values along the axis: powers of ten, and where there are few of
// those, twice and five times them.
func (a logAxis) ticks() []float64 {
	steps := []float64{1}
	switch span := a.high - a.low; {
	case span < 0.6:
		steps = []float64{1, 1.5, 2, 2.5, 3, 4, 5, 6, 8}
	case span < 1.3:
		steps = []float64{1, 2, 5}
	case span < 2.6:
		steps = []float64{1, 3}
	}
	var out []float64
	for e := math.Floor(a.low); e <= a.high; e++ {
		for _, s := range steps {
			if v := s * math.Pow(10, e); math.Log10(v) >= a.low && math.Log10(v) <= a.high {
				out = append(out, v)
			}
		}
	}
	return out
}

// Scale says how values up to a largest one are written: each without its unit, and
// the unit.
type Scale func(largest float64) (tick func(v float64) string, unit string)

// Point is what was predicted, Y, over what was measured, X, with an interval where
// it has one.
type Point struct {
	X, Y      float64
	Low, High float64 // 0, 0: none
	Class     string
	Title     string // shown when pointed at
}

func svgText(b *strings.Builder, x, y float64, anchor, class, text string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s" class="%s">%s</text>`, x, y, anchor, class, html.EscapeString(text))
}

func svgLine(b *strings.Builder, x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>`, x1, y1, x2, y2, class)
}

func svgBegin(b *strings.Builder, width, height float64, name string) {
	fmt.Fprintf(b, `<svg viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img" aria-label="%s">`, width, height, width, height, html.EscapeString(name))
}

func joined(words, unit string) string {
	if unit == "" {
		return words
	}
	return words + ", " + unit
}

// Scatter draws predictions over what was measured: on the diagonal they agree, in the
// band they are off by 15% at most.
func Scatter(title, subtitle string, scale Scale, points []Point) string {
	var values []float64
	for _, p := range points {
		values = append(values, p.X, p.Y)
	}
	x := logAxisFor(values, marginX, marginX+side)
	y := x
	y.from, y.to = topY+side, topY
	var b strings.Builder
	svgBegin(&b, marginX+side+rightX, topY+side+bottomY, title+": predicted over measured")
	svgText(&b, 8, 16, "start", "title", title)
	svgText(&b, 8, 33, "start", "dim", subtitle)
	panel(&b, x, y, scale)
	for _, p := range points {
		fmt.Fprintf(&b, `<g class="%s"><title>%s</title>`, p.Class, html.EscapeString(p.Title))
		if p.High > 0 {
			svgLine(&b, x.at(p.X), y.at(p.Low), x.at(p.X), y.at(p.High), "interval")
		}
		fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="4.5"/></g>`, x.at(p.X), y.at(p.Y))
	}
	b.WriteString("</svg>")
	return b.String()
}

// panel draws a square with its axes, the diagonal and the band around it.
func panel(b *strings.Builder, x, y logAxis, scale Scale) {
	left, right, top, bottom := x.from, x.to, y.to, y.from
	low, high := math.Pow(10, x.low), math.Pow(10, x.high)
	fmt.Fprintf(b, `<polygon class="band" points="%.1f,%.1f %.1f,%.1f %.1f,%.1f %.1f,%.1f %.1f,%.1f %.1f,%.1f"/>`,
		left, bottom, left, y.at(low*1.15), x.at(high/1.15), top, right, top, right, y.at(high*0.85), x.at(low/0.85), bottom)
	svgLine(b, left, bottom, right, top, "diagonal")
	fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" class="frame"/>`, left, top, right-left, bottom-top)
	tick, unit := scale(high)
	for _, v := range x.ticks() {
		svgLine(b, x.at(v), bottom, x.at(v), bottom+4, "tick")
		svgText(b, x.at(v), bottom+16, "middle", "label", tick(v))
		svgLine(b, left-4, y.at(v), left, y.at(v), "tick")
		svgText(b, left-7, y.at(v)+4, "end", "label", tick(v))
	}
	svgText(b, (left+right)/2, bottom+34, "middle", "label", joined("measured", unit))
	fmt.Fprintf(b, `<text transform="translate(13 %.1f) rotate(-90)" text-anchor="middle" class="label">%s</text>`, (top+bottom)/2, html.EscapeString(joined("predicted", unit)))
}

// Row is what somebody published, and what the model says of it.
type Row struct {
	Label                     string
	Published, Estimate       float64
	Low, High                 float64 // of the model's interval
	PublishedText, ModelsText string  // shown when pointed at
}

// Beside draws published figures beside a model's, one row each, on one logarithmic
// axis.
func Beside(title string, scale Scale, rows []Row) string {
	var values []float64
	for _, r := range rows {
		values = append(values, r.Published, r.Estimate, r.Low, r.High)
	}
	x := logAxisFor(values, rowLabel, rowLabel+rowWidth)
	bottom := topY + float64(len(rows))*rowHeight
	var b strings.Builder
	svgBegin(&b, rowLabel+rowWidth+rightX+20, bottom+30, title)
	tick, unit := scale(math.Pow(10, x.high))
	svgText(&b, 8, 16, "start", "title", joined(title, unit))
	for _, v := range x.ticks() {
		svgLine(&b, x.at(v), topY-8, x.at(v), bottom, "grid")
		svgText(&b, x.at(v), bottom+16, "middle", "label", tick(v))
	}
	for i, r := range rows {
		y := topY + (float64(i)+0.5)*rowHeight
		svgText(&b, rowLabel-12, y+4, "end", "label", r.Label)
		fmt.Fprintf(&b, `<g class="heldout"><title>%s</title>`, html.EscapeString("model: "+r.ModelsText))
		svgLine(&b, x.at(r.Low), y, x.at(r.High), y, "interval")
		fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="4.5"/></g>`, x.at(r.Estimate), y)
		at := x.at(r.Published)
		fmt.Fprintf(&b, `<g class="published"><title>%s</title><polygon points="%.1f,%.1f %.1f,%.1f %.1f,%.1f %.1f,%.1f"/></g>`,
			html.EscapeString("published: "+r.PublishedText), at-6, y, at, y-6, at+6, y, at, y+6)
	}
	b.WriteString("</svg>")
	return b.String()
}
