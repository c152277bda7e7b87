package components

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
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
)

// header is the head of a program without anything in it.
func header(t *testing.T, machine elf.Machine, more string) []byte {
	t.Helper()
	h := elf.Header64{Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Ehsize: 64, Phentsize: 56}
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, h); err != nil {
		t.Fatal(err)
	}
	b.WriteString(more)
	return b.Bytes()
}

// fakeLinkerd makes a folder as --linkerd takes it, of programs that do
// nothing.
func fakeLinkerd(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, text []byte) {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range linkerdPrograms {
		if !p.optional {
			write(p.name, header(t, machines[runtime.GOARCH], p.name))
		}
	}
	write("charts/linkerd-crds/Chart.yaml", []byte("name: linkerd-crds\n"))
	write("charts/linkerd-control-plane/Chart.yaml", []byte("name: linkerd-control-plane\n"))
	return dir
}

func TestLinkerdFolder(t *testing.T) {
	if machines[runtime.GOARCH] == 0 {
		t.Skip("programs for this machine are not known")
	}
	dir := fakeLinkerd(t)
	first, err := linkerdFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(first.tag, "built-") || len(first.tag) != len("built-")+12 || len(first.programs) != 5 || len(first.versions) != 5 {
		t.Errorf("%+v", first)
	}
	if first.crds != filepath.Join(dir, "charts", "linkerd-crds") || first.control != filepath.Join(dir, "charts", "linkerd-control-plane") {
		t.Errorf("charts %s and %s", first.crds, first.control)
	}
	again, err := linkerdFolder(dir)
	if err != nil || again.tag != first.tag {
		t.Errorf("another look gives %s, %v", again.tag, err)
	}
	for name, text := range map[string]string{"VERSION": "edge-1\n", "linkerd2-proxy": string(header(t, machines[runtime.GOARCH], "another"))} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	other, err := linkerdFolder(dir)
	if err != nil || !strings.HasPrefix(other.tag, "edge-1-") || strings.TrimPrefix(other.tag, "edge-1-") == strings.TrimPrefix(first.tag, "built-") {
		t.Errorf("another proxy has the tag %s, the first %s, %v", other.tag, first.tag, err)
	}
	if other.versions[0].Version != "edge-1" {
		t.Errorf("versions %+v", other.versions)
	}
}

func TestLinkerdFolderRefused(t *testing.T) {
	if machines[runtime.GOARCH] == 0 {
		t.Skip("programs for this machine are not known")
	}
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
			[]string{"controller is no program for Linux"}},
		{"another machine", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "linkerd2-proxy"), header(t, foreign, ""), 0o755)
		}, []string{"linkerd2-proxy is a program for EM_S390, this machine is " + machines[runtime.GOARCH].String()}},
		{"a folder", func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "controller")), os.Mkdir(filepath.Join(dir, "controller"), 0o755))
		}, []string{"controller is no file"}},
		{"a bad version", func(dir string) error { return os.WriteFile(filepath.Join(dir, "VERSION"), []byte("a b"), 0o644) }, []string{"VERSION holds an invalid version"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := fakeLinkerd(t)
			if err := test.spoil(dir); err != nil {
				t.Fatal(err)
			}
			_, err := linkerdFolder(dir)
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
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := findChart(dir, linkerdCRDsChart); got != filepath.Join(dir, "linkerd-crds-2026.8.3.tgz") {
		t.Errorf("found %q", got)
	}
	if got := findChart(dir, linkerdControlChart); got != "" {
		t.Errorf("of two archives, took %q", got)
	}
}

func TestLinkerdSourceRefused(t *testing.T) {
	b := &Builder{cache: cache{dir: t.TempDir()}}
	for source, want := range map[string]string{
		"": "no source of Linkerd is given", "./nowhere": "neither a folder nor the name of a release", "latest": "neither a folder nor the name of a release",
		"edge-/../x": "neither a folder nor",
	} {
		_, err := b.linkerdSource(t.Context(), newMeter(nil), source)
		if errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), want) || !strings.Contains(errs.Hint(err), "--linkerd") {
			t.Errorf("source %q: %v (hint %q)", source, err, errs.Hint(err))
		}
	}
}

