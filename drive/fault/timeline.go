package fault

import "time"

// Timeline lists the steps of a trial. Times count from when the load begins.
type Timeline struct {
	Duration time.Duration // of the trial; nothing begins later
	Steps    []Step
}

// Step is one entry of a timeline. It begins at At or, if When is set, when
// that first holds after At.
type Step struct {
	Name string // of its windows; unique within a timeline
	At   time.Duration
	// When is a CEL expression over what the clients see; see package
	// analysis for its variables. Empty: only At counts.
	When string
	// Every and Times repeat the step: Times occurrences, Every apart. A step
	// with When happens once.
	Every time.Duration
	Times int // 0 counts as 1
	// For is how long the step lasts before it is reverted; 0 leaves it in
	// force until the end of the trial, which reverts everything.
	For    time.Duration
	Action Action
}

// Occurrence is one execution of a step.
type Occurrence struct {
	Step  int    // index in Timeline.Steps
	Name  string // the step's, with "#2" for its second turn and so on
	Begin time.Duration
	// End is when it is reverted; 0 means at the end of the trial.
	End time.Duration
	// When delays Begin until it holds; End moves with it.
	When string
	For  time.Duration
	Action
}

// Kind returns the kind of the step's action; "" if it has none.
func (s *Step) Kind() string {
	if s.Action == nil {
		return ""
	}
	return s.Action.Kind()
}
