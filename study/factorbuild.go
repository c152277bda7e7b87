package study

import "github.com/meshtrial/meshtrial/record"

// NewInteger is a factor of another package's kind of study, whose levels are whole
// numbers of a unit, from low to high; docs/extending has one.
func NewInteger(kind Kind, name, unit, def, doc string, low, high int64) Factor {
	return Factor{Name: name, Kind: kind, Scope: ScopeLoad, Unit: unit, Default: def, Doc: doc, Numeric: true,
		Pattern: `^[0-9]+$`, Examples: []string{def}, parse: integerLevel(low, high), integer: true, low: low, plain: &plainNumber{}}.
		labelled(says(name + " %s"))
}

// What a table of factors adds to one, besides what it is.

func (f Factor) labelled(say func(string) string) Factor { f.label = say; return f }

func (f Factor) phrased(say func(string) string) Factor { f.phrase = say; return f }

func (f Factor) subjected(say func(string) (string, bool)) Factor { f.subject = say; return f }

func (f Factor) shortened(say func(string) string) Factor { f.short = say; return f }

func (f Factor) idleWhere(idle func(record.Cell) bool) Factor { f.idle = idle; return f }

func (f Factor) becoming(level func(record.Cell) string) Factor { f.becomes = level; return f }

func (f Factor) bound(to func(any, Factor, string) error) Factor { f.bind = to; return f }

// numeric makes a factor one of numbers in a unit; value reads them where they
// are no plain numbers.
func (f Factor) numeric(unit string, value func(string) (float64, bool)) Factor {
	f.Numeric, f.Unit, f.value = true, unit, value
	return f
}

// orPlain lets files write levels as plain numbers too.
func (f Factor) orPlain() Factor { f.plain = &plainNumber{}; return f }

// env says which variable of istiod's environment holds the level.
func (f Factor) env(name string) Factor { f.Lever.Env = name; return f }

// flag says which flag of istiod's command line holds the level.
func (f Factor) flag(name string) Factor { f.Lever.Flag = name; return f }

// metadata says which field of all sidecars' metadata holds the level.
func (f Factor) metadata(name string) Factor { f.Lever.ProxyMetadata = name; return f }

// idleAt says that a factor means nothing where another has this level.
func idleAt(factor, level string) func(record.Cell) bool {
	return func(cell record.Cell) bool { return cell[factor] == level }
}
