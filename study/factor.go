package study

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/meshtrial/meshtrial/record"
)

// NotApplicable is a cell's level for a factor that means nothing there, such as proxy settings
// without a proxy.
const NotApplicable = "-"

// Scope is what a factor affects.
type Scope string

// Scopes of factors.
const (
	ScopeTopology Scope = "topology"           // which pods have a sidecar
	ScopePods     Scope = "pods"               // both pods, with or without sidecars
	ScopeLoad     Scope = "load"               // the generator's behaviour; the same pods serve every level
	ScopeProxies  Scope = "proxies"            // the sidecars of both pods
	ScopeServer   Scope = "server proxy"       // the sidecar of the server pod
	ScopeTimeline Scope = "timeline"           // which steps happen
	ScopeMesh     Scope = "mesh configuration" // objects and settings that the control plane reads at run time
	ScopeIstiod   Scope = "istiod"             // istiod's Deployment: applied by a restart
)

// Factor is something a study can vary or fix. It holds everything that the program knows about the
// factor.
type Factor struct {
	Name    string
	Doc     string // description, one or two sentences
	Unit    string // unit of the levels; "" for names
	Scope   Scope
	Default string // canonical
	// Implied means that studies and cells omit the factor at its default, unless the study varies
	// it.
	Implied bool
	// Usual is the level of a lever that istiod uses if nothing is set. Calculations use it for
	// [LevelInstalled] until the installed level has been read. It is "" if istiod has no such
	// default.
	Usual string
	// Levels lists all levels of a choice; nil for other factors.
	Levels []string
	// Pattern and Examples describe the levels of a factor that is not a choice, for editors and
	// error messages.
	Pattern  string
	Examples []string
	// Numeric means that levels sort as numbers (for charts).
	Numeric bool

	// Lever is how istiod receives the level, where that takes no code.
	Lever Lever

	// Parse returns the canonical spelling of a level.
	Parse func(string) (string, *Error)
	// value returns a level as a number in the unit, false for words; nil: levels are plain
	// numbers.
	value func(string) (float64, bool)
	// Integer means that levels are whole numbers starting at Low.
	Integer bool
	Low     int64
	// Plain lets a file write levels as numbers too; nil: it does not.
	Plain *PlainNumber

	// label names a cell by its level, as in "both · 16 connections"; nil: the level alone.
	label func(string) string
	// phrase formats a level for a sentence, as in "at 16 connections"; nil: "with" and both names.
	phrase func(string) string
	// subject names what a level adds, as in "both sidecars are slower", and reports whether the
	// name is plural; nil: both names.
	subject func(string) (string, bool)
	// short is the level's part of a pod's name; nil: both names.
	short func(string) string

	// idle reports whether the factor means nothing in a cell; nil: it always applies.
	idle func(record.Cell) bool
	// becomes returns the level that takes effect in a cell; nil: the cell's own.
	becomes func(record.Cell) string
}

