package procfs

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
)

const (
	testContainer = "4f9a1c0e5c1f7d1f0b8f9d8f6f0d8c1a2b3c4d5e6f708192a3b4c5d6e7f80910"
	testPod       = "0b5c6a5e-1d2f-4a3b-8c9d-0e1f2a3b4c5d"
)

func TestInCgroup(t *testing.T) {
	container, err := ContainerCgroup("containerd://" + testContainer)
	must.OK(t, err)
	pod, err := PodCgroup(testPod)
	must.OK(t, err)
	for _, c := range []struct {
		name, text     string
		container, pod bool
	}{
		{"v1, cgroupfs driver", "5:cpuacct:/kubepods/burstable/pod" + testPod + "/" + testContainer + "\n0::/\n", true, true},
		{"v1, below it", "5:cpu,cpuacct:/kubepods/pod" + testPod + "/" + testContainer + "/inner\n", true, true},
		{"v2, systemd driver", "0::/kubepods.slice/kubepods-pod0b5c6a5e_1d2f_4a3b_8c9d_0e1f2a3b4c5d.slice/cri-containerd-" + testContainer + ".scope\n", true, true},
		{"another cgroup namespace", "0::/../../pod" + testPod + "/" + testContainer, true, true},
		{"mixed drivers", "3:cpu:/system.slice/containerd.service/kubepods-burstable-pod0b5c6a5e_1d2f_4a3b_8c9d_0e1f2a3b4c5d.slice:cri-containerd:" + testContainer + "\n", true, false},
		{"another container of the pod", "5:cpuacct:/kubepods/pod" + testPod + "/aaaa" + testContainer[4:] + "\n", false, true},
		{"CRI-O", "0::/kubepods.slice/crio-" + testContainer + ".scope\n", true, false},
		{"Docker", "0::/kubepods.slice/docker-" + testContainer + ".scope\n", true, false},
		{"a part of its name", "0::/kubepods/" + testContainer[:10] + "\n", false, false},
		{"monitor", "0::/kubepods.slice/crio-conmon-" + testContainer + ".scope\n", false, false},
		{"a name that only begins so", "5:cpuacct:/kubepods/pod" + testPod + "x/" + testContainer + "x\n", false, false},
		{"host", "0::/user.slice\n", false, false},
		{"no lines", "", false, false},
		{"no path", "0:\n1\n::\n", false, false},
	} {
		if got := InCgroup([]byte(c.text), container); got != c.container {
			t.Errorf("%s: in the container: %v", c.name, got)
		}
		if got := InCgroup([]byte(c.text), pod); got != c.pod {
			t.Errorf("%s: in the pod: %v", c.name, got)
		}
	}
}

func TestIDsThatCouldLeaveAPath(t *testing.T) {
	for _, text := range []string{"", "..", "a/b", "../../../etc", "containerd://", "abcdef\n", "abcde", "containerd://a/b/c/d/e"} {
		if _, err := ContainerCgroup(text); err == nil {
			t.Errorf("container %q", text)
		}
		if _, err := PodCgroup(text); err == nil {
			t.Errorf("pod %q", text)
		}
	}
}

func FuzzInCgroup(f *testing.F) {
	f.Add("5:cpuacct:/kubepods/burstable/pod"+testPod+"/"+testContainer+"\n0::/\n", testContainer)
	f.Add("0::", "abcdef")
	f.Fuzz(func(t *testing.T, text, name string) {
		match, err := ContainerCgroup(name)
		if err != nil {
			return
		}
		in := InCgroup([]byte(text), match)
		// Only names that contain the complete ID may match.
		if id, err := ContainerID(name); in && (err != nil || !strings.Contains(text, id)) {
			t.Errorf("%q is in %q", name, text)
		}
	})
}
