package trial

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// kindsServed maps the fake API server's resources to their kinds.
var kindsServed = map[string]string{
	"namespaces": "Namespace", "secrets": "Secret", "configmaps": "ConfigMap", "pods": "Pod", "events": "Event", "leases": "Lease",
	"deployments": "Deployment", "replicasets": "ReplicaSet", "horizontalpodautoscalers": "HorizontalPodAutoscaler", "sidecars": "Sidecar",
}

// apiServer is an in-memory API server: it stores objects as written, rolls Deployments out at
// once, and runs nothing.
type apiServer struct {
	mu      sync.Mutex
	objects map[string]map[string]*unstructured.Unstructured // by collection, then namespace/name
	version int
}

// serveAPI serves objects until the test ends.
func serveAPI(t *testing.T, objects ...map[string]any) (*apiServer, *rest.Config) {
	t.Helper()
	s := &apiServer{objects: map[string]map[string]*unstructured.Unstructured{}}
	for _, content := range objects {
		o := &unstructured.Unstructured{Object: content}
		resource := strings.ToLower(o.GetKind()) + "s"
		if kindsServed[resource] == "" {
			t.Fatalf("kind %s is not served", o.GetKind())
		}
		group := "apis/" + o.GetAPIVersion()
		if o.GetAPIVersion() == "v1" {
			group = "api/v1"
		}
		s.store(group+"/"+resource, o)
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, &rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"}}
}

// place is the target of a request path: /api/v1 or /apis/GROUP/VERSION, optionally
// namespaces/NAMESPACE, a resource, and optionally a name.
type place struct{ group, namespace, resource, name string }

func (p place) collection() string { return p.group + "/" + p.resource }

func placeOf(path string) place {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	n := 2
	if parts[0] == "apis" {
		n = 3
	}
	p := place{group: strings.Join(parts[:n], "/")}
	rest := parts[n:]
	if len(rest) > 2 && rest[0] == "namespaces" {
		p.namespace, rest = rest[1], rest[2:]
	}
	p.resource = rest[0]
	if len(rest) > 1 {
		p.name = rest[1]
	}
	return p
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := placeOf(r.URL.Path)
	dry := r.URL.Query().Get("dryRun") != ""
	live := s.objects[p.collection()][p.namespace+"/"+p.name]
	var sent *unstructured.Unstructured
	if r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch {
		sent = &unstructured.Unstructured{}
		if err := json.NewDecoder(r.Body).Decode(&sent.Object); err != nil {
			refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
			return
		}
		sent.SetNamespace(p.namespace)
	}
	switch {
	case kindsServed[p.resource] == "":
		refuse(w, http.StatusNotImplemented, metav1.StatusReasonUnknown, r.Method+" "+r.URL.Path+" is not served")
	case r.Method == http.MethodGet && p.name == "":
		answer(w, s.list(p, r.URL.Query().Get("labelSelector"), r.URL.Query().Get("fieldSelector")))
	case r.Method == http.MethodPost:
		if s.objects[p.collection()][p.namespace+"/"+sent.GetName()] != nil {
			refuse(w, http.StatusConflict, metav1.StatusReasonAlreadyExists, sent.GetName())
			return
		}
		if !dry {
			s.store(p.collection(), sent)
		}
		answer(w, sent.Object)
	case live == nil:
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, r.URL.Path)
	case r.Method == http.MethodGet:
		answer(w, live.Object)
	case r.Method == http.MethodDelete:
		delete(s.objects[p.collection()], p.namespace+"/"+p.name)
		if p.resource == "pods" {
			for _, d := range s.objects["apis/apps/v1/deployments"] {
				s.rollOut(d)
			}
		}
		answer(w, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess})
	case sent.GetResourceVersion() != "" && sent.GetResourceVersion() != live.GetResourceVersion():
		refuse(w, http.StatusConflict, metav1.StatusReasonConflict, r.URL.Path)
	default: // an update, or an apply of a whole object
		if r.Method == http.MethodPatch {
			merged := live.DeepCopy()
			maps.Copy(merged.Object, sent.Object)
			merged.SetUID(live.GetUID())
			sent = merged
		}
		sent.SetResourceVersion(live.GetResourceVersion())
		if !dry {
			s.store(p.collection(), sent)
		}
		answer(w, sent.Object)
	}
}

