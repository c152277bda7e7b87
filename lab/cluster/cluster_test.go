package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authorization "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/lab"
)

// fakeAPI answers version and access reviews; allow decides the latter.
func fakeAPI(t *testing.T, allow func(authorization.ResourceAttributes) bool) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/version":
			fmt.Fprint(w, `{"gitVersion": "v1.36.3"}`)
		case "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
			review, ok := object.(*authorization.SelfSubjectAccessReview)
			if !ok {
				t.Errorf("%T: %v", object, err)
				return
			}
			review.Status.Allowed = allow(*review.Spec.ResourceAttributes)
			w.WriteHeader(http.StatusCreated)
			json.NewEncoder(w).Encode(&authorization.SelfSubjectAccessReview{
				TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"}, Status: review.Status})
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return kubeconfig(t, server.URL)
}

func kubeconfig(t *testing.T, url string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: here, clusters: [{name: c, cluster: {server: %q}}], users: [{name: u, user: {}}],
 contexts: [{name: here, context: {cluster: c, user: u}}]}`, url)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOpen(t *testing.T) {
	path := fakeAPI(t, func(authorization.ResourceAttributes) bool { return true })
	l, err := Open(context.Background(), Options{Kubeconfig: path, Images: lab.Images{Meshtrial: "registry/meshtrial:1"}})
	if err != nil {
		t.Fatal(err)
	}
	if l.Kind() != lab.KindCluster || l.ServerVersion() != "v1.36.3" || l.Context() != "here" || l.Kubeconfig() != path || l.Images().Meshtrial != "registry/meshtrial:1" {
		t.Errorf("%+v", l)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	l.RESTConfig().Host = "changed"
	if l.RESTConfig().Host == "changed" {
		t.Error("RESTConfig is no copy")
	}
}

func TestOpenSaysAllThatIsMissing(t *testing.T) {
	path := fakeAPI(t, func(a authorization.ResourceAttributes) bool {
		return !(a.Resource == "pods" && a.Subresource == "portforward") && !(a.Resource == "deployments" && a.Verb != "get")
	})
	_, err := Open(context.Background(), Options{Kubeconfig: path})
	if errs.Code(err) != errs.CodeUsage || errs.Hint(err) == "" {
		t.Fatalf("%v (%s)", err, errs.Hint(err))
	}
	for _, want := range []string{"create, get pods/portforward", "create, patch, list, delete deployments.apps"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\ndoes not say %s", err, want)
		}
	}
	if strings.Contains(err.Error(), "nodes") {
		t.Errorf("%v\nnames a right that is there", err)
	}
}

func TestOpenBadInput(t *testing.T) {
	good := fakeAPI(t, func(authorization.ResourceAttributes) bool { return true })
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("clusters: 12\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{
		"no file":    {Kubeconfig: filepath.Join(t.TempDir(), "none")},
		"no YAML":    {Kubeconfig: broken},
		"no context": {Kubeconfig: good, Context: "elsewhere"},
	} {
		if _, err := Open(context.Background(), o); errs.Code(err) != errs.CodeUsage || errs.Hint(err) == "" {
			t.Errorf("%s: %v (hint %q)", name, err, errs.Hint(err))
		}
	}
	// Neither a flag, nor the variable, nor the file in the home folder.
	none := filepath.Join(t.TempDir(), "none")
	t.Setenv("KUBECONFIG", none)
	if _, err := Open(context.Background(), Options{}); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), none) || !strings.Contains(errs.Hint(err), "--kubeconfig") {
		t.Errorf("no kubeconfig at all: %v (hint %q)", err, errs.Hint(err))
	}
	if _, err := Open(context.Background(), Options{Kubeconfig: kubeconfig(t, "http://127.0.0.1:1")}); err == nil || errs.Code(err) != errs.CodeFailure || errs.Hint(err) == "" {
		t.Errorf("a cluster that does not answer: %v", err)
	}
}

// What needs no rights still learns that the cluster is there, before anything
// is done for it.
func TestReach(t *testing.T) {
	config, err := Reach(t.Context(), Options{Kubeconfig: fakeAPI(t, func(authorization.ResourceAttributes) bool { return false })})
	if err != nil || config == nil {
		t.Errorf("a cluster that allows nothing: %v", err)
	}
	away := kubeconfig(t, "http://127.0.0.1:1")
	if _, err := Reach(t.Context(), Options{Kubeconfig: away}); err == nil || errs.Code(err) != errs.CodeFailure || !strings.Contains(errs.Hint(err), away) {
		t.Errorf("a cluster that does not answer: %v (hint %q)", err, errs.Hint(err))
	}
}

// A device never ends: it is refused before it is read.
func TestEndlessKubeconfig(t *testing.T) {
	if _, err := Reach(t.Context(), Options{Kubeconfig: "/dev/zero"}); err == nil || errs.Code(err) != errs.CodeUsage {
		t.Errorf("%v", err)
	}
}
