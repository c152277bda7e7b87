// Package finding defines findings: each once, with its name, unit, meaning,
// where it comes from, how it is compared and in which section of a report it
// is shown. A kind of study has a [Table] of them; study files, analysis,
// comparisons, reports and the documentation read it.
package finding

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
)

// Overhead ends the name of what a cell adds to its baseline.
const Overhead = "_overhead"

// SectionOther is the section of findings that no section of their own shows.
const SectionOther = "other"

// Def defines a finding. That of a compared finding also defines its
// difference to the baseline, which has a name of its own; see [Table.Find].
type Def struct {
	// Name is as documents have it: "latency_p50". Where it ends in "*" the
	// run says what stands there, and the definition is of all of them.
	Name string
	Unit string // one of this package's
	Doc  string // what it is, a sentence for the reference

	// Words name it in tables and warnings, Phrase in sentences ("the median
	// latency"), Row where its part stands beside it. Left out, the words of
	// its name do.
	Words, Phrase, Row string

	// Family is the name that findings have in common which differ in Part or in At, the
	// quantile that they are: see [Table.Family].
	Family string
	At     record.Quantile

	// Probe is the measure that it belongs to, or whatever else made it.
	Probe string
	// Source says what computes it from a run.
	Source Source
	// Part is the part of a trial that it is about; "" for none.
	Part string

	// Section names the section of a report that shows a cell's own value;
	// "" if only documents for programs have it.
	Section string

	// Compared says that cells are set against their baseline, and
	// Differences which section shows by how much they differ.
	Compared    bool
	Differences string
	// Decides says that a comparison of two runs waits for it, if the study
	// has no stop rule; MoreIsBetter that less is worse.
	Decides, MoreIsBetter bool

	// Context says what went on beside what is studied, such as the CPU use of
	// other tenants, or how well the measurement itself adds up: it is told, and no
	// comparison or trend of runs judges it.
	Context bool

	// Exact values are counted though others of their unit are read in steps: the size of
	// configuration is a sum of messages, that of memory one of pages.
	Exact bool

	// Signed values may lie below zero. Net ones are what is left of a use
	// without the idle one: below zero they are noise. A fault counts what
	// must not happen: one is enough to be real, none is not worth a row.
	Signed, Net, Fault bool

	// Difference says that this is the difference of a compared finding. Of
	// names that, or the measure by which two levels are set side by side.
	Difference bool
	Of         string
}

// Source is what computes a finding from a run.
type Source string

// Sources of findings. Those from trials are a number of each trial; the
// others look at cells, or at a whole run.
const (
	FromTrials  Source = ""
	FromSearch  Source = "search"  // how far a factor goes
	FromLimits  Source = "limits"  // what holds a proxy back
	FromFits    Source = "fits"    // lines along a factor of numbers
	FromVersus  Source = "versus"  // two levels of a factor side by side
	FromProfile Source = "profile" // where a proxy spends its CPU time
	FromBill    Source = "bill"    // what each part of a bill costs
	FromHops    Source = "hops"    // the cost breakdown of the request path
	FromTuning  Source = "tuning"  // the best setting of levers
	FromSoak    Source = "soak"    // what grows from hour to hour
	FromSizing  Source = "sizing"  // what a stated mesh would take
)

// Named reports whether a study file can name the finding, in a stop rule, a
// search or beside a published figure: cells have it under a name that is
// known before anything ran.
func (d Def) Named() bool {
	switch d.Source {
	case FromSearch, FromLimits, FromFits, FromTuning, FromSoak, FromSizing:
		return false
	}
	return d.family() == ""
}

// family is what begins the names that a definition is of; "" for one name.
func (d Def) family() string {
	begin, ok := strings.CutSuffix(d.Name, "*")
	if !ok {
		return ""
	}
	return begin
}

// difference is the definition of what a cell adds to its baseline.
func (d Def) difference() Def {
	d.Of, d.Difference = d.Name, true
	d.Name += Overhead
	d.Words, d.Phrase, d.Row = "", "", ""
	d.Doc, d.Section = "Its difference to the baseline.", d.Differences
	d.Signed = true
	return d
}

// AtEach defines a finding at each quantile. The family is d's name, which the quantile's
// follows; vary completes what differs.
func AtEach(quantiles []record.Quantile, d Def, vary func(*Def)) []Def {
	var out []Def
	for _, q := range quantiles {
		one := d
		one.Family, one.Name, one.At = d.Name, d.Name+"_"+q.Name(), q
		vary(&one)
		out = append(out, one)
	}
	return out
}

// Table is the findings of a kind of study, in the order of reports.
type Table struct {
	defs []Def
	by   map[string]int
}

// NewTable makes a table of definitions, of which no two may have one name.
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

// All lists the definitions with those of differences. The caller must not
// change them.
func (t Table) All() []Def { return t.defs }

// Find returns the definition of a finding by the name that documents have.
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

// Must is Find for a name that stands in the program.
func (t Table) Must(name string) Def {
	d, ok := t.Find(name)
	if !ok {
		panic("no finding is called " + name)
	}
	return d
}

// Family lists the findings of a family, in order and without their differences. It panics
// if there is none.
func (t Table) Family(name string) []Def {
	out := slices.DeleteFunc(slices.Clone(t.defs), func(d Def) bool { return d.Family != name || d.Difference })
	if len(out) == 0 {
		panic("no family of findings is called " + name)
	}
	return out
}

// Names lists the findings that a study file can name; see [Def.Named].
func (t Table) Names() []string {
	var out []string
	for _, d := range t.defs {
		if d.Named() {
			out = append(out, d.Name)
		}
	}
	return out
}
