package components

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// openLink puts a link in a ztunnel's place, to one in a folder that everybody may write to.
func openLink(dir string) error {
	open := filepath.Join(dir, "open")
	return errors.Join(os.Mkdir(open, 0o755), os.Chmod(open, 0o777), os.Rename(filepath.Join(dir, "ztunnel"), filepath.Join(open, "ztunnel")),
		os.Symlink("open/ztunnel", filepath.Join(dir, "ztunnel")))
}

// A ztunnel is taken from a folder if it runs here and is of istiod's version of
// Istio, by what it says of itself or, if it was built without a release's name, by the
// file beside it.
func TestZtunnelFolder(t *testing.T) {
	machine := machines[runtime.GOARCH]
	if machine == 0 {
		t.Skip("programs for this machine are not known")
	}
	minor, _ := istioMinor(istioVersion)
	const revision = "e94018b3005032317a46c4f169007bf6fee7a710"
	for name, test := range map[string]struct {
		says, version string
		spoil         func(dir string) error
		want, refused string
	}{
		"a release":                 {says: minor + ".1", want: minor + ".1"},
		"its own before the file":   {says: minor + ".1", version: "1.2", want: minor + ".1"},
		"a build of a revision":     {says: revision, version: minor + "-built\n", want: minor + "-built"},
		"no file of its version":    {says: revision, refused: "names no version of Istio"},
		"a file that says nothing":  {says: revision, version: "main", refused: "holds no version of Istio"},
		"no tag":                    {says: revision, version: minor + ".x y", refused: "holds no version of Istio"},
		"a version that no tag has": {says: minor + ".0+dirty", refused: "which cannot be an image's tag"},
		"a tag in its place":        {says: minor + ".0+dirty", version: minor + ".0-dirty", want: minor + ".0-dirty"},
		"another version":           {says: "1.2.3", refused: "is of Istio 1.2.3, istiod is of " + istioVersion},
		"another, by the file":      {says: revision, version: "1.2", refused: "is of Istio 1.2, istiod is of"},
		"not there":                 {says: minor, spoil: os.RemoveAll, refused: "has no program ztunnel"},
		"a script":                  {says: minor, spoil: func(dir string) error { return os.WriteFile(filepath.Join(dir, "ztunnel"), []byte("#!"), 0o755) }, refused: "no program for Linux"},
		"a folder":                  {says: minor, spoil: func(dir string) error { return errors.Join(os.Remove(dir+"/ztunnel"), os.Mkdir(dir+"/ztunnel", 0o755)) }, refused: "is not a file"},
		"one that does not answer":  {says: "", refused: "does not answer"},
		"a folder of everybody's":   {says: minor + ".1", spoil: func(dir string) error { return os.Chmod(dir, 0o777) }, refused: "by everybody"},
		"a program of everybody's":  {says: minor + ".1", spoil: func(dir string) error { return os.Chmod(dir+"/ztunnel", 0o777) }, refused: "by everybody"},
		"a link to one":             {says: minor + ".1", spoil: openLink, refused: "by everybody"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			err := os.WriteFile(filepath.Join(dir, "ztunnel"), header(t, machine, name), 0o755)
			if test.version != "" {
				err = errors.Join(err, os.WriteFile(filepath.Join(dir, "VERSION"), []byte(test.version), 0o644))
			}
			if test.spoil != nil {
				err = errors.Join(err, test.spoil(dir))
			}
			if err != nil {
				t.Fatal(err)
			}
			z, err := ztunnelFolder(dir, func(string) (string, error) {
				if test.says == "" {
					return "", errors.New("does not answer")
				}
				return test.says, nil
			})
			if test.refused != "" {
				if err == nil || !strings.Contains(err.Error(), test.refused) || test.says != "" && errs.Code(err) != errs.CodeUsage {
					t.Fatalf("%v, want a refusal that says %q", err, test.refused)
				}
				return
			}
			if err != nil || z.version != test.want || !strings.HasPrefix(z.ref(), IstioHub+"/ztunnel:"+test.want+"-") {
				t.Errorf("%+v as %s, %v, want %s", z, z.ref(), err, test.want)
			}
		})
	}
	// The program in place of its folder is told the folder; a folder that only holds a clone
	// is told what is looked for.
	clone := filepath.Join(t.TempDir(), "clone")
	program := filepath.Join(clone, "ztunnel", "ztunnel")
	if err := errors.Join(os.MkdirAll(filepath.Dir(program), 0o755), os.WriteFile(program, header(t, machine, "a program"), 0o755)); err != nil {
		t.Fatal(err)
	}
	for given, want := range map[string][2]string{
		program:       {program + " is not a folder", "--ztunnel " + filepath.Dir(program) + ", the folder that it is in"},
		program + "/": {"is not a folder", "--ztunnel " + filepath.Dir(program) + ", the folder that it is in"},
		clone:         {filepath.Join(clone, "ztunnel") + " is not a file", "--ztunnel DIR names a folder with the program ztunnel"},
	} {
		_, err := ZtunnelImage(t.Context(), given)
		if errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), want[0]) || !strings.Contains(errs.Hint(err), want[1]) {
			t.Errorf("%s: %v, hint %q; want %q", given, err, errs.Hint(err), want)
		}
	}
	_, err := ZtunnelImage(t.Context(), "")
	for _, want := range []string{"--ztunnel DIR", minor, "docs/lab.md", "lab up --ambient --images official"} {
		if errs.Code(err) != errs.CodeUsage || !strings.Contains(errs.Hint(err), want) {
			t.Errorf("%v, hint %q; want %q", err, errs.Hint(err), want)
		}
	}
}

