// Package finding defines the findings of studies. Each finding is defined once, with its name, unit,
// meaning, source, comparison and the section of a report that shows it. A kind of study
// has a [Table] of findings, which study files, analysis, comparisons, reports and the
// documentation use.
package finding

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
)

// Overhead is the suffix of the name of a cell's difference to its baseline.
const Overhead = "_overhead"

// SectionOther is the section of findings without a section of their own.
const SectionOther = "other"

// Def defines a finding. The definition of a compared finding also defines its difference
// to the baseline, which has its own name; see [Table.Find].
type Def struct {
	// Name is the name in documents: "latency_p50". If it ends in "*", the run determines
	// the rest, and the definition covers all such names.
	Name string
	Unit string // one of this package's
	Doc  string // its meaning, as one sentence for the reference

	// Words names the finding in tables and warnings, Phrase in sentences ("the median
	// latency"), and Row where its part is shown next to it. They default to the words of
	// Name.
	Words, Phrase, Row string

	// Family is the common name of findings that differ only in Part or in their quantile
	// At; see [Table.Family]. FamilyDoc is their Doc without part and quantile.
	Family, FamilyDoc string
	At                record.Quantile

	// Probe is the measure that the finding belongs to, or its other origin.
	Probe string
	// Source is what computes the finding from a run.
	Source Source
	// Part is the part of a trial that the finding is about; "" for none.
	Part string

	// Section names the section of a report that shows a cell's own value; "" if only
	// machine-readable documents have it.
	Section string

	// Compared means that cells are compared with their baseline. Differences names the
	// section that shows the differences.
	Compared    bool
	Differences string
	// Decides means that a comparison of two runs waits for this finding if the study has
	// no stop rule. MoreIsBetter means that a decrease is worse.
	Decides, MoreIsBetter bool

	// Context marks conditions around the subject of the study, such as the CPU use of
	// other tenants, or how well the measurement itself adds up. It is reported, but no
	// comparison or trend of runs judges it.
	Context bool

	// Exact values are counted even though other values of their unit are read in steps:
	// configuration size is a sum of messages, whereas memory is a number of pages.
	Exact bool

	// Signed values may be negative. Net values are what remains after subtracting idle
	// use; negative ones are noise. A Fault counts events that must not happen: one is
	// enough to be real, and a row of zeros is not shown.
	Signed, Net, Fault bool

	// Difference marks the definition of a compared finding's difference. Of names that
	// finding, or the measure by which two levels are compared.
	Difference bool
	Of         string
}

// Source is what computes a finding from a run.
type Source string

// Sources of findings. Findings from trials are one number per trial. The others look at
// cells or at the whole run.
const (
	FromTrials  Source = ""
	FromSearch  Source = "search"  // the highest usable level of a factor
	FromLimits  Source = "limits"  // what limits a proxy
	FromFits    Source = "fits"    // fits along a numeric factor
	FromVersus  Source = "versus"  // two levels of a factor compared
	FromProfile Source = "profile" // where a proxy spends its CPU time
	FromBill    Source = "bill"    // what each part of a bill costs
	FromHops    Source = "hops"    // the cost breakdown of the request path
	FromTuning  Source = "tuning"  // the best setting of levers
	FromSoak    Source = "soak"    // what grows over hours
	FromSizing  Source = "sizing"  // what a described mesh would need
)

// Named reports whether a study file can name the finding, in a stop rule, a search or
// next to a published figure. This requires that cells have it, under a name that is known
// before anything runs.
func (d Def) Named() bool {
	switch d.Source {
	case FromSearch, FromLimits, FromFits, FromTuning, FromSoak, FromSizing:
		return false
	}
	return d.family() == ""
}

// family returns the common prefix of the names that a definition covers; "" for a single
// name.
func (d Def) family() string {
	begin, ok := strings.CutSuffix(d.Name, "*")
	if !ok {
		return ""
	}
	return begin
}

// difference returns the definition of a cell's difference to its baseline.
func (d Def) difference() Def {
	d.Of, d.Difference = d.Name, true
	d.Name += Overhead
	d.Words, d.Phrase, d.Row = "", "", ""
	d.Doc, d.Section = "Its difference to the baseline.", d.Differences
	d.Signed = true
	return d
}

// AtEach defines a finding at each quantile. The family is d's name, to which the
// quantile's name is appended, and the family's doc is d's; vary fills in what differs.
func AtEach(quantiles []record.Quantile, d Def, vary func(*Def)) []Def {
	var out []Def
	for _, q := range quantiles {
		one := d
		one.Family, one.FamilyDoc, one.Name, one.At = d.Name, d.Doc, d.Name+"_"+q.Name(), q
		vary(&one)
		out = append(out, one)
	}
	return out
}

// Table holds the findings of a kind of study, in the order of reports.
type Table struct {
	defs []Def
	by   map[string]int
}

// NewTable builds a table from definitions. Names must be unique.
func NewTable(groups ...[]Def) Table {
	t := Table{by: map[string]int{}}
	add := func(d Def) {
		if _, twice := t.by[d.Name]; twice {
			panic(fmt.Sprintf("finding %s is defined twice", d.Name))
		}
		t.by[d.Name] = len(t.defs)
		t.defs = append(t.defs, d)
	}
	for _, group := range groups {
		for _, d := range group {
			add(d)
			if d.Compared {
				add(d.difference())
			}
		}
	}
	return t
}

// All returns the definitions, including those of differences. The caller must not modify
// the result.
func (t Table) All() []Def { return t.defs }

// Find returns the definition of a finding by its name in documents.
func (t Table) Find(name string) (Def, bool) {
	if i, ok := t.by[name]; ok {
		return t.defs[i], true
	}
	best := -1
	for i, d := range t.defs {
		if family := d.family(); family != "" && len(name) > len(family) && strings.HasPrefix(name, family) &&
			(best < 0 || len(family) > len(t.defs[best].family())) {
			best = i
		}
	}
	if best < 0 {
		return Def{}, false
	}
	return t.defs[best], true
}

// Must is like Find for a name that is hard-coded in the program.
func (t Table) Must(name string) Def {
	d, ok := t.Find(name)
	if !ok {
		panic("no finding is called " + name)
	}
	return d
}

// Family returns the findings of a family in order, without their differences. It panics
// if there are none.
func (t Table) Family(name string) []Def {
	out := slices.DeleteFunc(slices.Clone(t.defs), func(d Def) bool { return d.Family != name || d.Difference })
	if len(out) == 0 {
		panic("no family of findings is called " + name)
	}
	return out
}

// Names returns the names of the findings that a study file can name; see [Def.Named].
func (t Table) Names() []string {
	var out []string
	for _, d := range t.defs {
		if d.Named() {
			out = append(out, d.Name)
		}
	}
	return out
}
