package journal

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/failpoint"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab/journal/fields"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// Outcome is what became of one entry.
type Outcome struct {
	Entry Entry
	// Back are the fields that have their values of before again; of an object
	// that was made or removed, that is told by Text alone.
	Back []string
	// Left are those that somebody else changed meanwhile, each with what it was,
	// what was written and what it is.
	Left []string
	// Text says what was done, for people.
	Text string
	// Err is why nothing was done; the entry stays.
	Err error
}

// OfRun selects the entries of one run.
func OfRun(run string) func(*Entry) bool { return func(e *Entry) bool { return e.Run == run } }

// Restore puts back what the entries that which selects (nil: all) say, the
// latest first, and takes them out of the journal. What somebody else changed
// meanwhile stays as it is, and its entry stays with a word on it. The error
// joins those of entries that could not be put back. What was asked to stay
// ([Journal.Keep]) is not touched.
func (j *Journal) Restore(ctx context.Context, which func(*Entry) bool) ([]Outcome, error) {
	return j.restore(ctx, func(e *Entry) bool { return e.Kept == "" && (which == nil || which(e)) })
}

func (j *Journal) restore(ctx context.Context, which func(*Entry) bool) ([]Outcome, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.lease.regain(ctx); err != nil {
		return nil, err
	}
	if j.unheard {
		if err := j.unkeep(ctx); err != nil {
			return nil, err
		}
	}
	entries, unreadable := Entries(ctx, j.kube)
	var out []Outcome
	all := []error{unreadable}
	todo := slices.DeleteFunc(inOrder(entries), func(e *Entry) bool { return e.settled() || which != nil && !which(e) })
	once := len(todo)
	for i := 0; i < len(todo); i++ {
		e, patience := todo[i], time.Duration(0)
		if i >= once {
			patience = goneLimit
		}
		if err := j.lease.await(ctx); err != nil {
			return out, errors.Join(append(all, err)...)
		}
		o := Outcome{Entry: *e, Err: underneath(e, entries, todo)}
		if o.Err == nil {
			o = j.restoreOne(ctx, e, patience)
		}
		if errors.Is(o.Err, errEnding) && i < once { // first all others
			todo = append(todo, e)
			continue
		}
		if len(o.Left) > 0 {
			j.say("%s: %s (%s)", e.Object, o.Text, strings.Join(o.Left, "; "))
		}
		if o.Err != nil {
			o.Err = fmt.Errorf("put back %s: %w", e.Object, o.Err)
		}
		out, all = append(out, o), append(all, o.Err)
	}
	return out, errors.Join(all...)
}

