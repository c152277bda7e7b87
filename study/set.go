package study

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/lazyregexp"
)

var reSetPath = lazyregexp.New(`^[a-z0-9_]+(\.[A-Za-z0-9_-]+)*$`)

// statedSections state something beside what is measured: a flag may take them away, as
// sizing=none.
var statedSections = []string{SectionMoney, SectionSizing}

// ofMoney says that a "path=value" is about section money.
func ofMoney(set string) bool {
	path, _, _ := strings.Cut(set, "=")
	section, _, _ := strings.Cut(strings.TrimSpace(path), ".")
	return section == SectionMoney
}

// override applies one "path=value" to the tree. What it puts there is
// placed at the flag, so that complaints name it.
func override(tree *node, set string) error {
	at := Pos{File: "--set " + clip(set, 80)}
	path, text, ok := strings.Cut(set, "=")
	path = strings.TrimSpace(path)
	if !ok || path == "" {
		return at.Errorf("as --set window=1s", "a path, = and a value are expected")
	}
	if !reSetPath.MatchString(path) {
		return at.Errorf("names with dots between them, as settings.rate", "%q is no path", clip(path, 40))
	}
	hint := "as --set window=1s"
	if has(statedSections, path) {
		hint = "--set " + path + "=none leaves the section out"
	}
	if strings.TrimSpace(text) == "" {
		return at.Errorf(hint, "the value is missing")
	}
	value, err := readTree([]byte(text), at.File, true)
	if err != nil {
		return err
	}
	if value.kind == null {
		return at.Errorf(hint, "the value is missing")
	}
	if tree.kind != mapping {
		return nil // the decoder complains
	}
	if has(statedSections, path) && value.kind == scalar && value.text == LevelNone {
		tree.remove(path)
		return nil
	}
	steps := strings.Split(path, ".")
	fields, kind := root(defaults()).names(), kindOf(tree)
	_, factor := FactorByName(steps[0])
	if _, here := kind.Factor(steps[0]); !here && has(fields, steps[0]) {
		factor = false // mesh is a field of every study, and a factor of some
	}
	if factor {
		if len(steps) > 1 {
			return at.Errorf("as --set "+steps[0]+"=...", "factor %s has no fields", steps[0])
		}
		setFactor(tree, steps[0], value, at)
		return nil
	}
	if !has(fields, steps[0]) {
		for _, f := range kind.Factors() {
			fields = append(fields, f.Name)
		}
		return at.Errorf(errs.Suggest(steps[0], fields), "unknown field %q in the study", clip(steps[0], 40))
	}
	return setPath(tree, steps, value, at)
}

// setFactor fixes a factor by one level or varies it by a list, whichever it
// was before.
func setFactor(tree *node, factor string, value *node, at Pos) {
	to, from := "settings", "factors"
	if value.kind == sequence {
		to, from = from, to
	}
	if other := tree.get(from); other != nil {
		other.remove(factor)
	}
	section := tree.get(to)
	if section == nil || section.kind != mapping {
		section = &node{kind: mapping, pos: at}
		tree.set(to, at, section)
	}
	section.set(factor, at, value)
	// settings and factors may now be empty mappings, which the decoder
	// would take for a mistake.
	if other := tree.get(from); other != nil && other.kind == mapping && len(other.keys) == 0 {
		tree.remove(from)
	}
}

func setPath(n *node, steps []string, value *node, at Pos) error {
	for i, step := range steps {
		last := i == len(steps)-1
		switch n.kind {
		case mapping:
			if last {
				n.set(step, at, value)
				return nil
			}
			next := n.get(step)
			if next == nil || next.kind == null || next.kind == scalar {
				next = &node{kind: mapping, pos: at}
				n.set(step, at, next)
			}
			n = next
		case sequence:
			k, err := strconv.Atoi(step)
			if err != nil || k < 0 || k >= len(n.values) {
				return at.Errorf("entries count from 0", "%s has %d entries, there is no %q", strings.Join(steps[:i], "."), len(n.values), step)
			}
			if last {
				n.values[k] = value
				return nil
			}
			n = n.values[k]
		default:
			return at.Errorf("", "%s has no fields", strings.Join(steps[:i], "."))
		}
	}
	return nil
}

// stopNowhere is where the cells that the stop rule is about were lost, and what to do: by
// flags, if --set flags give their factors other levels.
func (d *decoder) stopNowhere(s *Study) (at Pos, hint string) {
	const none, named = "--set stop=none", "name levels that the factors and settings give"
	of := s.Stop.Of.With(nil)
	for _, factor := range slices.Sorted(maps.Keys(s.Stop.Of)) {
		levels := s.levels(factor)
		if has(levels, s.Stop.Of[factor]) {
			continue
		}
		if flag, ok := s.setBy(factor); ok && at == (Pos{}) {
			at = flag
		}
		for _, level := range slices.Backward(levels) {
			if of[factor] = level; level != s.Baseline[factor] {
				break
			}
		}
	}
	switch {
	case at == (Pos{}) && s.byFlags():
		return d.pos("stop", "of"), none + ", or " + named
	case at == (Pos{}):
		return d.pos("stop", "of"), named + ", or stop: none"
	case s.takes(cellFlag("stop.of", of)):
		return at, none + ", or --set " + cellText("stop.of", of)
	}
	return at, none
}

// stopUncompared is where the cells that the stop rule is about lost what they are compared
// with, and what to do.
func (d *decoder) stopUncompared(s *Study) (at Pos, hint string) {
	hint = "name a cell that has a baseline, or a finding without _overhead"
	at = d.pos("stop")
	for _, place := range []Pos{at, d.pos("stop", "of"), d.pos("stop", "finding")} {
		if place.flag() {
			return place, "--set stop=none, or " + hint
		}
	}
	if flag := d.pos("baseline"); flag.flag() {
		return flag, "--set stop=none"
	}
	if s.byFlags() {
		return at, "--set stop=none"
	}
	return at, hint
}

// byFlags says that the file would be taken without its --set flags: they are the reason
// why it is not.
func (s *Study) byFlags() bool { return s.alone != nil && s.alone() != nil }

// withoutStop is a flag that others need beside them because a stop rule is about cells of
// which they leave none, "" if they need it not, or it will not do.
func (s *Study) withoutStop(flags ...string) string {
	if s.Stop == nil || len(flags) == 0 || s.takes(flags...) || !s.takes(slices.Concat(flags, []string{"stop=none"})...) {
		return ""
	}
	return " --set stop=none"
}
