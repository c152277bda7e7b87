//go:build integration || verify

package journal_test

import (
	"errors"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// guest is someone else's cluster, with a namespace of theirs.
type guest struct {
	lab  *local.Lab
	kube dynamic.Interface
	open *lab.Applier
}

const theirs = "journal-theirs"

func newGuest(t *testing.T) *guest {
	l := labtest.Start(t)
	kube, err := dynamic.NewForConfig(l.RESTConfig())
	must.OK(t, err)
	g := &guest{lab: l, kube: kube}
	g.open, err = lab.NewApplier(l.RESTConfig())
	must.OK(t, err)
	labtest.Namespace(t, l, theirs)
	g.apply(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+theirs+"}")
	return g
}

func (g *guest) apply(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	must.OK(t, g.open.Apply(t.Context(), []byte(text)))
	objects, err := lab.ParseObjects([]byte(text))
	must.OK(t, err)
	return objects[0]
}

// get reads an object, or returns nil if there is none.
func (g *guest) get(t *testing.T, o journal.Object) *unstructured.Unstructured {
	t.Helper()
	at, err := g.open.Open(t.Context(), o.Bare(), o.Namespace)
	must.OK(t, err)
	found, err := at.Get(t.Context(), o.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	must.OK(t, err)
	return found
}

func (g *guest) enter(t *testing.T, run string, change func(*journal.Options)) (*journal.Journal, error) {
	t.Helper()
	o := journal.Options{Config: g.lab.RESTConfig(), Open: g.open, Holder: journal.Holder{Run: run, Since: time.Now(), Process: run + "'s"}, Wait: 2 * time.Minute, Tell: func(s string) { t.Log(s) }}
	if change != nil {
		change(&o)
	}
	return journal.Enter(t.Context(), o)
}

func (g *guest) entered(t *testing.T, run string) *journal.Journal {
	t.Helper()
	j, err := g.enter(t, run, nil)
	must.OK(t, err)
	return j
}

const web = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: ` + theirs + `, annotations: {owner: team}}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - name: web
          image: example.com/web:1
          env: [{name: B, value: "1"}, {name: A, value: "2"}]
          resources: {limits: {cpu: "1"}}
`

var webObject = journal.Object{APIVersion: "apps/v1", Kind: "Deployment", Namespace: theirs, Name: "web"}

// set returns an edit of the live object that sets one field.
func set(v any, path ...string) journal.Edit {
	return func(_, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return live, unstructured.SetNestedField(live.Object, v, path...)
	}
}

// lever returns an edit of the original as a trial makes it.
func lever(replicas int64, cpu string, env ...any) journal.Edit {
	return func(original, _ *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		err := unstructured.SetNestedField(original.Object, replicas, "spec", "replicas")
		list, _, _ := unstructured.NestedSlice(original.Object, "spec", "template", "spec", "containers")
		c := list[0].(map[string]any)
		c["resources"], c["env"] = map[string]any{"limits": map[string]any{"cpu": cpu}}, env
		return original, errors.Join(err, unstructured.SetNestedSlice(original.Object, list, "spec", "template", "spec", "containers"))
	}
}

func env(name, value string) any { return map[string]any{"name": name, "value": value} }

// without removes what its controller counts from an object.
func without(own map[string]any) map[string]any {
	unstructured.RemoveNestedField(own, "metadata", "annotations", "deployment.kubernetes.io/revision")
	return own
}

// gone waits until the journal's namespace is gone.
func (g *guest) gone(t *testing.T) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if _, err := g.kube.Resource(journal.Namespaces).Get(t.Context(), journal.Namespace, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatal("the journal's namespace is there")
		}
	}
}
