package advice

import (
	"cmp"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/yamltree"
	"github.com/meshtrial/meshtrial/study"
)

// rule reads a rule; quantities are known already.
func (d *decoder) rule(n *yamltree.Node, r *Rules) Rule {
	m := d.mapping(n, "a rule", "!id", "!title", "!says", "!when", "unless", "supports", "!shows", "share", "!try", "!effect", "!source", "!risk", "!back")
	out := Rule{ID: d.text(m["id"]), Title: d.text(m["title"]), Says: d.filled(m["says"]), When: d.condition(m["when"]),
		Unless: d.clauses(m["unless"]), Supports: d.clauses(m["supports"]), Shows: d.texts(m["shows"]), Share: d.number(m["share"]),
		Sources: d.texts(m["source"]), Risk: d.text(m["risk"]), Back: d.text(m["back"])}
	if d.err != nil {
		return out
	}
	if !reName.MatchString(out.ID) {
		d.fail(m["id"], "lower-case letters, digits and _", "%q is no id of a rule", out.ID)
	}
	for i, name := range out.Shows {
		if _, ok := r.Quantity(name); !ok {
			d.fail(m["shows"].Values[i], errs.Suggest(name, d.known), "unknown quantity %q", name)
		}
	}
	for _, one := range d.list(m["try"]) {
		out.Try = append(out.Try, d.try(one, r))
	}
	if d.err == nil && len(out.Try) == 0 {
		d.fail(n, "", "rule %s has nothing to try", out.ID)
	}
	out.Effect = d.effect(m["effect"], r)
	return out
}

func (d *decoder) clauses(n *yamltree.Node) []Clause {
	var out []Clause
	for _, one := range d.list(n) {
		m := d.mapping(one, "a condition", "!when", "!because", "optional")
		out = append(out, Clause{When: d.condition(m["when"]), Because: d.filled(m["because"]), Optional: d.flag(m["optional"])})
	}
	return out
}

// filled is a text whose places name quantities.
func (d *decoder) filled(n *yamltree.Node) string {
	text := d.text(n)
	fill(text, func(name string) string {
		if !slices.Contains(d.known, name) {
			d.fail(n, errs.Suggest(name, d.known), "unknown quantity %q", name)
		}
		return ""
	})
	return text
}

// fill puts values into a text's places, ${NAME}.
func fill(text string, value func(name string) string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		var name string
		name, text, _ = strings.Cut(rest, "}")
		b.WriteString(value(name))
	}
}

func (d *decoder) try(n *yamltree.Node, r *Rules) Try {
	m := d.mapping(n, "a try", "lever", "level", "do", "yaml", "needs", "if", "effect")
	out := Try{Lever: d.text(m["lever"]), Level: d.filled(m["level"]), Do: d.filled(m["do"]), YAML: d.filled(m["yaml"]), Needs: d.texts(m["needs"]), If: d.condition(m["if"])}
	switch {
	case d.err != nil:
	case out.Lever == "" && out.Do == "":
		d.fail(n, "", "a try names a lever with its level, or says what to do")
	case (out.Lever == "") != (out.Level == ""):
		d.fail(n, "", "a lever and its level stand together")
	case out.Lever != "":
		d.lever(m, out)
	}
	if m["effect"] != nil {
		out.Effect = d.effect(m["effect"], r)
	}
	return out
}

// lever checks that there is such a lever, and that it has such a level.
func (d *decoder) lever(m map[string]*yamltree.Node, t Try) {
	f, ok := study.LeverByName(t.Lever)
	if !ok {
		var names []string
		for _, l := range study.Levers() {
			names = append(names, l.Name)
		}
		d.fail(m["lever"], errs.Suggest(t.Lever, names), "unknown lever %q", t.Lever)
		return
	}
	if strings.Contains(t.Level, "${") {
		return // its value is known only with the evidence
	}
	if _, err := f.Canonical(t.Level); err != nil {
		d.fail(m["level"], "", "lever %s: %v", t.Lever, err)
	}
}

func (d *decoder) effect(n *yamltree.Node, r *Rules) *Effect {
	m := d.mapping(n, "an effect", "!of", "!low", "!high", "from")
	out := &Effect{Of: d.text(m["of"]), Low: d.number(m["low"]), High: d.number(m["high"]), From: cmp.Or(d.text(m["from"]), thumb)}
	if _, ok := r.Quantity(out.Of); d.err == nil && !ok {
		d.fail(m["of"], errs.Suggest(out.Of, d.known), "unknown quantity %q", out.Of)
	}
	return out
}
