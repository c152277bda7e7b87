package advice

import (
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
)

const table = `quantities:
- name: a
  unit: s
  words: the first
  from: [{promql: 'sum(rate(pilot_a{$i}[$w]))'}]
  measure: look
- {name: b, words: the second, from: [{cel: 2.0 * a}]}
rules:
- id: one
  title: One
  says: a is ${a}
  when: b > 1.0 && levers.push_throttle == "1"
  unless:
  - {when: a > 10.0, because: 'a is ${a}'}
  shows: [a, b]
  try:
  - {lever: push_throttle, level: default}
  effect: {of: a, low: '0.0', high: a}
  source: [a book]
  risk: none
  back: undo it
`

func TestRead(t *testing.T) {
	r, err := Read("mine.yaml", []byte(table))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rules) != 1 || len(r.Quantities) != 2 || len(r.PromQL()) != 1 {
		t.Errorf("%+v", r)
	}
}

// Faults have file, line, column and what is wrong there.
func TestReadFaults(t *testing.T) {
	for name, c := range map[string]struct{ from, to, want string }{
		"no YAML":             {"rules:", "rules: [", "mine.yaml:"},
		"unknown field":       {"  title: One", "  titel: One", `mine.yaml:10:3: a rule has no field "titel"`},
		"lacks a field":       {"  risk: none\n", "", "mine.yaml:9:3: a rule lacks the field risk"},
		"CEL does not parse":  {"b > 1.0 &&", "b > > 1.0 &&", "mine.yaml:12:"},
		"CEL of other types":  {`b > 1.0 && levers.push_throttle == "1"`, "b + 1.0", "mine.yaml:12:9: the expression is a double, not a bool"},
		"unknown name in CEL": {"b > 1.0", "c > 1.0", "mine.yaml:12:9: undeclared reference to 'c'"},
		"quantity below":      {"cel: 2.0 * a", "cel: 2.0 * b", "mine.yaml:7:45: b is not known here"},
		"PromQL":              {"sum(rate(pilot_a{$i}[$w]))", "sum(rate(pilot_a{$i}))", "mine.yaml:5:19: PromQL: "},
		"unknown unit":        {"unit: s", "unit: parsec", `mine.yaml:3:9: unknown unit "parsec"`},
		"unknown finding":     {"{cel: 2.0 * a}", "{finding: nothing}", `mine.yaml:7:49: unknown finding "nothing"`},
		"two origins":         {"{cel: 2.0 * a}", "{cel: 2.0 * a, fact: x}", "mine.yaml:7:"},
		"unknown lever":       {"lever: push_throttle, level", "lever: push_brake, level", `mine.yaml:17:13: unknown lever "push_brake"`},
		"no level of it":      {"level: default", "level: often", "mine.yaml:17:35: lever push_throttle: "},
		"level without lever": {"{lever: push_throttle, level: default}", "{level: default, do: it}", "mine.yaml:17:5: a lever and its level stand together"},
		"nothing to try":      {"  - {lever: push_throttle, level: default}\n", "  - {}\n", "mine.yaml:17:5: a try names a lever"},
		"unknown place":       {"says: a is ${a}", "says: a is ${z}", `mine.yaml:11:9: unknown quantity "z"`},
		"shows another":       {"shows: [a, b]", "shows: [a, z]", `mine.yaml:15:14: unknown quantity "z"`},
		"effect of another":   {"{of: a, low", "{of: z, low", `mine.yaml:18:16: unknown quantity "z"`},
		"no effect":           {"  effect: {of: a, low: '0.0', high: a}\n", "", "mine.yaml:9:3: a rule lacks the field effect"},
		"a step's effect":     {"level: default}", "level: default, effect: {of: z, low: a, high: a}}", `mine.yaml:17:57: unknown quantity "z"`},
		"a quantity twice":    {"name: b", "name: a", "mine.yaml:7:10: quantity a stands twice"},
		"no name":             {"name: b", "name: B-1", `mine.yaml:7:10: "B-1" is no name of a quantity`},
		"no rules":            {table[strings.Index(table, "rules:"):], "rules: []\n", "mine.yaml:1:1: the table has no rules"},
	} {
		text := strings.Replace(table, c.from, c.to, 1)
		if text == table {
			t.Fatalf("%s: nothing is replaced", name)
		}
		_, err := Read("mine.yaml", []byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || errs.Code(err) != errs.CodeUsage {
			t.Errorf("%s: %v (exit code %d)", name, err, errs.Code(err))
		}
	}
	if _, err := Read("mine.yaml", nil); errs.Code(err) != errs.CodeUsage {
		t.Errorf("empty: %v", err)
	}
}

// What an expression names for itself is no quantity; what costs too much is an error.
func TestComprehensions(t *testing.T) {
	r, err := Read("mine.yaml", []byte(strings.Replace(table, "b > 1.0 &&", "b > 0.0 && [1.0, 2.0].exists(x, x > b) &&", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if uses := r.Rules[0].When.uses; !slices.Equal(uses, []string{"b", "levers.push_throttle"}) {
		t.Errorf("%q", uses)
	}
	e := &Evidence{PromQL: map[string]float64{r.PromQL()[0]: 0.7}, Levers: map[string]string{"push_throttle": "1"}}
	if out, err := r.Judge(e); err != nil || len(out.Advice) != 1 {
		t.Errorf("%+v, %v", out, err)
	}
	digits := "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
	dear := "true"
	for _, name := range []string{"u", "v", "w", "x", "y", "z"} {
		dear = digits + ".all(" + name + ", " + dear + ")"
	}
	if r, err = Read("mine.yaml", []byte(strings.Replace(table, "b > 1.0 &&", "b > 0.0 && "+dear+" &&", 1))); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Judge(e); err == nil || !strings.Contains(err.Error(), "mine.yaml:12:9") || !strings.Contains(err.Error(), "cost") {
		t.Errorf("%v", err)
	}
}

// Whatever a file holds, reading it ends in rules or an error.
func FuzzRead(f *testing.F) {
	f.Add([]byte(table))
	f.Add([]byte("quantities: [{name: a}]\nrules: 1\n"))
	f.Add([]byte("- a\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Read("f", data)
		if err == nil && len(r.Rules) == 0 {
			t.Error("no rules, and no error")
		}
	})
}

// The shipped rules have all that advice is to say, and levers' levels that they name
// can be spelled.
func TestShipped(t *testing.T) {
	r, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rules) < 15 {
		t.Errorf("%d rules", len(r.Rules))
	}
	for _, rule := range r.Rules {
		if len(rule.Sources) == 0 || rule.Share == nil {
			t.Errorf("%s: sources %v, share %v", rule.ID, rule.Sources, rule.Share)
		}
	}
	for _, q := range r.Quantities {
		calculated := true
		for _, o := range q.From {
			calculated = calculated && (o.CEL != nil || o.Fact == "cpu_idle")
		}
		if !calculated && q.Measure == "" {
			t.Errorf("%s does not say how it is measured", q.Name)
		}
	}
}
