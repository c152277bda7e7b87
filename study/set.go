package study

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/lazyregexp"
	"github.com/meshtrial/meshtrial/internal/shell"
	"github.com/meshtrial/meshtrial/record"
)

var reSetPath = lazyregexp.New(`^[a-z0-9_]+(\.[A-Za-z0-9_-]+)*$`)

// statedSections lists sections that state something besides what is measured. A flag can remove
// them, as in sizing=none.
var statedSections = []string{SectionMoney, SectionSizing}

// ofMoney reports whether a "path=value" is about section money.
func ofMoney(set string) bool {
	path, _, _ := strings.Cut(set, "=")
	section, _, _ := strings.Cut(strings.TrimSpace(path), ".")
	return section == SectionMoney
}

// override applies one "path=value" to the tree. The inserted nodes get the position of the flag,
// so that errors refer to it.
func override(tree *Node, set string) error {
	at := Pos{File: "--set " + Clip(set, 80)}
	path, text, ok := strings.Cut(set, "=")
	path = strings.TrimSpace(path)
	at.Field = path
	if !ok || path == "" {
		return at.Fault(CodeSyntax, "for example --set window=1s", "expected PATH=VALUE")
	}
	if !reSetPath.MatchString(path) {
		return at.Fault(CodeSyntax, "write names separated by dots, such as settings.rate", "%q is not a path", Clip(path, 40))
	}
	hint := "for example --set window=1s"
	if slices.Contains(statedSections, path) {
		hint = "--set " + path + "=none leaves the section out"
	}
	if strings.TrimSpace(text) == "" {
		return at.Fault(CodeMissing, hint, "the value is missing")
	}
	value, err := readTree([]byte(text), at.File, true)
	if err != nil {
		return err
	}
	if value.Kind == Null {
		return at.Fault(CodeMissing, hint, "the value is missing")
	}
	if tree.Kind != Mapping {
		return nil // the decoder reports it
	}
	if slices.Contains(statedSections, path) && value.Kind == Scalar && value.Text == LevelNone {
		tree.remove(path)
		return nil
	}
	steps := strings.Split(path, ".")
	fields, kind := root(defaultsOf(DataPlane)).names(), kindOf(tree)
	_, factor := FactorByName(steps[0])
	if _, here := kind.Factor(steps[0]); !here && slices.Contains(fields, steps[0]) {
		factor = false // mesh is a field of every study and a factor of some
	}
	if factor {
		if len(steps) > 1 {
			return at.Fault(CodeType, "as --set "+steps[0]+"=...", "factor %s has no fields", steps[0])
		}
		setFactor(tree, steps[0], value, at)
		return nil
	}
	if !slices.Contains(fields, steps[0]) {
		for _, f := range kind.Factors() {
			fields = append(fields, f.Name)
		}
		return at.Fault(CodeUnknown, errs.Suggest(steps[0], fields), "unknown field %q in the study", Clip(steps[0], 40))
	}
	return setPath(tree, steps, value, at)
}

// setFactor fixes a factor at one level or varies it by a list, whatever it was before.
func setFactor(tree *Node, factor string, value *Node, at Pos) {
	to, from := "settings", "factors"
	if value.Kind == Sequence {
		to, from = from, to
	}
	if other := tree.Get(from); other != nil {
		other.remove(factor)
	}
	section := tree.Get(to)
	if section == nil || section.Kind != Mapping {
		section = &Node{Kind: Mapping, Pos: at}
		tree.Set(to, at, section)
	}
	section.Set(factor, at, value)
	// settings and factors may now be empty mappings, which the decoder would reject.
	if other := tree.Get(from); other != nil && other.Kind == Mapping && len(other.Keys) == 0 {
		tree.remove(from)
	}
}

func setPath(n *Node, steps []string, value *Node, at Pos) error {
	for i, step := range steps {
		last := i == len(steps)-1
		switch n.Kind {
		case Mapping:
			if last {
				n.Set(step, at, value)
				return nil
			}
			next := n.Get(step)
			if next == nil || next.Kind == Null || next.Kind == Scalar {
				next = &Node{Kind: Mapping, Pos: at}
				n.Set(step, at, next)
			}
			n = next
		case Sequence:
			k, err := strconv.Atoi(step)
			if err != nil || k < 0 || k >= len(n.Values) {
				return at.Fault(CodeConflict, "indexes start at 0", "%s has %d entries: %q is not an index", strings.Join(steps[:i], "."), len(n.Values), step)
			}
			if last {
				n.Values[k] = value
				return nil
			}
			n = n.Values[k]
		default:
			return at.Fault(CodeType, "", "%s has no fields", strings.Join(steps[:i], "."))
		}
	}
	return nil
}

// FlagText returns the --set argument that gives the factor at a path a level, quoted for a shell.
func FlagText(path, level string) string { return shellText(path + "=" + levelText(level)) }

// flowText formats a cell as files write it on one line.
func flowText(levels record.Cell) string {
	var b bytes.Buffer
	emitFlow(&b, CellValue{To: &levels, Empty: true}.Encode())
	return b.String()
}

// levelText formats a level for a --set flag, with quotes where YAML would read another type.
func levelText(level string) string {
	n, err := readTree([]byte(level), "", true)
	if err != nil || n.Kind != Scalar || n.Text != level {
		return quote(level)
	}
	return level
}

// reShellPlain matches words that a shell passes unchanged unless file names match them.
var reShellPlain = lazyregexp.New(`^([A-Za-z0-9_@%+=:,./*?\[\]^-]|\{\})+$`)

// shellText quotes a word for a shell.
func shellText(word string) string {
	if reShellPlain.MatchString(word) {
		return word
	}
	return shell.Quote(word)
}