// Whether a lab's Linkerd is the one that is asked for, its version says.
func TestLinkerdIs(t *testing.T) {
	if machines[runtime.GOARCH] == 0 {
		t.Skip("programs for this machine are not known")
	}
	dir := fakeLinkerd(t)
	if err := os.WriteFile(filepath.Join(dir, "VERSION"), []byte("edge-26.8.3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	built, err := linkerdFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
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
		if got, err := LinkerdIs(c.version, c.source); err != nil || got != c.want {
			t.Errorf("%q of %s: %v, %v", c.version, c.source, got, err)
		}
	}
	for _, source := range []string{"./nowhere", t.TempDir()} {
		if _, err := LinkerdIs("edge-26.8.3", source); errs.Code(err) != errs.CodeUsage {
			t.Errorf("%s: %v", source, err)
		}
	}
}

func TestContainerImages(t *testing.T) {
	got, err := containerImages([]byte(`---
# Source: a
kind: Deployment
spec:
  template:
    spec:
      initContainers: [{name: linkerd-init, image: "example.org/proxy:1"}]
      containers:
      - {name: destination, image: "example.org/controller:1"}
      - {name: linkerd-proxy, image: "example.org/proxy:1"}
---
kind: ConfigMap
data: {values: "containers: [{name: debug, image: not.this/one:1}]"}
---
`))
	if err != nil || len(got) != 3 || got["destination"] != "example.org/controller:1" || got["linkerd-proxy"] != "example.org/proxy:1" || got["linkerd-init"] != got["linkerd-proxy"] {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := containerImages([]byte("a: [")); err == nil {
		t.Error("broken YAML was taken")
	}
}

func TestLinkerdImages(t *testing.T) {
	if machines[runtime.GOARCH] == 0 {
		t.Skip("programs for this machine are not known")
	}
	b := &Builder{cache: cache{dir: t.TempDir()}}
	debian := fakeEntries(t, b.cache)["debian"]
	dir := fakeLinkerd(t)
	source, err := linkerdFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	l := &Linkerd{Version: "v1", Controller: "example.org/controller:v1", Proxy: "example.org/proxy:v1"}
	plans, err := linkerdPlans(debian, source, l)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]struct {
		user, entry string
		programs    []string
	}{
		l.Controller: {"65534", "/controller", []string{"controller", "linkerd-policy-controller"}},
		l.Proxy: {"2102", "/usr/lib/linkerd/linkerd2-proxy-identity",
			[]string{"usr/lib/linkerd/linkerd2-proxy", "usr/lib/linkerd/linkerd2-proxy-identity", "usr/lib/linkerd/linkerd2-proxy-init"}},
	}
	for _, p := range plans {
		made, err := b.image(t.Context(), newMeter(nil), p.recipe(newMeter(nil)))
		if err != nil {
			t.Fatal(err)
		}
		ref, image := extract(t, made.Path)
		w, ok := want[ref]
		if !ok {
			t.Fatalf("an image %s", ref)
		}
		delete(want, ref)
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		c := config.Config
		if c.User != w.user || !slices.Equal(c.Entrypoint, []string{w.entry}) || !slices.Contains(c.Env, "LINKERD_CONTAINER_VERSION_OVERRIDE=v1") {
			t.Errorf("%s: %+v", ref, c)
		}
		for _, program := range w.programs {
			text, h := fileIn(t, image, program)
			if !strings.HasSuffix(text, filepath.Base(program)) || h.Mode != 0o755 {
				t.Errorf("%s: %s is %q, %+v", ref, program, text, h)
			}
		}
		if _, h := fileIn(t, image, "usr/sbin/iptables-nft"); h == nil {
			t.Errorf("%s has no iptables-nft", ref)
		}
	}
	if len(want) > 0 {
		t.Errorf("images missing: %v", want)
	}
	// A program whose libraries are not in the image would not start there.
	if f, err := elf.Open("/bin/sh"); err != nil {
		t.Log("no program with libraries to try")
	} else if needs, _ := f.ImportedLibraries(); len(needs) > 0 {
		source.programs["controller"] = program{path: "/bin/sh"}
		debian.dir = t.TempDir()
		if err := os.Mkdir(debian.path("image"), 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := linkerdPlans(debian, source, l)
		if errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), "/bin/sh needs the library "+needs[0]) {
			t.Errorf("a program without its libraries: %v", err)
		}
	}
}

func TestNewer(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want bool
	}{{"2.36", "2.36", false}, {"2.4", "2.36", false}, {"2.38", "2.36", true}, {"2.36.1", "2.36", true}, {"2.2.5", "2.36", false}, {"PRIVATE", "2.36", false}} {
		if got := newer(test.a, test.b); got != test.want {
			t.Errorf("newer(%s, %s) = %t", test.a, test.b, got)
		}
	}
}

