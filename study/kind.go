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

// Kind says what a trial of a study does. It is decided once, when the file is
// parsed, and never guessed from what a study or a cell happens to have.
type Kind string

// The kinds of study, as files and run directories name them.
const (
	DataPlane    Kind = record.KindDataPlane    // requests through sidecars
	ControlPlane Kind = record.KindControlPlane // configuration on its way to sidecars

)

// specs are what the kinds supply, kinds in the order of documents.
var (
	kinds []Kind
	specs = map[Kind]Spec{}
)

// AddKind makes a kind of study known. The package of each kind calls it as the program begins.
func AddKind(k Kind, s Spec) {
	kinds, specs[k] = append(kinds, k), s.complete()
	rank := func(k Kind) int { return (slices.Index([]Kind{DataPlane, ControlPlane}, k) + 3) % 3 } // others come last
	slices.SortStableFunc(kinds, func(a, b Kind) int { return rank(a) - rank(b) })
}

// Kinds lists all of them.
func Kinds() []Kind { return slices.Clone(kinds) }

func kindNames() []string {
	var out []string
	for _, k := range Kinds() {
		out = append(out, string(k))
	}
	return out
}

// Spec is what a kind of study supplies to this package; each stands in a file
// of its own.
type Spec struct {
	About    string // in words: "the data plane"
	Example  string // a level, for hints
	Factors  []Factor
	Measures []string
	// Unasked are measures that a study has only if it names them: they cost what is
	// measured something, or take time of their own.
	Unasked  []string
	Findings finding.Table
	// Uses names the fields of files that studies of several kinds have, and these too.
	Uses []string
	// TuneNames are short names of findings that studies of the kind can be tuned for; nil:
	// they cannot be tuned.
	TuneNames map[string]string
	// Moments says that assertions may be about moments.
	Moments bool
	// OneVariant says that cells are called by their variant where only one is measured.
	OneVariant bool
	// Reference is what docs/study.md says of the factors, and Sample a file of the kind
	// with each section at its defaults; "" for none.
	Reference, Sample string

	// Section is the part of a file that makes a study one of the kind, "" for
	// those that need none; ByDefault is what it says where a file only names
	// the kind, "" where the file must have the section.
	Section, ByDefault string
	// NewSection is [Study.Section] with its defaults, and fields are those of a file
	// that it holds; nil: the kind has none.
	NewSection func() any
	Fields     func(section any) []Placed
	// Begin changes the defaults of all studies to those of the kind.
	Begin func(*Study)
	// Resolve fills in what depends on other fields, before settings have
	// their defaults.
	Resolve func(*Decoder, *Study)
	// Check finds what is wrong between fields, checkPlan between cells.
	Check     func(*Decoder, *Study)
	CheckPlan func(*Decoder, *Plan)
	// Files puts in the contents of files that the study names.
	Files func(s *Study, read func(name string) ([]byte, error)) error
	// MadeNames are the variants that sections of a file make, and MadeAt is where the file
	// has a level of such a variant; nil for others.
	MadeNames func(root *Node) []string
	MadeAt    func(s *Study, variant, factor string) []any
	// Trial is how long a trial of a cell takes, at least and at most.
	Trial func(*Study, record.Cell) (shortest, longest time.Duration)
	// Notes are what users should know of a plan, Warnings what readers of its findings
	// should, and Nodes how many nodes it needs at least, in how many zones.
	Notes    func(*Plan) []error
	Warnings func(*Plan) []note.Note
	Nodes    func(*Plan) (nodes, zones int)
}

// complete has functions that do nothing for those that the kind leaves out.
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

// spec is what the kind supplies.
func (k Kind) spec() Spec {
	if s, ok := specs[k]; ok {
		return s
	}
	return Spec{}.complete()
}

// About is what studies of the kind are about, in words: "the data plane".
func (k Kind) About() string { return k.spec().About }

// Factors returns the table of the kind's factors, in the order reports use.
// The caller must not change it.
func (k Kind) Factors() []Factor { return k.spec().Factors }

// Measures returns every measure of the kind, in the order reports use.
func (k Kind) Measures() []string { return k.spec().Measures }

// Findings is the table of the kind's findings.
func (k Kind) Findings() finding.Table { return k.spec().Findings }

// Factor finds a factor of the kind. One name may stand for factors of two
// kinds that differ a little.
func (k Kind) Factor(name string) (Factor, bool) {
	for _, f := range k.Factors() {
		if f.Name == name {
			return f, true
		}
	}
	return Factor{}, false
}

// Effective returns a full cell as it takes effect: factors that mean nothing
// there become [NotApplicable], and levels that cannot hold become those that
// do.
func (k Kind) Effective(cell record.Cell) record.Cell { return effective(k.Factors(), cell) }

// Matches reports whether a cell of a plan is one that partial describes:
// putting partial over it changes nothing.
func (k Kind) Matches(cell, partial record.Cell) bool {
	with := unsaid(k.Factors(), k.Effective(cell.With(partial)), func(factor string) bool { _, said := cell[factor]; return said })
	return with.Key() == cell.Key()
}

func only(k ...Kind) []Kind { return k }

// kindOf finds the kind of a file that has been read into a tree: the one it
// names, or the one that its sections make it.
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

// checkKind complains of a file whose sections do not go with the kind that it
// names, or with each other.
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
			d.Fail(n.Pos, CodeKind, "leave it out, or say kind: "+string(of), "the section %s is for studies of %s, and this is one of %s", section, of.About(), d.kind.About())
		case n == nil && of == d.kind && of.spec().ByDefault == "":
			d.Fail(d.Pos("kind"), CodeMissing, "add the section "+section+", or leave kind out", "a study of %s needs a %s", of.About(), section)
		}
	}
}

// Warnings are what readers of the plan's findings should know of its cells.
func (p *Plan) Warnings() []note.Note { return p.Study.Kind.spec().Warnings(p) }

// Spread is how many nodes a plan needs, and in how many zones. Where it needs three
// in two, two of them are in one.
func (p *Plan) Spread() (nodes, zones int) { return p.Study.Kind.spec().Nodes(p) }

// Setting is the level of a factor that the study does not vary; false where it
// does.
func (s *Study) Setting(f Factor) (string, bool) {
	level, ok := s.Settings[f.Name]
	if !ok && f.Implied && !s.Varies(f.Name) {
		return f.Default, true
	}
	return level, ok
}

// allFactors are those of all kinds, each once, and the one that chooses a
// variant.
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

// foreign is the complaint about something that belongs to another kind.
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
		hint = fmt.Sprintf("leave it out; a study without the section %s is one of %s", here.spec().Section, s.About)
	}
	return Complain(CodeKind, hint, "%s belongs to %s, and this study is one of %s", what, of.About(), here.About())
}

// notHere says of a name in a mapping whether it belongs to other kinds only.
func (d *Decoder) notHere(name string, of []Kind, pos Pos) bool {
	if len(of) == 0 || slices.Contains(of, d.kind) {
		return false
	}
	d.Complain(pos, foreign(fmt.Sprintf("%q", name), of[0], d.kind))
	return true
}
