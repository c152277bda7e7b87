package labtest

import (
	"fmt"
	"reflect"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Objects observes the objects of a lab's cluster, except those in the program's own
// namespaces and those that change constantly on their own.
type Objects struct {
	kube  dynamic.Interface
	kinds []schema.GroupVersionResource
	of    func(o *unstructured.Unstructured) bool
}

// unsteady lists resources that the cluster itself changes constantly.
var unsteady = []string{"pods", "replicasets", "events", "leases", "endpoints", "endpointslices", "componentstatuses"}

// goneLimit bounds the wait for the garbage collector to remove what belongs to a
// namespace.
const goneLimit = 2 * time.Minute

// NewObjects observes the objects selected by of; nil means all. It waits until istiod
// has made its webhook reject what it cannot validate, which istiod does once it has seen
// the webhook work.
func NewObjects(t *testing.T, l *local.Lab, of func(o *unstructured.Unstructured) bool) *Objects {
	t.Helper()
	kube, err := dynamic.NewForConfig(l.RESTConfig())
	must.OK(t, err)
	client, err := discovery.NewDiscoveryClientForConfig(l.RESTConfig())
	must.OK(t, err)
	lists, err := client.ServerPreferredResources()
	must.OK(t, err)
	a := &Objects{kube: kube, of: of}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		must.OK(t, err)
		for _, r := range list.APIResources {
			if slices.Contains(r.Verbs, "list") && !slices.Contains(unsteady, r.Name) {
				a.kinds = append(a.kinds, version.WithResource(r.Name))
			}
		}
	}
	for began := time.Now(); Kubectl(t, l, "", "get", "validatingwebhookconfiguration", "istio-validator-istio-system", "-o", "jsonpath={.webhooks[*].failurePolicy}") != "Fail"; time.Sleep(time.Second) {
		if time.Since(began) > goneLimit {
			t.Fatal("istiod's webhook does not come into force")
		}
	}
	return a
}

// Now returns all objects by kind and name, without what the API server or a controller
// maintains in them.
func (a *Objects) Now(t *testing.T) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	for _, resource := range a.kinds {
		list, err := a.kube.Resource(resource).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatalf("%s: %v", resource, err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			if strings.HasPrefix(o.GetNamespace(), site.NamespacePrefix) || o.GetNamespace() == journal.Namespace ||
				resource.Resource == "namespaces" && o.GetName() == journal.Namespace || a.of != nil && !a.of(o) {
				continue
			}
			for _, path := range [][]string{{"status"}, {"metadata", "managedFields"}, {"metadata", "resourceVersion"}, {"metadata", "generation"},
				{"metadata", "annotations", "deployment.kubernetes.io/revision"}, {"metadata", "annotations", "deprecated.daemonset.template.generation"}, {"metadata", "annotations", "control-plane.alpha.kubernetes.io/leader"}, {"metadata", "creationTimestamp"}, {"metadata", "uid"}} {
				unstructured.RemoveNestedField(o.Object, path...)
			}
			out[resource.Resource+"."+resource.Group+" "+o.GetNamespace()+"/"+o.GetName()] = o.Object
		}
	}
	return out
}

// Same waits until the objects are as they were before; what describes what happened in
// between.
func (a *Objects) Same(t *testing.T, what string, before map[string]map[string]any) {
	t.Helper()
	var differ []string
	for began := time.Now(); time.Since(began) < goneLimit; time.Sleep(time.Second) {
		now := a.Now(t)
		differ = nil
		for name, object := range before {
			if other, there := now[name]; !there {
				differ = append(differ, name+" is gone")
			} else if !reflect.DeepEqual(object, other) {
				differ = append(differ, fmt.Sprintf("%s differs:\n  %v\n  %v", name, object, other))
			}
		}
		for name := range now {
			if _, there := before[name]; !there {
				differ = append(differ, name+" is new")
			}
		}
		if len(differ) == 0 {
			return
		}
	}
	sort.Strings(differ)
	t.Errorf("%s: %d differences:\n%s", what, len(differ), strings.Join(differ, "\n"))
}
