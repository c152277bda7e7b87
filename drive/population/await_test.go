package population

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/internal/podwait"
)

// TestAwaitOnSharedCluster checks that a quota in another's namespace says nothing
// about the population; one in its own ends the wait.
func TestAwaitOnSharedCluster(t *testing.T) {
	for namespace, ends := range map[string]bool{"team": false, Namespace(0): true} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			w := &World{kube: fakecluster.New(&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "e"}, Type: corev1.EventTypeWarning,
				Reason: "FailedCreate", Message: "exceeded quota: small", LastTimestamp: metav1.NewTime(time.Now().Add(time.Second)),
				InvolvedObject: corev1.ObjectReference{Kind: "ReplicaSet", Namespace: namespace, Name: "web-1"}})}
			_, err := w.await(ctx, Sizes{Namespaces: 1, Services: 1, EndpointsPerService: 1})
			if terminal := (*podwait.TerminalError)(nil); errors.As(err, &terminal) != ends || err == nil {
				t.Errorf("in %s: %v", namespace, err)
			}
		})
	}
}
