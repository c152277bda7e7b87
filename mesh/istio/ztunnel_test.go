package istio

import (
	"cmp"
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/testing/elftest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// openLink moves a ztunnel into a world-writable folder, and leaves a link to it.
func openLink(dir string) error {
	open := filepath.Join(dir, "open")
	return errors.Join(os.Mkdir(open, 0o755), os.Chmod(open, 0o777), os.Rename(filepath.Join(dir, "ztunnel"), filepath.Join(open, "ztunnel")),
		os.Symlink("open/ztunnel", filepath.Join(dir, "ztunnel")))
}

// A ztunnel is taken from a folder if it runs here and has istiod's version of Istio, as
// reported by itself or, if it was built without a release's name, by the file next to it.
func TestZtunnelFolder(t *testing.T) {
	machine := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]
	wanted, _ := minor(components.IstioVersion)
	const revision = "e94018b3005032317a46c4f169007bf6fee7a710"
	for name, test := range map[string]struct {
		says, version string
		spoil         func(dir string) error
		want, refused string
	}{
		"a release":                 {says: wanted + ".1", want: wanted + ".1"},
		"its own before the file":   {says: wanted + ".1", version: "1.2", want: wanted + ".1"},
		"a build of a revision":     {says: revision, version: wanted + "-built\n", want: wanted + "-built"},
		"no file of its version":    {says: revision, refused: "no file VERSION names a version of Istio"},
		"a file that says nothing":  {says: revision, version: "main", refused: "no file VERSION names a version of Istio"},
		"no tag":                    {says: revision, version: wanted + ".x y", refused: "does not contain a version of ztunnel"},
		"a version that no tag has": {says: wanted + ".0+dirty", refused: "no file VERSION names a version of Istio"},
		"a tag in its place":        {says: wanted + ".0+dirty", version: wanted + ".0-dirty", want: wanted + ".0-dirty"},
		"another version":           {says: "1.2.3", refused: "is from Istio 1.2.3, but istiod is " + components.IstioVersion},
		"another, by the file":      {says: revision, version: "1.2", refused: "is from Istio 1.2, but istiod is"},
		"not there":                 {says: wanted, spoil: os.RemoveAll, refused: "no such file or directory"},
		"empty":                     {says: wanted, spoil: func(dir string) error { return os.Remove(dir + "/ztunnel") }, refused: "lacks:\n  the program ztunnel (the proxy of each node)"},
		"a script":                  {says: wanted, spoil: func(dir string) error { return os.WriteFile(filepath.Join(dir, "ztunnel"), []byte("#!"), 0o755) }, refused: "not a Linux program"},
		"a folder":                  {says: wanted, spoil: func(dir string) error { return errors.Join(os.Remove(dir+"/ztunnel"), os.Mkdir(dir+"/ztunnel", 0o755)) }, refused: "is not a file"},
		"one that does not answer":  {says: "", refused: "does not answer"},
		"a folder of everybody's":   {says: wanted + ".1", spoil: func(dir string) error { return os.Chmod(dir, 0o777) }, refused: "by everybody"},
		"a program of everybody's":  {says: wanted + ".1", spoil: func(dir string) error { return os.Chmod(dir+"/ztunnel", 0o777) }, refused: "by everybody"},
		"a link to one":             {says: wanted + ".1", spoil: openLink, refused: "by everybody"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			err := os.WriteFile(filepath.Join(dir, "ztunnel"), elftest.Header(t, machine, name), 0o755)
			if test.version != "" {
				err = errors.Join(err, os.WriteFile(filepath.Join(dir, "VERSION"), []byte(test.version), 0o644))
			}
			if test.spoil != nil {
				err = errors.Join(err, test.spoil(dir))
			}
			must.OK(t, err)
			z, err := ztunnelFolder(dir, func(string) (string, error) {
				if test.says == "" {
					return "", errors.New("does not answer")
				}
				return test.says, nil
			})
			if tells(t, name, err, test.refused, ""); err != nil {
				return
			}
			if z.version != test.want || !strings.HasPrefix(z.ref(), components.IstioHub+"/ztunnel:"+test.want+"-") {
				t.Errorf("%+v as %s, %v, want %s", z, z.ref(), err, test.want)
			}
		})
	}
	// If the path is the program instead of its folder, the error names the folder. If the
	// folder is only a clone, the error says what is needed.
	clone := filepath.Join(t.TempDir(), "clone")
	program := filepath.Join(clone, "ztunnel", "ztunnel")
	must.OK(t, errors.Join(os.MkdirAll(filepath.Dir(program), 0o755), os.WriteFile(program, elftest.Header(t, machine, "a program"), 0o755)))
	for given, want := range map[string][2]string{
		program:       {program + " is not a folder", "give its folder: " + filepath.Dir(program)},
		program + "/": {"is not a folder", "give its folder: " + filepath.Dir(program)},
		clone:         {filepath.Join(clone, "ztunnel") + " is not a file", "--ztunnel DIR (or MESHTRIAL_ZTUNNEL) names a folder with the program ztunnel"},
	} {
		err := (&order{ambient: true, ztunnelDir: given}).openZtunnel(t.Context())
		refuses(t, given, err, want[0], want[1])
	}
	err := (&order{ambient: true}).openZtunnel(t.Context())
	for _, want := range []string{"--ztunnel DIR", wanted, "docs/lab.md", "lab up --ambient --images official"} {
		refuses(t, "no ztunnel", err, "ztunnel", want)
	}
}

