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

// An Executor makes ready what occurrences do.
type Executor interface {
	// Ready looks up and prepares whatever an occurrence needs, ahead of its
	// time and without any effect that others could see.
	Ready(ctx context.Context, o fault.Occurrence) (Execution, error)
}

// An Execution carries one occurrence out. Begin and End are called at most once, End
// only after Begin was called, also if that failed.
type Execution interface {
	// Target names what is acted upon, down to the pod where it is one.
	Target() string
	// Begin acts and returns when the action is in force, as far as its own
	// answer tells.
	Begin(ctx context.Context) error
	// Prove waits until the effect shows by another way than Begin's own
	// answer, and says in words what showed it.
	Prove(ctx context.Context) (string, error)
	// End undoes it.
	End(ctx context.Context) error
}

// Sense says whether a condition holds now.
type Sense func(ctx context.Context, expr string) (bool, error)

// Bounds of what is done around an occurrence.
const (
	// lead is how long before its time an occurrence is made ready.
	lead = 2 * time.Second
	// UndoTime is how long all that stands may take to be undone.
	UndoTime = 60 * time.Second
	// lookEvery is how often a condition is looked at.
	lookEvery = 20 * time.Millisecond
)

// Kind of the events that drive tells, and their operations: the kind of the
// action, with this before it at its end.
const (
	EventKind = "step"
	OpEnd     = "end "
)

// Driver carries out one timeline.
type Driver struct {
	executor Executor
	sense    Sense
	tell     func(record.Event)
	timer    *wake.Timer

	mu       sync.Mutex
	standing []*occurrence // begun and not ended, in the order of their begin
	failed   []error       // of ends before the timeline's
	count    int
}

// occurrence is one under way.
type occurrence struct {
	fault.Occurrence
	execution Execution
	ended     bool
}

// Run carries out the occurrences of a timeline whose zero is start, and
// returns when the timeline's duration is over and everything has been
// undone. tell hears of each begin and end as soon as its proof is known, one
// at a time. The error joins what could not be undone and why Run ended
// early; what went wrong with single steps is in their events.
func Run(ctx context.Context, start time.Time, t *fault.Timeline, executor Executor, sense Sense, tell func(record.Event)) error {
	timer, err := wake.New()
	if err != nil {
		return fmt.Errorf("timeline: %w", err)
	}
	defer timer.Close()
	d := &Driver{executor: executor, sense: sense, tell: tell, timer: timer}
	over := start.Add(t.Duration)
	limited, cancel := context.WithDeadline(ctx, over)
	defer cancel()
	var wait sync.WaitGroup
	for _, o := range t.Plan() {
		wait.Go(func() { d.carry(ctx, limited, start, &occurrence{Occurrence: o}) })
	}
	err = timer.Until(ctx, over)
	cancel()
	wait.Wait()
	return errors.Join(err, errors.Join(d.failed...), d.undoAll(ctx))
}

// carry brings one occurrence from its preparation to its end. until ends
// with the timeline; proofs and ends may take a little longer.
func (d *Driver) carry(ctx, until context.Context, start time.Time, o *occurrence) {
	planned := start.Add(o.Begin)
	if d.timer.Until(until, planned.Add(-lead)) != nil {
		return
	}
	execution, err := d.executor.Ready(until, o.Occurrence)
	if err != nil {
		if until.Err() == nil || ctx.Err() == nil {
			d.say(record.Event{Op: o.Kind(), Object: o.Target(), Step: o.Name, PlannedNS: planned.UnixNano(), Error: err.Error()})
		}
		return
	}
	o.execution = execution
	if d.timer.Until(until, planned) != nil {
		return
	}
	if o.When != "" {
		if planned, err = d.await(until, o.When); err != nil {
			d.say(record.Event{Op: o.Kind(), Object: execution.Target(), Step: o.Name, PlannedNS: start.Add(o.Begin).UnixNano(), Error: err.Error()})
			return
		}
	}
	d.stand(o)
	d.act(ctx, record.Event{Op: o.Kind(), Object: execution.Target(), Step: o.Name, PlannedNS: planned.UnixNano()}, execution.Begin, execution.Prove)
	if o.For == 0 || d.timer.Until(until, planned.Add(o.For)) != nil {
		return
	}
	ctx, done := outlasting(ctx, until)
	defer done()
	if err := d.end(ctx, o, planned.Add(o.For)); err != nil {
		d.mu.Lock()
		d.failed = append(d.failed, err)
		d.mu.Unlock()
	}
}

