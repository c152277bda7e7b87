package advice

import (
	"cmp"
	"slices"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
)

// Outcomes of a rule.
const (
	Holds     = "holds"
	RuledOut  = "ruled_out"
	NotEnough = "not_enough_evidence"
)

// Report is the result of judging the rules over evidence.
type Report struct {
	Source  string      `json:"source"`
	Cell    record.Cell `json:"cell,omitempty"`
	WindowS float64     `json:"window_s,omitempty"`
	// Istiod is istiod's version; "" if its program was not asked for its settings.
	Istiod string `json:"istiod,omitempty"`
	// Advice lists the rules that hold, most certain first.
	Advice []Judgement `json:"advice"`
	// Undecided lists the rules whose evidence is missing or contradictory.
	Undecided []Judgement `json:"undecided"`
	RuledOut  []Judgement `json:"ruled_out"`
	Doubt     string      `json:"doubt,omitempty"`
	Notes     []string    `json:"notes,omitempty"`
	// Values lists all known quantities.
	Values []Value `json:"values"`
}

// Judgement is the result for one rule.
type Judgement struct {
	Rule    string `json:"rule"`
	Title   string `json:"title"`
	Outcome string `json:"outcome"`
	// Says states the finding in a sentence, Why what decided it.
	Says string   `json:"says,omitempty"`
	Why  []Reason `json:"why,omitempty"`
	// Evidence lists the quantities on which the judgement rests.
	Evidence []Value `json:"evidence,omitempty"`
	// Confidence ranges from 0 to 1. It is highest if everything that supports the rule was
	// observed, and everything that could rule it out was checked.
	Confidence float64 `json:"confidence,omitempty"`
	// Share is how much of the problem the rule explains, from 0 to 1.
	Share   float64   `json:"share,omitempty"`
	Missing []Gap     `json:"missing,omitempty"`
	Try     []Step    `json:"try,omitempty"`
	Expect  *Expected `json:"expect,omitempty"`
	Risk    string    `json:"risk,omitempty"`
	Back    string    `json:"back,omitempty"`
	Sources []string  `json:"sources,omitempty"`
}

// Codes of reasons.
const (
	ConditionFalse = "condition_false" // the rule's condition
	OtherCause     = "other_cause"     // what rules it out is true
	NoOtherCause   = "no_other_cause"  // what would rule it out is false
	Supported      = "supported"       // supporting evidence was observed
	Contradicted   = "contradicted"    // supporting evidence was checked and not observed
	NotObserved    = "not_observed"    // one of these is unknown
	EffectUnknown  = "effect_unknown"  // the expected effect is unknown, as it lacks what Text lists
)

// Reason says why a rule was decided as it was, or what speaks for or against it.
type Reason struct {
	Code   string  `json:"code"`
	Text   string  `json:"text"` // of the condition
	Values []Value `json:"values,omitempty"`
}

// Expected is the expected effect of a step.
type Expected struct {
	// Quantity is the name of the quantity that is to change, Of its description.
	Quantity string  `json:"quantity"`
	Of       string  `json:"of"`
	Unit     string  `json:"unit"`
	Now      float64 `json:"now"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	// From says what the interval is based on: a rule of thumb, or which arithmetic over this
	// evidence.
	From string `json:"from"`
}

// Confidence of rules: certain, multiplied by unseen for each unknown that would support or
// might rule out a rule, and by doubtful if the evidence is weak as a whole.
const (
	certain  = 0.95
	unseen   = 0.8
	doubtful = 0.6
)

// Judge judges all rules against the evidence.
func Judge(e *Evidence) Report {
	out := Report{Source: e.Source, Cell: e.Cell, WindowS: e.WindowS, Doubt: e.Doubt, Notes: e.Notes,
		Advice: []Judgement{}, Undecided: []Judgement{}, RuledOut: []Judgement{}}
	if e.Known != nil {
		out.Istiod = e.Known.Version
	}
	m := resolve(e)
	out.Values = append([]Value{}, m.shown(quantities)...)
	for _, rule := range rules {
		j := m.judge(rule)
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
	return out
}

// judge judges one rule. The rule is ruled out as soon as the known quantities do so, and
// holds if everything it requires is known to be true.
func (m *mesh) judge(rule Rule) Judgement {
	ruledOut := func(code, text string, reads []reading) Judgement {
		return Judgement{Rule: rule.Code, Title: rule.Title, Outcome: RuledOut,
			Why: []Reason{{Code: code, Text: text}}, Evidence: m.seen(reads)}
	}
	when, reads := m.truth(rule.When)
	if when == False {
		return ruledOut(ConditionFalse, rule.Condition, reads)
	}
	j := Judgement{Rule: rule.Code, Title: rule.Title, Says: m.say(rule.Says), Evidence: m.shown(rule.Shows),
		Confidence: certain}
	if when == Unknown {
		j.Missing = m.gaps(reads)
	}
	because := func(code string, c Clause, reads []reading) {
		j.Why = append(j.Why, Reason{code, c.Text, m.seen(reads)})
	}
	for _, c := range rule.Unless {
		t, reads := m.truth(c.When)
		switch {
		case t == True:
			return ruledOut(OtherCause, c.Text, reads)
		case t == False:
			because(NoOtherCause, c, reads)
		case c.Optional:
			because(NotObserved, c, reads)
			j.Confidence *= unseen
		default:
			for _, g := range m.gaps(reads) {
				if !slices.ContainsFunc(j.Missing, func(had Gap) bool { return had.Name == g.Name }) {
					j.Missing = append(j.Missing, g)
				}
			}
		}
	}
	contradicted := false
	for _, c := range rule.Supports {
		t, reads := m.truth(c.When)
		switch t {
		case True:
			because(Supported, c, reads)
		case Unknown:
			because(NotObserved, c, reads)
			j.Confidence *= unseen
		case False:
			because(Contradicted, c, reads)
			contradicted = true
		}
	}
	if contradicted || len(j.Missing) > 0 {
		j.Outcome, j.Confidence = NotEnough, 0
		return j
	}
	if m.evidence.Doubt != "" {
		j.Confidence *= doubtful
	}
	return m.advise(rule, j)
}

// advise adds to a rule that holds what to try and the expected effect.
func (m *mesh) advise(rule Rule, j Judgement) Judgement {
	j.Outcome, j.Risk, j.Back, j.Sources = Holds, rule.Risk, rule.Back, rule.Sources
	if share, _ := m.number(rule.Share); known(share) {
		j.Share = min(1, max(0, share))
	}
	for _, t := range rule.Try {
		if t.If != nil && t.If(m) != True {
			continue
		}
		if s := m.step(t); !s.reached() {
			j.Try = append(j.Try, s)
		}
	}
	var missing []string
	if j.Expect, missing = m.expected(rule.Effect); j.Expect == nil {
		j.Why = append(j.Why, Reason{Code: EffectUnknown, Text: words.List(missing)})
	}
	return j
}

// expected returns the value of an effect; if that is unknown, it returns nil and what is
// missing.
func (m *mesh) expected(e Effect) (x *Expected, missing []string) {
	m.reads = nil
	now := m.get(e.Of)
	low, high := e.Between(m)
	if known(now) && known(low) && known(high) {
		return &Expected{Quantity: e.Of.Name, Of: e.Of.Words, Unit: e.Of.Unit, Now: now, Low: min(low, high),
			High: max(low, high), From: e.From}, nil
	}
	for _, r := range m.reads {
		if !r.known {
			missing = append(missing, r.name)
		}
	}
	return nil, missing
}
