package push

import (
	"encoding/base64"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
)

func TestName(t *testing.T) {
	long := strings.Repeat("v", 200)
	for _, test := range []struct{ to, version, want, fail string }{
		{"registry.example/meshtrial", "v1.2.3", "registry.example/meshtrial:v1.2.3", ""},
		{"registry.example/tools/meshtrial:mine", "v1.2.3", "registry.example/tools/meshtrial:mine", ""},
		{"127.0.0.1:5000/meshtrial", "devel-0123+changes", "127.0.0.1:5000/meshtrial:devel-0123-changes", ""},
		{"registry.example/meshtrial", "(+)", "registry.example/meshtrial:latest", ""},
		{"registry.example/meshtrial", long, "registry.example/meshtrial:" + long[:128], ""},
		{"docker.io/somebody/meshtrial", "v1", "index.docker.io/somebody/meshtrial:v1", ""},
		{"https://registry.example/meshtrial", "v1", "", "an address"},
		{"registry.example/meshtrial@sha256:00", "v1", "", "a digest"},
		{"meshtrial", "v1", "", "lacks a registry"},
		{"registry.example:5000", "v1", "", "lacks a registry"},
		{"somebody/meshtrial", "v1", "", "registry"},
		{"registry.example/Meshtrial", "v1", "", "registry.example/Meshtrial is not a valid image name"},
		{"registry.example/meshtrial:", "v1", "", "not a valid image name"},
		{"registry.example/meshtrial:a b", "v1", "", "not a valid image name"},
		{"", "v1", "", "lacks a registry"},
	} {
		got, err := Name(test.to, test.version)
		switch {
		case test.fail == "" && (err != nil || got.Name() != test.want):
			t.Errorf("%q of version %q is %s, %v; want %s", test.to, test.version, got, err, test.want)
		case test.fail != "" && (err == nil || !strings.Contains(err.Error(), test.fail) || errs.Code(err) != errs.CodeUsage || !strings.Contains(errs.Hint(err), "REGISTRY/NAME")):
			t.Errorf("%q: %v (code %d, hint %q), want one with %q", test.to, err, errs.Code(err), errs.Hint(err), test.fail)
		}
	}
}

// A server records its requests, and may require a password.
type server struct {
	registry http.Handler
	password string
	// refuses, unless 0, is the status with which uploads are rejected.
	refuses atomic.Int32
	mu      sync.Mutex
	written []string
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if user, password, _ := r.BasicAuth(); s.password != "" && (user != "somebody" || password != s.password) {
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		s.mu.Lock()
		s.written = append(s.written, r.Method+" "+r.URL.Path)
		s.mu.Unlock()
	}
	if status := s.refuses.Load(); status != 0 && r.Method == http.MethodPost {
		w.WriteHeader(int(status))
		return
	}
	s.registry.ServeHTTP(w, r)
}

func (s *server) writes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.written
	s.written = nil
	return out
}

