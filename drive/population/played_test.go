package population

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
)

// nodesAPI is an API server that has only nodes.
type nodesAPI struct {
	mu    sync.Mutex
	nodes map[string]*corev1.Node
	calls []string // writes
	// play changes a created node.
	play func(*corev1.Node)
	// unread is why single nodes cannot be read; "" if they can.
	unread metav1.StatusReason
	// earlier lists the objects of an earlier population, except its nodes, by list: its
	// namespace and the namespace's contents.
	earlier map[string][]metav1.ObjectMeta
}

// refusal is the response to a rejected request.
func refusal(w http.ResponseWriter, reason metav1.StatusReason, code int) metav1.Status {
	w.WriteHeader(code)
	return metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: reason, Code: int32(code), Message: "nodes: " + string(reason)}
}

func (a *nodesAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.Method != http.MethodGet {
		a.calls = append(a.calls, r.Method+" "+r.URL.Path)
	}
	var out any
	switch name, one := strings.CutPrefix(r.URL.Path, "/api/v1/nodes/"); {
	case r.Method == http.MethodPost:
		n := &corev1.Node{}
		if err := json.NewDecoder(r.Body).Decode(n); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		a.nodes[n.Name] = n
		out = n.DeepCopy()
		a.play(n)
	case one && a.nodes[name] == nil:
		out = refusal(w, metav1.StatusReasonNotFound, http.StatusNotFound)
	case one && r.Method == http.MethodGet && a.unread == metav1.StatusReasonForbidden:
		out = refusal(w, a.unread, http.StatusForbidden)
	case one && r.Method == http.MethodGet && a.unread != "":
		out = refusal(w, a.unread, http.StatusServiceUnavailable)
	case one && r.Method == http.MethodPatch:
		patch := metav1.PartialObjectMetadata{}
		if err := json.NewDecoder(r.Body).Decode(&patch); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		n := a.nodes[name]
		n.OwnerReferences = patch.OwnerReferences
		out = metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}, ObjectMeta: n.ObjectMeta}
	case r.Method == http.MethodPatch: // a run has no right to do this
		out = refusal(w, metav1.StatusReasonForbidden, http.StatusForbidden)
	case r.Method == http.MethodDelete:
		if delete(a.nodes, name); !one {
			a.earlier = nil
		}
		out = metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess}
	case one:
		out = a.nodes[name]
	default:
		list := metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}}
		if r.URL.Path == "/api/v1/nodes" {
			for _, n := range a.nodes {
				list.Items = append(list.Items, metav1.PartialObjectMetadata{TypeMeta: n.TypeMeta, ObjectMeta: n.ObjectMeta})
			}
		}
		for _, o := range a.earlier[r.URL.Path] {
			list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: o})
		}
		if strings.HasSuffix(r.URL.Path, "/pods") { // the typed client requests these
			list.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}
		}
		if strings.HasSuffix(r.URL.Path, "/endpointslices") && !strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadataList") {
			list.TypeMeta = metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSliceList"}
		}
		if strings.HasSuffix(r.URL.Path, "/deployments") && !strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadataList") {
			list.TypeMeta = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DeploymentList"}
		}
		out = list
	}
	if err := json.NewEncoder(w).Encode(out); err != nil {
		panic(err)
	}
}

// ready makes a node ready, as kwok does.
func ready(n *corev1.Node) {
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
}

