package reports

import (
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/kinds"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/testing/must"
)

// If a definition says that a section shows a finding, a section of that name exists, and no two
// sections of a report have the same name.
func TestFindingsHaveSections(t *testing.T) {
	for i, k := range kinds.Reports() {
		var names []string
		for _, s := range k.Sections {
			if s.Name == "" || s.Tables == nil && s.Charts == nil || slices.Contains(names, s.Name) {
				t.Errorf("kind %d: section %q has no name or draws nothing, or is there twice", i, s.Name)
			}
			names = append(names, s.Name)
		}
		for _, d := range k.Findings.All() {
			if d.Section != "" && !slices.Contains(names, d.Section) {
				t.Errorf("kind %d: %s is to be shown in %q, which is no section", i, d.Name, d.Section)
			}
			if d.Compared && d.Differences != "" && !slices.Contains(names, d.Differences) {
				t.Errorf("kind %d: differences of %s are to be shown in %q, which is no section", i, d.Name, d.Differences)
			}
		}
	}
}

// A name means the same in every kind, so that comparisons can name a finding without knowing its
// kind.
func TestFindingsOfOneNameHaveOneName(t *testing.T) {
	words := map[string]string{}
	for _, k := range kinds.Reports() {
		for _, d := range k.Findings.All() {
			says := k.MeasureWords(d.Name)
			if said, ok := words[d.Name]; ok && said != says {
				t.Errorf("%s is %q and %q", d.Name, said, says)
			}
			words[d.Name] = says
		}
	}
}

// pageOf returns the page's document for findings of any kind.
func pageOf(t *testing.T, f record.Findings) report.Page {
	t.Helper()
	page, err := kinds.Reports().Page(f)
	must.OK(t, err)
	return page
}
