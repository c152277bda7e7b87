package lab

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
)

const (
	// refusalPatience is how long pods may be refused. A controller tries again
	// after some milliseconds, and ten times by then.
	refusalPatience = 20 * time.Second
	// refusalsEvery is how often it is asked why there are too few.
	refusalsEvery = 5 * time.Second
	// failedCreate is what controllers call the event of a pod that they could not
	// make.
	failedCreate = "FailedCreate"
)

// Hindrances say when waiting for pods is of no use, because their node cannot have
// the image or nobody may make them. The zero value is ready to use; it remembers
// what it saw.
type Hindrances struct {
	pulls   pulls
	refused refusals
}

// Look is told now and then how pods are, and how many of them there are not. Its
// error ends the waiting.
func (h *Hindrances) Look(ctx context.Context, client kubernetes.Interface, namespace string, pods []corev1.Pod, missing int, now time.Time) error {
	if err := h.pulls.look(pods, now); err != nil {
		return err
	}
	return h.refused.look(ctx, client, namespace, missing, now)
}

// refusals say when waiting for pods is of no use because nobody may make them:
// a quota, Pod Security or a policy of the cluster is against it. That stands in
// events alone. The zero value is ready to use.
type refusals struct {
	since, asked time.Time
	denied       bool // who runs this may not read events
}

// look is told now and then how many pods are missing. It fails once that many
// have been missing for refusalPatience and an event says what was against them.
func (r *refusals) look(ctx context.Context, client kubernetes.Interface, namespace string, missing int, now time.Time) error {
	if missing <= 0 {
		r.since = time.Time{}
		return nil
	}
	if r.since.IsZero() {
		r.since, r.asked = now, now
	}
	if r.denied || now.Sub(r.since) < refusalPatience || now.Sub(r.asked) < refusalsEvery {
		return nil
	}
	r.asked = now
	found, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=" + failedCreate})
	if err != nil {
		r.denied = apierrors.IsForbidden(err)
		return nil // what is waited for may come all the same
	}
	last := lastRefusal(found.Items)
	if last == nil || said(last).Before(r.since.Add(-time.Second)) { // events count whole seconds
		return nil
	}
	return errs.WithHint(fmt.Errorf("%s %s cannot make its pods: %s", last.InvolvedObject.Kind, last.InvolvedObject.Name, last.Message),
		"a quota, Pod Security or an admission policy of the cluster refuses them to this namespace: ask whoever set it")
}

// lastRefusal is the event that came last of those that say why a pod was not
// made; nil without one.
func lastRefusal(events []corev1.Event) *corev1.Event {
	var last *corev1.Event
	for i := range events {
		e := &events[i]
		if e.Reason == failedCreate && (last == nil || said(e).After(said(last))) {
			last = e
		}
	}
	return last
}

// said is when an event came the last time.
func said(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	}
	return e.EventTime.Time
}
