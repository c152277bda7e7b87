package study

import (
	"errors"
	"slices"
	"sort"
	"time"

	"github.com/meshtrial/meshtrial/record"
)

// Parse reads a study file and fills in every default. Errors call the file name. sets holds
// overrides of the form "path=value", as in --set flags:
//
//	window=500ms             a field, dots between levels
//	factors.rate=[100, 200]  a list
//	rate=2000                a factor by its name alone: fixed by one level,
//	connections=[8, 16]      varied by a list
//
// The error is [Errors] with positions, exit code 2 and, if there is only one, a hint.
func Parse(data []byte, name string, sets []string) (*Study, error) {
	return parse(data, name, sets, toRun)
}

// ParseAgain reads a study to resume its run. It accepts factors that mean nothing in any cell,
// because an earlier release ran such studies.
func ParseAgain(data []byte, name string, sets []string) (*Study, error) {
	return parse(data, name, sets, toGoOn)
}

// ParseStored reads the study of an existing run. It does not reject cells that are not what their
// names say, or whose trials cannot be valid: an earlier release ran such studies, and their
// measurements remain readable.
func ParseStored(data []byte, name string, sets []string) (*Study, error) {
	return parse(data, name, sets, toTell)
}

// purpose says why a study is read.
type purpose struct {
	begun  bool // a run has begun with it
	stored bool // to report on a finished run
}

var (
	toRun  = purpose{}
	toGoOn = purpose{begun: true}
	toTell = purpose{begun: true, stored: true}
)

func parse(data []byte, name string, sets []string, to purpose) (*Study, error) {
	tree, err := readTree(data, name, false)
	if err != nil {
		return nil, err
	}
	for _, set := range sets {
		if err := override(tree, set); err != nil {
			return nil, err
		}
	}
	tree.inField("")
	d := &Decoder{Root: tree, kind: kindOf(tree), begun: to.begun, Stored: to.stored, repriced: slices.ContainsFunc(sets, ofMoney)}
	d.checkKind()
	s := defaultsOf(d.kind)
	root(s).Decode(d, tree)
	s.places, s.levelsAt, s.flags = d.places(), d.levelsAt(), len(sets) > 0
	if len(d.Errs) == 0 {
		d.resolve(s)
	}
	if len(d.Errs) == 0 {
		d.check(s)
	}
	if len(d.Errs) > 0 {
		sort.SliceStable(d.Errs, func(i, j int) bool { return d.Errs[i].Pos.Line < d.Errs[j].Pos.Line })
		return nil, d.Errs.err()
	}
	return s, nil
}

// Marshal writes the study with every default filled in. Parsing the output yields the same study
// and plan.
func (s *Study) Marshal() []byte { return emit(root(s).of(s.Kind).Encode()) }

// defaultsOf returns a study of a kind with its defaults, before its file is read.
func defaultsOf(k Kind) *Study {
	s := defaults()
	s.Kind = k
	spec := k.spec()
	if spec.NewSection != nil {
		s.Section = spec.NewSection()
	}
	spec.Begin(s)
	return s
}

func defaults() *Study {
	return &Study{
		Kind:     DataPlane,
		Mesh:     MeshIstio,
		Settings: record.Cell{},
		Load:     Load{Timeout: 5 * time.Second, Path: "/"},
		Warmup:   Warmup{Min: time.Second, Max: 8 * time.Second},
		Blocks:   Blocks{Min: 4, Max: 12, Limit: 10 * time.Minute, Redeploy: 1},
		Margin:   0.05,
	}
}

// resolve fills in the defaults that depend on other fields.
func (d *Decoder) resolve(s *Study) {
	if s.Title == "" {
		s.Title = s.Name
	}
	if len(s.Measures) == 0 {
		s.Measures = defaultMeasures(d.kind)
	}
	s.Kind.spec().Resolve(d, s)
	d.resolveVariants(s)
	d.resolveTune(s)
	for _, f := range d.kind.Factors() {
		switch _, fixed := s.Settings[f.Name]; {
		case fixed && s.Varies(f.Name):
			d.Fail(d.Pos("settings", f.Name), CodeConflict, "leave it out of one of them", "%s is both in settings and in factors", f.Name)
		case fixed || f.Implied || s.Varies(f.Name):
		case f.Name == FactorSidecars && !slices.Contains(CarrierLevels(s.Mesh), f.Default):
			s.Settings[f.Name] = CarrierLevels(s.Mesh)[0]
		case f.Name == FactorMesh:
			s.Settings[f.Name] = s.Mesh
		default:
			s.Settings[f.Name] = f.Default
		}
	}
	if s.Baseline == nil {
		s.Baseline = record.Cell{}
		switch variants := s.Varied(FactorVariant); {
		case len(s.Varied(FactorSidecars)) > 1 && slices.Contains(s.Varied(FactorSidecars), SidecarsNone):
			s.Baseline[FactorSidecars] = SidecarsNone
		case len(variants) > 1:
			s.Baseline[FactorVariant] = variants[0]
		}
	}
	d.resolveSearches(s)
	d.resolvePublished(s)
}