// A program is asked for its version.
func TestZtunnelBuild(t *testing.T) {
	dir := t.TempDir()
	program := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := program("good", `[ "$1" = version ] && echo 'version.BuildInfo{Version:"1.31.1", GitRevision:"e94", RustVersion:"1.95.0"}'`)
	if got, err := ztunnelBuild(t.Context(), good); err != nil || got != "1.31.1" {
		t.Errorf("%q, %v", got, err)
	}
	for path, want := range map[string]string{program("other", "echo hello"): "is not ztunnel", program("broken", "exit 3"): "does not say its version"} {
		if _, err := ztunnelBuild(t.Context(), path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// The images are laid out as Istio's own.
func TestAmbientPlans(t *testing.T) {
	entries := fakeEntries(t, cache{dir: t.TempDir()})
	path := filepath.Join(t.TempDir(), "ztunnel")
	if err := os.WriteFile(path, header(t, machines["amd64"], "ztunnel"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, sum, err := sumFile(path, false)
	if err != nil {
		t.Fatal(err)
	}
	z := ztunnel{program: program{path, "sha256:" + sum}, version: "1.31.1"}
	plans, err := ambientPlans(entries, z)
	if err != nil || len(plans) != 2 {
		t.Fatalf("%d plans, %v", len(plans), err)
	}
	for i, want := range []struct {
		ref   string
		files []string
	}{
		{IstioHub + "/install-cni:" + IstioTag, []string{"usr/local/bin/install-cni", "opt/cni/bin/istio-cni"}},
		{z.ref(), []string{"usr/local/bin/ztunnel"}},
	} {
		image, err := plans[i].image((*layer).asIs)
		if err != nil || plans[i].ref != want.ref {
			t.Fatalf("%s, %v, want %s", plans[i].ref, err, want.ref)
		}
		for _, file := range append(want.files, "etc/passwd") {
			if _, h := fileIn(t, image, file); h == nil {
				t.Errorf("%s lacks %s", want.ref, file)
			}
		}
	}
}

func TestAmbientSettings(t *testing.T) {
	o := ManifestOptions{Set: []string{"values.pilot.traceSampling=1"}, Ambient: &AmbientManifests{Ztunnel: "hub/ztunnel:1", CNIBinDir: "/bin-dir", CNIConfDir: "/conf-dir"}}
	istiod, err := o.settings()
	if err != nil || !slices.Contains(istiod, "values.pilot.env.PILOT_ENABLE_AMBIENT=true") || slices.Contains(istiod, "components.cni.enabled=true") {
		t.Errorf("istiod's settings are %q, %v", istiod, err)
	}
	all, err := o.settings(o.Ambient.settings()...)
	for _, want := range []string{"components.cni.enabled=true", "components.ztunnel.enabled=true", "values.ztunnel.image=hub/ztunnel:1", "values.cni.cniBinDir=/bin-dir", "values.cni.cniConfDir=/conf-dir"} {
		if err != nil || !slices.Contains(all, want) {
			t.Errorf("settings %q lack %s, %v", all, want, err)
		}
	}
	if !slices.Contains(istiod, "values.global.waypoint.resources.requests.cpu=10m") {
		t.Errorf("istiod makes waypoints of the chart's size: %q", istiod)
	}
	if all[len(all)-1] != o.Set[0] {
		t.Error("the user's settings do not come last")
	}
	plain, err := ManifestOptions{}.settings()
	if err != nil || strings.Contains(strings.Join(plain, " "), "AMBIENT") {
		t.Errorf("settings without it are %q, %v", plain, err)
	}
	official := istioRelease{tag: "1.2.3"}
	if got := official.ambientRefs("example.org/istio/"); !slices.Equal(got, []string{"example.org/istio/install-cni:1.2.3", "example.org/istio/ztunnel:1.2.3"}) {
		t.Errorf("official images %q", got)
	}
}

// What a rendering has beyond another goes by the objects' names, whatever they say.
func TestBeyond(t *testing.T) {
	const istiod = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: istio, namespace: istio-system}\ndata: {a: \"1\"}\n"
	const agent = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: istio-cni-node, namespace: istio-system}\n"
	other := strings.Replace(istiod, `"1"`, `"2"`, 1)
	got, err := beyond([]byte(other+"---\n"+agent+"---\n"), []byte("---\n"+istiod))
	if err != nil || string(got) != agent {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := beyond([]byte(other), []byte(istiod)); err == nil {
		t.Error("charts without an agent passed")
	}
	if _, err := beyond([]byte("a: [b"), nil); err == nil {
		t.Error("what is no YAML passed")
	}
}
