package record

import "github.com/meshtrial/meshtrial/internal/note"

// Tuning is the result of a study that tunes levers: its goals, what was tried, the settings
// that no other one beats, and the recommended setting with the comparison that confirms or
// refutes it.
type Tuning struct {
	Objectives  []string `json:"objectives"` // as in the study
	Constraints []string `json:"constraints,omitempty"`
	// Grid is the number of cells, Trials the number of trials that the search made of them,
	// Blocks the number of their blocks, and Most the maximum that it could have made.
	Grid   int `json:"grid"`
	Trials int `json:"trials"`
	Most   int `json:"most_trials"`
	Blocks int `json:"blocks"`
	// Seconds is the duration of all trials of the run, including the comparison.
	Seconds float64 `json:"trial_seconds"`
	// Stop is why the search ended; "" if it did not.
	Stop string `json:"stop,omitempty"`
	// Lacking is an objective or constrained value that no valid trial has, as Stop says, so
	// that there is no answer; "" if there is none.
	Lacking string `json:"lacking,omitempty"`
	// Measures lists the findings that the search has for each cell: objectives, constraints
	// and the axes of the front.
	Measures []TunedMeasure `json:"measures"`
	// Cells lists the cells that the search tried, best first.
	Cells []TunedCell `json:"cells"`
	// Recommended has the levels to set, and Present those in use, of the levers that differ;
	// empty if nothing better than the setting in use was found.
	Recommended Cell `json:"recommended,omitempty"`
	Present     Cell `json:"present,omitempty"`
	// Verdict is the comparison's verdict on the objectives, one of a finding's; "" before the
	// comparison. Confirmed is the comparison itself: the difference between the recommended
	// setting and the one in use, in blocks that the search did not see.
	Verdict       string            `json:"verdict,omitempty"`
	Confirmed     []TunedDifference `json:"confirmed,omitempty"`
	ConfirmBlocks int               `json:"confirm_blocks,omitempty"`
	Kept          []TunedBound      `json:"constraints_confirmed,omitempty"`
	// Settings says how to set the recommended levels, Steps how to get there.
	Settings []TunedSetting `json:"settings,omitempty"`
	Steps    []TunedStep    `json:"steps,omitempty"`
	Watch    []TunedWatch   `json:"watch,omitempty"`
}

// Refuted reports whether the comparison contradicts the setting that the search found best:
// it breaks a constraint, or it is worse or no different and the one in use breaks none.
func (t *Tuning) Refuted() bool {
	for _, k := range t.Kept {
		if k.Verdict == TunedBroken {
			return true
		}
	}
	if t.Mends() != "" {
		return false
	}
	return t.Verdict == VerdictNoEffect || t.Verdict == VerdictReal && len(t.Confirmed) > 0 && t.Confirmed[0].Estimate >= 0
}

// Mends returns a constraint that, by the comparison, the setting in use breaks and the
// search's best setting meets, whatever the cost in the objectives; "" if there is none.
func (t *Tuning) Mends() string {
	mends := ""
	for _, k := range t.Kept {
		switch {
		case k.Verdict == TunedBroken:
			return ""
		case k.Verdict == TunedMet && k.Present == TunedBroken && mends == "":
			mends = k.Constraint
		}
	}
	return mends
}

// TunedMeasure is a finding that a search has for cells.
type TunedMeasure struct {
	Finding string `json:"finding"`
	Unit    string `json:"unit"`
	// Axis means that it is an axis of the front.
	Axis bool `json:"axis"`
	// NoiseRatio is the scatter between trials of one cell; 0 if unknown.
	NoiseRatio float64 `json:"noise_ratio"`
	// Missing is why cells have no value for it; "" if they do.
	Missing string `json:"missing,omitempty"`
}

// TunedCell is a cell that a search tried. Its values are estimates from all trials of the
// search together, with 95% intervals.
type TunedCell struct {
	Cell   Cell   `json:"cell"` // varying factors only
	Label  string `json:"label"`
	Trials int    `json:"trials"`
	// Why is what the search expected of the cell when it first tried it.
	Why string `json:"why,omitempty"`
	// Objective is the relative difference of the objectives to the setting in use (-0.4 is
	// 40% less). Allowed is the probability that all constraints are met.
	Objective   Ratio        `json:"objective"`
	Allowed     float64      `json:"allowed"`
	Values      []TunedValue `json:"values"` // of Measures, in their order
	Front       bool         `json:"front"`  // no other cell beats it on all axes
	Present     bool         `json:"present,omitempty"`
	Recommended bool         `json:"recommended,omitempty"`
}

// TunedValue is a value with its interval; Known is false if there is none.
type TunedValue struct {
	Known    bool    `json:"known"`
	Estimate float64 `json:"estimate"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
}

// TunedDifference is the difference between the recommended setting and the one in use, with
// the value of each.
type TunedDifference struct {
	Finding
	Before TunedValue `json:"before"`
	After  TunedValue `json:"after"`
}

// Verdicts of a constraint.
const (
	TunedMet    = "met"
	TunedBroken = "broken"
)

// TunedBound is the result of a constraint in the comparison.
type TunedBound struct {
	Constraint string `json:"constraint"`
	// Verdict says whether the recommended setting meets it: [TunedMet], [TunedBroken] or
	// [VerdictInconclusive]; Says has the figures.
	Verdict string    `json:"verdict"`
	Says    note.Note `json:"says"`
	// Present is the verdict on the setting in use.
	Present string `json:"present,omitempty"`
}

// TunedSetting is how to set a lever.
type TunedSetting struct {
	Lever string `json:"lever"`
	From  string `json:"from"`
	To    string `json:"to"`
	Do    string `json:"do"`
	YAML  string `json:"yaml,omitempty"`
	Back  string `json:"back,omitempty"`
}

// TunedStep is one step towards the recommended setting: a lever's level after it.
type TunedStep struct {
	Lever string `json:"lever"`
	From  string `json:"from"`
	To    string `json:"to"`
	// Share is the relative change of the level, 0.3 for 30%; 0 for non-numeric levels.
	Share float64 `json:"share"`
	Do    string  `json:"do"`
	Back  string  `json:"back,omitempty"`
}

// TunedWatch is a signal to watch during a step, and when to roll back.
type TunedWatch struct {
	Signal string `json:"signal"`
	Query  string `json:"query"` // PromQL
	// Before and After are this run's values of it in the setting in use and in the
	// recommended one, in words; "" if there were none.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	Back   string `json:"turn_back"` // when to roll back
}
