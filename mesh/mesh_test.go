package mesh

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestExpect(t *testing.T) {
	for _, tt := range []struct {
		got, want, slack float64
		ok               bool
		detail           string
	}{
		{10, 10, 0, true, "lines: 10, expected 10"},
		{9, 10, 0, false, "lines: 9, expected 10"},
		{11, 10, 0, false, "lines: 11, expected 10"},
		{8, 10, 2, true, "lines: 8, expected 10 (±2)"},
		{12, 10, 2, true, "lines: 12, expected 10 (±2)"},
		{13, 10, 2, false, "lines: 13, expected 10 (±2)"},
	} {
		c := Expect("name", tt.got, tt.want, tt.slack, "lines")
		if c.OK != tt.ok || c.Detail != tt.detail || c.Name != "name" {
			t.Errorf("%v: %+v", tt, c)
		}
	}
}

// A pod with a sidecar depends on its node's agent if it waits for it.
func TestAgentsServe(t *testing.T) {
	pod := func(init string) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Name: init}, {Name: "proxy"}}}}
	}
	agents := Agents{Awaited: "validation"}
	if !agents.Serve(pod("validation")) || agents.Serve(pod("init")) || agents.Serve(&corev1.Pod{}) || (Agents{}).Serve(pod("")) {
		t.Error("which pods leave their redirection to the agent is not told")
	}
}
