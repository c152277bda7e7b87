package reporttest

import (
	"bytes"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// Of makes reports of one kind of study, for tests of its sections.
type Of struct{ Kind report.Kind }

// Render is the report of findings in a format.
func (o Of) Render(t *testing.T, f record.Findings, format string, opt report.Options) string {
	t.Helper()
	f.Kind = o.Kind.Name
	var b bytes.Buffer
	if err := (report.Kinds{o.Kind}).Render(&b, f, format, opt); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Answers are the sentences that a report of findings begins with.
func (o Of) Answers(f record.Findings) []string {
	f.Kind = o.Kind.Name
	page, err := (report.Kinds{o.Kind}).Page(f)
	if err != nil {
		panic(err)
	}
	return page.Answers
}
