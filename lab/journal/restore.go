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
			if e.Done == Changed {
				patience = replaceLimit
			}
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
// take away. replaceLimit bounds it for one that was changed, and that somebody else
// removes. goneLook is how often it is looked at.
const (
	goneLimit    = 2 * time.Minute
	replaceLimit = 10 * time.Second
	goneLook     = 500 * time.Millisecond
)

// errEnding says that an object is on its way out, and is not gone yet.
var errEnding = errors.New("it was removed, and is still on its way out")

// look reads the object of an entry; nil if there is none. It waits for as long as
// patience says for one that is on its way out, and leaves time for other things that
// are to be put back: what was removed can be made again once it is gone, and what was
// changed may be about to be replaced (kubectl replace --force).
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
		case live.GetDeletionTimestamp() == nil, e.Done == Made && e.Whole == nil:
			return live, nil
		}
		if time.Since(began) >= patience || wake.Pause(ctx, goneLook) != nil {
			if e.Done == Changed && patience > 0 {
				return live, nil // it may stand for long yet
			}
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
			err = j.putBack(ctx, at, e, live, &out)
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

// leave adds to what was left alone of an entry.
func (e *Entry) leave(what ...string) {
	if e.Left != "" {
		what = append([]string{e.Left}, what...)
	}
	e.Left = strings.Join(what, "; ")
}

// settle takes an entry out of the journal that was put back; what was left alone
// of it stays noted.
func (j *Journal) settle(ctx context.Context, e *Entry, out Outcome) Outcome {
	e.leave(out.Left...)
	if e.Left != "" {
		if len(out.Left) == 0 { // what was left alone before that still waits for somebody
			e.Done, e.Whole = Changed, nil
		}
		if e.LeftWhole = e.Done != Changed; !e.LeftWhole {
			e.Fields = nil
		}
		out.Err = e.save(ctx, j.kube)
		return out
	}
	out.Err = e.forget(ctx, j.kube)
	failpoint.Reach("entry gone", e.Object)
	return out
}

// putBack makes an object what its entry says it was. It goes by the object's fields: a
// name stands for one object, whatever its UID. One that somebody deleted and made again
// from its live state (kubectl replace --force, a backup, an operator) still has what was
// written, and would keep it for good. The UID decides one thing alone: of an object that
// the run did not make, and that merely holds all that the run's did, nobody knows
// whether it may go.
func (j *Journal) putBack(ctx context.Context, at dynamic.ResourceInterface, e *Entry, live *unstructured.Unstructured, out *Outcome) error {
	switch {
	case live == nil && e.Done == Changed:
		out.Back, out.Left, out.Text = nil, nil, "nothing to put back: the object is gone"
		return nil
	case live == nil:
		return j.restoreRemoved(ctx, at, e, out)
	case e.Done == Changed:
		return j.restoreChanged(ctx, at, e, live, out)
	case e.Done == Removed:
		return j.restoreStanding(ctx, at, e, live, out)
	case e.Whole != nil && e.another(live) && fields.Equal(live.Object, e.Whole): // by one who died then
		out.Left, out.Text = nil, "already as it was"
		return nil
	}
	return j.restoreMade(ctx, at, e, live, out)
}

// another says that an object is not the one that the entry's run last saw under its name.
func (e *Entry) another(live *unstructured.Unstructured) bool { return string(live.GetUID()) != e.UID }

// restoreStanding is for an object that was removed and is there. Either it was not
// removed after all, or somebody has made it again: as it was, as the run had changed it
// before that, or otherwise. Then it is somebody else's, but for the fields that are as
// the run wrote them.
func (j *Journal) restoreStanding(ctx context.Context, at dynamic.ResourceInterface, e *Entry, live *unstructured.Unstructured, out *Outcome) error {
	otherwise, whole := e.otherwise(live), e.Whole
	if err := j.restoreChanged(ctx, at, e, live, out); err != nil {
		return err
	}
	if otherwise {
		e.Done, e.Whole = Removed, whole
		out.Text = "left alone: it was removed, and somebody has made it again otherwise"
		out.Left = append(out.Left, wholeObject)
	}
	return nil
}

// wholeObject says of an object that is not as it was that nothing is put back of it.
const wholeObject = "the whole object"

// otherwise says that somebody has made an object again that was removed, and that
// without the run's fields it is not as it was.
func (e *Entry) otherwise(live *unstructured.Unstructured) bool {
	rest, _ := fields.Undo(live.Object, e.Fields)
	return e.another(live) && !fields.Equal(rest, e.Whole)
}

// restoreChanged puts back the fields of an object that are as they were
// written.
func (j *Journal) restoreChanged(ctx context.Context, at dynamic.ResourceInterface, e *Entry, live *unstructured.Unstructured, out *Outcome) error {
	out.Back, out.Left = nil, nil
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
		e.Done, e.Whole, e.LeftFields = Changed, nil, append(e.LeftFields, left...)
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
	_, err := at.Create(ctx, (&unstructured.Unstructured{Object: e.Whole}).DeepCopy(), metav1.CreateOptions{FieldManager: FieldManager})
	if apierrors.IsNotFound(err) { // what it was in
		out.Text = "not made again: its namespace is gone"
		out.Left = []string{"the whole object: it was removed, and its namespace is gone"}
		return nil
	}
	if err != nil {
		return err
	}
	out.Text = "made again as it was"
	return nil
}

// restoreMade removes an object that was made, unless somebody has changed it.
func (j *Journal) restoreMade(ctx context.Context, at dynamic.ResourceInterface, e *Entry, live *unstructured.Unstructured, out *Outcome) error {
	if out.Left = e.others(live); len(out.Left) > 0 {
		out.Text = "left alone: somebody else changed it"
		if e.Whole != nil {
			out.Left = append(out.Left, wholeObject+" in whose place it was made")
		}
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

// others says what somebody else has made of an object that the run made: the fields that
// are not as written. What was added counts too, unless it is the very object that the run
// made and keeps for itself: to that controllers add, as a node to a pod.
func (e *Entry) others(live *unstructured.Unstructured) []string {
	rest, answers := fields.Undo(live.Object, e.Fields)
	out := foreign(e.Object, answers)
	if e.Kept != "" || e.UID != "" && e.another(live) {
		out = append(out, added(e.Object, rest)...)
	}
	return out
}