// PlainNumber describes levels that are positive numbers, up to max unless max is 0, or one word;
// "" stands for anything that the pattern allows.
type PlainNumber struct {
	Max  int64
	Word string
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

// Canonical returns the canonical spelling of a level.
func (f Factor) Canonical(level string) (string, error) {
	out, c := f.Parse(level)
	if c != nil {
		return "", c
	}
	return out, nil
}

// Value returns a level of a numeric factor as a number in the factor's unit, and false for levels
// that are words.
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

// unsaid removes implied levels from a cell, including those that do not apply, except for factors
// that said reports.
func unsaid(table []Factor, cell record.Cell, said func(factor string) bool) record.Cell {
	for _, f := range table {
		if level := cell[f.Name]; f.Implied && (level == "" || level == f.Default || level == NotApplicable) && !said(f.Name) {
			delete(cell, f.Name)
		}
	}
	return cell
}

// effective returns a full cell as it takes effect.
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

// Text returns a factor whose levels a function parses.
func Text(name string, scope Scope, def, doc, pattern string, parse func(string) (string, *Error), examples ...string) Factor {
	return Factor{Name: name, Scope: scope, Default: def, Doc: doc, Pattern: pattern, Examples: examples, Parse: parse}
}

// NewInteger returns a factor whose levels are whole numbers of a unit, from low to high.
func NewInteger(name, unit, def, doc string, low, high int64) Factor {
	return Factor{Name: name, Scope: ScopeLoad, Unit: unit, Default: def, Doc: doc, Numeric: true,
		Pattern: `^[0-9]+$`, Examples: []string{def}, Parse: IntegerLevel(low, high), Integer: true, Low: low, Plain: &PlainNumber{}}.
		Labelled(Says(name + " %s"))
}

// Modifiers for entries of a table of factors.

func (f Factor) Labelled(say func(string) string) Factor { f.label = say; return f }

func (f Factor) Phrased(say func(string) string) Factor { f.phrase = say; return f }

func (f Factor) Subjected(say func(string) (string, bool)) Factor { f.subject = say; return f }

func (f Factor) Shortened(say func(string) string) Factor { f.short = say; return f }

func (f Factor) IdleWhere(idle func(record.Cell) bool) Factor { f.idle = idle; return f }

func (f Factor) Becoming(level func(record.Cell) string) Factor { f.becomes = level; return f }

// NumericIn makes a factor numeric with a unit; value reads levels that are not plain numbers.
func (f Factor) NumericIn(unit string, value func(string) (float64, bool)) Factor {
	f.Numeric, f.Unit, f.value = true, unit, value
	return f
}

// OmittedAtDefault makes a factor [Factor.Implied].
func (f Factor) OmittedAtDefault() Factor { f.Implied = true; return f }

// OrPlain lets files write levels as plain numbers too.
func (f Factor) OrPlain() Factor { f.Plain = &PlainNumber{}; return f }

// IdleAt returns a function that reports whether another factor has this level, which makes a
// factor meaningless.
func IdleAt(factor, level string) func(record.Cell) bool {
	return func(cell record.Cell) bool { return cell[factor] == level }
}

// Label returns a level as legends name it: "16 connections".
func (f Factor) Label(level string) string {
	if f.label == nil {
		return level
	}
	return f.label(level)
}

// Phrase returns a level as part of a sentence: "at 16 connections".
func (f Factor) Phrase(level string) string {
	if f.phrase == nil {
		return "with " + f.words() + " " + level
	}
	return f.phrase(level)
}

// Subject names what distinguishes a level from the baseline, such as "both sidecars", and reports
// whether the name is plural.
func (f Factor) Subject(level string) (name string, many bool) {
	if f.subject == nil {
		return f.words() + " " + level, false
	}
	return f.subject(level)
}

// words returns the factor's name with spaces.
func (f Factor) words() string { return strings.ReplaceAll(f.Name, "_", " ") }

// Says inserts a level at %s in pattern. of lists exceptions as pairs of level and words.
func Says(pattern string, of ...string) func(string) string {
	return func(level string) string {
		for i := 0; i+1 < len(of); i += 2 {
			if level == of[i] {
				return of[i+1]
			}
		}
		return strings.ReplaceAll(pattern, "%s", level)
	}
}

// Counts formats a count with its noun: "1 retry", "3 retries".
func Counts(what string) func(string) string {
	return func(level string) string {
		if level == "1" {
			return "1 " + what
		}
		if stem, ok := strings.CutSuffix(what, "ry"); ok {
			return level + " " + stem + "ries"
		}
		return level + " " + what + "s"
	}
}

// After prefixes another function's words with a word.
func After(word string, say func(string) string) func(string) string {
	return func(level string) string { return word + " " + say(level) }
}

// OnOff formats whether something is on.
func OnOff(what string) func(string) string {
	return Says(what+" off", "true", what+" on")
}

// Grouped passes numbers to another function with commas between thousands.
func Grouped(say func(string) string) func(string) string {
	return func(level string) string {
		v, err := strconv.ParseFloat(level, 64)
		if err != nil {
			return say(level)
		}
		whole, rest, _ := strings.Cut(strconv.FormatFloat(v, 'f', -1, 64), ".")
		for i := len(whole) - 3; i > 0; i -= 3 {
			whole = whole[:i] + "," + whole[i:]
		}
		if rest != "" {
			whole += "." + rest
		}
		return say(whole)
	}
}

// ShortName returns a level's part of a pod name.
func (f Factor) ShortName(level string) string {
	if f.short != nil {
		return f.short(level)
	}
	return strings.ReplaceAll(f.Name, "_", "-") + "-" + strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(level)), "-")
}

