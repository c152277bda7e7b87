// Package report turns findings into something to read: a table for a
// terminal, Markdown for a pull request, JSON and CSV for other programs,
// JUnit for a build server, and one HTML file that works offline.
//
// Data passes through it once:
//
//	record.Findings -> document (answers, sections of tables)      -> text, Markdown, JSON
//	record.Findings -> page (answers, sections, charts and tables) -> HTML, see package ui
//	record.Findings                                                -> CSV, JUnit
//
// What a report shows of a kind of study its [Kind] says: each [Section] makes values
// of findings, tables and charts ([Chart]), with their numbers as readers see them.
// Renderers draw these values; none knows a section or a finding by its name.
//
// Names and labels in findings come from study files, which anyone may have
// written. No format lets them act: control characters are spelled out in
// text, markup is escaped in Markdown and HTML, formulas are disarmed in CSV.
//
// Size: what is drawn besides studies (comparisons, trends, scopes, profiles, models of
// capacity) is here for the sake of one set of tables, formats and rules of what
// text may do.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
)

// Formats are the formats Render knows, in the order of the documentation.
var Formats = []string{"text", "markdown", "json", "csv", "html", "junit"}

// Options say how to draw; the zero value is plain text, 100 columns wide.
type Options struct {
	// Width is the number of columns a text table may take; 0 means 100.
	Width int
	// Color puts terminal colours into text.
	Color bool
	// ASCII draws lines of blocks with digits, for terminals that know no others.
	ASCII bool
}

// CheckFormat returns a usage error that lists the formats if there is none
// of this name.
func CheckFormat(format string) error {
	for _, known := range Formats {
		if format == known {
			return nil
		}
	}
	return errs.WithHint(errs.Usage("unknown report format %q", format),
		"the formats are %s", strings.Join(Formats, ", "))
}

// Render writes findings to w in the given format. It fails for an unknown
// format (a usage error), for findings that JSON cannot hold (a NaN), and if
// w does.
func (kinds Kinds) Render(w io.Writer, f record.Findings, format string, opt Options) error {
	if err := CheckFormat(format); err != nil {
		return err
	}
	k, err := kinds.of(f)
	if err != nil {
		return err
	}
	switch format {
	case "markdown":
		return renderMarkdown(w, k.document(f))
	case "json":
		return renderJSON(w, f, k.document(f).Sections)
	case "csv":
		return k.renderCSV(w, f)
	case "html":
		return k.renderHTML(w, f)
	case "junit":
		return k.renderJUnit(w, f)
	default:
		return renderText(w, k.document(f), opt)
	}
}

// renderJSON writes the findings, and what sections show of them.
func renderJSON(w io.Writer, f record.Findings, sections []section) error {
	out, err := json.MarshalIndent(struct {
		record.Findings
		Sections []section `json:"sections"`
	}{f, sections}, "", "  ")
	if err != nil {
		return fmt.Errorf("findings as JSON: %w", err)
	}
	_, err = w.Write(append(out, '\n'))
	return err
}