func TestLinkerdKeys(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	keys, err := newLinkerdKeys(now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair([]byte(keys.issuer), []byte(keys.issuerKey)); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(keys.anchor)) {
		t.Fatal("no trust anchor")
	}
	block, _ := pem.Decode([]byte(keys.issuer))
	issuer, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []time.Time{now, now.Add(300 * 24 * time.Hour)} {
		if _, err := issuer.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: at}); err != nil {
			t.Errorf("at %s: %v", at, err)
		}
	}
	if !issuer.IsCA || issuer.PublicKeyAlgorithm != x509.ECDSA || issuer.Subject.CommonName != "identity.linkerd.cluster.local" || !issuer.MaxPathLenZero {
		t.Errorf("issuer %+v", issuer)
	}
	other, err := newLinkerdKeys(now)
	if err != nil || other.anchor == keys.anchor || other.issuerKey == keys.issuerKey {
		t.Errorf("two installations share keys, %v", err)
	}
}

func TestLinkerdValues(t *testing.T) {
	keys := linkerdKeys{anchor: "A", issuer: "B", issuerKey: "C"}
	built := (&linkerdSource{tag: "v1"}).values(keys)
	if built["linkerdVersion"] != "v1" || built["identityTrustAnchorsPEM"] != "A" {
		t.Errorf("%v", built)
	}
	tls := built["identity"].(map[string]any)["issuer"].(map[string]any)["tls"].(map[string]any)
	if tls["crtPEM"] != "B" || tls["keyPEM"] != "C" {
		t.Errorf("%v", tls)
	}
	if v, ok := (&linkerdSource{}).values(keys)["linkerdVersion"]; ok {
		t.Errorf("a release's own version is overruled by %v", v)
	}
}

// chartServer serves two channels of charts; an archive's text is its name.
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
			for _, chart := range []string{linkerdCRDsChart, linkerdControlChart} {
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

func TestLinkerdRelease(t *testing.T) {
	server := chartServer(t, "")
	b := &Builder{cache: cache{dir: t.TempDir()}, charts: server.URL + "/"}
	for _, test := range []struct{ release, control string }{
		{"edge", "linkerd-control-plane-2025.10.1.tgz"},
		{"edge-25.8.7", "linkerd-control-plane-2025.8.7.tgz"},
		{"2025.9.2", "linkerd-control-plane-2025.9.2.tgz"},
	} {
		s, err := b.linkerdSource(t.Context(), newMeter(nil), test.release)
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
		if s.programs != nil || s.tag != "" || len(s.versions) != 2 {
			t.Errorf("%s: %+v", test.release, s)
		}
	}
	for release, want := range map[string]string{"edge-25.1.1": "there is no chart linkerd-control-plane of Linkerd's release edge-25.1.1",
		"stable-2.14.10": "there is no chart linkerd-crds of Linkerd's release"} {
		if _, err := b.linkerdSource(t.Context(), newMeter(nil), release); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", release, err)
		}
	}
	// Once downloaded, a release needs its repository no more.
	server.Close()
	if _, err := b.linkerdSource(t.Context(), newMeter(nil), "edge-25.8.7"); err != nil {
		t.Errorf("from the cache: %v", err)
	}
	if _, err := b.linkerdSource(t.Context(), newMeter(nil), "edge"); err == nil || !strings.Contains(errs.Hint(err), "--linkerd DIR") {
		t.Errorf("without the repository: %v (hint %q)", err, errs.Hint(err))
	}
}

func TestLinkerdReleaseSpoiled(t *testing.T) {
	server := chartServer(t, "linkerd-crds-2025.9.2.tgz")
	b := &Builder{cache: cache{dir: t.TempDir()}, charts: server.URL + "/"}
	if _, err := b.linkerdSource(t.Context(), newMeter(nil), "edge-25.9.2"); err == nil || !strings.Contains(err.Error(), "its digest is") {
		t.Errorf("a chart with another digest than the index says: %v", err)
	}
	if left := leftovers(t, b.cache); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestCompareVersions(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{{"2025.10.1", "2025.9.9", 1}, {"2025.9.1", "2025.9.1", 0}, {"2026.1.1", "2025.12.9", 1}, {"1.2", "1.2.1", -1}, {"1.2.3-edge", "1.2.3", -1}} {
		got := compareVersions(test.a, test.b)
		if max(-1, min(1, got)) != test.want || max(-1, min(1, compareVersions(test.b, test.a))) != -test.want {
			t.Errorf("compareVersions(%s, %s) = %d", test.a, test.b, got)
		}
	}
}
