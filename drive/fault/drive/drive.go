package drive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/record"
)

// Executor prepares occurrences.
type Executor interface {
	// Prepare looks up and prepares everything an occurrence needs, ahead of its
	// time and without visible effect.
	Prepare(ctx context.Context, o fault.Occurrence) (Execution, error)
}

// Execution executes one occurrence. Begin and End are called at most once, End
// only after Begin, even if Begin failed.
type Execution interface {
	// Target names the object acted on, down to the pod if it is one.
	Target() string
	// Begin acts and returns when the answer to the action says that it is in
	// force.
	Begin(ctx context.Context) error
	// Prove waits until the effect is visible by other means than Begin's
	// answer, and describes the evidence.
	Prove(ctx context.Context) (string, error)
	// End reverts the occurrence.
	End(ctx context.Context) error
}

const (
	// lead is how long before its time an occurrence is prepared.
	lead = 2 * time.Second
	// RevertTime limits how long it takes to revert everything.
	RevertTime = 60 * time.Second
	// senseEvery is how often a condition is evaluated.
	senseEvery = 20 * time.Millisecond
)

// EventKind is the kind of events. Their operation is the kind of the action,
// prefixed with OpEnd when the action ends.
const (
	EventKind = "step"
	OpEnd     = "end "
)

// Sense evaluates a condition now.
type Sense func(ctx context.Context, expr string) (bool, error)

// Driver executes timelines.
type Driver struct {
	Executor Executor
	Sense    Sense // nil if conditions cannot be evaluated
	// Emit receives the event of each begin and end as soon as its proof is
	// known, one at a time.
	Emit func(record.Event)
}

// timeline is a running timeline.
type timeline struct {
	Driver
	start time.Time
	timer *wake.Timer

	mu       sync.Mutex
	standing []*occurrence // begun and not ended, in the order of their begin
	failed   []error       // errors of ends before the timeline's
	count    int
}

// occurrence is a running occurrence.
type occurrence struct {
	fault.Occurrence
	execution Execution
}

// Run executes the occurrences of a timeline that begins at start, and returns
// once its duration is over and everything is reverted. The error joins failures
// to revert and the reason why Run ended early; failures of single steps are in
// their events.
func (d Driver) Run(ctx context.Context, start time.Time, plan *fault.Timeline) error {
	timer, err := wake.New()
	if err != nil {
		return fmt.Errorf("timeline: %w", err)
	}
	defer timer.Close()
	t := &timeline{Driver: d, start: start, timer: timer}
	over := start.Add(plan.Duration)
	limited, cancel := context.WithDeadline(ctx, over)
	defer cancel()
	var wait sync.WaitGroup
	for _, o := range plan.Plan() {
		wait.Go(func() { t.execute(ctx, limited, &occurrence{Occurrence: o}) })
	}
	err = timer.Until(ctx, over)
	cancel()
	wait.Wait()
	return errors.Join(err, errors.Join(t.failed...), t.revertAll(ctx))
}

// execute takes one occurrence from preparation to end. until ends with the
// timeline; proofs and ends may take a little longer.
func (t *timeline) execute(ctx, until context.Context, o *occurrence) {
	planned := t.start.Add(o.Begin)
	event := func(target string) record.Event {
		return record.Event{Op: o.Kind(), Object: target, Step: o.Name, PlannedNS: planned.UnixNano()}
	}
	if t.timer.Until(until, planned.Add(-lead)) != nil {
		return
	}
	execution, err := t.Executor.Prepare(until, o.Occurrence)
	if err != nil {
		if until.Err() == nil || ctx.Err() == nil {
			t.emit(event(o.Target()), err)
		}
		return
	}
	o.execution = execution
	if t.timer.Until(until, planned) != nil {
		return
	}
	if o.When != "" {
		at, err := t.await(until, o.When)
		if err != nil {
			t.emit(event(execution.Target()), err)
			return
		}
		planned = at
	}
	t.mu.Lock()
	t.standing = append(t.standing, o)
	t.mu.Unlock()
	t.act(ctx, event(execution.Target()), execution.Begin, execution.Prove)
	if o.For == 0 || t.timer.Until(until, planned.Add(o.For)) != nil {
		return
	}
	ctx, done := outlasting(ctx, until)
	defer done()
	if err := t.end(ctx, o, planned.Add(o.For)); err != nil {
		t.mu.Lock()
		t.failed = append(t.failed, err)
		t.mu.Unlock()
	}
}