// start serves a registry, and sets up a user without credentials.
func start(t *testing.T) (s *server, at string) {
	t.Helper()
	home := t.TempDir()
	for _, v := range []string{"HOME", "DOCKER_CONFIG", "XDG_RUNTIME_DIR"} {
		t.Setenv(v, home)
	}
	t.Setenv("REGISTRY_AUTH_FILE", "")
	s = &server{registry: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
	listening := httptest.NewServer(s)
	t.Cleanup(listening.Close)
	return s, strings.TrimPrefix(listening.URL, "http://")
}

func made(t *testing.T, to string) (v1.Image, name.Tag) {
	t.Helper()
	image, err := random.Image(1000, 2)
	must.OK(t, err)
	tag, err := Name(to, "v1")
	must.OK(t, err)
	return image, tag
}

func TestPushAndPull(t *testing.T) {
	s, at := start(t)
	image, to := made(t, at+"/tools/meshtrial")
	ref, err := Image(t.Context(), image, to)
	must.OK(t, err)
	digest, err := image.Digest()
	if want := at + "/tools/meshtrial@" + digest.String(); err != nil || ref != want {
		t.Errorf("pushed as %s, want %s", ref, want)
	}
	if len(s.writes()) == 0 {
		t.Error("nothing was pushed")
	}
	for _, by := range []string{ref, at + "/tools/meshtrial:v1"} {
		parsed, err := name.ParseReference(by)
		must.OK(t, err)
		pulled, err := remote.Image(parsed)
		must.OK(t, err)
		if got, err := pulled.Digest(); err != nil || got != digest {
			t.Errorf("%s is %s, %v", by, got, err)
		}
		if err := validate.Image(pulled); err != nil {
			t.Error(err)
		}
	}

	again, err := Image(t.Context(), image, to)
	if err != nil || again != ref {
		t.Errorf("pushed again as %s, %v", again, err)
	}
	if w := s.writes(); len(w) > 0 {
		t.Errorf("what is there was pushed again: %q", w)
	}

	// Under another tag, only the manifest must be pushed.
	other, err := Name(at+"/tools/meshtrial:other", "v1")
	must.OK(t, err)
	if ref2, err := Image(t.Context(), image, other); err != nil || ref2 != ref {
		t.Errorf("pushed by another tag as %s, %v", ref2, err)
	}
	if w := s.writes(); len(w) != 1 || w[0] != "PUT /v2/tools/meshtrial/manifests/other" {
		t.Errorf("for another tag there was pushed %q", w)
	}
}

func TestPushWithCredentials(t *testing.T) {
	s, at := start(t)
	s.password = "secret"
	image, to := made(t, at+"/meshtrial")
	_, err := Image(t.Context(), image, to)
	if err == nil || !strings.Contains(err.Error(), "pushing "+at+"/meshtrial:v1") || !strings.Contains(errs.Hint(err), "docker login "+at) {
		t.Errorf("without a password: %v (hint %q)", err, errs.Hint(err))
	}
	if w := s.writes(); len(w) > 0 {
		t.Errorf("without a password there was pushed %q", w)
	}
	auth := base64.StdEncoding.EncodeToString([]byte("somebody:secret"))
	config := `{"auths": {"` + at + `": {"auth": "` + auth + `"}}}`
	must.OK(t, os.WriteFile(filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json"), []byte(config), 0o600))
	if _, err := Image(t.Context(), image, to); err != nil || len(s.writes()) == 0 {
		t.Errorf("with the user's password: %v", err)
	}
}

func TestPushRefused(t *testing.T) {
	s, at := start(t)
	for _, test := range []struct {
		status int
		hint   string
	}{
		{http.StatusForbidden, "docker login"},
		{http.StatusNotFound, "create tools/meshtrial there"},
	} {
		s.refuses.Store(int32(test.status))
		image, to := made(t, at+"/tools/meshtrial")
		_, err := Image(t.Context(), image, to)
		if err == nil || !strings.Contains(errs.Hint(err), test.hint) || errs.Code(err) != errs.CodeFailure {
			t.Errorf("status %d: %v (hint %q)", test.status, err, errs.Hint(err))
		}
	}
}

// Nothing is sent unencrypted to another machine, although the library would do
// that for a private address.
func TestPlainHTTP(t *testing.T) {
	var asked []string
	base := roundTrip(func(r *http.Request) (*http.Response, error) {
		asked = append(asked, r.URL.String())
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
	})
	for _, test := range []struct {
		url string
		ok  bool
	}{
		{"http://127.0.0.1:5000/v2/", true},
		{"http://127.8.8.8/v2/", true},
		{"http://localhost:5000/v2/", true},
		{"http://[::1]:5000/v2/", true},
		{"https://registry.example/v2/", true},
		{"https://10.0.0.1/v2/", true},
		{"http://10.0.0.1:5000/v2/", false},
		{"http://192.168.1.1/v2/", false},
		{"http://registry.local/v2/", false},
		{"http://localhost.example/v2/", false},
		{"http://registry.example/v2/", false},
	} {
		asked = nil
		g := &guarded{base: base}
		r, err := http.NewRequest(http.MethodGet, test.url, nil)
		must.OK(t, err)
		_, err = g.RoundTrip(r)
		if (err == nil) != test.ok || (len(asked) == 1) != test.ok || g.refused.Load() == test.ok {
			t.Errorf("%s: %v, %q was asked", test.url, err, asked)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestPlainHTTPHasAHint(t *testing.T) {
	to, err := Name("10.1.2.3:5000/meshtrial", "v1")
	must.OK(t, err)
	plain := explain(io.ErrUnexpectedEOF, to, true)
	if errs.Code(plain) != errs.CodeUsage || !strings.Contains(errs.Hint(plain), "components images --roles") {
		t.Errorf("%v (hint %q)", plain, errs.Hint(plain))
	}
	gone := explain(io.ErrUnexpectedEOF, to, false)
	if errs.Code(gone) != errs.CodeFailure || !strings.Contains(errs.Hint(gone), "10.1.2.3:5000 must be reachable") {
		t.Errorf("%v (hint %q)", gone, errs.Hint(gone))
	}
}
