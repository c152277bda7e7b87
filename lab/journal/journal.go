package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/failpoint"
	"github.com/meshtrial/meshtrial/lab/journal/fields"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Options configures [Enter].
type Options struct {
	Config *rest.Config
	// Open finds the API endpoints of objects to change.
	Open   Opener
	Holder Holder
	// Wait is how long to wait for an active run.
	Wait time.Duration
	// Dead reports whether a [Holder.Process] has certainly ended. If it is nil, the Lease
	// has to lapse.
	Dead func(process string) bool
	// Gone reports whether a cluster whose API server does not answer is gone for good, so
	// waiting is pointless. If it is nil, that is unknown.
	Gone func() bool
	// Tell receives what the journal waits for. May be nil.
	Tell func(string)
	// Keep leaves the namespace in the cluster, for a cluster of one's own.
	Keep bool
}

func (o Options) say(format string, args ...any) {
	if o.Tell != nil {
		o.Tell(fmt.Sprintf(format, args...))
	}
}

// Journal is the journal of a cluster whose Lease this process holds. It is safe for
// concurrent use.
type Journal struct {
	kube  dynamic.Interface
	open  Opener
	run   string
	keep  bool
	tell  func(string)
	lease *lease
	ended context.Context // ends with ErrLost

	mu   sync.Mutex // held for each change
	next int
	// unheard means that an attempt to record that this run's changes stay had an unknown
	// outcome.
	unheard bool
}

// Enter takes the cluster's Lease, which [Journal.Leave] returns. A [HeldError] names the
// current holder.
func Enter(ctx context.Context, o Options) (*Journal, error) {
	kube, err := dynamic.NewForConfig(o.Config)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	return enter(ctx, kube, o)
}

func enter(ctx context.Context, kube dynamic.Interface, o Options) (*Journal, error) {
	taken, err := acquire(ctx, kube, o)
	if err != nil {
		return nil, err
	}
	ended, lose := context.WithCancelCause(context.Background())
	j := &Journal{kube: kube, open: o.Open, run: o.Holder.Run, keep: o.Keep, tell: o.Tell, ended: ended,
		lease: hold(kube, o.Holder.Run, taken, lose)}
	if err := j.finishKeeping(ctx); err != nil {
		return nil, errors.Join(err, j.lease.release(context.WithoutCancel(ctx)))
	}
	entries, err := j.readable(ctx)
	if err != nil {
		return nil, errors.Join(err, j.lease.release(context.WithoutCancel(ctx)))
	}
	for _, e := range entries {
		j.next = max(j.next, e.Number)
	}
	failpoint.Reach("lease taken")
	return j, nil
}

// Context returns a child of ctx that ends with [ErrLost] when the Lease is lost.
func (j *Journal) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(j.ended, func() { cancel(context.Cause(j.ended)) })
	return ctx, func() { stop(); cancel(context.Canceled) }
}

func (j *Journal) say(format string, args ...any) {
	if j.tell != nil {
		j.tell(fmt.Sprintf(format, args...))
	}
}

// Held returns [ErrLost] unless this journal holds the Lease; it tries to retake a lapsed
// Lease.
func (j *Journal) Held(ctx context.Context) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lease.regain(ctx)
}

// Run returns the run that holds the Lease.
func (j *Journal) Run() string { return j.run }

// Leave returns the Lease, and removes the journal's namespace if it is empty.
func (j *Journal) Leave(ctx context.Context) error {
	if j.lease.held() == nil && !j.keep {
		entries, err := Entries(ctx, j.kube)
		if err == nil && len(entries) == 0 {
			// Remove the namespace first, while the Lease is held and no other run can
			// take it. If the namespace stays, return the Lease.
			failpoint.Reach("journal empty")
			_, err := removeNamespace(ctx, j.kube, j.lease.held)
			return errors.Join(err, j.lease.release(ctx))
		}
	}
	return j.lease.release(ctx)
}

