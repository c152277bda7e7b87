package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	authorization "k8s.io/api/authorization/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
)

// strictCluster is an API server that refuses some rights. It fails the test if a request is not
// one that asks for the rights of a user.
func strictCluster(t *testing.T, refused ...string) (kubeconfig string, asked func() []string) {
	t.Helper()
	var mu sync.Mutex
	var all []string
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
			q, ok := object.(*authorization.SelfSubjectAccessReview)
			if !ok {
				t.Errorf("%T: %v", object, err)
				return
			}
			question := "path"
			if a := q.Spec.ResourceAttributes; a != nil {
				question = strings.Trim(fmt.Sprintf("%s %s %s %s", a.Verb, a.Resource, a.Subresource, a.Namespace), " ")
			}
			mu.Lock()
			all = append(all, question)
			mu.Unlock()
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, `{"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "status": {"allowed": %t}}`, !slices.Contains(refused, question))
		default:
			t.Errorf("%s %s was asked for", r.Method, r.URL)
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: here, clusters: [{name: c, cluster: {server: %q}}], users: [{name: u, user: {}}],
 contexts: [{name: here, context: {cluster: c, user: u}}]}`, server.URL)
	must.OK(t, os.WriteFile(path, []byte(text), 0o600))
	return path, func() []string { mu.Lock(); defer mu.Unlock(); return slices.Clone(all) }
}

func runLine(t *testing.T, args ...string) (code int, out, said string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = Main(args, strings.NewReader(""), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestClusterCheck(t *testing.T) {
	path, _ := strictCluster(t)
	code, out, said := runLine(t, "cluster", "check", "quick", "--kubeconfig", path)
	if code != 0 || said != "" {
		t.Errorf("all is granted: exit code %d, %s", code, said)
	}
	contains(t, out,
		"cluster of context here, Kubernetes v1.36.3\n",
		"\nobserve: A DaemonSet that reads CPU",
		"\n  privileged: hostPID, user 0, capability SYS_PTRACE",
		"\n  without it: CPU and memory per container",
		"\n  granted  create daemonsets.apps in the run's namespace (the observer on each node)\n",
		"\n  granted  list pods in namespace istio-system (",
		"\nall permissions are granted\n")
	if regexp.MustCompile("levers:|missing|lacking|signals:").MatchString(out) {
		t.Errorf("it has more:\n%s", out)
	}

	path, _ = strictCluster(t, "create services  meshtrial-check", "list namespaces")
	code, out, said = runLine(t, "cluster", "check", "quick", "--kubeconfig", path)
	if code != errs.CodeAssertion || said != "" {
		t.Errorf("one is missing: exit code %d, %s", code, said)
	}
	contains(t, out,
		"\n  missing  create services in the run's namespace (the workers' addresses)\n",
		"\n  lacking  list namespaces (what earlier runs left)\n           without it: leftovers of a killed run are neither reported",
		"\nmissing: 1 line that must be granted, 1 other\n")

	path, _ = strictCluster(t, "list namespaces")
	if code, out, _ = runLine(t, "cluster", "check", "quick", "--kubeconfig", path); code != 0 || !strings.HasSuffix(out, "all required permissions are granted; 1 other is not\n") {
		t.Errorf("one that a run goes without: exit code %d\n%s", code, out)
	}
}

// A run that reads from kubelets needs the right to do so instead of a privileged pod.
func TestClusterCheckKubelets(t *testing.T) {
	path, _ := strictCluster(t, "create daemonsets  meshtrial-check", "get nodes proxy")
	code, out, said := runLine(t, "cluster", "check", "quick", "--observe", "kubelet", "--set", "window=84s", "--kubeconfig", path)
	if code != errs.CodeAssertion || said != "" || !strings.Contains(out, "\nkubelets: ") || strings.Contains(out, "\nobserve: ") || strings.Contains(out, "privileged:") ||
		!strings.Contains(out, "\n  missing  get nodes/proxy (the CPU and memory of the run's containers") || !strings.Contains(out, "\nmissing: 1 line that must be granted, 0 others\n") {
		t.Errorf("exit code %d, %s\n%s", code, said, out)
	}
}

func TestClusterCheckJSON(t *testing.T) {
	path, asked := strictCluster(t, "get nodes proxy", "list pods  mesh")
	code, out, _ := runLine(t, "cluster", "check", "--feature", "signals", "--json", "--kubeconfig", path)
	var r struct {
		Schema, Missing, Lacking int
		Features                 []struct {
			Feature string
			Rights  []struct {
				Verbs, Missing                        []string
				Resource, Subresource, Where, Without string
			}
		}
		Notes []string
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if code != 0 || r.Schema != 1 || r.Missing != 0 || r.Lacking != 1 || len(r.Features) != 1 || r.Features[0].Feature != "signals" || r.Notes == nil {
		t.Errorf("exit code %d, %+v", code, r)
	}
	last := r.Features[0].Rights[len(r.Features[0].Rights)-1]
	if last.Resource != "nodes" || last.Subresource != "proxy" || last.Where != "everywhere" || !slices.Equal(last.Missing, []string{"get"}) || last.Without == "" {
		t.Errorf("%+v", last)
	}
	if !slices.Contains(asked(), "list pods  istio-system") || len(asked()) != 4 {
		t.Errorf("asked: %q", asked())
	}
}

func TestClusterCheckManifests(t *testing.T) {
	path, asked := strictCluster(t)
	code, out, said := runLine(t, "cluster", "check", "--feature", "assess-config", "-n", "shop", "--manifests", "--group", "readers", "--kubeconfig", path)
	if code != 0 || said != "" || len(asked()) != 0 {
		t.Errorf("exit code %d, asked %q, said %q\n%s", code, asked(), said, out)
	}
	contains(t, out, "kind: ClusterRole\n", `"envoyfilters"`, `subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: "readers"}
