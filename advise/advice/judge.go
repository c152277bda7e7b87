package advice

import (
	"cmp"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
)

// Outcomes of a rule.
const (
	Holds     = "holds"
	RuledOut  = "ruled_out"
	NotEnough = "not_enough_evidence"
)

// Report is what the rules make of evidence.
type Report struct {
	Source  string      `json:"source"`
	Cell    record.Cell `json:"cell,omitempty"`
	WindowS float64     `json:"window_s,omitempty"`
	// Istiod is its version; "" where nobody asked it which settings it has.
	Istiod string `json:"istiod,omitempty"`
	// Advice are the rules that hold, most certain first.
	Advice []Judgement `json:"advice"`
	// Undecided are those for which evidence is missing, or contradicts itself.
	Undecided []Judgement `json:"undecided"`
	RuledOut  []Judgement `json:"ruled_out"`
	Doubt     string      `json:"doubt,omitempty"`
	Notes     []string    `json:"notes,omitempty"`
	// Values are all quantities that are known.
	Values []Value `json:"values"`
}

// Judgement is what became of one rule.
type Judgement struct {
	Rule    string `json:"rule"`
	Title   string `json:"title"`
	Outcome string `json:"outcome"`
	// Says is the finding in a sentence, Why what decided it.
	Says string   `json:"says,omitempty"`
	Why  []string `json:"why,omitempty"`
	// Evidence are the quantities that it rests on.
	Evidence []Value `json:"evidence,omitempty"`
	// Confidence is from 0 to 1: all that supports it was seen, and all that could rule
	// it out was looked at.
	Confidence float64 `json:"confidence,omitempty"`
	// Share is how much of what is wrong it explains, from 0 to 1.
	Share   float64   `json:"share,omitempty"`
	Missing []Gap     `json:"missing,omitempty"`
	Try     []Step    `json:"try,omitempty"`
	Expect  *Expected `json:"expect,omitempty"`
	Risk    string    `json:"risk,omitempty"`
	Back    string    `json:"back,omitempty"`
	Sources []string  `json:"sources,omitempty"`
}

