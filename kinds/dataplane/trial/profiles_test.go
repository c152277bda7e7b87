package trial

import (
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/observe/profile/node"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
	corev1 "k8s.io/api/core/v1"
)

// The profile role has the permissions that perf needs, and no others.
func TestProfileRole(t *testing.T) {
	set := site.ProfileSet("ns", lab.Images{Meshtrial: "image"}, "run", "node-1")
	pod := set.Spec.Template.Spec
	c := pod.Containers[0]
	if c.SecurityContext.Privileged != nil || !pod.HostPID || pod.HostNetwork || pod.HostIPC || !*c.SecurityContext.ReadOnlyRootFilesystem || *pod.AutomountServiceAccountToken {
		t.Errorf("%+v", pod)
	}
	for _, cap := range []corev1.Capability{"PERFMON", "SYS_ADMIN", "SYS_PTRACE"} {
		if !slices.Contains(c.SecurityContext.Capabilities.Add, cap) {
			t.Errorf("it lacks %s", cap)
		}
	}
	if slices.Contains(c.SecurityContext.Capabilities.Add, "NET_ADMIN") || pod.NodeSelector[corev1.LabelHostname] != "node-1" {
		t.Errorf("%+v", pod)
	}
	if limits := c.Resources.Limits; limits.Cpu().String() != "1" || limits.Memory().String() != "2Gi" || c.Resources.Requests.Cpu().String() != "10m" {
		t.Errorf("it runs beside what is measured with %+v", c.Resources)
	}
	if all := site.ProfileSet("ns", lab.Images{}, "run", ""); all.Spec.Template.Spec.NodeSelector != nil {
		t.Error("of all nodes it is on one")
	}
}

// CPU counts as profiled only if perf sampled at both edges.
func TestProfiledCPU(t *testing.T) {
	sample := func(at int64, user float64) observe.Snapshot {
		return observe.Snapshot{Targets: map[string]observe.Sample{record.PartClientProxy: {AtUnixNS: at, CPU: observe.CPUSample{TotalNS: uint64(user * 1e9), UserNS: uint64(user * 1e9)}}}}
	}
	var trial trialRun
	for _, tt := range []struct {
		name    string
		began   int64
		seconds float64
		known   bool
	}{
		{"within", 9e9, 5, true}, {"it began late", 10.5e9, 5, false}, {"it ended early", 9e9, 2, false}, {"it never said", 0, 5, false},
	} {
		p := record.Profiled{Part: record.PartClientProxy}
		trial.profiledCPU(&p, sample(10e9, 1), sample(12e9, 2), node.Answer{BeganUnixNS: tt.began, Seconds: tt.seconds})
		if (p.CPU != nil) != tt.known || tt.known && (p.CPUSeconds != 2 || p.CPU.TotalS() != 1) || !tt.known && len(p.Notes) == 0 {
			t.Errorf("%s: %+v", tt.name, p)
		}
	}
}
