package lab

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	k8stesting "k8s.io/client-go/testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
)

// Pods that nobody may make end the waiting, in the words of who refuses them.
func TestWaitPodsThatAreRefused(t *testing.T) {
	quota := func(at time.Time) *corev1.Event {
		return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "quota"}, Reason: failedCreate, Type: "Warning",
			InvolvedObject: corev1.ObjectReference{Kind: "ReplicaSet", Name: "load-1"}, LastTimestamp: metav1.NewTime(at),
			Message: `pods "load-1-x" is forbidden: exceeded quota: small`}
	}
	other := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "other"}, Reason: "Created", Type: "Normal", Message: "made"}
	for name, tt := range map[string]struct {
		event     func(begin time.Time) *corev1.Event
		forbidden bool
		want      string // "": it waits as long as it may
	}{
		"by a quota": {func(b time.Time) *corev1.Event { return quota(b.Add(18 * time.Second)) }, false, "exceeded quota: small"},
		"by a series": {func(b time.Time) *corev1.Event {
			e := quota(b.Add(-time.Hour))
			e.Series = &corev1.EventSeries{Count: 9, LastObservedTime: metav1.NewMicroTime(b.Add(20 * time.Second))}
			return e
		}, false, "exceeded quota: small"},
		"long ago":         {func(b time.Time) *corev1.Event { return quota(b.Add(-time.Minute)) }, false, ""},
		"something else":   {func(time.Time) *corev1.Event { return other }, false, ""},
		"and none may see": {func(b time.Time) *corev1.Event { return quota(b.Add(18 * time.Second)) }, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				client := fakecluster.New(tt.event(begin))
				asked := 0
				client.PrependReactor("list", "events", func(k8stesting.Action) (bool, runtime.Object, error) {
					asked++
					return tt.forbidden, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("no"))
				})
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
				defer cancel()
				err := WaitPods(ctx, client, "ns", "app=load", 1)
				switch took := time.Since(begin); {
				case tt.want == "" && !errors.Is(err, context.DeadlineExceeded):
					t.Errorf("%v after %v", err, took)
				case tt.want != "" && (err == nil || !strings.Contains(err.Error(), "ReplicaSet load-1 cannot make its pods: ") || !strings.Contains(err.Error(), tt.want)):
					t.Errorf("%v after %v", err, took)
				case tt.want != "" && (took > refusalPatience+refusalsEvery || !strings.Contains(errs.Hint(err), "quota")):
					t.Errorf("after %v, with hint %q", took, errs.Hint(err))
				}
				if tt.forbidden && asked != 1 {
					t.Errorf("asked %d times for what it may not see", asked)
				}
			})
		})
	}
}

// Pods that come take the past with them.
func TestRefusalsForget(t *testing.T) {
	begin := time.Now()
	event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "quota"}, Reason: failedCreate, LastTimestamp: metav1.NewTime(begin)}
	client := fakecluster.New(event)
	var r refusals
	for _, look := range []struct {
		at      time.Duration
		missing int
		fails   bool
	}{{0, 1, false}, {19 * time.Second, 1, false}, {20 * time.Second, 0, false}, {21 * time.Second, 1, false}, {42 * time.Second, 1, false}} {
		if err := r.look(t.Context(), client, "ns", look.missing, begin.Add(look.at)); (err != nil) != look.fails {
			t.Errorf("at %v: %v", look.at, err)
		}
	}
}
