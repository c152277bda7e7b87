package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	authorization "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/rights"
	_ "github.com/meshtrial/meshtrial/mesh/meshes" // whose rights are in the table
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// fakeAPI answers version, one group's resources, and access reviews; allow
// decides the latter.
func fakeAPI(t *testing.T, allow func(asked string) bool) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/version":
			fmt.Fprint(w, `{"gitVersion": "v1.36.3"}`)
		case "/apis/example.org/v1":
			fmt.Fprint(w, `{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "example.org/v1", "resources": [
 {"name": "things/status", "kind": "Thing", "namespaced": true}, {"name": "things", "kind": "Thing", "namespaced": true}, {"name": "worlds", "kind": "World"}]}`)
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
			review.Status.Allowed = allow(asked(review.Spec))
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

// asked describes a question: verb, resource, group, subresource and namespace, or verb and
// path.
func asked(s authorization.SelfSubjectAccessReviewSpec) string {
	if a := s.NonResourceAttributes; a != nil {
		return a.Verb + " " + a.Path
	}
	a := s.ResourceAttributes
	return fmt.Sprintf("%s %s.%s/%s in %q", a.Verb, a.Resource, a.Group, a.Subresource, a.Namespace)
}

func everything(string) bool { return true }

// needs returns some features with the places of a run.
func needs(t *testing.T, names ...string) []rights.Feature {
	t.Helper()
	features, err := rights.Named(names...)
	must.OK(t, err)
	return rights.Place(features, rights.Places{Journal: journal.Namespace, Run: "meshtrial-x", Meshes: map[string]string{study.MeshIstio: "istio-system"}})
}

