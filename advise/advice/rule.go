package advice

import (
	"fmt"
)

// Rule describes one thing that may limit a mesh.
type Rule struct {
	Code  string
	Title string // the problem, in one line
	// Condition describes When.
	Condition string
	Says      phrase // the finding, in a sentence
	// When reports whether the rule holds. Unless lists what rules it out, and Supports
	// what is also observed if it holds.
	When     func(*mesh) Truth
	Unless   []Clause
	Supports []Clause
	// Shows lists the quantities that are given as evidence.
	Shows []*Quantity
	// Share is how much of the problem the rule explains, 0 to 1; it ranks rules of the
	// same confidence.
	Share func(*mesh) float64
	Try   []Try
	// Effect is what to expect once the cause is removed; a step may have its own.
	Effect  Effect
	Sources []string
	Risk    string
	Back    string
}

// Clause is an additional condition of a rule.
type Clause struct {
	When func(*mesh) Truth
	// Text says what it means if the condition is true.
	Text string
	// Optional lets a rule hold with less confidence if this is unknown. Supporting clauses
	// are always optional.
	Optional bool
}

// Try is one thing to try: a lever at a level, or an action that no lever performs.
type Try struct {
	Lever   string    // "" for none
	Level   string    // the level to set
	LevelOf *Quantity // or the quantity that gives it
	Do      string    // what to do, if there is no lever or more to say
	// YAML writes a manifest if there is no lever. Back reverts the step.
	YAML, Back func(*mesh) string
	// Needs names the environment variables that istiod must support for it, in addition to
	// the lever's.
	Needs []string
	If    func(*mesh) Truth // nil: always
	// Effect is the expected effect of this step; nil means the rule's.
	Effect *Effect
}

// Effect is an expected effect: a quantity and the range of its new value.
type Effect struct {
	Of      *Quantity
	Between func(*mesh) (low, high float64)
	From    string // basis of the interval: [thumb], or arithmetic over the evidence
}

// thumb is the basis of an interval that is not derived from anything.
const thumb = "rule of thumb"

// scaled returns the effect of multiplying a quantity by something between two factors, as
// a rule of thumb.
func scaled(q *Quantity, low, high float64) Effect {
	return Effect{q, func(m *mesh) (float64, float64) { v := m.get(q); return low * v, high * v }, thumb}
}

// phrase is a sentence with a "%s" for each quantity.
type phrase struct {
	format     string
	quantities []*Quantity
}

func say(format string, quantities ...*Quantity) phrase { return phrase{format, quantities} }

// say fills in a phrase.
func (m *mesh) say(p phrase) string {
	var values []any
	for _, q := range p.quantities {
		text := "an unknown"
		if v, ok := m.values[q]; ok {
			text = spell(v.Value, v.Unit)
		}
		values = append(values, text)
	}
	return fmt.Sprintf(p.format, values...)
}

// constant returns a share that is always the same.
func constant(v float64) func(*mesh) float64 { return func(*mesh) float64 { return v } }

// valueOf returns a quantity as a share.
func valueOf(q *Quantity) func(*mesh) float64 { return func(m *mesh) float64 { return m.get(q) } }
