// Package podwait waits for pods, and for objects that depend on them. The caller supplies a
// function that looks at the cluster, and [Until] polls it until it is done. Meanwhile a
// [Watch] reads the pods' conditions and events (package podstate). After [ShownAfter] it
// reports problems to the function given to [Reporting], and it ends the wait if they are
// permanent. The error of a wait says what it waited for and what the pods last reported.
package podwait

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/podstate"
	"github.com/meshtrial/meshtrial/internal/wake"
)

const (
	// ShownAfter is how long a wait lasts before its problems are shown.
	ShownAfter = 15 * time.Second
	// eventsAfter is how long a wait lasts before events are read (most waits are over by
	// then), and eventsEvery the interval after that.
	eventsAfter = 10 * time.Second
	eventsEvery = 5 * time.Second
	// lastLook bounds the last look at events of a wait that ran out of time.
	lastLook = 3 * time.Second
	// shownPods is the maximum number of pods named in a line.
	shownPods = 3
)

// Seen is the result of one look at the cluster.
type Seen struct {
	Done bool
	// State describes the progress in words, for the error of a wait that ends.
	State string
	// Pods are the pods waited for, and Missing is the number of further ones expected.
	Pods    []corev1.Pod
	Missing int
	// Maker, Refusal and Within are as in [podstate.View].
	Maker   podstate.Object
	Refusal string
	Within  []string
}

type reporterKey struct{}

// Reporting returns a context in which waits report what keeps pods from becoming ready.
// They may do so concurrently.
func Reporting(ctx context.Context, report func(text string)) context.Context {
	return context.WithValue(ctx, reporterKey{}, report)
}

// report calls the function given to [Reporting], if any.
func report(ctx context.Context, text string) {
	if tell, ok := ctx.Value(reporterKey{}).(func(string)); ok {
		tell(text)
	}
}

// Until calls look until it is done, returns an error that is not [kubernetes.Transient], or the
// context ends. what names in errors what was waited for; namespace is the namespace of the pods'
// events, "" for all.
func Until(ctx context.Context, client kubernetes.Interface, namespace, what string, look func(context.Context) (Seen, error)) error {
	w := New(client, namespace, what)
	state := "nothing seen yet"
	for {
		began := time.Now()
		seen, err := look(ctx)
		if ctx.Err() == nil && kubernetes.Transient(err) {
			seen, err = Seen{State: err.Error()}, nil
		}
		if seen.State != "" {
			state = seen.State
		}
		switch {
		case ctx.Err() != nil || limited(err):
			return w.over(ctx, state)
		case err != nil:
			return fmt.Errorf("wait for %s: %w", what, err)
		case seen.Done:
			return nil
		}
		if err := w.Look(ctx, seen); err != nil {
			return err
		}
		_ = wake.Pause(ctx, PollPause(time.Since(began)))
	}
}

// besideEvery is the interval of [Beside]'s looks.
const besideEvery = time.Second

// Beside runs wait, which observes pods itself, and watches the pods meanwhile. look is
// called from another goroutine; its Done is ignored.
func Beside(ctx context.Context, client kubernetes.Interface, namespace, what string, look func() Seen, wait func(context.Context) error) error {
	w := New(client, namespace, what)
	limited, stop := context.WithCancelCause(ctx)
	var beside sync.WaitGroup
	beside.Go(func() {
		for wake.Pause(limited, besideEvery) == nil {
			if err := w.Look(limited, look()); err != nil {
				stop(err)
			}
		}
	})
	err := wait(limited)
	terminal := (*TerminalError)(nil)
	if err != nil && ctx.Err() == nil && errors.As(context.Cause(limited), &terminal) {
		err = terminal
	}
	stop(nil)
	beside.Wait()
	if err == nil || terminal != nil {
		return err
	}
	w.seen = look()
	return fmt.Errorf("wait for %s: %w%s", what, err, w.lastSeen(ctx, w.seen.State))
}

// limited reports whether a client's own rate limiter rejected a request because the
// deadline would pass before its turn. The limiter's error has no type.
func limited(err error) bool {
	return err != nil && strings.Contains(err.Error(), "would exceed context deadline")
}

const (
	pollEvery = 100 * time.Millisecond
	// longestPause is the longest wait before the next poll.
	longestPause = 5 * time.Second
)

// PollPause returns how long to wait before the next poll, given how long the last one took.
// Lists of thousands of pods thus occupy the API server and the caller for at most a fifth
// of the time, and an API server that stalled is polled again soon.
func PollPause(took time.Duration) time.Duration {
	return max(pollEvery-took, min(4*took, longestPause))
}

// Watch observes the pods of one wait.
type Watch struct {
	client    kubernetes.Interface
	namespace string
	what      string

	memory podstate.Memory
	began  time.Time
	missed time.Time // when pods were first missing; zero if none are
	asked  time.Time // last read of events
	events []corev1.Event
	denied bool // reading events is not allowed
	seen   Seen
	shown  map[string]bool
	last   []podstate.Lasting
}

