package trial

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Pods of a node that died before or during their replacement stay until it is back, and are not
// awaited. Those of other nodes are.
func TestReplacePodsOfDeadNodes(t *testing.T) {
	pod := func(name string, ready corev1.ConditionStatus, ending bool) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name), Labels: map[string]string{mesh.AppLabel: "client-plain"}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}, ContainerStatuses: []corev1.ContainerStatus{{Ready: true}}}}
		if ending {
			p.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		}
		return p
	}
	const noticed = 40 * time.Second
	for name, takes := range map[string]time.Duration{"before": 0, "meanwhile": noticed} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lost := pod("dead", corev1.ConditionFalse, true)
				dead := lost
				if takes > 0 {
					dead = pod("dead", corev1.ConditionTrue, false)
				}
				kube, began := fakecluster.New(dead, pod("alive", corev1.ConditionTrue, false)), time.Now()
				kube.PrependReactor("delete", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
					return a.(clienttesting.DeleteAction).GetName() == "dead", nil, nil // its end is never reported
				})
				time.AfterFunc(takes, func() {
					if _, err := kube.CoreV1().Pods("n").Update(t.Context(), lost, metav1.UpdateOptions{}); err != nil {
						t.Error(err)
					}
				})
				d := &deployed{Site: &site.Site{Kube: kube, Namespace: "n"}, topology: topology{clients: map[dataplane.Variant]mesh.Workload{{}: {Name: "client-plain"}}}}
				must.OK(t, d.replacePods(t.Context()))
				if took := time.Since(began); took < takes || took > takes+2*renewLook {
					t.Errorf("it took %v, not %v", took, takes)
				}
				left, err := kube.CoreV1().Pods("n").List(t.Context(), metav1.ListOptions{})
				if err != nil || len(left.Items) != 1 || left.Items[0].Name != "dead" {
					t.Errorf("left are %v, %v", left, err)
				}
			})
		})
	}
}