`, `namespace: "shop"`)
}

func TestClusterCheckUsage(t *testing.T) {
	path, _ := strictCluster(t)
	for says, args := range map[string][]string{
		"--manifests requires a user, a group or a service account": {"--manifests"},
		"require --manifests":               {"--user", "jane"},
		"mutually exclusive":                {"--manifests", "--json", "--user", "jane"},
		`invalid --serviceaccount "runner"`: {"--manifests", "--serviceaccount", "runner"},
		`no feature "flying"`:               {"--feature", "flying"},
		"nosuchstudy":                       {"nosuchstudy"},
		"--manifests requires a user, a group or a service account\ntwice": {"--manifests", "--user", "jane", "--group", "readers"},
	} {
		code, out, said := runLine(t, append([]string{"cluster", "check", "--kubeconfig", path}, args...)...)
		says, _, _ = strings.Cut(says, "\n")
		if code != errs.CodeUsage || !strings.Contains(said, says) || out != "" {
			t.Errorf("%v: exit code %d, %q, %q", args, code, out, said)
		}
	}
}

// TestRunAsksFirst: a run, a profile and readers report all missing rights before they make any
// other request.
func TestRunAsksFirst(t *testing.T) {
	path, _ := strictCluster(t, "create daemonsets  meshtrial-check", "create secrets  meshtrial-check", "get nodes proxy", "list pods  istio-system", "list pods  shop", "create services  shop")
	out := filepath.Join(t.TempDir(), "run")
	for says, args := range map[string][]string{
		"observe: create daemonsets.apps in the run's namespace": {"run", "quick", "--image", "registry.example/team/m:1", "--out", out},
		"kubelets: get nodes/proxy":                              {"run", "quick", "--observe", "kubelet", "--set", "window=84s", "--image", "registry.example/team/m:1", "--out", out},
		"profile: create secrets in the run's namespace":         {"profile", "shop-1", "--image", "registry.example/team/m:1"},
		"assess: list pods in namespace istio-system":            {"assess", "traffic"},
		"assess-config: list pods in namespace shop":             {"assess", "config", "-n", "shop"},
		"controlplane-test: create services in namespace shop":   {"controlplane-test", "--namespace", "shop"},
	} {
		code, _, said := runLine(t, append(args, "--lab", "cluster", "--kubeconfig", path)...)
		if code != errs.CodeUsage || !strings.Contains(said, says) || !strings.Contains(said, "meshtrial cluster check") {
			t.Errorf("%v: exit code %d, %s", args, code, said)
		}
	}
	if _, err := os.Stat(out); !os.IsNotExist(err) {
		t.Errorf("a run directory was made: %v", err)
	}
}
