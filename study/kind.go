package study

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
)

// Kind determines what a trial of a study does. It is decided once, when the file is parsed, and
// never inferred from the contents of a study or a cell.
type Kind string

// The kinds of study, as study files and run directories name them.
const (
	DataPlane    Kind = record.KindDataPlane    // requests through sidecars
	ControlPlane Kind = record.KindControlPlane // configuration on its way to sidecars

)

// specs holds what each kind supplies; kinds lists them in the order of documents.
var (
	kinds []Kind
	specs = map[Kind]Spec{}
)

// AddKind registers a kind of study. The package of each kind calls it at program start.
func AddKind(k Kind, s Spec) {
	kinds, specs[k] = append(kinds, k), s.complete()
	rank := func(k Kind) int { return (slices.Index([]Kind{DataPlane, ControlPlane}, k) + 3) % 3 } // others come last
	slices.SortStableFunc(kinds, func(a, b Kind) int { return rank(a) - rank(b) })
}

// Kinds lists all kinds.
func Kinds() []Kind { return slices.Clone(kinds) }

func kindNames() []string {
	var out []string
	for _, k := range Kinds() {
		out = append(out, string(k))
	}
	return out
}

// Spec is what a kind of study supplies to this package. Each kind defines it in its own files.
type Spec struct {
	About    string // subject: "the data plane"
	Example  string // a level, for hints
	Factors  []Factor
	Measures []string
	// Unasked lists measures that a study has only if it names them, because they disturb what is
	// measured or take extra time.
	Unasked  []string
	Findings finding.Table
	// Uses names the fields that several kinds share, including this one.
	Uses []string
	// TuneNames maps short names to the findings that studies of the kind can be tuned for; nil:
	// they cannot be tuned.
	TuneNames map[string]string
	// Moments allows assertions about moments.
	Moments bool
	// OneVariant means that cells are named by their variant if only one is measured.
	OneVariant bool
	// Reference is the text of docs/study.md about the factors, and Sample a file of the kind with
	// each section at its defaults; "" for none.
	Reference, Sample string

	// Section is the part of a file that selects the kind, "" if none is needed. ByDefault is its
	// content if a file only names the kind, "" if the file must have the section.
	Section, ByDefault string
	// NewSection returns [Study.Section] with its defaults. Fields returns the fields of a file
	// that the section holds; nil: the kind has none.
	NewSection func() any
	Fields     func(section any) []Placed
	// Begin replaces the general defaults by those of the kind.
	Begin func(*Study)
	// Resolve fills in what depends on other fields, before settings get their defaults.
	Resolve func(*Decoder, *Study)
	// Check finds errors between fields, CheckPlan errors between cells.
	Check     func(*Decoder, *Study)
	CheckPlan func(*Decoder, *Plan)
	// Files inlines the contents of files that the study names.
	Files func(s *Study, read func(name string) ([]byte, error)) error
	// MadeNames returns the variants that sections of a file generate, and MadeAt the position of a
	// level of such a variant; nil for none.
	MadeNames func(root *Node) []string
	MadeAt    func(s *Study, variant, factor string) []any
	// Trial returns the minimum and maximum duration of a trial of a cell.
	Trial func(*Study, record.Cell) (shortest, longest time.Duration)
	// Lacks names the field of a trial's record that the kind's analysis requires and that is missing;
	// "" for none.
	Lacks func(*record.Trial) string
	// Notes returns what users should know about a plan, Warnings what readers of its findings
	// should know, and Nodes the minimum number of nodes and the number of their zones.
	Notes    func(*Plan) []error
	Warnings func(*Plan) []note.Note
	Nodes    func(*Plan) (nodes, zones int)
}

// complete fills in no-op functions for those that the kind omits.
func (s Spec) complete() Spec {
	if s.Begin == nil {
		s.Begin = func(*Study) {}
	}
	if s.Resolve == nil {
		s.Resolve = func(*Decoder, *Study) {}
	}
	if s.Check == nil {
		s.Check = func(*Decoder, *Study) {}
	}
	if s.CheckPlan == nil {
		s.CheckPlan = func(*Decoder, *Plan) {}
	}
	if s.Files == nil {
		s.Files = func(*Study, func(string) ([]byte, error)) error { return nil }
	}
	if s.Lacks == nil {
		s.Lacks = func(*record.Trial) string { return "" }
	}
	if s.Notes == nil {
		s.Notes = func(*Plan) []error { return nil }
	}
	if s.MadeNames == nil {
		s.MadeNames = func(*Node) []string { return nil }
	}
	if s.MadeAt == nil {
		s.MadeAt = func(*Study, string, string) []any { return nil }
	}
	if s.Warnings == nil {
		s.Warnings = func(*Plan) []note.Note { return nil }
	}
	if s.Nodes == nil {
		s.Nodes = func(*Plan) (nodes, zones int) { return 1, 1 }
	}
	return s
}

// spec returns the kind's Spec.
func (k Kind) spec() Spec {
	if s, ok := specs[k]; ok {
		return s
	}
	return Spec{}.complete()
}

// About returns the subject of the kind's studies: "the data plane".
func (k Kind) About() string { return k.spec().About }

// Factors returns the table of the kind's factors, in report order. The caller must not modify it.
func (k Kind) Factors() []Factor { return k.spec().Factors }

