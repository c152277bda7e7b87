package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/wake"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

const (
	// LeaseName is the Lease's name.
	LeaseName = "meshtrial"
	// Lapse is the time without a renewal after which a holder counts as dead. The watcher
	// measures it with its own clock, as clocks of two machines are not comparable. Lapse
	// covers three renewals, and a failed renewal is retried sooner.
	Lapse = 35 * time.Second
	// renewEvery is the interval between renewals, renewLimit bounds one renewal, and
	// renewAgain is the delay after a failed one. Two renewals of maximum length fit into
	// [Lapse]: an API server short of CPU answers late, and more requests would not help it.
	renewEvery = 10 * time.Second
	renewLimit = 11 * time.Second
	renewAgain = 2 * time.Second
	// lookEvery is the interval for reading a Lease that another run holds.
	lookEvery = time.Second

	holderAnnotation = "meshtrial.dev/holder"
)

// ErrLost is the cause of a journal's context once its Lease belongs to another run or could
// not be renewed. From then on the next holder decides about the journal.
var ErrLost = errors.New("the cluster's Lease is lost")

// Holder is the run that holds the Lease.
type Holder struct {
	Run   string    `json:"run"`
	Study string    `json:"study,omitempty"`
	Host  string    `json:"host,omitempty"` // for people
	Since time.Time `json:"since"`
	// Process identifies the process uniquely, in the form that [Options.Dead] reads.
	Process string `json:"process,omitempty"`
}

// String describes the holder for people.
func (h Holder) String() string {
	text := "run " + h.Run
	if h.Study != "" {
		text += " of " + h.Study
	}
	if h.Host != "" {
		text += " on " + h.Host
	}
	if !h.Since.IsZero() {
		text += ", since " + h.Since.Local().Format(time.DateTime)
	}
	return text
}

// HeldError reports that another run holds the cluster.
type HeldError struct{ Holder Holder }

func (e *HeldError) Error() string {
	return "another run is active in this cluster: " + e.Holder.String()
}

// lease is the cluster's Lease, held by this process.
type lease struct {
	api    dynamic.ResourceInterface
	run    string
	cancel context.CancelCauseFunc
	done   chan struct{}
	now    func() time.Duration // time since boot, including sleep

	mu   sync.Mutex
	lost bool
	// object is the Lease as last written. renewed is when that write began, on a clock that
	// includes sleep.
	object  *unstructured.Unstructured
	renewed time.Duration
}

// good is how long a renewal permits changes. It is shorter than [Lapse], so a change in
// progress ends before another holder's begins. After that, changes wait for the next
// renewal or for the loss of the Lease.
const good = Lapse - renewEvery

// At returns the Lease's holder, which may be dead, or nil if the Lease is free.
func At(ctx context.Context, kube dynamic.Interface) (*Holder, error) {
	found, err := kube.Resource(leases).Namespace(Namespace).Get(ctx, LeaseName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Lease %s/%s: %w", Namespace, LeaseName, err)
	}
	h := holderOf(found)
	if h.Run == "" {
		return nil, nil
	}
	return &h, nil
}

func holderOf(l *unstructured.Unstructured) Holder {
	var h Holder
	id, _, _ := unstructured.NestedString(l.Object, "spec", "holderIdentity")
	if id == "" {
		return h
	}
	if err := json.Unmarshal([]byte(l.GetAnnotations()[holderAnnotation]), &h); err != nil || h.Run != id {
		return Holder{Run: id}
	}
	return h
}

// leaseOf returns a Lease held by h that replaces over.
func leaseOf(h Holder, over *unstructured.Unstructured) *unstructured.Unstructured {
	text, err := json.Marshal(h)
	if err != nil {
		text = nil // cannot fail: only strings and a time
	}
	now := time.Now().UTC().Format(metav1.RFC3339Micro)
	out := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
		"metadata": map[string]any{"name": LeaseName, "namespace": Namespace,
			"labels": map[string]any{Label: "lease"}, "annotations": map[string]any{holderAnnotation: string(text)}},
		"spec": map[string]any{"holderIdentity": h.Run, "leaseDurationSeconds": int64(Lapse / time.Second), "acquireTime": now, "renewTime": now},
	}}
	if over != nil {
		out.SetResourceVersion(over.GetResourceVersion())
	}
	return out
}

// hold renews the Lease until release. It calls cancel with ErrLost once the Lease belongs
// to another run or could not be renewed in time.
func hold(kube dynamic.Interface, run string, taken *unstructured.Unstructured, cancel context.CancelCauseFunc) *lease {
	l := &lease{now: awake, api: kube.Resource(leases).Namespace(Namespace), run: run, object: taken, renewed: awake()}
	l.keep(cancel)
	return l
}

// keep starts the renewals.
func (l *lease) keep(cancel context.CancelCauseFunc) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	l.done = done
	l.cancel = func(cause error) {
		stop()
		if cause != nil {
			cancel(cause)
		}
	}
	go func() {
		defer close(done)
		failed := 0 // consecutive failures
		for next := renewEvery; wake.Pause(ctx, next) == nil; {
			err := l.renew(ctx)
			if next = renewEvery; err == nil {
				failed = 0
				continue
			}
			failed++
			// After the machine was suspended, the first renewal may fail because the API
			// server was suspended too; the Lease was not taken in the meantime.
			if errors.Is(err, ErrLost) || failed > 1 && l.age() >= Lapse {
				l.lose(err)
				return
			}
			next = renewAgain
		}
	}()
}