func kubeconfig(t *testing.T, url string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: here, clusters: [{name: c, cluster: {server: %q}}], users: [{name: u, user: {}}],
 contexts: [{name: here, context: {cluster: c, user: u}}]}`, url)
	must.OK(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestOpen(t *testing.T) {
	path := fakeAPI(t, everything)
	l, err := Open(context.Background(), Options{Kubeconfig: path, Images: lab.Images{Meshtrial: "registry/meshtrial:1"}, Needs: needs(t, rights.Names()...)})
	must.OK(t, err)
	if l.Kind() != lab.KindCluster || l.version != "v1.36.3" || l.Context() != "here" || l.Kubeconfig() != path || l.Images().Meshtrial != "registry/meshtrial:1" || len(l.Notes()) > 0 {
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

// Open reports all missing rights by feature and place. Missing optional rights are a note,
// and unneeded rights are not checked.
func TestOpenSaysAllThatIsMissing(t *testing.T) {
	var mu sync.Mutex
	questions := map[string]int{}
	path := fakeAPI(t, func(asked string) bool {
		mu.Lock()
		defer mu.Unlock()
		questions[asked]++
		switch asked {
		case `create secrets./ in "meshtrial-x"`, `create pods./portforward in "meshtrial-x"`, `list deployments.apps/ in "istio-system"`, "get /version", `get nodes./ in ""`:
			return false
		}
		return true
	})
	l, err := Open(context.Background(), Options{Kubeconfig: path, Needs: needs(t, rights.Reach, rights.EveryRun, rights.Profiles)})
	if errs.Code(err) != errs.CodeUsage || errs.Hint(err) == "" || l != nil {
		t.Fatalf("%v (%s)", err, errs.Hint(err))
	}
	want := `this user lacks rights:
  reach: get /version (whether the cluster responds, and its version)
  every run: create pods/portforward in the run's namespace (the control servers of the roles, and the proxies' admin pages)
  every run: list deployments.apps in namespace istio-system (whether the mesh is installed and ready)
  profiles: create secrets in the run's namespace (the role's token)`
	if err.Error() != want {
		t.Errorf("%v\nwant\n%s", err, want)
	}
	for q, n := range questions {
		if n != 1 {
			t.Errorf("%s was asked %d times", q, n)
		}
	}
	if questions[`create leases.coordination.k8s.io/ in "meshtrial-journal"`] != 0 || questions[`create namespaces./ in ""`] != 1 {
		t.Errorf("asked: %v", questions)
	}
}

func TestOpenNotesWhatARunCanGoWithout(t *testing.T) {
	path := fakeAPI(t, func(asked string) bool { return asked != `get nodes./ in ""` })
	l, err := Open(context.Background(), Options{Kubeconfig: path, Needs: needs(t, rights.EveryRun)})
	must.OK(t, err)
	if want := []string{"this user may not get nodes (the nodes' container runtime and zones): the report lacks the container runtime, and trials lack their pods' zones"}; !slices.Equal(l.Notes(), want) {
		t.Errorf("%q, want %q", l.Notes(), want)
	}
}

// A missing optional right does not prevent a detached run: the pod does without it if the
// user lacks it, or cannot create the role.
func TestGrantable(t *testing.T) {
	asks := needs(t, rights.EveryRun, rights.DataPlane)
	words := func(features []rights.Feature) (out []string) {
		for _, f := range features {
			for _, r := range f.Rights {
				for _, verb := range r.Verbs {
					out = append(out, f.Name+": "+asked(review(&r, verb).Spec))
				}
			}
		}
		return out
	}
	const agent, agents = `get daemonsets.apps/ in "kube-system"`, `list pods./ in "kube-system"`
	for name, tt := range map[string]struct {
		lacks, gone []string
		notes       int
	}{
		"all":                            {},
		"what the agent takes elsewhere": {[]string{agent, agents}, []string{agent, agents}, 0}, // Open notes it
		"half of that":                   {[]string{agents}, []string{agents}, 0},
		"no roles there":                 {[]string{`create roles.rbac.authorization.k8s.io/ in "kube-system"`}, []string{agent, agents}, 2},
		"no bindings there":              {[]string{agent, `create rolebindings.rbac.authorization.k8s.io/ in "kube-system"`}, []string{agent, agents}, 1},
		"no roles where it must":         {[]string{`create roles.rbac.authorization.k8s.io/ in "istio-system"`}, nil, 0}, // the feature detached requires that
		"no nodes":                       {[]string{`get nodes./ in ""`}, []string{`get nodes./ in ""`}, 0},
		"no endpoints":                   {[]string{`list endpointslices.discovery.k8s.io/ in "meshtrial-x"`}, []string{`list endpointslices.discovery.k8s.io/ in "meshtrial-x"`}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := Find(t.Context(), Options{Kubeconfig: fakeAPI(t, func(asked string) bool { return !slices.Contains(tt.lacks, asked) })})
			must.OK(t, err)
			got, notes, err := Grantable(t.Context(), found.Kube, asks)
			must.OK(t, err)
			want := slices.DeleteFunc(words(asks), func(right string) bool {
				return slices.ContainsFunc(tt.gone, func(gone string) bool { return strings.HasSuffix(right, ": "+gone) })
			})
			if got := words(got); !slices.Equal(got, want) || len(words(asks))-len(want) < len(tt.gone) {
				t.Errorf("the pod has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			if len(notes) != tt.notes || tt.notes > 0 && !strings.Contains(notes[0], "in namespace kube-system (") {
				t.Errorf("notes %q", notes)
			}
			text, err := rights.Manifests(got, rights.Subject{Kind: "ServiceAccount", Namespace: "team", Name: "pod"})
			if err != nil || strings.Contains(string(text), `namespace: "kube-system"`) != (len(tt.gone) < 2) {
				t.Errorf("%v, manifests\n%s", err, text)
			}
		})
	}
}

// The API server reports where objects of a study are, and whether they have a namespace.
func TestResolve(t *testing.T) {
	var mu sync.Mutex
	var questions []string
	path := fakeAPI(t, func(asked string) bool {
		mu.Lock()
		defer mu.Unlock()
		questions = append(questions, asked)
		return true
	})
	of := func(kind string) rights.Right {
		return rights.Right{Verbs: []string{"get"}, Group: "example.org", Version: "v1", Kind: kind, Where: rights.InNamed, Namespace: "shop", Why: "step x changes it"}
	}
	l, err := Open(context.Background(), Options{Kubeconfig: path, Needs: []rights.Feature{{Name: rights.ConfigSteps, Rights: []rights.Right{of("Thing"), of("World"), of("Ghost")}}}})
	must.OK(t, err)
	slices.Sort(questions)
	if want := []string{`get things.example.org/ in "shop"`, `get worlds.example.org/ in ""`}; !slices.Equal(questions, want) {
		t.Errorf("asked %q, want %q", questions, want)
	}
	if n := l.Notes(); len(n) != 1 || !strings.Contains(n[0], "the cluster does not serve Ghost of example.org/v1") {
		t.Errorf("%q", n)
	}
}

// Errors about a kubeconfig name its file and context, and say what to do.
func TestKubeconfigErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	const contexts = `clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}], users: [{name: u, user: {}}, {name: old, user: {client-certificate: /nowhere/cert.pem, client-key: /nowhere/key.pem}}],
 contexts: [{name: here, context: {cluster: c, user: u}}, {name: uncertain, context: {cluster: c, user: old}}, {name: adrift, context: {cluster: gone, user: u}}]}`
	good := write("good", "{apiVersion: v1, kind: Config, current-context: here, "+contexts)
	unset := write("unset", "{apiVersion: v1, kind: Config, "+contexts)
	stale := write("stale", "{apiVersion: v1, kind: Config, current-context: past, "+contexts)
	empty := write("empty", "{apiVersion: v1, kind: Config}")
	const choose = "name one of its contexts with --context: adrift, here, uncertain"
	for name, tt := range map[string]struct {
		options     Options
		variable    string // KUBECONFIG
		error, hint string
	}{
		"no file":                   {Options{Kubeconfig: filepath.Join(dir, "none")}, "", "no kubeconfig: no file " + filepath.Join(dir, "none"), nameOne},
		"no files":                  {Options{}, "/nowhere/a:/nowhere/b", "no kubeconfig: no file /nowhere/a or /nowhere/b", nameOne},
		"no YAML":                   {Options{Kubeconfig: write("broken", "clusters: 12\n")}, "", "kubeconfig: error loading config file", nameReadable},
		"no contexts":               {Options{Kubeconfig: empty}, "", "no kubeconfig: " + empty + " has no contexts", nameOne},
		"no such context":           {Options{Kubeconfig: good, Context: "elsewhere"}, "", "kubeconfig " + good + ` has no context "elsewhere"`, choose},
		"no such context in files":  {Options{Context: "elsewhere"}, good + ":/nowhere:" + empty, "kubeconfig " + good + ", " + empty + ` has no context "elsewhere"`, choose},
		"no current context":        {Options{Kubeconfig: unset}, "", "kubeconfig " + unset + " has no current context", choose},
		"a current one of the past": {Options{Kubeconfig: stale}, "", "the current context of kubeconfig " + stale + ` is "past", which it does not define`, choose},
		"no cluster":                {Options{Kubeconfig: good, Context: "adrift"}, "", "context adrift of kubeconfig " + good + ` names cluster "gone", which it does not define`, choose},
		"no certificate":            {Options{Kubeconfig: good, Context: "uncertain"}, "", "context uncertain of kubeconfig " + good + " cannot be used: ", "another context with --context"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", tt.variable)
			_, err := Reach(t.Context(), tt.options)
			if errs.Code(err) != errs.CodeUsage || !strings.HasPrefix(err.Error(), tt.error) || !strings.Contains(errs.Hint(err), tt.hint) {
				t.Errorf("%v (hint %q)", err, errs.Hint(err))
			}
		})
	}
}

// Every reason has a text and a hint.
func TestReasons(t *testing.T) {
	for _, r := range []Reason{NoAnswer, NoCredentials, Rejected, Forbidden, Untrusted, NotTLS, OnlyTLS, NotAPIServer, Unhealthy} {
		if reasons[r].text == "" || reasons[r].hint == "" {
			t.Errorf("%s lacks words", r)
		}
	}
}

// An API server that rejects a request is distinguished from one that does not answer.
func TestReachRefused(t *testing.T) {
	for _, tt := range []struct {
		status int
		body   string
		reason Reason
		detail string // "": any
	}{
		{401, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "Unauthorized", "reason": "Unauthorized", "code": 401}`, Rejected, "401 Unauthorized"},
		{403, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "forbidden: User \"system:anonymous\" cannot get path \"/version\"", "reason": "Forbidden", "code": 403}`,
			Forbidden, "403 Forbidden: forbidden: User \"system:anonymous\" cannot get path \"/version\""},
		{403, "this network is for guests", Forbidden, "403 Forbidden: this network is for guests"},
		{404, "", Unhealthy, "404 Not Found"},
		{503, "<html>later</html>", Unhealthy, "503 Service Unavailable"},
		{200, "<html>log in here</html>", NotAPIServer, ""},
		{200, `"ok"`, NotAPIServer, ""},
		{200, "[]", NotAPIServer, ""},
		{200, `{"login": "here"}`, NotAPIServer, errNoVersion.Error()},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			if strings.HasPrefix(tt.body, "{") {
				w.Header().Set("Content-Type", "application/json")
			}
			w.WriteHeader(tt.status)
			io.WriteString(w, tt.body)
		}))
		path := kubeconfig(t, server.URL)
		_, err := Reach(t.Context(), Options{Kubeconfig: path})
		server.Close()
		var e *UnreachedError
		if !errors.As(err, &e) || errs.Code(err) != errs.CodeFailure || e.Reason != tt.reason || e.Host != server.URL || !strings.HasSuffix(e.Where, path) || tt.detail != "" && e.Detail != tt.detail {
			t.Errorf("%d %s: %+v", tt.status, tt.body, err)
		}
		if hint := errs.Hint(err); !strings.Contains(hint, "kubectl --kubeconfig "+path+" --context here version") {
			t.Errorf("%d: hint %q", tt.status, hint)
		}
	}

	// With several files, kubectl finds the context in them itself.
	first, second := kubeconfig(t, "http://127.0.0.1:1"), kubeconfig(t, "http://127.0.0.1:1")
	t.Setenv("KUBECONFIG", first+":"+second)
	if _, err := Reach(t.Context(), Options{}); err == nil || !strings.Contains(err.Error(), first+", "+second+" does not respond") || !strings.Contains(errs.Hint(err), "kubectl --context here version") {
		t.Errorf("%v (hint %q)", err, errs.Hint(err))
	}
}

// The same for a server that this machine does not trust, or that was never contacted.
func TestReachUntrusted(t *testing.T) {
	serve := func(start func(*httptest.Server)) string {
		server := httptest.NewUnstartedServer(http.NotFoundHandler())
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		start(server)
		t.Cleanup(server.Close)
		return server.URL
	}
	plain, secured := serve((*httptest.Server).Start), serve((*httptest.Server).StartTLS)
	for name, tt := range map[string]struct {
		url, user string
		reason    Reason
	}{
		"a certificate of nobody": {secured, "", Untrusted},
		"http to https":           {strings.Replace(secured, "https:", "http:", 1), "", OnlyTLS},
		"https to http":           {strings.Replace(plain, "http:", "https:", 1), "", NotTLS},
		"a login that ran out":    {secured, "exec: {apiVersion: client.authentication.k8s.io/v1, command: 'false', interactiveMode: Never}", NoCredentials},
	} {
		path := kubeconfig(t, tt.url)
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, []byte(strings.Replace(string(text), "user: {}", "user: {"+tt.user+"}", 1)), 0o600)
		}
		must.OK(t, err)
		_, err = Reach(t.Context(), Options{Kubeconfig: path})
		var e *UnreachedError
		if !errors.As(err, &e) || errs.Code(err) != errs.CodeFailure || e.Reason != tt.reason {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An anonymous user may see only the version.
func TestReachAnonymous(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/version" {
			io.WriteString(w, `{"gitVersion": "v1.36.3"}`)
			return
		}
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "User \"system:anonymous\" cannot do that"}`)
	}))
	defer server.Close()
	_, err := Reach(t.Context(), Options{Kubeconfig: kubeconfig(t, server.URL), Needs: needs(t, rights.Signals)})
	if err == nil || !strings.Contains(err.Error(), "system:anonymous") || !strings.Contains(errs.Hint(err), "log in, or name another context") {
		t.Errorf("%v (hint %q)", err, errs.Hint(err))
	}
}