// Forget takes entries out of the journal of which somebody decided that what
// is there may stay.
func (j *Journal) Forget(ctx context.Context, which func(*Entry) bool) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	entries, err := Entries(ctx, j.kube)
	var unreadable *UnreadableError
	if err != nil && !errors.As(err, &unreadable) {
		return 0, err
	}
	n := 0
	for _, e := range entries {
		if which != nil && !which(e) {
			continue
		}
		if err := e.forget(ctx, j.kube); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// Left are the entries of which something was left alone.
func (j *Journal) Left(ctx context.Context, which func(*Entry) bool) ([]*Entry, error) {
	entries, err := Entries(ctx, j.kube)
	var unreadable *UnreadableError
	if err != nil && !errors.As(err, &unreadable) {
		return nil, err
	}
	return slices.DeleteFunc(entries, func(e *Entry) bool { return e.Left == "" || which != nil && !which(e) }), nil
}

// inOrder sorts entries as they are put back: the latest first, but autoscalers
// before all, since one that is still held to another number would set that
// again.
func inOrder(entries []*Entry) []*Entry {
	out := slices.Clone(entries)
	scaler := func(e *Entry) int {
		if e.Object.Kind == "HorizontalPodAutoscaler" {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(out, func(a, b *Entry) int {
		return cmp.Or(cmp.Compare(scaler(a), scaler(b)), cmp.Compare(b.Number, a.Number))
	})
	return out
}

// goneLimit bounds the wait for the end of an object that was removed, and is to be
// made again: its finalizers may have work to do, as a cloud's load balancer to
// take away. goneLook is how often it is looked at.
const (
	goneLimit = 2 * time.Minute
	goneLook  = 500 * time.Millisecond
)

// errEnding says that an object is to be made again, and is not gone yet.
var errEnding = errors.New("it was removed, and is still on its way out")

// look reads the object of an entry; nil if there is none. One that goes and is to
// come back it waits for as long as patience says, and leaves time for other things
// that are to be put back.
func (j *Journal) look(ctx context.Context, at dynamic.ResourceInterface, e *Entry, patience time.Duration) (*unstructured.Unstructured, error) {
	if deadline, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(deadline)/2)
	}
	for began := time.Now(); ; {
		live, err := at.Get(ctx, e.Object.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil, nil
		case err != nil:
			return nil, err
		case live.GetDeletionTimestamp() == nil, e.Whole == nil, e.UID != "" && string(live.GetUID()) != e.UID:
			return live, nil
		}
		if time.Since(began) >= patience || wake.Pause(ctx, goneLook) != nil {
			return nil, errs.WithHint(fmt.Errorf("%w (finalizers: %s)", errEnding, strings.Join(live.GetFinalizers(), ", ")),
				"once it is gone: meshtrial cluster restore, which makes it again as it was")
		}
	}
}

// restoreOne puts back what one entry says, while the Lease is held.
func (j *Journal) restoreOne(ctx context.Context, e *Entry, patience time.Duration) (out Outcome) {
	out.Entry = *e
	at, err := j.open.Open(ctx, e.Object.Bare(), e.Object.Namespace)
	if meta.IsNoMatchError(err) {
		out.Text = "nothing to put back: objects of its kind are gone"
		if e.Whole != nil {
			out.Left = []string{"the whole object: it was removed, and its kind is gone"}
		}
		return j.settle(ctx, e, out)
	}
	if err != nil {
		out.Err = err
		return out
	}
	failpoint.Reach("to be put back", e.Object)
	for range tries {
		live, err := j.look(ctx, at, e, patience)
		if err == nil {
			err = j.lease.await(ctx)
		}
		if err == nil {
			switch {
			case e.Done == Changed, e.Done == Removed && live != nil && string(live.GetUID()) == e.UID: // it stands after all
				err = j.restoreChanged(ctx, at, e, live, &out)
			case live == nil:
				err = j.restoreRemoved(ctx, at, e, &out)
			case e.Whole != nil && string(live.GetUID()) != e.UID && fields.Equal(live.Object, e.Whole): // by one who died then
				out.Left, out.Text = nil, "already as it was"
				err = j.follow(ctx, e.Object, cmp.Or(e.Was, e.UID), string(live.GetUID()))
			case e.Done == Removed:
				out.Text = "left alone: it was removed, and somebody has made it again"
				out.Left = []string{"the whole object"}
			default:
				err = j.restoreMade(ctx, at, e, live, &out)
			}
		}
		if out.Err = err; !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			break
		}
	}
	if out.Err != nil {
		return out
	}
	failpoint.Reach("put back", e.Object)
	return j.settle(ctx, e, out)
}

// settle takes an entry out of the journal that was put back; what was left alone
// of it stays noted.
func (j *Journal) settle(ctx context.Context, e *Entry, out Outcome) Outcome {
	if len(out.Left) > 0 {
		e.Left = strings.Join(slices.Concat(slices.DeleteFunc([]string{e.Left}, func(s string) bool { return s == "" }), out.Left), "; ")
	}
	if e.Left != "" {
		if e.Done == Changed {
			e.Fields = nil
		}
		out.Err = e.save(ctx, j.kube)
		return out
	}
	out.Err = e.forget(ctx, j.kube)
	failpoint.Reach("entry gone", e.Object)
	return out
}

// restoreChanged puts back the fields of an object that are as they were
// written.
func (j *Journal) restoreChanged(ctx context.Context, at dynamic.ResourceInterface, e *Entry, live *unstructured.Unstructured, out *Outcome) error {
	out.Back, out.Left = nil, nil
	switch {
	case live == nil:
		out.Text = "nothing to put back: the object is gone"
		return nil
	case string(live.GetUID()) != e.UID:
		out.Text = "nothing to put back: it was made anew by somebody else"
		return nil
	}
	restored, answers := fields.Undo(live.Object, e.Fields)
	var left []fields.Field
	for _, a := range answers {
		switch a.State {
		case fields.Back:
			out.Back = append(out.Back, a.Field.String())
		case fields.Foreign:
			left = append(left, a.Field)
		}
	}
	out.Left = foreign(e.Object, answers)
	if len(out.Back) > 0 {
		next := &unstructured.Unstructured{Object: restored}
		if _, err := at.Update(ctx, next, metav1.UpdateOptions{FieldManager: FieldManager}); err != nil {
			return err
		}
	}
	switch {
	case len(left) > 0:
		e.Done, e.LeftFields = Changed, append(e.LeftFields, left...)
		out.Text = "left alone where somebody else changed it"
	case len(out.Back) > 0:
		out.Text = "as it was"
	default:
		out.Text = "already as it was"
	}
	return nil
}

