package reporttest

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Of renders reports of one kind of study, for tests of its sections.
type Of struct{ Kind report.Kind }

// Render renders findings in a format.
func (o Of) Render(t *testing.T, f record.Findings, format string, opt report.Options) string {
	t.Helper()
	f.Kind = o.Kind.Name
	var b bytes.Buffer
	must.OK(t, (report.Kinds{o.Kind}).Render(&b, f, format, opt))
	return b.String()
}

// Answers returns the sentences at the beginning of a report of findings.
func (o Of) Answers(f record.Findings) []string {
	f.Kind = o.Kind.Name
	page, err := (report.Kinds{o.Kind}).Page(f)
	if err != nil {
		panic(err)
	}
	return page.Answers
}

// TextOf renders tables as a terminal of this width shows them.
func TextOf(t *testing.T, width int, tables ...report.Table) string {
	t.Helper()
	return Of{Kind: report.Kind{Name: "tables", Answers: func(record.Findings) []string { return nil },
		Sections: []report.Section{{Name: "tables", Tables: func(record.Findings) []report.Table { return tables }}}}}.Render(t, record.Findings{}, "text", report.Options{Width: width})
}

// Words collects the texts of sections, case by case, for a golden file.
type Words struct{ bytes.Buffer }

// Add adds the texts of a case: strings, or tables with one cell per column.
func (w *Words) Add(name string, said ...any) {
	fmt.Fprintf(w, "## %s\n", name)
	for _, s := range said {
		switch s := s.(type) {
		case string:
			fmt.Fprintln(w, s)
		case []string:
			for _, line := range s {
				fmt.Fprintln(w, line)
			}
		case []report.Table:
			for _, table := range s {
				w.table(table)
			}
		case report.Table:
			w.table(s)
		default:
			panic(fmt.Sprintf("what is said is a %T", s))
		}
	}
	fmt.Fprintln(w)
}

func (w *Words) table(t report.Table) {
	var heads []string
	for _, c := range t.Columns {
		heads = append(heads, c.Head)
	}
	fmt.Fprintf(w, "%s\n%s\n", t.Title, strings.Join(heads, " | "))
	for _, row := range t.Rows {
		var cells []string
		for _, cell := range row {
			cells = append(cells, cell.S)
		}
		fmt.Fprintln(w, strings.Join(cells, " | "))
	}
	for _, note := range t.Notes {
		fmt.Fprintln(w, note)
	}
	for _, listing := range t.Texts {
		fmt.Fprintf(w, "%s:\n%s\n", listing.Name, listing.Text)
	}
}