// regain resumes a Lease that could not be renewed for a while, unless another run has taken
// it. That run then reverts what this journal records.
func (l *lease) regain(ctx context.Context) error {
	if l.await(ctx) == nil {
		return nil
	}
	l.cancel(nil)
	<-l.done
	found, err := l.reread(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return l.gone("it was deleted")
	case err != nil:
		return fmt.Errorf("%w, and its holder cannot be read: %w", ErrLost, err)
	case holderOf(found).Run != l.run:
		return l.gone(holderOf(found).String())
	}
	l.mu.Lock()
	l.object = found
	l.mu.Unlock()
	if err := l.renew(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	l.lost = false
	l.mu.Unlock()
	l.keep(func(error) {}) // the run's context has already ended
	return nil
}

// regainLimit bounds the wait for an unresponsive API server.
const regainLimit = 2 * time.Minute

// reread reads the Lease once the API server answers.
func (l *lease) reread(ctx context.Context) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, regainLimit)
	defer cancel()
	for {
		once, stop := context.WithTimeout(ctx, renewLimit)
		found, err := l.api.Get(once, LeaseName, metav1.GetOptions{})
		stop()
		var told apierrors.APIStatus
		if err == nil || errors.As(err, &told) || wake.Pause(ctx, renewAgain) != nil {
			return found, err
		}
	}
}

func (l *lease) gone(whose string) error {
	return errs.WithHint(fmt.Errorf("%w: %s; the journal lists what is not yet reverted", ErrLost, whose), "meshtrial cluster restore")
}

func (l *lease) lose(err error) {
	l.mu.Lock()
	l.lost = true
	l.mu.Unlock()
	if !errors.Is(err, ErrLost) {
		err = fmt.Errorf("%w: it could not be renewed: %w", ErrLost, err)
	}
	l.cancel(err)
}

// renew updates the Lease's time. It returns ErrLost if the Lease belongs to another run.
func (l *lease) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, renewLimit)
	defer cancel()
	err := l.update(ctx)
	if apierrors.IsConflict(err) {
		// Someone labelled it, or an earlier renewal was applied after its timeout.
		err = l.update(ctx)
	}
	return err
}

// update writes the Lease's time once. After a conflict with a writer that did not change
// the holder, the next update builds on what that writer wrote.
func (l *lease) update(ctx context.Context) error {
	began := l.now()
	l.mu.Lock()
	next := l.object.DeepCopy()
	l.mu.Unlock()
	if err := unstructured.SetNestedField(next.Object, time.Now().UTC().Format(metav1.RFC3339Micro), "spec", "renewTime"); err != nil {
		return err
	}
	written, err := l.api.Update(ctx, next, metav1.UpdateOptions{FieldManager: FieldManager})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		found, getErr := l.api.Get(ctx, LeaseName, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(getErr):
			return fmt.Errorf("%w: it was deleted", ErrLost)
		case getErr != nil:
			return getErr
		case holderOf(found).Run != l.run:
			return fmt.Errorf("%w to %s", ErrLost, holderOf(found))
		}
		l.mu.Lock()
		l.object = found
		l.mu.Unlock()
		return err
	}
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.object, l.renewed = written, began
	l.mu.Unlock()
	return nil
}

// held returns nil while changes are permitted, and [ErrLost] otherwise.
func (l *lease) held() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost || l.now()-l.renewed >= good {
		return ErrLost
	}
	return nil
}

// age returns the time since the last renewal.
func (l *lease) age() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now() - l.renewed
}

// await waits until changes are permitted or the Lease is lost.
func (l *lease) await(ctx context.Context) error {
	for {
		err := l.held()
		if err == nil {
			return nil
		}
		select {
		case <-l.done: // renewals have ended
			return err
		default:
		}
		if err := wake.Pause(ctx, renewAgain/10); err != nil {
			return err
		}
	}
}

// release stops renewing and returns the Lease.
func (l *lease) release(ctx context.Context) error {
	l.cancel(nil)
	<-l.done
	if l.held() != nil {
		return nil
	}
	for range tries {
		next := l.object.DeepCopy()
		unstructured.RemoveNestedField(next.Object, "spec", "holderIdentity")
		next.SetAnnotations(nil)
		_, err := l.api.Update(ctx, next, metav1.UpdateOptions{FieldManager: FieldManager})
		if err == nil || apierrors.IsNotFound(err) {
			return nil
		}
		if !apierrors.IsConflict(err) {
			return fmt.Errorf("return Lease %s/%s: %w", Namespace, LeaseName, err)
		}
		found, err := l.api.Get(ctx, LeaseName, metav1.GetOptions{})
		if err != nil || holderOf(found).Run != l.run {
			return nil
		}
		l.object = found // a late renewal, or someone's label
	}
	return nil
}
