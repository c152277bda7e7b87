package sections

import (
	"bytes"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// render is a report of this kind.
func render(t *testing.T, f record.Findings, format string, opt report.Options) string {
	t.Helper()
	f.Kind = Kind().Name
	var b bytes.Buffer
	if err := (report.Kinds{Kind()}).Render(&b, f, format, opt); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// answersOf are the answers of findings of this kind.
func answersOf(f record.Findings) []string {
	f.Kind = Kind().Name
	page, err := (report.Kinds{Kind()}).Page(f)
	if err != nil {
		panic(err)
	}
	return page.Answers
}