func (s *apiServer) list(p place, labelSelector, fieldSelector string) map[string]any {
	selector, err := labels.Parse(labelSelector)
	if err != nil {
		selector = labels.Nothing()
	}
	items := []any{}
	for _, key := range slices.Sorted(maps.Keys(s.objects[p.collection()])) {
		o := s.objects[p.collection()][key]
		name, one := strings.CutPrefix(fieldSelector, "metadata.name=")
		if (p.namespace == "" || o.GetNamespace() == p.namespace) && selector.Matches(labels.Set(o.GetLabels())) && (!one || o.GetName() == name) {
			items = append(items, o.Object)
		}
	}
	version := strings.TrimPrefix(strings.TrimPrefix(p.group, "apis/"), "api/")
	return map[string]any{"apiVersion": version, "kind": kindsServed[p.resource] + "List", "metadata": map[string]any{"resourceVersion": strconv.Itoa(s.version)}, "items": items}
}

// store keeps an object as written, and notifies the "controllers".
func (s *apiServer) store(collection string, o *unstructured.Unstructured) {
	if s.objects[collection] == nil {
		s.objects[collection] = map[string]*unstructured.Unstructured{}
	}
	key := o.GetNamespace() + "/" + o.GetName()
	before := s.objects[collection][key]
	s.version++
	o.SetResourceVersion(strconv.Itoa(s.version))
	switch {
	case before == nil:
		o.SetUID(types.UID(fmt.Sprintf("uid-%d", s.version)))
		o.SetGeneration(1)
	case !reflect.DeepEqual(before.Object["spec"], o.Object["spec"]):
		o.SetGeneration(before.GetGeneration() + 1)
	}
	s.objects[collection][key] = o
	if o.GetKind() == "Deployment" {
		s.rollOut(o)
	}
}

// rollOut gives a Deployment the requested number of ready pods with its template.
func (s *apiServer) rollOut(d *unstructured.Unstructured) {
	spec, _ := d.Object["spec"].(map[string]any)
	template, _ := spec["template"].(map[string]any)
	want, _, _ := unstructured.NestedFieldNoCopy(spec, "replicas")
	n := 1
	if want != nil {
		n, _ = strconv.Atoi(fmt.Sprint(want))
	}
	pods := map[string]*unstructured.Unstructured{}
	for i := range n {
		pod := (&unstructured.Unstructured{Object: map[string]any{"metadata": template["metadata"], "spec": template["spec"]}}).DeepCopy()
		pod.SetAPIVersion("v1")
		pod.SetKind("Pod")
		pod.SetNamespace(d.GetNamespace())
		s.version++
		pod.SetName(fmt.Sprintf("%s-%d-%d", d.GetName(), i, s.version))
		pod.SetUID(types.UID(pod.GetName()))
		pod.Object["status"] = map[string]any{"phase": "Running", "conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}
		pods[pod.GetNamespace()+"/"+pod.GetName()] = pod
	}
	s.objects["api/v1/pods"] = pods
	d.Object["status"] = map[string]any{"observedGeneration": d.GetGeneration(), "replicas": int64(n), "updatedReplicas": int64(n), "readyReplicas": int64(n), "availableReplicas": int64(n)}
}

// written returns the other parties' objects as JSON, without what the API server adds, without
// pods, and without those in one namespace.
func (s *apiServer) written(besides string) (map[string]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]string{}
	for collection, all := range s.objects {
		for key, o := range all {
			if o.GetKind() == "Pod" || o.GetNamespace() == besides || o.GetName() == besides {
				continue
			}
			text, err := json.Marshal([]any{o.GetLabels(), o.Object["spec"], o.Object["data"]})
			if err != nil {
				return nil, err
			}
			out[collection+" "+key] = string(text)
		}
	}
	return out, nil
}

func answer(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object) // to a client that has gone
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message})
}