// A program is run to get its version.
func TestZtunnelBuild(t *testing.T) {
	dir := t.TempDir()
	program := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.OK(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755))
		return path
	}
	good := program("good", `[ "$1" = version ] && echo 'version.BuildInfo{Version:"1.31.1", GitRevision:"e94", RustVersion:"1.95.0"}'`)
	if got, err := ztunnelBuild(t.Context(), good); err != nil || got != "1.31.1" {
		t.Errorf("%q, %v", got, err)
	}
	for path, want := range map[string]string{program("other", "echo hello"): "is not ztunnel", program("broken", "exit 3"): "does not report its version"} {
		if _, err := ztunnelBuild(t.Context(), path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A ztunnel moves to a revision by the addresses of its istiod. Its certificates come from there too,
// unless they come from elsewhere.
func TestConnectZtunnels(t *testing.T) {
	const old, other, moved = "istiod.istio-system.svc:15012", "ca.example:443", "istiod-canary.istio-system.svc:15012"
	variable := func(name, value string) any { return map[string]any{"name": name, "value": value} }
	for name, tt := range map[string]struct {
		env, want []any
		image     string
		refused   string
	}{
		"both":            {env: []any{variable("CA_ADDRESS", old), variable("XDS_ADDRESS", old), variable("A", old)}, want: []any{variable("CA_ADDRESS", moved), variable("XDS_ADDRESS", moved), variable("A", old)}},
		"another's CA":    {env: []any{variable("CA_ADDRESS", other), variable("XDS_ADDRESS", old)}, want: []any{variable("CA_ADDRESS", other), variable("XDS_ADDRESS", moved)}},
		"another version": {env: []any{variable("XDS_ADDRESS", old)}, image: "new", want: []any{variable("XDS_ADDRESS", moved)}},
		"no address":      {env: []any{variable("A", old)}, refused: "does not say in XDS_ADDRESS"},
		"no environment":  {refused: "does not say in XDS_ADDRESS"},
	} {
		t.Run(name, func(t *testing.T) {
			container := map[string]any{"name": "istio-proxy", "image": "old"}
			if tt.env != nil {
				container["env"] = tt.env
			}
			set := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{container}}}}}}
			err := Revision{Name: "canary", Deployment: "istiod-canary"}.connectZtunnels(set, tt.image)
			if tells(t, name, err, tt.refused, ""); err != nil {
				return
			}
			want := map[string]any{"spec": map[string]any{"template": map[string]any{
				"metadata": map[string]any{"annotations": map[string]any{"istio.io/rev": "canary"}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "istio-proxy", "env": tt.want, "image": cmp.Or(tt.image, "old")}}}}}}
			if !reflect.DeepEqual(set.Object, want) {
				t.Errorf("%v", set.Object)
			}
		})
	}
}