// outlasting returns a context for an end that is under way: nobody begins that
// again, so it is not left halfway when the run is cancelled. It lasts UndoTime
// longer than until does.
func outlasting(ctx, until context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(until, func() {
		late := time.AfterFunc(UndoTime, cancel)
		defer late.Stop()
		<-ctx.Done()
	})
	return ctx, func() { stop(); cancel() }
}

// act does something and has it proven.
func (d *Driver) act(ctx context.Context, e record.Event, do func(context.Context) error, prove func(context.Context) (string, error)) {
	e.SentNS = time.Now().UnixNano()
	err := do(ctx)
	e.CommittedNS = time.Now().UnixNano()
	if err == nil && prove != nil {
		limited, cancel := context.WithTimeout(ctx, fault.ProofTime)
		e.Proof, err = prove(limited)
		cancel()
		if err == nil {
			e.WatchedNS = time.Now().UnixNano()
		} else {
			err = fmt.Errorf("not proven: %w", err)
		}
	}
	if err != nil {
		e.Error = err.Error()
	}
	d.say(e)
}

// end undoes an occurrence if nobody has yet.
func (d *Driver) end(ctx context.Context, o *occurrence, planned time.Time) error {
	d.mu.Lock()
	ended := o.ended
	o.ended = true
	d.standing = slices.DeleteFunc(d.standing, func(s *occurrence) bool { return s == o })
	d.mu.Unlock()
	if ended {
		return nil
	}
	var err error
	d.act(ctx, record.Event{Op: OpEnd + o.Kind(), Object: o.execution.Target(), Step: o.Name, PlannedNS: planned.UnixNano()},
		func(ctx context.Context) error { err = o.execution.End(ctx); return err }, nil)
	if err != nil {
		return fmt.Errorf("step %q is not undone: %w", o.Name, err)
	}
	return nil
}

// undoAll ends what still stands, the latest first, also when the run has
// been cancelled.
func (d *Driver) undoAll(ctx context.Context) error {
	ctx, cancel := ending.Within(ctx, UndoTime)
	defer cancel()
	var errs []error
	for {
		d.mu.Lock()
		var last *occurrence
		if n := len(d.standing); n > 0 {
			last = d.standing[n-1]
		}
		d.mu.Unlock()
		if last == nil {
			return errors.Join(errs...)
		}
		errs = append(errs, d.end(ctx, last, time.Now()))
	}
}

// await waits until a condition holds, and returns when it was seen to.
func (d *Driver) await(ctx context.Context, expr string) (time.Time, error) {
	if d.sense == nil {
		return time.Time{}, fmt.Errorf("nothing here can tell whether %s holds", expr)
	}
	for {
		at := time.Now()
		holds, err := d.sense(ctx, expr)
		switch {
		case ctx.Err() != nil:
			return at, fmt.Errorf("%s never held before the timeline's end", expr)
		case err != nil:
			return at, err
		case holds:
			return at, nil
		}
		if d.timer.Until(ctx, at.Add(lookEvery)) != nil {
			return at, fmt.Errorf("%s never held before the timeline's end", expr)
		}
	}
}

func (d *Driver) stand(o *occurrence) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.standing = append(d.standing, o)
}

// say tells an event; their numbers follow the order in which they are told.
func (d *Driver) say(e record.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e.Schema, e.Kind, e.Change = record.Schema, EventKind, d.count
	d.count++
	d.tell(e)
}