// resolvePublished converts published figures to their findings' own units. It drops a figure in
// money if flags remove the prices or change their currency, since there is nothing to compare it
// with.
func (d *Decoder) resolvePublished(s *Study) {
	var kept []Published
	for i, p := range s.Published {
		scale, own, c := s.scaleTo(p.Finding, p.Unit)
		switch {
		case c != nil && d.repriced && s.inMoney(p.Finding):
			continue
		case c != nil:
			d.Fail(d.Pos("published", i, "unit"), c.Code, c.Hint, "%s of %s", c.Msg, p.Finding)
		default:
			p.Figure, p.Unit = p.Figure*scale, own
		}
		kept = append(kept, p)
	}
	s.Published = kept
}

// Levels returns the levels of a factor in the cells of this study, from factors, settings and the
// measured variants. Checks for levels that cannot be measured use it.
func (s *Study) Levels(factor string) []string {
	chosen := s.Chosen()
	var out []string
	if len(chosen) == 0 || slices.ContainsFunc(chosen, func(v NamedLevels) bool { return v.Levels[factor] == "" }) {
		out = append(out, s.Settings[factor])
	}
	return s.among(factor, out, chosen)
}

// Written returns all levels that the file gives a factor, including those in omitted variants,
// which may be why the file has parts that no cell uses.
func (s *Study) Written(factor string) []string {
	return s.among(factor, []string{s.Settings[factor]}, s.Variants)
}

// among returns the levels of a factor that varies, or those of a setting and of variants.
func (s *Study) among(factor string, setting []string, variants []NamedLevels) []string {
	if f := s.Varied(factor); f != nil {
		return f
	}
	out := setting
	for _, v := range variants {
		if level, ok := v.Levels[factor]; ok && !slices.Contains(out, level) {
			out = append(out, level)
		}
	}
	return out
}

// Varied returns the levels of a factor listed in factors, nil for others.
func (s *Study) Varied(factor string) []string {
	for _, f := range s.Factors {
		if f.Factor == factor {
			return f.Levels
		}
	}
	return nil
}

// check finds errors between fields.
func (d *Decoder) check(s *Study) {
	d.checkTimes(s)
	s.Kind.spec().Check(d, s)
	d.checkVariants(s)
	d.checkSearches(s)
	d.checkTune(s)
	for i, m := range s.Measures {
		if slices.Contains(s.Measures[:i], m) {
			d.Fail(d.Pos("measures"), CodeDuplicate, "", "measure %s is given twice", m)
			break
		}
	}
	if len(d.Errs) > 0 {
		return
	}
	p, err := NewPlan(s, 0)
	var fault *planError
	switch {
	case err == nil && !d.checkEffect(p): // other errors may follow from it
	case err == nil:
		d.checkStop(s, p)
		d.checkTunePlan(p)
		s.Kind.spec().CheckPlan(d, p)
	case errors.As(err, &fault):
		d.Complain(d.Pos(fault.path...), fault.err)
	}
}

func (d *Decoder) checkTimes(s *Study) {
	if s.Warmup.Min > s.Warmup.Max {
		d.Fail(d.Pos("warmup"), CodeConflict, "raise warmup.max, or lower warmup.min", "warmup.min %s is longer than warmup.max %s", FormatDuration(s.Warmup.Min), FormatDuration(s.Warmup.Max))
	}
	if s.Blocks.Min > s.Blocks.Max {
		d.Fail(d.Pos("blocks"), CodeConflict, "raise blocks.max, or lower blocks.min", "blocks.min %d is more than blocks.max %d", s.Blocks.Min, s.Blocks.Max)
	}
}

// stopNone ends hints about a stop rule that a flag can remove.
const stopNone = ", or leave the rule out (--set stop=none)"

// checkStop verifies that the stop rule can be met.
func (d *Decoder) checkStop(s *Study, p *Plan) {
	if s.Stop == nil {
		return
	}
	switch {
	case len(p.Matching(s.Stop.Of)) == 0:
		d.Fail(d.Pos("stop", "of"), CodeNoCell, "name levels that the factors and settings give"+stopNone,
			"stop.of matches none of this study's cells")
	case len(p.StopCells()) == 0:
		d.Fail(d.Pos("stop", "finding"), CodeNoCell, "name a cell that is compared with a baseline, or a finding without _overhead"+stopNone,
			"%s needs a cell that is compared with another", s.Stop.Finding)
	}
}