// tries is the maximum number of attempts at a change after conflicts.
const tries = 10

// Edit returns the wanted state of an object. original is the object without this
// journal's changes, live its current state. Edit may modify both.
type Edit func(original, live *unstructured.Unstructured) (wanted *unstructured.Unstructured, err error)

// Change changes an existing object and returns the fields that it changed. With an error,
// it returns the fields that were or may have been changed: whether an unanswered write
// was applied is unknown, and [Journal.Revert] reverts it either way. texts are the paths
// of fields that contain YAML. An object that returns to its original state leaves the
// journal.
func (j *Journal) Change(ctx context.Context, o Object, why string, edit Edit, texts ...[]fields.Step) (step []fields.Field, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for range tries {
		step, err = j.changeOnce(ctx, o, why, edit, texts)
		if !apierrors.IsConflict(err) {
			break
		}
	}
	if err != nil {
		return step, fmt.Errorf("change %s: %w", o, err)
	}
	return step, nil
}

// Original returns an object without this journal's changes. It changes nothing.
func (j *Journal) Original(ctx context.Context, o Object) (*unstructured.Unstructured, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, live, err := j.read(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", o, err)
	}
	e, err := j.entryFor(ctx, live, "")
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", o, err)
	}
	return &unstructured.Unstructured{Object: e.original(live)}, nil
}

// original returns an object without the entry's changes. It returns an object that the
// run made unchanged.
func (e *Entry) original(live *unstructured.Unstructured) map[string]any {
	if e.Done != Changed {
		return live.Object
	}
	base, _ := fields.Undo(live.Object, e.Fields)
	return base
}

// Revert reverts one [Journal.Change] or [Journal.Apply], independent of this journal's
// other changes to the object. It leaves and reports what others have changed since.
func (j *Journal) Revert(ctx context.Context, o Object, why string, step []fields.Field) error {
	var left []string
	_, err := j.Change(ctx, o, why, func(_, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		restored, answers := fields.Undo(live.Object, step)
		left = foreign(o, answers)
		return &unstructured.Unstructured{Object: restored}, nil
	})
	for _, text := range left {
		j.say("%s is not reverted, because someone else changed it: %s", o, text)
	}
	return err
}

func (j *Journal) changeOnce(ctx context.Context, o Object, why string, edit Edit, texts [][]fields.Step) ([]fields.Field, error) {
	at, live, err := j.read(ctx, o)
	if err != nil {
		return nil, err
	}
	e, err := j.entryFor(ctx, live, why)
	if err != nil {
		return nil, err
	}
	base := e.original(live)
	wanted, err := edit((&unstructured.Unstructured{Object: base}).DeepCopy(), live.DeepCopy())
	if err != nil {
		return nil, err
	}
	back := e.Done == Changed && fields.Equal(base, wanted.Object)
	step := fields.Diff(live.Object, wanted.Object, texts...)
	if len(step) == 0 {
		if back && e.version != "" {
			return nil, j.done(ctx, e)
		}
		return nil, nil
	}
	e.Fields = fields.Over(e.Fields, live.Object, wanted.Object, texts...)
	wanted.SetResourceVersion(live.GetResourceVersion())
	// Record the object as the API server normalizes it (half a CPU becomes 500m), or as
	// requested if a dry run is not possible.
	if tried, err := at.Update(ctx, wanted, metav1.UpdateOptions{FieldManager: FieldManager, DryRun: []string{metav1.DryRunAll}}); err == nil {
		e.Fields, _ = fields.Seen(e.Fields, tried.Object)
		step, _ = fields.Seen(step, tried.Object)
	}
	if err := j.note(ctx, e); err != nil {
		return nil, err
	}
	written, err := at.Update(ctx, wanted, metav1.UpdateOptions{FieldManager: FieldManager})
	if refused(err) {
		return nil, err
	}
	if err != nil {
		return step, err
	}
	failpoint.Reach("changed", o)
	if back {
		return step, j.done(ctx, e)
	}
	step, _ = fields.Seen(step, written.Object)
	if err := j.landed(ctx, o, unchanged(at, written, step)); err != nil {
		return nil, err
	}
	return step, j.noteWritten(ctx, e, written)
}

