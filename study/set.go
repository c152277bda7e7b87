package study

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/lazyregexp"
	"github.com/meshtrial/meshtrial/record"
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
	at.Field = path
	if !ok || path == "" {
		return at.fault(CodeSyntax, "as --set window=1s", "a path, = and a value are expected")
	}
	if !reSetPath.MatchString(path) {
		return at.fault(CodeSyntax, "names with dots between them, as settings.rate", "%q is no path", clip(path, 40))
	}
	hint := "as --set window=1s"
	if has(statedSections, path) {
		hint = "--set " + path + "=none leaves the section out"
	}
	if strings.TrimSpace(text) == "" {
		return at.fault(CodeMissing, hint, "the value is missing")
	}
	value, err := readTree([]byte(text), at.File, true)
	if err != nil {
		return err
	}
	if value.kind == null {
		return at.fault(CodeMissing, hint, "the value is missing")
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
			return at.fault(CodeType, "as --set "+steps[0]+"=...", "factor %s has no fields", steps[0])
		}
		setFactor(tree, steps[0], value, at)
		return nil
	}
	if !has(fields, steps[0]) {
		for _, f := range kind.Factors() {
			fields = append(fields, f.Name)
		}
		return at.fault(CodeUnknown, errs.Suggest(steps[0], fields), "unknown field %q in the study", clip(steps[0], 40))
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
				return at.fault(CodeConflict, "entries count from 0", "%s has %d entries, there is no %q", strings.Join(steps[:i], "."), len(n.values), step)
			}
			if last {
				n.values[k] = value
				return nil
			}
			n = n.values[k]
		default:
			return at.fault(CodeType, "", "%s has no fields", strings.Join(steps[:i], "."))
		}
	}
	return nil
}

// FlagText is what a --set flag says to give the factor at a path a level, as a shell
// takes it.
func FlagText(path, level string) string { return shellText(path + "=" + levelText(level)) }

// flowText is a cell as files write it on one line.
func flowText(levels record.Cell) string {
	var b bytes.Buffer
	emitFlow(&b, cellValue{to: &levels, empty: true}.encode())
	return b.String()
}

// levelText is a level as a --set flag takes it: in quotes where YAML would read something
// else.
func levelText(level string) string {
	n, err := readTree([]byte(level), "", true)
	if err != nil || n.kind != scalar || n.text != level {
		return quote(level)
	}
	return level
}

// reShellPlain is what a shell leaves as it is, unless files have such names.
var reShellPlain = lazyregexp.New(`^([A-Za-z0-9_@%+=:,./*?\[\]^-]|\{\})+$`)

// shellText is a word as a shell takes it.
func shellText(word string) string {
	if reShellPlain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