// label names a cell by the level of one factor.
func (k Kind) label(factor, level string) string {
	f, ok := k.Factor(factor)
	if !ok { // the factor variant
		return level
	}
	return f.Label(level)
}

func (f Factor) description() string {
	out := f.Doc
	if f.Unit != "" {
		out += " Unit: " + f.Unit + "."
	}
	if f.Default == "" {
		return out
	}
	return out + " Default: " + f.defaultWords() + "."
}

// defaultWords describes the default and, for levers, its usual value.
func (f Factor) defaultWords() string {
	if f.Usual == "" {
		return f.Default
	}
	return f.Default + " (usually " + f.Usual + ")"
}

// schema describes one level of a factor.
func (f Factor) schema() *jsonschema.Schema {
	s := &jsonschema.Schema{Title: f.Name, Description: f.description()}
	lever := f.Default == LevelInstalled
	switch {
	case slices.Contains(f.Levels, "true") && lever:
		s.AnyOf = orInstalled(&jsonschema.Schema{Type: "boolean"})
		s.Default = f.Default
	case slices.Contains(f.Levels, "true"):
		s.Type = "boolean"
		s.Default = f.Default == "true"
	case f.Integer && lever:
		s.AnyOf = orInstalled(&jsonschema.Schema{Type: "integer", Minimum: json.Number(strconv.FormatInt(f.Low, 10))})
		s.Default = f.Default
	case f.Integer:
		s.Type = "integer"
		s.Minimum = json.Number(strconv.FormatInt(f.Low, 10))
		s.Default = json.Number(f.Default)
	case f.Plain != nil:
		s.AnyOf = f.Plain.schema(f.Pattern)
		s.Default = f.Default
		if reNumber.MatchString(f.Default) {
			s.Default = json.Number(f.Default)
		}
	default:
		s.Type = "string"
		for _, level := range f.Levels {
			s.Enum = append(s.Enum, level)
		}
		if f.Levels == nil {
			s.Pattern = f.Pattern
		}
		if f.Default != "" {
			s.Default = f.Default
		}
	}
	for _, e := range f.Examples {
		if s.Type != "string" && reNumber.MatchString(e) {
			s.Examples = append(s.Examples, json.Number(e))
		} else {
			s.Examples = append(s.Examples, e)
		}
	}
	return s
}

// orInstalled describes a level that may also be "installed".
func orInstalled(level *jsonschema.Schema) []*jsonschema.Schema {
	return []*jsonschema.Schema{level, {Const: LevelInstalled}}
}

// schema describes a number and the words allowed in its place.
func (p PlainNumber) schema(pattern string) []*jsonschema.Schema {
	number := &jsonschema.Schema{Type: "number", ExclusiveMinimum: "0"}
	if p.Max > 0 {
		number.Maximum = json.Number(strconv.FormatInt(p.Max, 10))
	}
	if p.Word != "" {
		return []*jsonschema.Schema{number, {Const: p.Word}}
	}
	return []*jsonschema.Schema{number, {Type: "string", Pattern: pattern}}
}
