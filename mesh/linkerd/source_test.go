package linkerd

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"debug/elf"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/testing/elftest"
	"github.com/meshtrial/meshtrial/testing/must"
)

var machine = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]

// builder returns a builder with a temporary cache.
func builder(t *testing.T) *components.Builder {
	t.Helper()
	b, err := components.New(components.Options{CacheDir: t.TempDir()})
	must.OK(t, err)
	return b
}

// fakeLinkerd creates a folder for --linkerd with programs that do nothing.
func fakeLinkerd(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, text []byte) {
		path := filepath.Join(dir, name)
		must.OK(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text, 0o755)))
	}
	for _, p := range programs {
		if !p.Optional {
			write(p.Name, elftest.Header(t, machine, p.Name))
		}
	}
	write("charts/linkerd-crds/Chart.yaml", []byte("name: linkerd-crds\n"))
	write("charts/linkerd-control-plane/Chart.yaml", []byte("name: linkerd-control-plane\n"))
	return dir
}

func TestFolder(t *testing.T) {
	dir := fakeLinkerd(t)
	first, err := readFolder(dir)
	must.OK(t, err)
	if !strings.HasPrefix(first.tag, "built-") || len(first.tag) != len("built-")+12 || len(first.programs) != 5 {
		t.Errorf("%+v", first)
	}
	if first.crds != filepath.Join(dir, "charts", "linkerd-crds") || first.control != filepath.Join(dir, "charts", "linkerd-control-plane") {
		t.Errorf("charts %s and %s", first.crds, first.control)
	}
	again, err := readFolder(dir)
	if err != nil || again.tag != first.tag {
		t.Errorf("another look gives %s, %v", again.tag, err)
	}
	for name, text := range map[string]string{"VERSION": "edge-1\n", "linkerd2-proxy": string(elftest.Header(t, machine, "another"))} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	other, err := readFolder(dir)
	if err != nil || !strings.HasPrefix(other.tag, "edge-1-") || strings.TrimPrefix(other.tag, "edge-1-") == strings.TrimPrefix(first.tag, "built-") {
		t.Errorf("another proxy has the tag %s, the first %s, %v", other.tag, first.tag, err)
	}
}

func TestFolderRefused(t *testing.T) {
	foreign := elf.EM_S390
	for _, test := range []struct {
		name  string
		spoil func(dir string) error
		want  []string
	}{
		{"empty", func(dir string) error {
			return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755))
		}, []string{"the program controller (", "the program linkerd-policy-controller (", "the program linkerd2-proxy (", "the program linkerd2-proxy-identity (",
			"the program linkerd2-proxy-init (", "the chart linkerd-crds (", "the chart linkerd-control-plane ("}},
		{"one program", func(dir string) error { return os.Remove(filepath.Join(dir, "linkerd2-proxy-init")) },
			[]string{"the program linkerd2-proxy-init (redirects a pod's traffic to its sidecar)"}},
		{"no charts", func(dir string) error { return os.RemoveAll(filepath.Join(dir, "charts")) }, []string{"the chart linkerd-crds (", "the chart linkerd-control-plane (charts/linkerd-control-plane or"}},
		{"a script", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "controller"), []byte("#!/bin/sh\n"), 0o755)
		},
			[]string{"controller is not a Linux program"}},
		{"another machine", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "linkerd2-proxy"), elftest.Header(t, foreign, ""), 0o755)
		}, []string{"linkerd2-proxy is built for EM_S390, but this machine is " + machine.String()}},
		{"a folder", func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "controller")), os.Mkdir(filepath.Join(dir, "controller"), 0o755))
		}, []string{"controller is not a file"}},
		{"a link to what others may write", func(dir string) error {
			other := filepath.Join(t.TempDir(), "values.yaml")
			return errors.Join(os.WriteFile(other, nil, 0o600), os.Chmod(other, 0o666), os.Symlink(other, filepath.Join(dir, "charts", crdsChart, "values.yaml")))
		}, []string{"can be written by everybody"}},
		{"a bad version", func(dir string) error { return os.WriteFile(filepath.Join(dir, "VERSION"), []byte("a b"), 0o644) }, []string{"VERSION does not contain a version of Linkerd"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := fakeLinkerd(t)
			must.OK(t, test.spoil(dir))
			_, err := readFolder(dir)
			if errs.Code(err) != errs.CodeUsage {
				t.Fatalf("%v", err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\ndoes not say %q", err, want)
				}
			}
			if strings.Count(err.Error(), "\n") > len(test.want) {
				t.Errorf("%v\nsays more than %q", err, test.want)
			}
		})
	}
}

func TestFindChart(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"linkerd-crds-2026.8.3.tgz", "linkerd-control-plane-2026.8.3.tgz", "linkerd-control-plane-2026.8.2.tgz"} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	if got := components.FindChart(dir, crdsChart); got != filepath.Join(dir, "linkerd-crds-2026.8.3.tgz") {
		t.Errorf("found %q", got)
	}
	if got := components.FindChart(dir, controlChart); got != "" {
		t.Errorf("of two archives, took %q", got)
	}
}

