package report

import (
	"fmt"
	"slices"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
)

// A Kind is what reports know of a kind of study.
type Kind struct {
	// Name is what findings call it: [record.KindDataPlane] or another.
	Name string
	// Findings are those that its studies can have.
	Findings finding.Table
	// Sections are in the order of reports.
	Sections []Section
	// Answers are what a study found in words, the headline first. Those of
	// sections follow, but for sections that lead.
	Answers func(f record.Findings) []string
	// Values are a cell's own figures, beside its findings.
	Values func(c record.CellSummary) []Value
	// Told says that tables tell what a finding warns of; nil for none.
	Told func(x record.Finding) bool
	// Verdict is what a cell came to and what was expected of it, "" for a
	// cell without any; nil where no cell has one.
	Verdict func(c record.CellSummary) (found, expected string)
	// Cases are a cell's test cases for build servers; nil for none.
	Cases func(suite string, c record.CellSummary) []Case
}

// A Section is a part of a report: the values that it shows of findings,
// whatever the format.
type Section struct {
	// Name is what definitions of findings call it; see [finding.Def].
	Name string
	// Title is its heading on the page, "" for its name; Lead says below it how to
	// read the charts.
	Title, Lead string
	// Tables are drawn by all formats; those without rows are left out.
	Tables func(f record.Findings) []Table
	// Charts are drawn by the page, above the tables; nil for none.
	Charts func(f record.Findings) []Chart
	// Answers are sentences for the head of a report; nil for none.
	Answers func(f record.Findings) []string
	// leads says that they stand before all others.
	leads bool
}

// One makes a section of one table.
func One(name string, draw func(f record.Findings) Table) Section {
	return Section{Name: name, Tables: func(f record.Findings) []Table { return []Table{draw(f)} }}
}

// Drawn is a section that also has charts, under a heading and a line on how to
// read them.
func (s Section) Drawn(title, lead string, charts func(f record.Findings) []Chart) Section {
	s.Title, s.Lead, s.Charts = title, lead, charts
	return s
}

// Charted is a section of charts alone, which only the page has.
func Charted(name, title, lead string, charts func(f record.Findings) []Chart) Section {
	return Section{Name: name}.Drawn(title, lead, charts)
}

// Answering is a section that also has sentences for the head of a report.
func (s Section) Answering(answers func(f record.Findings) []string) Section {
	s.Answers = answers
	return s
}

// Leading is a section whose sentences come first: a study that has what it is of asks
// for that.
func (s Section) Leading(answers func(f record.Findings) []string) Section {
	s.Answers, s.leads = answers, true
	return s
}

// Value is a figure of a cell by name. Low and High are its interval, both
// NaN if it has none.
type Value struct {
	Name      string
	Value     float64
	Low, High float64
	Unit      string
}

// Case is a test case as build servers have it: it failed or could not be
// decided if a message says why.
type Case struct {
	Name, Class, Out string
	Failure, Error   string
}

// Kinds are the kinds of study that can be reported.
type Kinds []Kind

// of finds the kind of findings.
func (kinds Kinds) of(f record.Findings) (Kind, error) {
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == f.Kind })
	if i < 0 {
		return Kind{}, fmt.Errorf("findings of run %s are of kind %q, which this program does not know", f.Run,
			f.Kind)
	}
	return kinds[i], nil
}

func (k Kind) answers(f record.Findings) []string {
	if f.Validity.Valid == 0 {
		return []string{fmt.Sprintf("No answer: none of %s is valid.", words.Plural(f.Validity.Trials, "trial"))}
	}
	var first, last []string
	for _, s := range k.Sections {
		switch {
		case s.Answers == nil:
		case s.leads:
			first = append(first, s.Answers(f)...)
		default:
			last = append(last, s.Answers(f)...)
		}
	}
	return slices.Concat(first, k.Answers(f), last)
}

// words name a finding of any kind: a name means the same in all of them.
func (kinds Kinds) words(name string) string {
	for _, one := range kinds {
		if d, ok := one.Findings.Find(name); ok {
			return findingWords(d, name)
		}
	}
	return findingWords(finding.Def{}, name)
}

// words name a finding.
func (k Kind) words(name string) string {
	d, _ := k.Findings.Find(name)
	return findingWords(d, name)
}

// Unless leaves a section out where a table has rows that tell the same.
func (s Section) Unless(told func(f record.Findings) Table) Section {
	all := s.Tables
	s.Tables = func(f record.Findings) []Table {
		if len(told(f).Rows) > 0 {
			return nil
		}
		return all(f)
	}
	return s
}
