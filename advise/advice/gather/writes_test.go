package gather

import (
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/meshtrial/meshtrial/advise/advice"
)

func object(uid string, change func(*unstructured.Unstructured)) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Service",
		"spec": map[string]any{"port": "80"}}}
	o.SetUID(types.UID(uid))
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl", Time: &metav1.Time{Time: time.Unix(1, 0)}},
		{Manager: "flapper", Time: &metav1.Time{Time: time.Unix(2, 0)}}, {Manager: "old"}})
	change(o)
	return o
}

// A write that changes only what no proxy reads is superfluous; any other is not.
func TestWrites(t *testing.T) {
	same := func(*unstructured.Unstructured) {}
	for name, c := range map[string]struct {
		change func(*unstructured.Unstructured)
		idle   float64
	}{
		"nothing":              {same, 1},
		"resource version":     {func(o *unstructured.Unstructured) { o.SetResourceVersion("7") }, 1},
		"status":               {func(o *unstructured.Unstructured) { o.Object["status"] = "new" }, 1},
		"another's annotation": {func(o *unstructured.Unstructured) { o.SetAnnotations(map[string]string{"example.com/seen": "now"}) }, 1},
		"Istio's annotation": {func(o *unstructured.Unstructured) {
			o.SetAnnotations(map[string]string{"networking.istio.io/exportTo": "."})
		}, 0},
		"a label":        {func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"a": "b"}) }, 0},
		"its spec":       {func(o *unstructured.Unstructured) { o.Object["spec"] = map[string]any{"port": "81"} }, 0},
		"another object": {func(o *unstructured.Unstructured) { o.SetUID("other") }, 0},
	} {
		w := NewWrites(time.Unix(0, 0))
		w.Note("services", object("one", same), false)
		w.Note("services", object("one", c.change), true)
		facts, notes := w.Facts(time.Unix(10, 0))
		if facts[advice.IdleWritesShare] != c.idle || facts[advice.IdleWrites] != c.idle/10 ||
			facts[advice.UsefulWrites] != (1-c.idle)/10 {
			t.Errorf("%s: %v", name, facts)
		}
		if (len(notes) == 1) != (c.idle == 1) || c.idle == 1 &&
			!strings.HasPrefix(notes[0], "flapper wrote services 1 times in 10 s") {
			t.Errorf("%s: %q", name, notes)
		}
	}
	w := NewWrites(time.Unix(0, 0))
	w.Note("services", object("one", same), false)
	w.Gone(object("one", same))
	w.Note("services", object("one", same), true)
	if facts, _ := w.Facts(time.Unix(10, 0)); facts[advice.IdleWritesShare] != 0 {
		t.Errorf("deleted and made again: %v", facts)
	}
	if facts, notes := NewWrites(time.Unix(0, 0)).Facts(time.Unix(10, 0)); facts[advice.IdleWritesShare] != 0 ||
		len(notes) > 0 {
		t.Errorf("nobody wrote: %v %q", facts, notes)
	}
}

// A watch that the API server ends, as it does after a while, is restarted; one that
// breaks gives a note.
func TestWatchedAgain(t *testing.T) {
	services, same := Watched[0], func(*unstructured.Unstructured) {}
	watches := make([]*watch.FakeWatcher, 4)
	for i := range watches {
		watches[i] = watch.NewFakeWithChanSize(2, false)
	}
	watches[0].Modify(object("one", same))
	watches[0].Stop()
	watches[1].Error(&metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone,
		Reason: metav1.StatusReasonExpired})
	watches[2].Modify(object("one", same))
	watches[2].Stop()
	watches[3].Error(&metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
		Reason: metav1.StatusReasonInternalError, Message: "broken"})
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{services: "ServiceList"})
	next := 0
	client.PrependWatchReactor("services", func(clienttesting.Action) (bool, watch.Interface, error) {
		next++
		return true, watches[next-1], nil
	})
	w := NewWrites(time.Unix(0, 0))
	notes := w.Watch(t.Context(), client, []schema.GroupVersionResource{services})
	if len(notes) != 1 || !strings.Contains(notes[0], "writes of services were not watched") ||
		!strings.Contains(notes[0], "broken") {
		t.Errorf("%q", notes)
	}
	if w.all != 2 || len(w.idle) != 1 {
		t.Errorf("%d writes, idle %v", w.all, w.idle)
	}
	if facts, notes := w.Facts(time.Unix(10, 0)); len(facts) > 0 || len(notes) != 1 {
		t.Errorf("facts of what was seen in part: %v, %q", facts, notes)
	}
}