// If nothing simulates nodes in a cluster, one node shows it. The error names the missing
// program, and the node is deleted again; a population without pods needs no node. An
// error of reading the node is reported as such.
func TestTryNode(t *testing.T) {
	pods, nobody := Sizes{Namespaces: 1, Proxies: 1}, func(*corev1.Node) {}
	for name, tt := range map[string]struct {
		play   func(*corev1.Node)
		unread metav1.StatusReason
		sizes  Sizes
		limit  time.Duration
		fails  string // in the error; "" for no error
		hint   string // in its hint; "" for no hint
	}{
		"played":          {ready, "", pods, time.Hour, "", ""},
		"nobody there":    {nobody, "", pods, 50 * time.Millisecond, "node mm-node-0 was not ready within 50ms", "kwok"},
		"no heart beats":  {func(n *corev1.Node) { ready(n); n.Status.Conditions[0].Status = corev1.ConditionUnknown }, "", pods, 50 * time.Millisecond, "was not ready", "kwok"},
		"Services alone":  {nobody, "", Sizes{Namespaces: 1, Services: 3}, time.Hour, "", ""},
		"taken by others": {nil, "", pods, time.Hour, "node mm-node-0 was deleted before it was ready", "a cloud's node controller"},
		"no right":        {ready, metav1.StatusReasonForbidden, pods, time.Hour, "read the simulated node mm-node-0: nodes: Forbidden", ""},
		"no answer":       {ready, metav1.StatusReasonServiceUnavailable, pods, 50 * time.Millisecond, "read the simulated node mm-node-0: nodes: ServiceUnavailable", ""},
	} {
		t.Run(name, func(t *testing.T) {
			api := &nodesAPI{nodes: map[string]*corev1.Node{}, play: tt.play, unread: tt.unread}
			if tt.play == nil {
				api.play = func(n *corev1.Node) { delete(api.nodes, n.Name) }
			}
			w := runsWorld(t, api)
			err := w.tryNode(t.Context(), tt.sizes, tt.limit)
			if (err != nil) != (tt.fails != "") || err != nil && !strings.Contains(err.Error(), tt.fails) ||
				(errs.Hint(err) != "") != (tt.hint != "") || !strings.Contains(errs.Hint(err), tt.hint) {
				t.Fatalf("%v (hint: %s)", err, errs.Hint(err))
			}
			want := "POST /api/v1/nodes"
			if tt.sizes.pods() == 0 {
				want = ""
			}
			if got := strings.Join(api.calls, ", "); got != want {
				t.Errorf("it wrote %q, want %q", got, want)
			}
			for _, n := range api.nodes {
				if n.Annotations["kwok.x-k8s.io/node"] != "fake" || len(n.OwnerReferences) != 1 || n.OwnerReferences[0].UID != "run" {
					t.Errorf("%+v", n.ObjectMeta)
				}
			}
			if err := w.Remove(t.Context()); err != nil || len(api.nodes) > 0 {
				t.Errorf("%d nodes are left: %v", len(api.nodes), err)
			}
		})
	}
}

// runsWorld returns the world of a run in a cluster with this API, which ends with the
// test.
func runsWorld(t *testing.T, api http.Handler) *World {
	t.Helper()
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	w, err := New(&rest.Config{Host: server.URL, QPS: -1})
	must.OK(t, err)
	w.Own(metav1.OwnerReference{APIVersion: "v1", Kind: "Namespace", Name: "meshtrial-r", UID: "run"})
	return w
}

// Objects of an earlier run are deleted before a node is tried. Only its nodes, which
// stay, are adopted: a run may not write to the rest, which is deleted anyway.
func TestTryNodeBesideAnEarlierPopulation(t *testing.T) {
	first := node(0)
	must.OK(t, stamp(first))
	n := &corev1.Node{}
	must.OK(t, runtime.DefaultUnstructuredConverter.FromUnstructured(first.Object, n))
	ready(n)
	n.UID, n.OwnerReferences = "node", []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: "mm-0", UID: "namespace"}}
	dead := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: "meshtrial-dead", UID: "dead"}}
	api := &nodesAPI{nodes: map[string]*corev1.Node{n.Name: n}, earlier: map[string][]metav1.ObjectMeta{
		"/api/v1/namespaces": {{Name: "mm-0", UID: "namespace", OwnerReferences: dead}}, "/api/v1/serviceaccounts": {{Name: "simulated", Namespace: "mm-0", UID: "account"}}}}
	w := runsWorld(t, api)
	must.OK(t, w.tryNode(t.Context(), Sizes{Namespaces: 1, Proxies: 1}, time.Hour))
	if got, want := strings.Join(api.calls, ", "), "PATCH /api/v1/nodes/mm-node-0, DELETE /api/v1/namespaces/mm-0"; got != want {
		t.Errorf("it wrote %q, want %q", got, want)
	}
	if len(n.OwnerReferences) != 1 || n.OwnerReferences[0].UID != "run" {
		t.Errorf("the node belongs to %v", n.OwnerReferences)
	}
}

// If the run ends while it waits for a node, the error does not mention kwok.
func TestTryNodeEnds(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := errors.New("somebody ended it")
	w := runsWorld(t, &nodesAPI{nodes: map[string]*corev1.Node{}, play: func(*corev1.Node) { time.AfterFunc(10*time.Millisecond, func() { cancel(ended) }) }})
	if err := w.tryNode(ctx, Sizes{Namespaces: 1, Proxies: 1}, time.Hour); !errors.Is(err, ended) || errs.Hint(err) != "" {
		t.Errorf("%v (hint: %s)", err, errs.Hint(err))
	}
}