// Missing rights are reported before anything begins.
func TestReachRefuses(t *testing.T) {
	path := fakeAPI(t, func(asked string) bool { return !strings.HasPrefix(asked, "list pods") })
	if _, err := Reach(t.Context(), Options{Kubeconfig: path, Needs: needs(t, rights.Signals)}); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), "signals: list pods in namespace istio-system (istiod's pods)") {
		t.Errorf("%v", err)
	}
}

// Commands that need no rights still check that the cluster answers before they do anything.
func TestReach(t *testing.T) {
	config, err := Reach(t.Context(), Options{Kubeconfig: fakeAPI(t, func(string) bool { return false })})
	if err != nil || config == nil {
		t.Errorf("a cluster that allows nothing: %v", err)
	}
	away := kubeconfig(t, "http://127.0.0.1:1")
	if _, err := Reach(t.Context(), Options{Kubeconfig: away}); err == nil || errs.Code(err) != errs.CodeFailure || !strings.Contains(errs.Hint(err), away) {
		t.Errorf("a cluster that does not respond: %v (hint %q)", err, errs.Hint(err))
	}
}

// A pod's service account does not come from a kubeconfig, even if there is one without
// contexts.
func TestInPod(t *testing.T) {
	l := &Lab{files: []string{kubeconfig(t, "http://127.0.0.1:1")}}
	l.useServiceAccount(&rest.Config{Host: "https://10.0.0.1"})
	err := l.unreached(errors.New("no route to host"))
	if l.Context() != "in-cluster" || err.Error() != "the cluster of this pod's service account does not respond: no route to host" || strings.Contains(errs.Hint(err), "kubectl") {
		t.Errorf("%v (hint %q)", err, errs.Hint(err))
	}
}

// A kubeconfig may come from the output of a program: --kubeconfig <(PROGRAM).
func TestPipedKubeconfig(t *testing.T) {
	text, err := os.ReadFile(fakeAPI(t, func(string) bool { return true }))
	must.OK(t, err)
	read, write, err := os.Pipe()
	if err == nil {
		defer read.Close()
		_, err = write.Write(text) // it fits into the pipe's buffer
		err = errors.Join(err, write.Close())
	}
	must.OK(t, err)
	if config, err := Reach(t.Context(), Options{Kubeconfig: fmt.Sprintf("/dev/fd/%d", read.Fd())}); err != nil || config.Host == "" {
		t.Errorf("%v, %v", config, err)
	}
}
