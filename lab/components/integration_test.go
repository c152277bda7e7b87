//go:build integration

package components

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
)

// These tests use the user's own cache, and fill it if necessary: the first run
// takes as long as `meshtrial lab components build`.

func realBuilder(t *testing.T) (*Builder, *Set) {
	t.Helper()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("components are for Linux on amd64")
	}
	b, err := New(Options{Progress: func(e Event) {
		if e.Phase == PhaseReady || e.Phase == PhaseNote {
			t.Log(e.Component, e.Phase, e.Detail, e.Elapsed)
		}
	}})
	must.OK(t, err)
	set, err := b.Ensure(t.Context())
	must.OK(t, err)
	return b, set
}

// Every program starts and reports the version in the table.
func TestRealPrograms(t *testing.T) {
	_, set := realBuilder(t)
	for _, test := range []struct{ program, args, want string }{
		{"etcd", "--version", "etcd Version: " + etcdVersion},
		{"kube-apiserver", "--version", "Kubernetes v" + kubernetesVersion},
		{"kube-controller-manager", "--version", "Kubernetes v" + kubernetesVersion},
		{"kube-scheduler", "--version", "Kubernetes v" + kubernetesVersion},
		{"kubelet", "--version", "Kubernetes v" + kubernetesVersion},
		{"kube-proxy", "--version", "Kubernetes v" + kubernetesVersion},
		{"kubectl", "version --client", "Client Version: v" + kubernetesVersion},
		{"coredns", "-version", "CoreDNS-" + coreDNSVersion},
		{"kwok", "--version", "v" + kwokVersion},
		{"pilot-discovery", "version", IstioVersion},
		{"pilot-agent", "version", IstioVersion},
		{"envoy", "--version", "/" + DefaultEnvoy + "/"},
		{"containerd", "--version", "containerd"},
		{"ctr", "--version", "ctr"},
		{"runc", "--version", "runc version"},
		{"nft", "--version", "nftables v"},
	} {
		p, ok := set.Program(test.program)
		if !ok {
			t.Errorf("no program %s", test.program)
			continue
		}
		cmd := exec.Command(p.Path, strings.Fields(test.args)...)
		cmd.Env = append(os.Environ(), p.Env...)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), test.want) {
			t.Errorf("%s %s: %v, %q, want %q", test.program, test.args, err, out, test.want)
		}
	}
	for _, plugin := range []string{"bridge", "host-local", "loopback", "portmap"} {
		if !exists(filepath.Join(set.Dir("cni"), plugin)) {
			t.Errorf("no CNI plugin %s in %q", plugin, set.Dir("cni"))
		}
	}
}

// CoreDNS has the plugins that a lab's Corefile may name.
func TestRealCoreDNSPlugins(t *testing.T) {
	_, set := realBuilder(t)
	p, _ := set.Program("coredns")
	out, err := exec.Command(p.Path, "-plugins").CombinedOutput()
	must.OK(t, err)
	for _, plugin := range strings.Fields("errors log ready health kubernetes template forward cache loop rewrite hosts reload prometheus erratic bind") {
		if !slices.Contains(strings.Fields(string(out)), plugin) {
			t.Errorf("CoreDNS lacks %s", plugin)
		}
	}
}

// What has been made is not made again.
func TestRealSecondTimeDoesNothing(t *testing.T) {
	b, first := realBuilder(t)
	images, err := b.Images(t.Context(), "")
	must.OK(t, err)
	b.options.Progress = func(e Event) { t.Errorf("%+v", e) }
	second, err := b.Ensure(t.Context())
	must.OK(t, err)
	if len(second.Programs()) != len(first.Programs()) {
		t.Errorf("%d programs, then %d", len(first.Programs()), len(second.Programs()))
	}
	if again, err := b.Images(t.Context(), ""); err != nil || !slices.Equal(images, again) {
		t.Errorf("images %+v, then %+v, %v", images, again, err)
	}
}
