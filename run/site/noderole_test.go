package site

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/internal/podwait"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
)

// Why a role does not respond on one node is named, even if it responds on the nodes after it.
func TestRoleThatDoesNotRespond(t *testing.T) {
	pod := func(node string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "fault-" + node, Labels: map[string]string{mesh.AppLabel: RoleFault}},
			Spec:   corev1.PodSpec{NodeName: node},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
	}
	asked := 0
	roles := NodeRoles[int]{Site: &Site{Kube: fakecluster.New(pod("a"), pod("b")), Namespace: "ns", Dialer: lab.NewDialer(&rest.Config{})},
		ByNode: map[string]int{}, role: RoleFault, dial: func(context.Context, *http.Client) (int, error) {
			if asked++; asked%2 == 1 {
				return 0, errors.New("it lacks a capability")
			}
			return asked, nil
		}}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := roles.connect(ctx, func(context.Context, int) (podwait.Seen, error) { return podwait.Seen{State: "one answers"}, nil })
	if err == nil || !strings.Contains(err.Error(), "it lacks a capability") || len(roles.ByNode) != 1 {
		t.Errorf("%v; %v", roles.ByNode, err)
	}
}
