package advice

import (
	"fmt"
)

// Rule is one thing that may limit a mesh.
type Rule struct {
	Code  string
	Title string // what is the matter, in one line
	// Condition is When in words.
	Condition string
	Says      phrase // the finding, in a sentence
	// When it holds; Unless lists what rules it out, Supports what is seen too where it
	// holds.
	When     func(*mesh) Truth
	Unless   []Clause
	Supports []Clause
	// Shows are the quantities that are given as evidence.
	Shows []*Quantity
	// Share is how much of what is wrong it explains, 0 to 1; it ranks rules of the same
	// confidence.
	Share func(*mesh) float64
	Try   []Try
	// Effect is what is expected once the cause is gone; a step may have its own.
	Effect  Effect
	Sources []string
	Risk    string
	Back    string
}

// Clause is one more condition of a rule.
type Clause struct {
	When func(*mesh) Truth
	// Text says what it means if it is true.
	Text string
	// Optional says that a rule may hold where this is unknown, with less confidence. What
	// supports a rule is always optional.
	Optional bool
}

// Try is one thing to try: a lever at a level, or something that no lever does.
type Try struct {
	Lever   string    // "" for none
	Level   string    // the level to set
	LevelOf *Quantity // or the quantity that it is
	Do      string    // in words, where there is no lever, or more to say
	// YAML writes a manifest of its own, where there is no lever. Back takes the step back.
	YAML, Back func(*mesh) string
	// Needs names the variables of its environment that istiod must have for it, beside the
	// lever's.
	Needs []string
	If    func(*mesh) Truth // nil: always
	// Effect is what is expected of this step; nil: the rule's.
	Effect *Effect
}

// Effect is what is expected: a quantity, and between which values it will be.
type Effect struct {
	Of      *Quantity
	Between func(*mesh) (low, high float64)
	From    string // what the interval rests on: [thumb], or arithmetic over the evidence
}

// thumb is what an interval rests on that nothing is derived from.
const thumb = "rule of thumb"

// scaled is an effect that multiplies a quantity by something between two factors, by
// rule of thumb.
func scaled(q *Quantity, low, high float64) Effect {
	return Effect{q, func(m *mesh) (float64, float64) { v := m.get(q); return low * v, high * v }, thumb}
}

// phrase is a sentence with places for quantities, each "%s".
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

// constant is a share that is always the same.
func constant(v float64) func(*mesh) float64 { return func(*mesh) float64 { return v } }

// valueOf is a quantity as a share.
func valueOf(q *Quantity) func(*mesh) float64 { return func(m *mesh) float64 { return m.get(q) } }
