package components

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
)

func TestTable(t *testing.T) {
	digest := regexp.MustCompile(`^(h1:[A-Za-z0-9+/]{43}=|sha256:[0-9a-f]{64})$`)
	names, programs := map[string]bool{}, map[string]string{}
	for _, c := range Table() {
		if c.Name == "" || c.Version == "" || c.Source == "" || c.Purpose == "" {
			t.Errorf("%+v: a field is empty", c)
		}
		if names[c.Name] {
			t.Errorf("%s is there twice", c.Name)
		}
		names[c.Name] = true
		for _, p := range c.Programs {
			if programs[p] != "" {
				t.Errorf("program %s is of %s and of %s", p, programs[p], c.Name)
			}
			programs[p] = c.Name
		}
		if !digest.MatchString(c.Digest) && c.Name != "pause" { // pause is in this repository
			t.Errorf("%s has the digest %q", c.Name, c.Digest)
		}
		if got, ok := find(c.Name); !ok || got.Name != c.Name {
			t.Errorf("find(%s) = %v, %v", c.Name, got.Name, ok)
		}
	}
	for _, p := range strings.Fields("etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl " +
		"pilot-discovery pilot-agent istioctl install-cni istio-cni kwok coredns pause envoy envoy@1.40.0 envoy@1.39.0 containerd containerd-shim-runc-v2 ctr runc nft") {
		if programs[p] == "" {
			t.Errorf("no component has the program %s", p)
		}
	}
	if !slices.Contains(EnvoyVersions(), DefaultEnvoy) {
		t.Errorf("the default Envoy, %s, is not among %v", DefaultEnvoy, EnvoyVersions())
	}
}

// The table's entries for Go modules must match what is built.
func TestTableMatchesModule(t *testing.T) {
	mod, err1 := os.ReadFile("src/go.mod")
	sum, err2 := os.ReadFile("src/go.sum")
	must.OK(t, errors.Join(err1, err2))
	for _, c := range Table() {
		module, version, ok := strings.Cut(c.Source, "@")
		if c.Kind != KindGo || !ok {
			continue
		}
		if !strings.Contains(string(sum), "\n"+module+" "+version+" "+c.Digest+"\n") {
			t.Errorf("%s: src/go.sum has no line %s %s %s", c.Name, module, version, c.Digest)
		}
		required := regexp.MustCompile(`(?m)^\s*(require\s+)?` + regexp.QuoteMeta(module+" "+version) + `( // indirect)?$`)
		if !required.Match(mod) {
			t.Errorf("%s: src/go.mod does not require %s %s", c.Name, module, version)
		}
	}
}

func TestUnits(t *testing.T) {
	made := map[string]bool{"debian": true}
	for _, u := range goUnits("amd64") {
		made[u.name] = true
	}
	for _, w := range wheels {
		made["envoy-"+w.version] = true
	}
	for _, c := range Table() {
		if !made[c.unit] {
			t.Errorf("%s comes out of %q, which nothing makes", c.Name, c.unit)
		}
	}
	for _, test := range []struct {
		names string
		want  string
	}{
		{"", "kubernetes node istio agent envoy-1.40.0 debian"},
		{"kubelet etcd", "kubernetes"},
		{"envoy", "envoy-1.40.0"},
		{"envoy@1.40.0", "envoy-1.40.0"},
		{"envoy@1.39.0 runc cni", "envoy-1.39.0 debian"},
		{"istioctl", "istioctl"},
		{"charts", "charts"},
		{"istio-cni", "istio-cni"},
		{"gateway-api", "gateway-api"},
	} {
		got, err := unitsOf(strings.Fields(test.names))
		if err != nil || strings.Join(got, " ") != test.want {
			t.Errorf("unitsOf(%s) = %v, %v, want %s", test.names, got, err, test.want)
		}
	}
	if _, err := unitsOf([]string{"docker"}); err == nil || !strings.Contains(err.Error(), "docker") {
		t.Errorf("error %v does not name the unknown component", err)
	}
}
