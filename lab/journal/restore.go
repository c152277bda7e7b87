package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/failpoint"
	"github.com/meshtrial/meshtrial/internal/wake"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// Outcome is the result for one entry.
type Outcome struct {
	Entry Entry
	// Back lists the reverted fields. For a created or removed object only Text says what
	// happened.
	Back []string
	// Left describes the fields that someone else has changed since, each with its
	// original, written and current value.
	Left []string
	// Text describes for people what was done.
	Text string
	// Err says why nothing was done; the entry stays.
	Err error
}

// OfRun selects the entries of one run.
func OfRun(run string) func(*Entry) bool { return func(e *Entry) bool { return e.Run == run } }

// Restore reverts the selected entries (nil: all), the latest first, and removes them from
// the journal. It leaves what others have changed, and keeps such entries with a remark.
// The error joins those of entries that could not be reverted. Kept changes
// ([Journal.Keep]) are not affected.
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
		if errors.Is(o.Err, errEnding) && i < once { // restore all others first
			todo = append(todo, e)
			continue
		}
		if len(o.Left) > 0 {
			j.say("%s: %s (%s)", e.Object, o.Text, strings.Join(o.Left, "; "))
		}
		if o.Err != nil {
			o.Err = fmt.Errorf("revert %s: %w", e.Object, o.Err)
		}
		out, all = append(out, o), append(all, o.Err)
	}
	return out, errors.Join(all...)
}

// Forget removes entries whose current state may stay by a person's decision.
func (j *Journal) Forget(ctx context.Context, which func(*Entry) bool) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	entries, err := j.readable(ctx)
	if err != nil {
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

// Left returns the entries with something left alone.
func (j *Journal) Left(ctx context.Context, which func(*Entry) bool) ([]*Entry, error) {
	entries, err := j.readable(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(entries, func(e *Entry) bool { return e.Left == "" || which != nil && !which(e) }), nil
}

// inOrder sorts entries for reverting: the latest first, but autoscalers before all others,
// since one with other limits would change replicas again.
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

// goneLimit bounds the wait for a removed object to disappear before it is recreated: its
// finalizers may take time, for example to delete a cloud's load balancer. replaceLimit
// bounds the wait for a changed object that someone else is removing. goneLook is the
// polling interval.
const (
	goneLimit    = 2 * time.Minute
	replaceLimit = 10 * time.Second
	goneLook     = 500 * time.Millisecond
)

// errEnding reports that an object is being deleted.
var errEnding = errors.New("it was deleted, and is still terminating")

// look reads an entry's object, or returns nil if there is none. It waits for a terminating
// object up to patience, and leaves time for other entries: a removed object can be
// recreated once it is gone, and a changed one may be about to be replaced (kubectl replace
// --force).
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
				return live, nil // it may stay for a long time yet
			}
			return nil, errs.WithHint(fmt.Errorf("%w (finalizers: %s)", errEnding, strings.Join(live.GetFinalizers(), ", ")),
				"once it is gone, meshtrial cluster restore recreates it as it was")
		}
	}
}

// restoreOne reverts one entry while the Lease is held.
func (j *Journal) restoreOne(ctx context.Context, e *Entry, patience time.Duration) (out Outcome) {
	out.Entry = *e
	at, err := j.open.Open(ctx, e.Object.Bare(), e.Object.Namespace)
	if meta.IsNoMatchError(err) {
		out.Text = "nothing to revert: the cluster no longer has its kind"
		if e.Whole != nil {
			out.Left = []string{"the whole object: it was deleted, and the cluster no longer has its kind"}
		}
		return j.settle(ctx, e, out)
	}
	if err != nil {
		out.Err = err
		return out
	}
	failpoint.Reach("to be reverted", e.Object)
	for range tries {
		live, err := j.look(ctx, at, e, patience)
		if err == nil {
			err = j.lease.await(ctx)
		}
		if err == nil {
			err = j.revertObject(ctx, at, e, live, &out)
		}
		if out.Err = err; !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			break
		}
	}
	if out.Err != nil {
		return out
	}
	failpoint.Reach("reverted", e.Object)
	return j.settle(ctx, e, out)
}

// leave records what was left alone in the object.
func (e *Entry) leave(what ...string) {
	if e.Left != "" {
		what = append([]string{e.Left}, what...)
	}
	e.Left = strings.Join(what, "; ")
}

// settle removes a reverted entry; what was left alone stays recorded.
func (j *Journal) settle(ctx context.Context, e *Entry, out Outcome) Outcome {
	e.leave(out.Left...)
	if e.Left != "" {
		if len(out.Left) == 0 { // what was left alone earlier still needs a decision
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