// outlasting returns a context for an end that is under way. Cancelling the run
// does not interrupt it, because nothing would retry the end. It lasts
// RevertTime longer than until.
func outlasting(ctx, until context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(until, func() {
		late := time.AfterFunc(RevertTime, cancel)
		defer late.Stop()
		<-ctx.Done()
	})
	return ctx, func() { stop(); cancel() }
}

// act performs an action and, if prove is not nil, proves its effect: both within
// fault.ProofTime, which timelines are checked against.
func (t *timeline) act(ctx context.Context, e record.Event, do func(context.Context) error, prove func(context.Context) (string, error)) {
	if prove != nil {
		limited, cancel := context.WithTimeout(ctx, fault.ProofTime)
		defer cancel()
		ctx = limited
	}
	e.SentNS = time.Now().UnixNano()
	err := do(ctx)
	e.CommittedNS = time.Now().UnixNano()
	if err == nil && prove != nil {
		e.Proof, err = prove(ctx)
		if err == nil {
			e.WatchedNS = time.Now().UnixNano()
		} else {
			err = fmt.Errorf("not proven: %w", err)
		}
	}
	t.emit(e, err)
}

// end reverts an occurrence, unless already reverted.
func (t *timeline) end(ctx context.Context, o *occurrence, planned time.Time) error {
	t.mu.Lock()
	i := slices.Index(t.standing, o)
	if i >= 0 {
		t.standing = slices.Delete(t.standing, i, i+1)
	}
	t.mu.Unlock()
	if i < 0 {
		return nil
	}
	var err error
	t.act(ctx, record.Event{Op: OpEnd + o.Kind(), Object: o.execution.Target(), Step: o.Name, PlannedNS: planned.UnixNano()},
		func(ctx context.Context) error { err = o.execution.End(ctx); return err }, nil)
	if err != nil {
		return fmt.Errorf("step %q was not reverted: %w", o.Name, err)
	}
	return nil
}

// revertAll ends what is still in force, the latest first, even if the run was
// cancelled. An end that takes more than its share of the time left goes on beside
// the next.
func (t *timeline) revertAll(ctx context.Context) error {
	ctx, cancel := ending.Within(ctx, RevertTime)
	defer cancel()
	limit, _ := ctx.Deadline()
	standing := slices.Clone(t.standing) // nothing begins any more
	errs := make([]error, len(standing))
	var wait sync.WaitGroup
	for i, o := range slices.Backward(standing) {
		share, ended := context.WithTimeout(ctx, time.Until(limit)/time.Duration(i+1))
		wait.Go(func() {
			defer ended()
			errs[i] = t.end(ctx, o, time.Now())
		})
		<-share.Done()
	}
	wait.Wait()
	slices.Reverse(errs)
	return errors.Join(errs...)
}

// await waits until a condition holds, and returns when it was evaluated.
func (t *timeline) await(ctx context.Context, expr string) (time.Time, error) {
	if t.Sense == nil {
		return time.Time{}, fmt.Errorf("nothing here can evaluate whether %s holds", expr)
	}
	for {
		at := time.Now()
		holds, err := t.Sense(ctx, expr)
		switch {
		case ctx.Err() != nil:
			return at, fmt.Errorf("%s never held before the timeline's end", expr)
		case err != nil:
			return at, err
		case holds:
			return at, nil
		}
		if t.timer.Until(ctx, at.Add(senseEvery)) != nil {
			return at, fmt.Errorf("%s never held before the timeline's end", expr)
		}
	}
}

// emit emits an event; numbers follow the order of emission.
func (t *timeline) emit(e record.Event, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		e.Error = err.Error()
	}
	e.Schema, e.Kind, e.Change = record.Schema, EventKind, t.count
	t.count++
	t.Emit(e)
}
