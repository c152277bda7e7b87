package population

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNewest(t *testing.T) {
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	pod := func(name string, after time.Duration, ready corev1.ConditionStatus) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "mm-0", Labels: labels(AppLabel, "svc-0"), CreationTimestamp: metav1.NewTime(at.Add(after))},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "240.0.0.1", Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}}}
	}
	a, b, c := pod("a", 0, corev1.ConditionTrue), pod("b", time.Minute, corev1.ConditionTrue), pod("c", time.Hour, corev1.ConditionFalse)
	claim := func(names ...string) (out []Identity) {
		for _, name := range names {
			out = append(out, Identity{Name: name, Namespace: "mm-0"}, Identity{Name: "a", Namespace: "elsewhere"})
		}
		return out
	}
	for _, tt := range []struct {
		name    string
		pods    []corev1.Pod
		claimed []Identity
		want    string
	}{
		{"the last that runs", []corev1.Pod{a, b, c}, nil, "b"},
		{"in any order", []corev1.Pod{c, b, a}, nil, "b"},
		{"that nobody is yet", []corev1.Pod{a, b, c}, claim("b"), "a"},
		{"or another time", []corev1.Pod{a, b, c}, claim("a", "b"), "b"},
		{"none", []corev1.Pod{c}, nil, ""},
	} {
		id, ok := newest(tt.pods, tt.claimed)
		if id.Name != tt.want || ok != (tt.want != "") || ok && (id.Namespace != "mm-0" || id.IP != "240.0.0.1" || id.Workload != "svc-0") {
			t.Errorf("%s: %+v, want %q", tt.name, id, tt.want)
		}
	}
}
