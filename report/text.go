package report

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
)

const defaultWidth = 100

// renderText writes a report for a terminal.
func renderText(w io.Writer, k Kind, f record.Findings, opt Options) error {
	return drawText(w, k.page(f), opt)
}

// drawText writes a page for a terminal.
func drawText(w io.Writer, p Page, opt Options) error {
	t := newText(opt)
	t.line(t.paint(StyleStrong, clean(p.Title)))
	if p.Question != "" {
		t.wrap("", clean(p.Question))
	}
	for i, answer := range p.Answers {
		if i == 0 {
			t.line("")
			t.wrapStyled("", clean(answer), StyleStrong)
		} else {
			t.wrap("", clean(answer))
		}
	}
	t.line("")
	longest := 0
	for _, fact := range p.Facts {
		longest = max(longest, len(fact.Name))
	}
	for _, fact := range p.Facts {
		t.wrap("  "+fact.Name+strings.Repeat(" ", longest-len(fact.Name)+2), clean(fact.Text))
	}
	for _, s := range p.Sections {
		t.tables(s.Tables...)
	}
	for i, paragraph := range paragraphs(p.Story) {
		t.line("")
		if i == 0 {
			t.line(t.paint(StyleStrong, aboutStudy))
		}
		t.wrap("  ", clean(paragraph))
	}
	t.list("Warnings", p.Warnings)
	return t.writeTo(w)
}

// aboutStudy is the title above a study's story, which follows the findings: repeat readers
// of a report already know it.
const aboutStudy = "About this study"

// textWriter draws text for a terminal.
type textWriter struct {
	b   strings.Builder
	opt Options
}

func newText(opt Options) *textWriter {
	if opt.Width <= 0 {
		opt.Width = defaultWidth
	}
	opt.Width = max(opt.Width, 40)
	return &textWriter{opt: opt}
}

func (t *textWriter) writeTo(w io.Writer) error {
	_, err := io.WriteString(w, t.b.String())
	return err
}

// tables draws the tables that have rows, each after an empty line.
func (t *textWriter) tables(all ...Table) {
	for _, one := range withRows(all...) {
		t.line("")
		t.table(one)
	}
}

func (t *textWriter) line(s string) {
	t.b.WriteString(strings.TrimRight(s, " "))
	t.b.WriteByte('\n')
}

// paint formats s, which must be clean, in the colours of a style.
func (t *textWriter) paint(st Style, s string) string {
	if !t.opt.Color || s == "" {
		return s
	}
	switch st {
	case StyleGood:
		return "\x1b[32m" + s + "\x1b[0m"
	case StyleBad:
		return "\x1b[31m" + s + "\x1b[0m"
	case StyleDim:
		return "\x1b[2m" + s + "\x1b[0m"
	case StyleStrong:
		return "\x1b[1m" + s + "\x1b[0m"
	}
	return s
}

// wrap writes words after a prefix; further lines are indented by its width.
func (t *textWriter) wrap(prefix, text string) { t.wrapStyled(prefix, text, StyleNone) }

func (t *textWriter) wrapStyled(prefix, text string, st Style) {
	indent := strings.Repeat(" ", utf8.RuneCountInString(prefix))
	for _, line := range words.Lines(text, t.opt.Width-len(indent)) {
		t.line(prefix + t.paint(st, line))
		prefix = indent
	}
}

func (t *textWriter) list(title string, items []string) {
	if len(items) == 0 {
		return
	}
	t.line("")
	t.line(t.paint(StyleStrong, title))
	for _, item := range items {
		t.wrap("  - ", clean(item))
	}
}

// table draws a table, dropping the least important columns until it fits, and notes that
// it did.
func (t *textWriter) table(tb Table) {
	widths := make([]int, len(tb.Columns))
	cells := make([][]string, len(tb.Rows))
	for i, c := range tb.Columns {
		widths[i] = utf8.RuneCountInString(clean(c.Head))
	}
	for r, row := range tb.Rows {
		cells[r] = make([]string, len(tb.Columns))
		for i := range tb.Columns {
			if i < len(row) {
				cells[r][i] = clean(row[i].S)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cells[r][i]))
		}
	}
	shown := make([]int, len(tb.Columns))
	for i := range shown {
		shown[i] = i
	}
	const gap = 2
	total := func() int {
		sum := gap
		for _, i := range shown {
			sum += widths[i] + gap
		}
		return sum - gap
	}
	var left []string
	for total() > t.opt.Width {
		drop := -1
		for k, i := range shown {
			if keep := tb.Columns[i].Keep; keep > 0 && (drop < 0 || keep < tb.Columns[shown[drop]].Keep) {
				drop = k
			}
		}
		if drop < 0 {
			break
		}
		left = append(left, tb.Columns[shown[drop]].Head)
		shown = slices.Delete(shown, drop, drop+1)
	}
	t.wrapStyled("", clean(tb.Title), StyleStrong)
	if total() > t.opt.Width {
		t.records(tb)
		return
	}
	draw := func(at func(i int) (string, Style)) {
		var b strings.Builder
		for _, i := range shown {
			s, st := at(i)
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(s))
			b.WriteString(strings.Repeat(" ", gap))
			if tb.Columns[i].Right {
				b.WriteString(pad + t.paint(st, s))
			} else {
				b.WriteString(t.paint(st, s) + pad)
			}
		}
		t.line(b.String())
	}
	draw(func(i int) (string, Style) { return clean(tb.Columns[i].Head), StyleDim })
	for r, row := range tb.Rows {
		draw(func(i int) (string, Style) {
			if i < len(row) {
				return cells[r][i], row[i].Style
			}
			return "", StyleNone
		})
	}
	t.after(tb)
	if len(left) > 0 {
		slices.Sort(left)
		t.wrap("  ", clean("Columns omitted for width: "+strings.Join(slices.Compact(left), "; ")+"."))
	}
}

// after writes the text below a table.
func (t *textWriter) after(tb Table) {
	for _, note := range tb.Notes {
		t.wrap("  ", clean(note))
	}
	for _, text := range tb.Texts {
		t.line("")
		t.line("  " + clean(text.Name) + ":")
		for line := range strings.SplitSeq(strings.TrimRight(cleanLines(text.Text), "\n"), "\n") {
			t.line("    " + line)
		}
	}
}

// records draws a table that is too wide as one paragraph per row. The first column names the row.
func (t *textWriter) records(tb Table) {
	for _, row := range tb.Rows {
		var parts []string
		for i, cell := range row {
			s, head := clean(cell.S), clean(tb.Columns[i].Head)
			switch {
			case s == "":
			case i == 0 || head == "":
				parts = append(parts, s)
			default:
				parts = append(parts, head+": "+s)
			}
		}
		t.wrap("  - ", strings.Join(parts, "; "))
	}
	t.after(tb)
}
