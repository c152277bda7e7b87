package local

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/testing/must"
)

func testSpec(t *testing.T) *spec {
	t.Helper()
	s := &spec{
		ID: "abc123", Dir: labDir(filepath.Join(t.TempDir(), "abc123")), ImageStore: "/cache/containerd/0", Network: testNetwork,
		Cgroup: "/meshtrial-abc123", Programs: map[string]components.Program{}, CNI: "/cache/debian/cni", Pause: "docker.io/meshtrial/pause:1",
		Images: []components.Image{{Ref: "a", Path: "/cache/images/a.tar"}},
		Self:   testNodes[0], Nodes: testNodes,
	}
	for _, name := range programNames {
		s.Programs[name] = components.Program{Path: "/cache/bin/" + name}
	}
	s.Programs["nft"] = components.Program{Path: "/cache/debian/bin/nft", Env: []string{"LD_LIBRARY_PATH=/cache/debian/lib"}}
	return s
}

func TestFilesParse(t *testing.T) {
	s := testSpec(t)
	files, err := s.files()
	must.OK(t, err)
	for name, data := range files {
		var value any
		switch filepath.Ext(name) {
		case ".yaml":
			for _, document := range strings.Split(string(data), "\n---\n") {
				if err := yaml.Unmarshal([]byte(document), &value); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		case ".conflist":
			if err := json.Unmarshal(data, &value); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	// Defaults of these programs are folders of the host.
	for _, hostFolder := range []string{"/opt/containerd", "/etc/cni", "/usr/libexec", "/var/lib/containerd", "/run/containerd"} {
		for name, data := range files {
			if strings.Contains(string(data), hostFolder) {
				t.Errorf("%s names %s", name, hostFolder)
			}
		}
	}
	if !strings.Contains(string(files["conf/containerd.toml"]), `path = "/run/meshtrial/opt"`) {
		t.Error("containerd's opt folder is the host's")
	}
}

// If others extend a node's network, the node has its plugins where they may
// write; otherwise it runs those of the cache.
func TestNetworkFolders(t *testing.T) {
	s := testSpec(t)
	if toml := s.containerdTOML(false); !strings.Contains(toml, `bin_dir = "/cache/debian/cni"`) || !strings.Contains(toml, s.Dir.conf("cni")) {
		t.Error(toml)
	}
	s.NodeNetwork = true
	if toml := s.of(testNodes[0]).containerdTOML(false); !strings.Contains(toml, `bin_dir = "`+lab.CNIBinDir+`"`) || !strings.Contains(toml, `conf_dir = "`+lab.CNIConfDir+`"`) || strings.Contains(toml, "/cache/debian/cni") {
		t.Error(toml)
	}
}

func TestArguments(t *testing.T) {
	s := testSpec(t)
	for _, p := range []process{s.etcd(), s.apiserver(), s.controllers(), s.scheduler(), s.containerd(), s.kubelet(), s.kubeProxy(), s.kwok()} {
		if p.path != s.Programs[p.name].Path {
			t.Errorf("%s runs %s", p.name, p.path)
		}
		for _, arg := range p.args {
			if strings.Contains(arg, "insecure") || strings.Contains(arg, "token-auth") || strings.Contains(arg, "AlwaysAllow") {
				t.Errorf("%s: %s", p.name, arg)
			}
		}
		if !slices.ContainsFunc(p.env, func(kv string) bool { return strings.HasPrefix(kv, "PATH="+s.Dir.join("bin")+":") }) {
			t.Errorf("%s: PATH does not begin with the lab's tools: %v", p.name, p.env)
		}
	}
	for _, arg := range s.etcd().args {
		if strings.HasPrefix(arg, "--listen") && !strings.Contains(arg, "unix:///run/meshtrial/") {
			t.Errorf("etcd listens on more than a socket of the lab's own: %s", arg)
		}
	}
}

func TestWriteFiles(t *testing.T) {
	s := testSpec(t)
	keys, _, err := pkiFiles(testNetwork, s.Nodes, testTime)
	must.OK(t, err)
	must.OK(t, s.writeFiles(keys))
	err = filepath.WalkDir(string(s.Dir), func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode()&os.ModeSymlink == 0 && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	must.OK(t, err)
	data, err := os.ReadFile(s.Dir.spec())
	must.OK(t, err)
	read := &spec{}
	if err := json.Unmarshal(data, read); err != nil || read.Network != s.Network || read.Programs["etcd"].Path != s.Programs["etcd"].Path {
		t.Errorf("spec.json: %v\n%s", err, data)
	}
}

// What runs nft by name finds it, with its libraries, on a machine without a shell.
func TestNft(t *testing.T) {
	s := testSpec(t)
	must.OK(t, s.writeFiles(keySet{}))
	path := s.Dir.join("bin", "nft")
	if to, err := os.Readlink(path); err != nil || to != "/cache/debian/bin/nft" {
		t.Errorf("%s leads to %s, %v", path, to, err)
	}
	for _, p := range []process{s.kubelet(), s.kubeProxy()} {
		if !slices.Contains(p.env, "LD_LIBRARY_PATH=/cache/debian/lib") || !strings.HasPrefix(p.env[0], "PATH="+filepath.Dir(path)) {
			t.Errorf("%s has %q", p.name, p.env)
		}
	}
}

func TestKeep(t *testing.T) {
	s := testSpec(t)
	keep := s.keep()
	for _, want := range []string{string(s.Dir), "/cache/bin", "/cache/debian/bin", "/cache/debian/lib", "/cache/debian/cni", "/cache/containerd/0", "/cache/images"} {
		if !slices.Contains(keep, want) {
			t.Errorf("%s would be hidden: %v", want, keep)
		}
	}
}

func TestManifestsParse(t *testing.T) {
	for name, text := range map[string][]byte{"coredns": coreDNS("image:1", "10.96.0.10", 1), "DNS of several nodes": coreDNS("image:1", "10.96.0.10", 3), "roles": nodeRoles(), "kwok": []byte(kwokStages)} {
		objects, err := lab.ParseObjects(text)
		if err != nil || len(objects) < 3 {
			t.Errorf("%s: %d objects, %v", name, len(objects), err)
		}
		for _, object := range objects {
			if object.GetKind() == "" || object.GetName() == "" {
				t.Errorf("%s: an object without kind or name: %v", name, object)
			}
		}
	}
	text := string(coreDNS("image:1", "10.96.0.10", 3))
	for _, placeholder := range []string{"IMAGE", "CLUSTERIP", "ANSWER", "DELAY", "REPLICAS", "AFFINITY"} {
		if strings.Contains(text, placeholder) {
			t.Errorf("%s was not replaced", placeholder)
		}
	}
}