// Measures returns every measure of the kind, in report order.
func (k Kind) Measures() []string { return k.spec().Measures }

// Findings returns the table of the kind's findings.
func (k Kind) Findings() finding.Table { return k.spec().Findings }

// Lacks names the field that a trial's record of the kind should have and does not; "" for none.
func (k Kind) Lacks(t *record.Trial) string { return k.spec().Lacks(t) }

// Factor finds a factor of the kind. Factors of two kinds may share a name and differ slightly.
func (k Kind) Factor(name string) (Factor, bool) {
	for _, f := range k.Factors() {
		if f.Name == name {
			return f, true
		}
	}
	return Factor{}, false
}

// Effective returns a full cell as it takes effect: factors without meaning there become
// [NotApplicable], and levels that cannot hold become the ones that do.
func (k Kind) Effective(cell record.Cell) record.Cell { return effective(k.Factors(), cell) }

// Matches reports whether partial describes a cell of a plan: putting partial over the cell changes
// nothing.
func (k Kind) Matches(cell, partial record.Cell) bool {
	with := unsaid(k.Factors(), k.Effective(cell.With(partial)), func(factor string) bool { _, said := cell[factor]; return said })
	return with.Key() == cell.Key()
}

func only(k ...Kind) []Kind { return k }

// kindOf returns the kind that a file names, or the one that its sections imply.
func kindOf(root *Node) Kind {
	if n := root.Get("kind"); n != nil {
		if named := Kind(strings.TrimSpace(n.Text)); n.Kind == Scalar && slices.Contains(Kinds(), named) {
			return named
		}
	}
	for _, k := range Kinds() {
		if s := k.spec().Section; s != "" && root.Get(s) != nil {
			return k
		}
	}
	return DataPlane
}

// checkKind rejects a file whose sections conflict with its kind or with each other.
func (d *Decoder) checkKind() {
	if d.Root.Kind != Mapping {
		return
	}
	for _, of := range Kinds() {
		section := of.spec().Section
		if section == "" {
			continue
		}
		switch n := d.Root.Get(section); {
		case n != nil && of != d.kind:
			d.Fail(n.Pos, CodeKind, "leave it out, or say kind: "+string(of), "section %s is for studies of %s, but this is a study of %s", section, of.About(), d.kind.About())
		case n == nil && of == d.kind && of.spec().ByDefault == "":
			d.Fail(d.Pos("kind"), CodeMissing, "add the section "+section+", or leave kind out", "a study of %s needs a %s", of.About(), section)
		}
	}
}

// Warnings returns what readers of the plan's findings should know about its cells.
func (p *Plan) Warnings() []note.Note { return p.Study.Kind.spec().Warnings(p) }

// Spread returns the number of nodes that a plan needs, and the number of their zones. Of three
// nodes in two zones, two share one.
func (p *Plan) Spread() (nodes, zones int) { return p.Study.Kind.spec().Nodes(p) }

// Setting returns the level of a factor that the study does not vary, and false for one that
// varies.
func (s *Study) Setting(f Factor) (string, bool) {
	level, ok := s.Settings[f.Name]
	if !ok && f.Implied && !s.Varies(f.Name) {
		return f.Default, true
	}
	return level, ok
}

// allFactors returns the factors of all kinds, each once, and the factor variant.
func allFactors() []Factor {
	var out []Factor
	for _, k := range Kinds() {
		for _, f := range k.Factors() {
			if !slices.ContainsFunc(out, func(o Factor) bool { return o.Name == f.Name }) {
				out = append(out, f)
			}
		}
	}
	return append(out, variantFactor)
}

// foreign returns the error for something that belongs to another kind.
func foreign(what string, of, here Kind) *Error {
	hint := "leave it out"
	switch s := of.spec(); {
	case s.Section != "" && here == DataPlane:
		section := s.Section
		if s.ByDefault != "" {
			section += ": " + s.ByDefault
		}
		hint = fmt.Sprintf("leave it out, or add the section %s, which makes this a study of %s", section, s.About)
	case s.Section == "" && of != DataPlane:
		hint = "leave it out, or say kind: " + string(of)
	case s.Section == "":
		hint = fmt.Sprintf("leave it out; without section %s this is a study of %s", here.spec().Section, s.About)
	}
	return Complain(CodeKind, hint, "%s is for studies of %s, but this is a study of %s", what, of.About(), here.About())
}

// notHere rejects a name that belongs to other kinds only, and reports whether it did.
func (d *Decoder) notHere(name string, of []Kind, pos Pos) bool {
	if len(of) == 0 || slices.Contains(of, d.kind) {
		return false
	}
	d.Complain(pos, foreign(fmt.Sprintf("%q", name), of[0], d.kind))
	return true
}

// Brief returns the first phrase of a description.
func Brief(doc string) string {
	const enough = 4 // minimum number of words before a comma for a phrase
	depth := 0
	for i, r := range doc {
		switch r {
		case '(', '{':
			depth++
		case ')', '}':
			depth--
		case '.', ';', ':', ',':
			phrase := doc[:i]
			words := len(strings.Fields(phrase))
			end := i+1 == len(doc) || doc[i+1] == ' '
			if depth == 0 && end && (r == '.' || words > 1 && r != ',' || words >= enough) {
				return phrase
			}
		}
	}
	return doc
}
