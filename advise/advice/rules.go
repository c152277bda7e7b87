package advice

import (
	_ "embed"
	"strings"

	"github.com/meshtrial/meshtrial/study"
)

//go:embed rules.yaml
var shipped []byte

// shippedName is what errors call the rules that come with the program.
const shippedName = "advise/advice/rules.yaml"

// Shipped returns the rules that come with the program.
func Shipped() (*Rules, error) { return Read(shippedName, shipped) }

// Rules is a table of quantities and of rules over them.
type Rules struct {
	Quantities []Quantity
	Rules      []Rule
}

// Quantity is something that rules speak of: a number with a unit.
type Quantity struct {
	Name  string
	Unit  string // s, ratio, 1/s, bytes, bytes/s, cores, us/request; "" for a plain number
	Words string // what it is, for tables
	// From are where it may come from, the first that has it counts.
	From []Origin
	// Measure says how to get it where nothing has it.
	Measure string
}

// Origin is one place that a quantity may come from; one field is set.
type Origin struct {
	// PromQL is an expression over istiod's metrics, as [signals.Options.Expand]
	// takes it.
	PromQL string
	// Finding is the name of a finding, of which the estimate counts.
	Finding string
	// Fact is the name of something that evidence says by itself: see [Evidence].
	Fact string
	// CEL is an expression over quantities that stand before this one.
	CEL *expr
}

// Rule is one thing that may limit a mesh.
type Rule struct {
	ID    string
	Title string // what is the matter, in one line
	Says  string // the finding in a sentence: ${NAME} stands for a quantity
	// When it holds; Unless lists what rules it out, Supports what is seen too where it
	// holds.
	When     *expr
	Unless   []Clause
	Supports []Clause
	// Shows are the quantities that are given as evidence.
	Shows []string
	// Share is how much of what is wrong it explains, 0 to 1; it ranks rules of the
	// same confidence.
	Share *expr
	Try   []Try
	// Effect is what is expected once the cause is gone; a step may say its own.
	Effect  *Effect
	Sources []string
	Risk    string
	Back    string
}

// Clause is one more condition of a rule, and what it means if it is true.
type Clause struct {
	When    *expr
	Because string
	// Optional says that a rule may hold where this is not known, with less confidence.
	// What supports a rule is always optional.
	Optional bool
}

// Try is one thing to try: a lever at a level, or something that no lever does.
type Try struct {
	Lever string // "" for none
	Level string // ${NAME} stands for a quantity, in the lever's unit
	Do    string // in words, where there is no lever, or more to say
	YAML  string // a manifest of its own, where there is no lever; ${NAME} as in Level
	// Needs names what istiod must have for it, beside what the lever sets: variables
	// of its environment, or fields of the mesh configuration.
	Needs []string
	If    *expr // nil: always
	// Effect is what is expected of this step; nil: the rule's.
	Effect *Effect
}

// Effect is what is expected of trying it: a quantity, and between which values it will
// be.
type Effect struct {
	Of        string // the quantity's name
	Low, High *expr
	From      string // what the interval rests on: [thumb], or arithmetic over the evidence
}

// thumb is what an interval rests on that nothing is derived from.
const thumb = "rule of thumb"

// Quantity finds a quantity by its name.
func (r *Rules) Quantity(name string) (Quantity, bool) {
	for _, q := range r.Quantities {
		if q.Name == name {
			return q, true
		}
	}
	return Quantity{}, false
}

// PromQL lists the expressions over istiod's metrics, each once.
func (r *Rules) PromQL() []string {
	var out []string
	seen := map[string]bool{}
	for _, q := range r.Quantities {
		for _, o := range q.From {
			if o.PromQL != "" && !seen[o.PromQL] {
				seen[o.PromQL] = true
				out = append(out, o.PromQL)
			}
		}
	}
	return out
}

// expr is an expression in CEL with its place.
type expr struct {
	study.Expr
	// uses are the names that it speaks of: quantities, and "levers.NAME".
	uses    []string
	program program
}

// text is an expression in one line.
func (e *expr) text() string { return strings.Join(strings.Fields(e.Text), " ") }