// foreign says of each field of an object that somebody else changed what it is.
func foreign(o Object, answers []fields.Answer) (out []string) {
	for _, a := range answers {
		if a.State == fields.Foreign {
			out = append(out, words(o, a))
		}
	}
	return out
}

// words are what is said of a field that is left alone.
func words(o Object, a fields.Answer) string {
	wrote := json.RawMessage(nil)
	if n := len(a.Field.Wrote); n > 0 {
		wrote = a.Field.Wrote[n-1]
	}
	return fmt.Sprintf("%s is %s; it was %s, this program wrote %s", a.Field, shown(o, a.Field, a.Now), shown(o, a.Field, a.Field.Before), shown(o, a.Field, wrote))
}

// shown is a value of an object's field for people, who read it in terminals and
// in logs: of a Secret nothing is shown but its type and its labels.
func shown(o Object, f fields.Field, v json.RawMessage) string {
	text, path := short(v), f.String()
	if o.Kind != "Secret" || text == notSet || path == "type" || path == "immutable" || strings.HasPrefix(path, "metadata.labels") {
		return text
	}
	return "(hidden)"
}

// notSet stands for a value that is not there.
const notSet = "not set"

// short is a value in few words.
func short(v json.RawMessage) string {
	const most = 60
	switch {
	case len(v) == 0 || string(v) == "null":
		return notSet
	case len([]rune(string(v))) > most:
		return string([]rune(string(v))[:most]) + "…"
	}
	return string(v)
}

// restoreRemoved makes an object again that was removed. One that was made, and
// has gone by itself, needs nothing, unless it stood in the place of another.
func (j *Journal) restoreRemoved(ctx context.Context, at dynamic.ResourceInterface, e *Entry, out *Outcome) error {
	if e.Whole == nil {
		out.Text = "already gone"
		return nil
	}
	made, err := at.Create(ctx, (&unstructured.Unstructured{Object: e.Whole}).DeepCopy(), metav1.CreateOptions{FieldManager: FieldManager})
	if apierrors.IsNotFound(err) { // what it was in
		out.Text = "not made again: its namespace is gone"
		out.Left = []string{"the whole object: it was removed, and its namespace is gone"}
		return nil
	}
	if err != nil {
		return err
	}
	out.Text = "made again as it was"
	return j.follow(ctx, e.Object, cmp.Or(e.Was, e.UID), string(made.GetUID()))
}

// restoreMade removes an object that was made, unless somebody has changed or
// replaced it, or added to one that was asked to stay. (To what a run makes for itself
// controllers add, as a node to a pod.)
func (j *Journal) restoreMade(ctx context.Context, at dynamic.ResourceInterface, e *Entry, live *unstructured.Unstructured, out *Outcome) error {
	out.Left = nil
	if e.UID != "" && string(live.GetUID()) != e.UID {
		out.Text = "left alone: it was made anew by somebody else"
		if e.Whole != nil {
			out.Left = []string{"the whole object"}
		}
		return nil
	}
	rest, answers := fields.Undo(live.Object, e.Fields)
	out.Left = foreign(e.Object, answers)
	if e.Kept != "" {
		out.Left = append(out.Left, added(e.Object, rest)...)
	}
	if len(out.Left) > 0 {
		out.Text = "left alone: somebody else changed it"
		return nil
	}
	uid, version := live.GetUID(), live.GetResourceVersion()
	background := metav1.DeletePropagationBackground
	err := at.Delete(ctx, e.Object.Name, metav1.DeleteOptions{PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	out.Text = "removed, as it was not there before"
	if e.Whole != nil {
		return j.restoreRemoved(ctx, at, e, out)
	}
	return nil
}
