package site

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/testing/must"
)

// keeperAPI is an API server that has one Lease, and accepts creations of all
// kinds except the forbidden ones.
type keeperAPI struct {
	lab.Lab
	t      *testing.T
	url    string
	lease  string // in responses; "": none
	forbid string // kinds
	exists int    // how often another ClusterRole of the name exists

	made []*unstructured.Unstructured
}

func (a *keeperAPI) RESTConfig() *rest.Config { return &rest.Config{Host: a.url} }
func (a *keeperAPI) Images() lab.Images       { return lab.Images{Meshtrial: "image"} }

func (a *keeperAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	refuse := func(code int, reason metav1.StatusReason) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: reason, Code: int32(code)})
	}
	if r.Method == http.MethodGet {
		if a.lease == "" {
			refuse(404, metav1.StatusReasonNotFound)
			return
		}
		_, _ = io.WriteString(w, a.lease)
		return
	}
	body, _ := io.ReadAll(r.Body)
	o := &unstructured.Unstructured{}
	if protobuf := r.Header.Get("Content-Type"); protobuf != "application/json" {
		// The format of a typed client.
		w.Header().Set("Content-Type", protobuf)
		o.SetKind(map[string]string{"/apis/apps/v1/namespaces/meshtrial-r/deployments": "Deployment"}[r.URL.Path])
		o.SetNamespace("meshtrial-r")
	} else if err := o.UnmarshalJSON(body); err != nil || r.Method != http.MethodPost {
		a.t.Errorf("%s %s: %s", r.Method, r.URL, body)
	}
	if a.forbid == o.GetKind() {
		refuse(403, metav1.StatusReasonForbidden)
		return
	}
	if o.GetKind() == "ClusterRole" && a.exists > 0 {
		a.exists--
		refuse(409, metav1.StatusReasonAlreadyExists)
		return
	}
	a.made = append(a.made, o)
	_, _ = w.Write(body)
}

// keep creates the keeper of run r in a cluster with a Lease.
func keep(t *testing.T, api *keeperAPI) (notes []string) {
	t.Helper()
	server := httptest.NewServer(api)
	defer server.Close()
	api.t, api.url = t, server.URL
	kube, err := kubernetes.NewForConfig(api.RESTConfig())
	must.OK(t, err)
	s := &Site{lab: api, Kube: kube, Run: "r", Namespace: "meshtrial-r", uid: "0123456789", Note: func(text string) { notes = append(notes, text) }}
	if err := s.createKeeper(t.Context()); err != nil {
		t.Error(err)
	}
	return notes
}

const leaseOfR = `{"metadata":{"resourceVersion":"1"},"spec":{"holderIdentity":"r"}}`

// Rights of a deleted namespace of the run are about to be collected, and are not the new keeper's.
func TestKeeperAfterItsPredecessor(t *testing.T) {
	api := &keeperAPI{lease: leaseOfR, exists: 2}
	if notes := keep(t, api); len(notes) > 0 {
		t.Errorf("%q", notes)
	}
	if !slices.ContainsFunc(api.made, func(o *unstructured.Unstructured) bool { return o.GetKind() == "ClusterRole" }) {
		t.Error("it has the rights of its predecessor, which are about to go")
	}
}

// The keeper may read one Lease and delete one namespace, and all of its
// objects are owned by that namespace.
func TestKeepersRights(t *testing.T) {
	api := &keeperAPI{lease: leaseOfR}
	if notes := keep(t, api); len(notes) > 0 {
		t.Errorf("%q", notes)
	}
	var kinds []string
	for _, o := range api.made {
		kinds = append(kinds, o.GetKind())
		owners := o.GetOwnerReferences()
		if o.GetNamespace() == "meshtrial-r" != (len(owners) == 0) || len(owners) > 0 && !reflect.DeepEqual(owners, []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: "meshtrial-r", UID: "0123456789"}}) {
			t.Errorf("%s %s/%s belongs to %+v", o.GetKind(), o.GetNamespace(), o.GetName(), owners)
		}
		rules, _, _ := unstructured.NestedSlice(o.Object, "rules")
		for _, rule := range rules {
			text, _ := json.Marshal(rule)
			want := map[string]string{
				"Role":        `{"apiGroups":["coordination.k8s.io"],"resourceNames":["meshtrial"],"resources":["leases"],"verbs":["get"]}`,
				"ClusterRole": `{"apiGroups":[""],"resourceNames":["meshtrial-r"],"resources":["namespaces"],"verbs":["delete"]}`,
			}[o.GetKind()]
			if string(text) != want {
				t.Errorf("%s: %s", o.GetKind(), text)
			}
		}
		if strings.HasSuffix(o.GetKind(), "Role") != (len(rules) == 1) {
			t.Errorf("%s has %d rules", o.GetKind(), len(rules))
		}
	}
	if want := []string{"ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "Deployment"}; !slices.Equal(kinds, want) {
		t.Errorf("made %v, want %v", kinds, want)
	}
}

// A run that does not hold the cluster's Lease continues without a keeper,
// which would end it. So does one that may not create a keeper, which is
// reported.
func TestNoKeeper(t *testing.T) {
	for _, c := range []struct {
		name, lease, forbid, note string
		made                      int
	}{
		{"no Lease", "", "", "", 0},
		{"another's", `{"spec":{"holderIdentity":"s"}}`, "", "", 0},
		{"nobody's", `{"spec":{}}`, "", "", 0},
		{"no ClusterRoles", leaseOfR, "ClusterRole", "this run has no keeper: create ClusterRole meshtrial-r-keeper-01234567:", 3},
		{"no ServiceAccounts", leaseOfR, "ServiceAccount", "if the runner dies, namespace meshtrial-r and what belongs to it stay until the next run or `meshtrial cluster restore`", 0},
	} {
		api := &keeperAPI{lease: c.lease, forbid: c.forbid}
		notes := keep(t, api)
		if len(api.made) != c.made || (c.note == "") != (len(notes) == 0) || len(notes) > 0 && !strings.Contains(notes[0], c.note) {
			t.Errorf("%s: made %d objects, said %q", c.name, len(api.made), notes)
		}
	}
}

// The keeper is not a workload whose node must be observed.
func TestKeepersNodeNeedNotBeObserved(t *testing.T) {
	pods := []corev1.Pod{
		{ObjectMeta: metav1.ObjectMeta{Labels: Labels("r", roleKeeper)}, Spec: corev1.PodSpec{NodeName: "n-1"}},
		{ObjectMeta: metav1.ObjectMeta{Labels: Labels("r", RoleWorker)}, Spec: corev1.PodSpec{NodeName: "n-2"}},
	}
	if lacking := Unobserved(pods); !slices.Equal(lacking, []string{"n-2"}) {
		t.Errorf("%v", lacking)
	}
	if d := (&Site{lab: &keeperAPI{}, Run: "r", Namespace: "meshtrial-r"}).keeperDeployment("u"); d.Spec.Template.Labels[mesh.AppLabel] != roleKeeper || d.Spec.Template.Spec.HostPID || *d.Spec.Template.Spec.Containers[0].SecurityContext.RunAsUser == 0 {
		t.Errorf("%+v", d.Spec.Template)
	}
}