func TestSourceRefused(t *testing.T) {
	for source, want := range map[string]string{
		"./nowhere": "neither a folder nor the name of a release", "latest": "neither a folder nor the name of a release",
		"edge-/../x": "neither a folder nor",
	} {
		_, err := findSource(t.Context(), builder(t), "", source)
		if errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), want) || !strings.Contains(errs.Hint(err), "--linkerd") {
			t.Errorf("source %q: %v (hint %q)", source, err, errs.Hint(err))
		}
	}
}

// Whether a lab's Linkerd is the requested one depends on its version.
func TestIsFrom(t *testing.T) {
	dir := fakeLinkerd(t)
	must.OK(t, os.WriteFile(filepath.Join(dir, "VERSION"), []byte("edge-26.8.3\n"), 0o644))
	built, err := readFolder(dir)
	must.OK(t, err)
	for _, c := range []struct {
		version, source string
		want            bool
	}{
		{built.tag, dir, true},
		{"edge-26.8.3", dir, false},
		{"edge-26.8.3", "edge-26.8.3", true},
		{"edge-26.8.3", "edge-26.8.2", false},
		{"edge-26.8.3", "edge", true},
		{"edge-26.8.3", "stable", false},
		{built.tag, "edge", false},
		{built.tag, "edge-26.8.3", false},
		{"", "edge", false},
	} {
		if got, err := sources.IsFrom(c.version, c.source); err != nil || got != c.want {
			t.Errorf("%q of %s: %v, %v", c.version, c.source, got, err)
		}
	}
	for _, source := range []string{"./nowhere", t.TempDir()} {
		if _, err := sources.IsFrom("edge-26.8.3", source); errs.Code(err) != errs.CodeUsage {
			t.Errorf("%s: %v", source, err)
		}
	}
}

func TestContainerImages(t *testing.T) {
	objects, err := lab.ParseObjects([]byte(`---
# Source: a
apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec:
  template:
    spec:
      initContainers: [{name: linkerd-init, image: "example.org/proxy:1"}]
      containers:
      - {name: destination, image: "example.org/controller:1"}
      - {name: linkerd-proxy, image: "example.org/proxy:1"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: b}
data: {values: "containers: [{name: debug, image: not.this/one:1}]"}
`))
	want := map[string]string{"destination": "example.org/controller:1", "linkerd-proxy": "example.org/proxy:1", "linkerd-init": "example.org/proxy:1"}
	if got := containerImages(objects); err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

// The images are laid out like Linkerd's own.
func TestPlans(t *testing.T) {
	s, err := readFolder(fakeLinkerd(t))
	must.OK(t, err)
	plans := s.plans("v1", "example.org/controller:v1", "example.org/proxy:v1")
	for i, want := range []struct {
		ref, user, entry string
		programs         []string
	}{
		{"example.org/controller:v1", "65534", "/controller", []string{"controller", "linkerd-policy-controller"}},
		{"example.org/proxy:v1", "2102", "/usr/lib/linkerd/linkerd2-proxy-identity",
			[]string{"usr/lib/linkerd/linkerd2-proxy", "usr/lib/linkerd/linkerd2-proxy-identity", "usr/lib/linkerd/linkerd2-proxy-init"}},
	} {
		p, c := plans[i], plans[i].Config
		if p.Ref != want.ref || !p.System || c.User != want.user || !slices.Equal(c.Entrypoint, []string{want.entry}) || !slices.Contains(c.Env, "LINKERD_CONTAINER_VERSION_OVERRIDE=v1") {
			t.Errorf("%+v, want %+v", p, want)
		}
		var programs []string
		for _, f := range slices.Concat(p.Layers...) {
			programs = append(programs, f.Name)
			if f.Mode != 0o755 || filepath.Base(f.From.Path) != filepath.Base(f.Name) {
				t.Errorf("%s has %+v", p.Ref, f)
			}
		}
		if !slices.Equal(programs, want.programs) {
			t.Errorf("%s has %q, want %q", p.Ref, programs, want.programs)
		}
	}
}

func TestKeys(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	k, err := newKeys(now)
	must.OK(t, err)
	must.OK(t, must.Err(tls.X509KeyPair([]byte(k.issuer), []byte(k.issuerKey))))
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(k.anchor)) {
		t.Fatal("no trust anchor")
	}
	block, _ := pem.Decode([]byte(k.issuer))
	issuer, err := x509.ParseCertificate(block.Bytes)
	must.OK(t, err)
	for _, at := range []time.Time{now, now.Add(300 * 24 * time.Hour)} {
		if _, err := issuer.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: at}); err != nil {
			t.Errorf("at %s: %v", at, err)
		}
	}
	if !issuer.IsCA || issuer.PublicKeyAlgorithm != x509.ECDSA || issuer.Subject.CommonName != "identity.linkerd.cluster.local" || !issuer.MaxPathLenZero {
		t.Errorf("issuer %+v", issuer)
	}
	other, err := newKeys(now)
	if err != nil || other.anchor == k.anchor || other.issuerKey == k.issuerKey {
		t.Errorf("two installations share keys, %v", err)
	}
}

