package study

import (
	"slices"
	"strconv"

	"github.com/meshtrial/meshtrial/record"
)

// NotApplicable stands in a cell for a factor that means nothing there, as the
// proxies' settings where there is no proxy.
const NotApplicable = "-"

// Scope is what a factor touches.
type Scope string

// Scopes of factors.
const (
	ScopeTopology Scope = "topology"     // which pods have a sidecar
	ScopePods     Scope = "pods"         // both pods, with or without sidecars
	ScopeLoad     Scope = "load"         // what the generator does; the same pods serve every level
	ScopeProxies  Scope = "proxies"      // the sidecars of both pods
	ScopeServer   Scope = "server proxy" // the sidecar of the server pod
	ScopeTimeline Scope = "timeline"     // which steps happen
)

// Factor is something a study can vary or fix: all that the program knows of it
// stands here, and whatever needs to know asks.
type Factor struct {
	Name    string
	Doc     string // what it is, one or two sentences
	Unit    string // of its levels; "" for names
	Kind    Kind   // of the studies that have it; "" for several
	Scope   Scope
	Default string // canonical
	// Implied says that the default goes without saying: studies and cells that
	// have it do not name it, unless the study varies the factor.
	Implied bool
	// Usual is, of a lever, the level that istiod has where nothing was set:
	// what arithmetic takes for [LevelInstalled] before it has been read; "" where
	// istiod has none of its own.
	Usual string
	// Levels are all its levels if it is a choice, else nil.
	Levels []string
	// Pattern and Examples describe the levels of a factor that is no
	// choice, for editors and error messages.
	Pattern  string
	Examples []string
	// Numeric says that levels order as numbers (for charts).
	Numeric bool

	// Lever says how istiod is given the level, where that takes no code.
	Lever Lever

	// parse makes a level the one spelling of it.
	parse func(string) (string, *Error)
	// value is a level as a number in the unit, false for words; nil: levels
	// are plain numbers.
	value func(string) (float64, bool)
	// integer says that levels are whole numbers from low on.
	integer bool
	low     int64
	// plain says that a file may write levels as numbers too; nil: it may not.
	plain *plainNumber

	// label names a cell by its level, as in "both · 16 connections"; nil: the
	// level alone does.
	label func(string) string
	// phrase puts a level in a sentence, as in "at 16 connections"; nil: "with"
	// and both names.
	phrase func(string) string
	// subject names what a level adds, as in "both sidecars are slower", and
	// whether that is a plural; nil: both names.
	subject func(string) (string, bool)
	// short is the level's part of a pod's name; nil: both names.
	short func(string) string

	// idle says in which cells the factor means nothing; nil: in none.
	idle func(record.Cell) bool
	// becomes is the level that takes effect in a cell; nil: the cell's own.
	becomes func(record.Cell) string
	// bind puts a level into the struct of levels that the kind's trials act
	// on; nil: they read the cell. See [into].
	bind func(to any, f Factor, level string) error
}

// plainNumber describes levels that are numbers above 0, up to max if that is
// not 0, or else one word; "" for whatever the pattern says.
type plainNumber struct {
	max  int64
	word string
}

// Lever is a place where istiod reads a setting whose value is the level itself.
// Level default is what istiod has where the setting is absent. The zero value is for settings that
// an adapter applies by code of its own.
type Lever struct {
	Env           string // a variable of istiod's environment
	ProxyMetadata string // of all sidecars, in the mesh configuration
	Flag          string // of istiod's command line, without its dashes
}

// FactorByName finds a factor of any kind.
func FactorByName(name string) (Factor, bool) {
	for _, f := range allFactors() {
		if f.Name == name {
			return f, true
		}
	}
	return Factor{}, false
}

// FactorNames lists the factors of all kinds of study by name.
func FactorNames() []string {
	var out []string
	for _, f := range allFactors() {
		out = append(out, f.Name)
	}
	slices.Sort(out)
	return out
}

// Canonical returns the one spelling of a level.
func (f Factor) Canonical(level string) (string, error) {
	out, c := f.parse(level)
	if c != nil {
		return "", c
	}
	return out, nil
}

// Value returns a level of a numeric factor as a number in the factor's unit;
// false for levels that are words.
func (f Factor) Value(level string) (float64, bool) {
	switch {
	case !f.Numeric:
		return 0, false
	case f.value != nil:
		return f.value(level)
	}
	v, err := strconv.ParseFloat(level, 64)
	return v, err == nil
}

// unsaid leaves out of a cell the levels that go without saying, those that mean
// nothing there among them, but for factors that are said.
func unsaid(table []Factor, cell record.Cell, said func(factor string) bool) record.Cell {
	for _, f := range table {
		if level := cell[f.Name]; f.Implied && (level == "" || level == f.Default || level == NotApplicable) && !said(f.Name) {
			delete(cell, f.Name)
		}
	}
	return cell
}

// effective is a full cell as it takes effect.
func effective(table []Factor, cell record.Cell) record.Cell {
	out := cell.With(nil)
	for _, f := range table {
		switch {
		case f.idle != nil && f.idle(cell):
			out[f.Name] = NotApplicable
		case f.becomes != nil:
			out[f.Name] = f.becomes(cell)
		}
	}
	return out
}
