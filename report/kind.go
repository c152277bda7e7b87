package report

import (
	"fmt"
	"slices"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
)

// A Kind describes a kind of study to reports.
type Kind struct {
	// Name is the kind's name in findings: [record.KindDataPlane] or another.
	Name string
	// Findings are the findings that its studies can have.
	Findings finding.Table
	// Sections lists the sections in the order of reports.
	Sections []Section
	// Answers returns what a study found in words, the headline first. The answers of
	// sections follow, except those of leading sections, which come first.
	Answers func(f record.Findings) []string
	// Values returns a cell's own figures besides its findings; may be nil.
	Values func(c record.CellSummary) []Value
	// Told reports whether tables already tell what a finding warns of; may be nil.
	Told func(x record.Finding) bool
	// Verdict returns a cell's verdict and the expected one, "" for a cell without a
	// verdict; nil if no cell has one.
	Verdict func(c record.CellSummary) (found, expected string)
	// Cases returns a cell's test cases for build servers; may be nil.
	Cases func(suite string, c record.CellSummary) []Case
}

// A Section is a part of a report: the values that it shows from findings, in any
// format.
type Section struct {
	// Name is the section's name in definitions of findings; see [finding.Def].
	Name string
	// Title is its heading on the page, by default its name; Lead is the text below it
	// on how to read the charts.
	Title, Lead string
	// Tables returns the tables, which all formats show; tables without rows are
	// omitted.
	Tables func(f record.Findings) []Table
	// Charts returns the charts, which only the page shows, above the tables; may be
	// nil.
	Charts func(f record.Findings) []Chart
	// Answers returns sentences for the head of a report; may be nil.
	Answers func(f record.Findings) []string
	// leads places them before all others.
	leads bool
}

// One returns a section with one table.
func One(name string, draw func(f record.Findings) Table) Section {
	return Section{Name: name, Tables: func(f record.Findings) []Table { return []Table{draw(f)} }}
}

// Drawn returns a section that also has charts, with a heading and a line on how to
// read them.
func (s Section) Drawn(title, lead string, charts func(f record.Findings) []Chart) Section {
	s.Title, s.Lead, s.Charts = title, lead, charts
	return s
}

// Charted returns a section with only charts, which only the page shows.
func Charted(name, title, lead string, charts func(f record.Findings) []Chart) Section {
	return Section{Name: name}.Drawn(title, lead, charts)
}

// Answering returns a section that also has sentences for the head of a report.
func (s Section) Answering(answers func(f record.Findings) []string) Section {
	s.Answers = answers
	return s
}

// Leading returns a section whose sentences come first, since they answer the question
// of a study that has any.
func (s Section) Leading(answers func(f record.Findings) []string) Section {
	s.Answers, s.leads = answers, true
	return s
}

// Value is a named figure of a cell. Low and High are its interval, both NaN if it has
// none.
type Value struct {
	Name      string
	Value     float64
	Low, High float64
	Unit      string
}

// Case is a test case for build servers: a message says why it failed or could not be
// decided.
type Case struct {
	Name, Class, Out string
	Failure, Error   string
}

// Kinds lists the kinds of study that can be reported.
type Kinds []Kind

// of returns the kind of findings.
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
		if f.Validity.Trials == 1 {
			return []string{"No answer: the only trial is not valid."}
		}
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

// words names a finding of any kind: a name means the same in all kinds.
func (kinds Kinds) words(name string) string {
	for _, one := range kinds {
		if d, ok := one.Findings.Find(name); ok {
			return findingWords(d, name)
		}
	}
	return findingWords(finding.Def{}, name)
}

// words names a finding in words.
func (k Kind) words(name string) string {
	d, _ := k.Findings.Find(name)
	return findingWords(d, name)
}

// Unless omits a section if a table with the same content has rows.
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