func TestValues(t *testing.T) {
	k := keys{anchor: "A", issuer: "B", issuerKey: "C"}
	built := (&source{tag: "v1"}).values(k)
	if built["linkerdVersion"] != "v1" || built["identityTrustAnchorsPEM"] != "A" {
		t.Errorf("%v", built)
	}
	tls := built["identity"].(map[string]any)["issuer"].(map[string]any)["tls"].(map[string]any)
	if tls["crtPEM"] != "B" || tls["keyPEM"] != "C" {
		t.Errorf("%v", tls)
	}
	if v, ok := (&source{}).values(k)["linkerdVersion"]; ok {
		t.Errorf("a release's own version is overruled by %v", v)
	}
}

// chartServer serves two channels of charts; an archive's content is its name.
func chartServer(t *testing.T, spoil string) *httptest.Server {
	t.Helper()
	digest := func(name string) string {
		sum := sha256.Sum256([]byte(name))
		return hex.EncodeToString(sum[:])
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		channel, file, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		switch {
		case file == "index.yaml" && channel == "edge":
			fmt.Fprintln(w, "apiVersion: v1\nentries:")
			for _, chart := range []string{crdsChart, controlChart} {
				fmt.Fprintf(w, "  %s:\n", chart)
				for _, n := range []string{"9.2", "10.1", "8.7"} {
					name := chart + "-2025." + n + ".tgz"
					at := name
					if n == "10.1" {
						at = "http://" + r.Host + "/edge/" + name
					}
					fmt.Fprintf(w, "  - {version: 2025.%s, appVersion: edge-25.%s, digest: %s, urls: [%q]}\n", n, n, digest(name), at)
				}
			}
		case file == "index.yaml" && channel == "stable":
			fmt.Fprintf(w, "entries:\n  linkerd-crds:\n  - {version: 1.8.0, digest: %s, urls: [c.tgz]}\n", digest("c.tgz"))
			fmt.Fprintf(w, "  linkerd-control-plane:\n  - {version: 1.16.11, appVersion: stable-2.14.10, digest: %s, urls: [p.tgz]}\n", digest("p.tgz"))
		case file == spoil:
			fmt.Fprint(w, "something else")
		case strings.HasSuffix(file, ".tgz"):
			fmt.Fprint(w, file)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

func TestRelease(t *testing.T) {
	server := chartServer(t, "")
	b := builder(t)
	for _, test := range []struct{ release, control string }{
		{"edge", "linkerd-control-plane-2025.10.1.tgz"},
		{"edge-25.8.7", "linkerd-control-plane-2025.8.7.tgz"},
		{"2025.9.2", "linkerd-control-plane-2025.9.2.tgz"},
	} {
		s, err := findSource(t.Context(), b, server.URL+"/", test.release)
		if err != nil {
			t.Errorf("%s: %v", test.release, err)
			continue
		}
		control, err := os.ReadFile(s.control)
		if err != nil || string(control) != test.control {
			t.Errorf("%s: the control plane's chart is %q, %v", test.release, control, err)
		}
		crds, err := os.ReadFile(s.crds)
		if want := strings.Replace(test.control, "control-plane", "crds", 1); err != nil || string(crds) != want {
			t.Errorf("%s: the chart of CRDs is %q, %v, want %s", test.release, crds, err, want)
		}
		if s.programs != nil || s.tag != "" {
			t.Errorf("%s: %+v", test.release, s)
		}
	}
	for release, want := range map[string]string{"edge-25.1.1": "Linkerd's release edge-25.1.1 has no chart linkerd-control-plane",
		"stable-2.14.10": "has no chart linkerd-crds"} {
		if _, err := findSource(t.Context(), b, server.URL+"/", release); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", release, err)
		}
	}
	// Once downloaded, a release no longer needs its repository.
	server.Close()
	if _, err := findSource(t.Context(), b, server.URL+"/", "edge-25.8.7"); err != nil {
		t.Errorf("from the cache: %v", err)
	}
	if _, err := findSource(t.Context(), b, server.URL+"/", "edge"); err == nil || !strings.Contains(errs.Hint(err), "--linkerd DIR") {
		t.Errorf("without the repository: %v (hint %q)", err, errs.Hint(err))
	}
}

func TestReleaseSpoiled(t *testing.T) {
	server := chartServer(t, "linkerd-crds-2025.9.2.tgz")
	b := builder(t)
	if _, err := findSource(t.Context(), b, server.URL+"/", "edge-25.9.2"); err == nil || !strings.Contains(err.Error(), "its digest is") {
		t.Errorf("a chart with another digest than the index says: %v", err)
	}
}
