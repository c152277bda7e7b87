package main

import (
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/meshtrial/meshtrial/bench/internal/table"
)

// Simulated ztunnels have the part of the CPU that as many real ones have together, by what the
// kubelet makes of the request of each.
func TestOfPods(t *testing.T) {
	for n, want := range map[int]part{1: {307, 40}, 16: {16 * 18, 16 * 5}, 300: {600, 300}, 1000: {2000, 1000}} {
		if got := ofPods(n); got != want {
			t.Errorf("%d pods have %+v, want %+v", n, got, want)
		}
		set := &appsv1.DaemonSet{}
		set.Spec.Template.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}}}}
		real := realZtunnels(set, "node", n).Spec.Template.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
		if shares := n * max(int(real)*1024/1000, 2); shares != want.shares {
			t.Errorf("%d real ztunnels have %d shares, simulated ones %d", n, shares, want.shares)
		}
	}
	for shares, want := range map[int]int{2: 1, 1024: 100} {
		if got := weightOf(shares); got != want {
			t.Errorf("%d shares weigh %d, want %d", shares, got, want)
		}
	}
}

// Istiod spends less on simulated ztunnels that answer together, which is no failure of those
// that answer each by itself.
func TestTargetOfCPU(t *testing.T) {
	turns := map[string][]turn{}
	for _, off := range []float64{0, 0.01, -0.01} {
		for who, cpu := range map[string]float64{nobody: 1 + off, theReal: 2 - off, theirLikes: 1.6 + off} {
			sent := map[string]float64{"wds": 50, "wads": 50}
			if who == nobody {
				sent = map[string]float64{"wds": 10, "wads": 10}
			}
			turns[who] = append(turns[who], turn{cpu: cpu, pushes: sent, bytes: sent})
		}
	}
	for processes, missed := range map[int]bool{16: true, 1: false, 4: false} {
		s := &sideBySide{o: &options{ztunnels: 16, processes: processes}}
		if err := table.Judge(s.rows(turns)); errors.Is(err, table.ErrMissed) != missed || !missed && err != nil {
			t.Errorf("in %d processes: %v", processes, err)
		}
	}
}
