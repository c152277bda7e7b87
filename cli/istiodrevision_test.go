package cli

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOfRevision(t *testing.T) {
	pod := func(revision string) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "istiod-" + revision, Labels: map[string]string{"istio.io/rev": revision}}}
	}
	two := []corev1.Pod{pod("stable"), pod("canary"), pod("canary")}
	for _, tt := range []struct {
		name  string
		there []corev1.Pod
		asked string
		want  int
		err   string
	}{
		{"the only one", two[1:], "", 2, ""},
		{"one of several", two, "canary", 2, ""},
		{"several", two, "", 0, "several revisions: canary, stable"},
		{"another", two, "old", 0, "there is no istiod of revision old"},
		{"none at all", nil, "old", 0, ""},
		{"one without a label", []corev1.Pod{{}}, "default", 1, ""},
	} {
		got, err := ofRevision(tt.there, tt.asked)
		if len(got) != tt.want || (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %d pods, %v", tt.name, len(got), err)
		}
	}
}