// New returns a watch for a wait that begins now.
func New(client kubernetes.Interface, namespace, what string) *Watch {
	return &Watch{client: client, namespace: namespace, what: what, began: time.Now(), shown: map[string]bool{}}
}

// Look processes what was seen. Its error means that waiting longer does not help, and says
// why.
func (w *Watch) Look(ctx context.Context, seen Seen) error {
	now := time.Now()
	w.seen = seen
	switch {
	case seen.Missing <= 0:
		w.missed = time.Time{}
	case w.missed.IsZero():
		w.missed = now
	}
	if now.Sub(w.began) >= eventsAfter && now.Sub(w.asked) >= eventsEvery {
		w.readEvents(ctx)
	}
	w.judge(now)
	if len(w.last) > 0 && w.last[0].Ends {
		return w.terminal(w.last[0].Problem)
	}
	if now.Sub(w.began) >= ShownAfter {
		w.show(ctx, now)
	}
	return nil
}

func (w *Watch) judge(now time.Time) {
	view := podstate.View{Pods: w.seen.Pods, Events: w.events, Missing: w.seen.Missing, Since: w.missed, Maker: w.seen.Maker, Refusal: w.seen.Refusal, Within: w.seen.Within}
	w.last = w.memory.Note(podstate.Find(view), now)
}

// readEvents reads the namespace's warnings. If that is not allowed, only the conditions and
// statuses of pods remain.
func (w *Watch) readEvents(ctx context.Context) {
	if w.denied || w.seen.Missing <= 0 && len(w.seen.Pods) == 0 {
		return
	}
	w.asked = time.Now()
	found, err := w.client.CoreV1().Events(w.namespace).List(ctx, metav1.ListOptions{FieldSelector: "type=" + corev1.EventTypeWarning})
	if err != nil {
		w.denied = apierrors.IsForbidden(err)
		return // keep what was read before
	}
	w.events = found.Items
}

// terminal returns the error of a wait that a problem ends.
func (w *Watch) terminal(p podstate.Problem) error {
	err := fmt.Errorf("wait for %s: %s", w.what, p)
	if p.Code == podstate.ImageName {
		err = errs.WithCode(err, errs.CodeUsage)
	}
	if hint := p.Hint(); hint != "" {
		err = errs.WithHint(err, "%s", hint)
	}
	return &TerminalError{Problem: p, err: err}
}

// TerminalError is the error of a wait that ended early because it could not succeed.
type TerminalError struct {
	Problem podstate.Problem
	err     error
}

func (e *TerminalError) Error() string { return e.err.Error() }

func (e *TerminalError) Unwrap() error { return e.err }

// show reports new problems or, if there are none, reports the progress of the wait once.
func (w *Watch) show(ctx context.Context, now time.Time) {
	if len(w.last) == 0 && len(w.shown) == 0 && w.seen.State != "" {
		w.shown[""] = true
		report(ctx, fmt.Sprintf("waiting for %s for %.0f s: %s", w.what, now.Sub(w.began).Seconds(), w.seen.State))
	}
	var fresh []podstate.Lasting
	for _, p := range w.last {
		if key := string(p.Code) + " " + p.Object.String() + " " + p.Container; !w.shown[key] {
			w.shown[key] = true
			fresh = append(fresh, p)
		}
	}
	if len(fresh) > 0 {
		report(ctx, fmt.Sprintf("waiting for %s for %.0f s: %s", w.what, now.Sub(w.began).Seconds(), text(fresh)))
	}
}

// text names the first few problems.
func text(problems []podstate.Lasting) string {
	var said []string
	for _, p := range problems {
		if len(said) == shownPods {
			said = append(said, fmt.Sprintf("and %d more", len(problems)-shownPods))
			break
		}
		said = append(said, p.String())
	}
	return strings.Join(said, "; ")
}

// over returns the error of a wait whose context has ended.
func (w *Watch) over(ctx context.Context, state string) error {
	cause := context.Cause(ctx)
	if cause == nil { // a rate limiter rejected a request shortly before the end
		cause = context.DeadlineExceeded
	}
	return fmt.Errorf("wait for %s: %w%s", w.what, cause, w.lastSeen(ctx, state))
}

// lastSeen describes in parentheses the progress of the wait and what the pods last
// reported; "" if there is neither.
func (w *Watch) lastSeen(ctx context.Context, state string) string {
	if !errors.Is(ctx.Err(), context.Canceled) { // the user is not waiting for the command to end
		last, cancel := ending.Within(ctx, lastLook)
		defer cancel()
		w.readEvents(last)
		w.judge(time.Now())
	}
	switch {
	case state == "" && len(w.last) == 0:
		return ""
	case len(w.last) == 0:
		return " (last seen: " + state + ")"
	case state == "":
		return " (last seen: " + text(w.last) + ")"
	}
	return " (last seen: " + state + "; " + text(w.last) + ")"
}