// Expected is what trying it is expected to do.
type Expected struct {
	// Quantity is the name of what is to change, Of its words.
	Quantity string `json:"quantity"`

	Of   string  `json:"of"`
	Unit string  `json:"unit"`
	Now  float64 `json:"now"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// From says what the interval rests on: a rule of thumb, or arithmetic over this
	// evidence, and which.
	From string `json:"from"`
}

// Confidence of rules: each thing that would support one and is not known, and each
// that might rule it out and was not looked at, takes a part of it; so does evidence
// that is weaker as a whole.
const (
	certain  = 0.95
	unseen   = 0.8
	doubtful = 0.6
	highFrom = 0.9
	mediumAt = 0.6
)

// Judge judges all rules over evidence. Its error is a rule that cannot be evaluated.
func (r *Rules) Judge(e *Evidence) (Report, error) {
	out := Report{Source: e.Source, Cell: e.Cell, WindowS: e.WindowS, Advice: []Judgement{}, Undecided: []Judgement{}, RuledOut: []Judgement{}, Doubt: e.Doubt, Notes: e.Notes}
	if e.Known != nil {
		out.Istiod = e.Known.Version
	}
	seen, err := r.resolve(e)
	if err != nil {
		return out, err
	}
	out.Values = seen.all()
	for i := range r.Rules {
		j, err := seen.judge(&r.Rules[i])
		if err != nil {
			return out, err
		}
		switch j.Outcome {
		case Holds:
			out.Advice = append(out.Advice, j)
		case NotEnough:
			out.Undecided = append(out.Undecided, j)
		default:
			out.RuledOut = append(out.RuledOut, j)
		}
	}
	slices.SortStableFunc(out.Advice, func(a, b Judgement) int {
		return cmp.Or(cmp.Compare(b.Confidence, a.Confidence), cmp.Compare(b.Share, a.Share))
	})
	return out, nil
}

// judge judges one rule: false as soon as what is known makes it false, true where
// all that has to be known is.
func (r *resolved) judge(rule *Rule) (Judgement, error) {
	j := Judgement{Rule: rule.ID, Title: rule.Title, Outcome: RuledOut}
	when, err := r.truth(rule.When)
	if err != nil {
		return j, err
	}
	if when == False {
		j.Why = []string{"not so: " + rule.When.text()}
		j.Evidence = r.shown(rule.When.uses)
		return j, nil
	}
	j.Evidence = r.shown(rule.Shows)
	j.Says = r.filled(rule.Says)
	if when == Unknown {
		j.Missing = r.gaps(rule.When)
	}
	j.Confidence = certain
	for _, c := range rule.Unless {
		t, err := r.truth(c.When)
		if err != nil {
			return j, err
		}
		switch {
		case t == True:
			return Judgement{Rule: rule.ID, Title: rule.Title, Outcome: RuledOut, Why: []string{r.filled(c.Because)}, Evidence: r.shown(c.When.uses)}, nil
		case t == False:
			j.Why = append(j.Why, "it is not that "+r.filled(c.Because))
		case c.Optional:
			j.Why = append(j.Why, "not looked at: whether "+c.When.text())
			j.Confidence *= unseen
		default:
			for _, g := range r.gaps(c.When) {
				if !slices.ContainsFunc(j.Missing, func(had Gap) bool { return had.Name == g.Name }) {
					j.Missing = append(j.Missing, g)
				}
			}
		}
	}
	contradicted, err := r.support(rule, &j)
	switch {
	case err != nil:
		return j, err
	case contradicted || len(j.Missing) > 0:
		j.Outcome, j.Confidence = NotEnough, 0
		return j, nil
	}
	if r.of.Doubt != "" {
		j.Confidence *= doubtful
	}
	return r.advise(rule, j)
}

// support looks for what is seen too where a rule holds; contradicted says that it was
// looked for and not seen.
func (r *resolved) support(rule *Rule, j *Judgement) (contradicted bool, err error) {
	for _, c := range rule.Supports {
		t, err := r.truth(c.When)
		if err != nil {
			return false, err
		}
		switch t {
		case True:
			j.Why = append(j.Why, "supported: "+r.filled(c.Because))
		case Unknown:
			j.Why = append(j.Why, "not looked at: whether "+c.When.text())
			j.Confidence *= unseen
		case False:
			contradicted = true
			j.Why = append(j.Why, "contradicted: it is not so that "+c.When.text()+", as would be where "+r.filled(c.Because))
		}
	}
	return contradicted, nil
}

// advise adds to a rule that holds what to try, and what is expected of it.
func (r *resolved) advise(rule *Rule, j Judgement) (Judgement, error) {
	j.Outcome, j.Risk, j.Back, j.Sources = Holds, rule.Risk, r.of.rooted(rule.Back), rule.Sources
	if rule.Share != nil {
		share, ok, err := r.number(rule.Share)
		if err != nil {
			return j, err
		}
		if ok {
			j.Share = min(1, max(0, share))
		}
	}
	for _, t := range rule.Try {
		if t.If != nil {
			is, err := r.truth(t.If)
			if err != nil {
				return j, err
			}
			if is != True {
				continue
			}
		}
		s, err := r.step(t)
		if err != nil {
			return j, err
		}
		if !s.there() {
			j.Try = append(j.Try, s)
		}
	}
	var err error
	j.Expect, err = r.expected(rule.Effect)
	if j.Expect == nil && err == nil {
		j.Why = append(j.Why, "its effect cannot be predicted: "+r.unknownOf(rule.Effect))
	}
	return j, err
}

// expected is what an effect comes to; nil where that cannot be told.
func (r *resolved) expected(e *Effect) (*Expected, error) {
	low, okLow, err := r.number(e.Low)
	if err != nil {
		return nil, err
	}
	high, okHigh, err := r.number(e.High)
	now, ok := r.values[e.Of]
	if err != nil || !ok || !okLow || !okHigh {
		return nil, err
	}
	return &Expected{Quantity: e.Of, Of: now.Words, Unit: now.Unit, Now: now.Value, Low: min(low, high), High: max(low, high), From: e.From}, nil
}

// unknownOf says what an effect needs and nobody knows.
func (r *resolved) unknownOf(e *Effect) string {
	var out []string
	for _, name := range slices.Concat([]string{e.Of}, e.Low.uses, e.High.uses) {
		if !r.has(name) && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	if len(out) == 0 {
		return "its bounds are no finite numbers"
	}
	return strings.Join(out, ", ") + " not known"
}

// all are the quantities that are known, in the order of the table.
func (r *resolved) all() []Value {
	out := []Value{}
	for _, q := range r.rules.Quantities {
		if v, ok := r.values[q.Name]; ok {
			out = append(out, v)
		}
	}
	return out
}

// shown are the quantities of these names that are known.
func (r *resolved) shown(names []string) []Value {
	var out []Value
	for _, name := range names {
		if v, ok := r.values[name]; ok {
			out = append(out, v)
		}
	}
	return out
}

// filled puts values into a text.
func (r *resolved) filled(text string) string {
	return strings.TrimSpace(fill(text, func(name string) string {
		v, ok := r.values[name]
		if !ok {
			return "an unknown"
		}
		return spell(v.Value, v.Unit)
	}))
}
