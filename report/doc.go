// Package report turns findings into something to read: a table for a terminal, Markdown for a pull
// request, JSON and CSV for other programs, JUnit for a build server, OpenMetrics for a monitoring
// system, lines of Go's benchmark format for benchstat, and one HTML file that works offline.
//
// Data passes through it once:
//
//	record.Findings -> Page (answers, sections of charts and tables) -> text, Markdown, JSON; HTML by package ui
//	record.Findings                                                  -> CSV, JUnit, OpenMetrics, benchmark lines
//
// A [Kind] defines what a report shows of a kind of study: each [Section] turns findings into
// values, tables and charts ([Chart]), with their numbers formatted for readers. Renderers draw
// these values; none knows a section or a finding by name.
//
// Names and labels in findings come from study files, which anyone may have written. No format lets
// them take effect: text spells out control characters, Markdown and HTML escape markup, CSV
// disarms formulas.
//
// The package is large because everything else that is drawn (comparisons, trends, scopes,
// profiles, models of capacity) shares its tables, formats and escaping rules.
package report

import (
	"io"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
)

// formats is the table of formats, in the order of the documentation.
var formats = []struct {
	name   string
	render func(w io.Writer, k Kind, f record.Findings, opt Options) error
}{
	{"text", renderText}, {"markdown", renderMarkdown}, {"json", renderJSON}, {"csv", renderCSV},
	{"html", renderHTML}, {"junit", renderJUnit}, {"openmetrics", renderOpenMetrics}, {"benchfmt", renderBenchfmt},
}

// Formats lists the names of the formats.
func Formats() []string {
	out := make([]string, len(formats))
	for i, f := range formats {
		out[i] = f.name
	}
	return out
}

// Options say how to draw text; the zero value is 100 columns without colour.
type Options struct {
	// Width is the number of columns a table may take; 0 means 100.
	Width int
	// Color puts terminal colours into text.
	Color bool
}

// Render writes findings to w in one of [Formats].
func (kinds Kinds) Render(w io.Writer, f record.Findings, format string, opt Options) error {
	k, err := kinds.of(f)
	if err != nil {
		return err
	}
	for _, one := range formats {
		if one.name == format {
			return one.render(w, k, f, opt)
		}
	}
	return errs.Usage("there is no format %q", format)
}
