package churn

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/meshtrial/meshtrial/record"
)

// TestFill has one change that writes one object after another, for which the
// driver got no valid answer or one at 25, and the possible observations of a
// watch.
func TestFill(t *testing.T) {
	object := func(name string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{}
		o.SetKind("Service")
		o.SetNamespace("a")
		o.SetName(name)
		return o
	}
	plan := &Plan{Changes: []Change{{writes: []write{{object: object("x")}, {object: object("y")}, {object: object("y")}}}}}
	showed := func(y ...int64) map[string][]int64 {
		return map[string][]int64{"Service/a/x": {10}, "Service/a/y": y}
	}
	for name, tt := range map[string]struct {
		seen                map[string][]int64
		answered            int64 // as recorded by the driver
		refused             bool
		committed, answerAt int64 // expected
		watched             int64
	}{
		"nothing":                       {nil, 0, false, 0, 0, 0},
		"the first write alone":         {showed(), 0, false, 0, 0, 0},
		"all but the last":              {showed(20), 0, false, 0, 0, 0},
		"all":                           {showed(20, 30), 0, false, 30, 0, 30},
		"refused all the same":          {showed(20, 30), 0, true, 0, 0, 30},
		"answered, nothing shown":       {nil, 25, false, 25, 0, 0},
		"answered, all but the last":    {showed(20), 25, false, 25, 0, 0},
		"answered before the watch":     {showed(20, 30), 25, false, 25, 25, 30},
		"answered later than the watch": {showed(20, 22), 25, false, 22, 25, 22},
	} {
		w := &watcher{seen: map[int]map[string][]int64{}}
		if tt.seen != nil {
			w.seen[0] = tt.seen
		}
		events := []record.Event{{Error: "no answer", SentNS: 5}}
		if tt.answered != 0 {
			events[0].CommittedNS, events[0].Error = tt.answered, ""
		}
		w.fill(plan, events, []bool{tt.refused})
		e := events[0]
		if e.CommittedNS != tt.committed || (e.Error == "") != (tt.committed != 0) || e.WatchedNS != tt.watched || e.AnsweredNS != tt.answerAt {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

func TestIsRefusal(t *testing.T) {
	services := schema.GroupResource{Resource: "services"}
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{apierrors.NewForbidden(services, "x", errors.New("no")), true},
		{fmt.Errorf("second write: %w", apierrors.NewConflict(services, "x", errors.New("older"))), true},
		{apierrors.NewTimeoutError("too slow", 1), false},
		{apierrors.NewInternalError(errors.New("etcd")), false},
		{apierrors.NewGenericServerResponse(http.StatusServiceUnavailable, "post", services, "x", "", 0, true), false},
		{errors.New("connection reset by peer"), false},
	} {
		if got := isRefusal(tt.err); got != tt.want {
			t.Errorf("%v: %v", tt.err, got)
		}
	}
}

// An address has disappeared once it is no longer ready, but not while it is
// back.
func TestDepartures(t *testing.T) {
	gone, left := map[string]bool{"a": true, "b": true}, map[string]int64{}
	for _, step := range []struct {
		at    int64
		ready []string
		want  map[string]int64
	}{
		{10, []string{"a", "b", "c"}, map[string]int64{}},
		{20, []string{"b", "c"}, map[string]int64{"a": 20}},
		{30, []string{"d"}, map[string]int64{"a": 20, "b": 30}},
		{40, []string{"a", "d"}, map[string]int64{"b": 30}},
		{50, []string{"d"}, map[string]int64{"a": 50, "b": 30}},
	} {
		ready := map[string]bool{}
		for _, ip := range step.ready {
			ready[ip] = true
		}
		if departures(gone, ready, left, step.at); !maps.Equal(left, step.want) {
			t.Errorf("at %d: %v", step.at, left)
		}
	}
}