// refused reports whether the API server rejected a write. Without an answer, or after an
// internal error, the write may have been applied.
func refused(err error) bool {
	var told apierrors.APIStatus
	return errors.As(err, &told) && told.Status().Code/100 == 4
}

// done removes the entry of an object with no remaining changes; fields that were left
// alone stay recorded.
func (j *Journal) done(ctx context.Context, e *Entry) error {
	if e.Left == "" {
		return e.forget(ctx, j.kube)
	}
	e.Fields = nil
	return e.save(ctx, j.kube)
}

// noteWritten records the values that the API server stored after defaulting and
// admission.
func (j *Journal) noteWritten(ctx context.Context, e *Entry, written *unstructured.Unstructured) error {
	if seen, differ := fields.Seen(e.Fields, written.Object); differ {
		e.Fields = seen
		return e.save(ctx, j.kube)
	}
	return nil
}

// read finds and reads an object.
func (j *Journal) read(ctx context.Context, o Object) (dynamic.ResourceInterface, *unstructured.Unstructured, error) {
	at, err := j.open.Open(ctx, o.Bare(), o.Namespace)
	if err != nil {
		return nil, nil, err
	}
	live, err := at.Get(ctx, o.Name, metav1.GetOptions{})
	return at, live, err
}

// entryFor returns the entry of an existing object, or a new one. Like [Journal.revertObject]
// it goes by fields: a recreated object inherits its predecessor's entry, so changes
// carried over are reverted.
func (j *Journal) entryFor(ctx context.Context, live *unstructured.Unstructured, why string) (*Entry, error) {
	o := ObjectOf(live)
	fresh := &Entry{Object: o, UID: string(live.GetUID()), Done: Changed, Why: why}
	e, err := find(ctx, j.kube, o)
	switch {
	case err != nil:
		return nil, err
	case e == nil:
		return fresh, nil
	case e.LeftWhole:
		return nil, undecided(e)
	case e.Done == Made && e.another(live):
		if others := e.others(live); len(others) > 0 { // someone else's object, whatever existed there before
			fresh.version = e.version
			fresh.leave(others...)
			return fresh, nil
		}
	case e.Done == Removed && (e.another(live) || live.GetDeletionTimestamp() == nil): // the object exists
		if e.otherwise(live) {
			e.leave(wholeObject)
		}
		e.Done, e.Whole = Changed, nil
	}
	if e.settled() { // new changes go on top of kept ones
		e.Number = 0
	}
	e.Why, e.UID = why, string(live.GetUID())
	return e, nil
}

// undecided refuses to change an object if an earlier run's entry would be lost.
func undecided(e *Entry) error {
	return errs.WithHint(fmt.Errorf("run %s did not revert %s, because someone else had changed it: %s", e.Run, e.Object, e.Left),
		"inspect it; if it may stay: meshtrial cluster restore --forget")
}

// note writes the entry of a change before the change is made. An error means that the
// Lease is lost and nothing may be changed.
func (j *Journal) note(ctx context.Context, e *Entry) error {
	if err := j.lease.await(ctx); err != nil {
		return err
	}
	if e.Number == 0 {
		j.next++
		e.Number = j.next
	}
	e.Schema, e.Run, e.At = schemaVersion, j.run, time.Now().UTC()
	failpoint.Reach("to be noted", e.Object)
	if err := e.save(ctx, j.kube); err != nil {
		return err
	}
	failpoint.Reach("noted", e.Object)
	return j.lease.await(ctx) // the machine may have slept in the meantime
}
