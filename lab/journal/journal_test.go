package journal

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/lab/journal/fields"
	"github.com/meshtrial/meshtrial/testing/must"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestLook(t *testing.T) {
	holder := Holder{Run: "r", Process: "p"}
	dead := func(p string) bool { return p == "gone" }
	type seen struct {
		after   time.Duration
		version string
		want    state
	}
	for name, tt := range map[string]struct {
		holder Holder
		seen   []seen
	}{
		"nobody's":             {Holder{}, []seen{{0, "1", free}}},
		"certainly dead":       {Holder{Run: "r", Process: "gone"}, []seen{{0, "1", free}}},
		"renews":               {holder, []seen{{0, "1", unsure}, {5 * time.Second, "1", unsure}, {10 * time.Second, "2", alive}, {20 * time.Second, "2", alive}}},
		"never renews":         {holder, []seen{{0, "1", unsure}, {Lapse - 1, "1", unsure}, {Lapse, "1", free}}},
		"dies while looked at": {holder, []seen{{0, "1", unsure}, {10 * time.Second, "2", alive}, {10*time.Second + Lapse - 1, "2", alive}, {10*time.Second + Lapse, "2", free}}},
		// Time in which nobody could look is not silence.
		"an API server that stood still": {holder, []seen{{0, "1", unsure}, {time.Second, "2", alive}, {time.Hour, "2", alive}, {time.Hour + 20*time.Second, "2", alive},
			{time.Hour + 22*time.Second, "3", alive}, {time.Hour + 22*time.Second + Lapse - 1, "3", alive}, {time.Hour + 22*time.Second + Lapse, "3", free}}},
	} {
		t.Run(name, func(t *testing.T) {
			var w watched
			const zero = 1000 * time.Hour // on a clock without wall-clock time
			last := time.Duration(0)
			for _, s := range tt.seen {
				for s.after-last > lookEvery && s.after-last < time.Minute { // as if polled
					last += lookEvery
					w.look(w.version, tt.holder, zero+last, dead)
				}
				last = s.after
				if got := w.look(s.version, tt.holder, zero+s.after, dead); got != s.want {
					t.Errorf("after %v: %v, want %v", s.after, got, s.want)
				}
			}
		})
	}
}

func TestLeaseKeepsItsHolder(t *testing.T) {
	h := Holder{Run: "r1", Study: "quick", Host: "h", Since: time.Now().UTC().Truncate(time.Second), Process: `{"pid":1}`}
	l := leaseOf(h, nil)
	if got := holderOf(l); got != h {
		t.Errorf("%+v", got)
	}
	l.SetAnnotations(map[string]string{holderAnnotation: `{"run":"another"}`})
	if got := holderOf(l); got != (Holder{Run: "r1"}) {
		t.Errorf("%+v", got)
	}
	for _, want := range []string{"run r1", "of quick", "on h"} {
		if !strings.Contains(h.String(), want) {
			t.Errorf("%s lacks %s", h, want)
		}
	}
}

func entry() *Entry {
	return &Entry{Schema: schemaVersion, Number: 3, Run: "r", At: time.Now().UTC().Truncate(time.Second), Why: "test", Done: Changed, UID: "u",
		Object: Object{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "n", Name: "web"},
		Fields: fields.Diff(map[string]any{"spec": map[string]any{"replicas": int64(3)}}, map[string]any{"spec": map[string]any{"replicas": int64(1)}})}
}

// An object is recorded once, under the API version by which it was first changed, and found
// under any.
func TestSameObject(t *testing.T) {
	o := Object{APIVersion: "networking.istio.io/v1", Kind: "VirtualService", Namespace: "shop", Name: "web"}
	for want, others := range map[bool][]Object{
		true: {o, {APIVersion: "networking.istio.io/v1beta1", Kind: "VirtualService", Namespace: "shop", Name: "web"}},
		false: {
			{APIVersion: "gateway.networking.k8s.io/v1", Kind: "VirtualService", Namespace: "shop", Name: "web"},
			{APIVersion: "v1", Kind: "VirtualService", Namespace: "shop", Name: "web"},
			{APIVersion: "networking.istio.io/v1", Kind: "VirtualService", Namespace: "other", Name: "web"},
			{APIVersion: "networking.istio.io/v1", Kind: "VirtualService", Namespace: "shop", Name: "db"},
		},
	} {
		for _, other := range others {
			if o.Same(other) != want {
				t.Errorf("%+v: %t", other, !want)
			}
		}
	}
}

func TestEntryIsKept(t *testing.T) {
	e := entry()
	s, err := e.secret()
	must.OK(t, err)
	got, err := parseEntry(s)
	if err != nil || !reflect.DeepEqual(got, e) {
		t.Errorf("%+v, %v", got, err)
	}
	e.Whole = map[string]any{"data": strings.Repeat("x", maxEntry)}
	if _, err := e.secret(); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("%v", err)
	}
}

func TestParseEntryRefuses(t *testing.T) {
	for name, change := range map[string]func(*Entry, *unstructured.Unstructured){
		"schema":      func(e *Entry, _ *unstructured.Unstructured) { e.Schema = 9 },
		"no object":   func(e *Entry, _ *unstructured.Unstructured) { e.Object.Kind = "" },
		"done":        func(e *Entry, _ *unstructured.Unstructured) { e.Done = "eaten" },
		"other's":     func(_ *Entry, s *unstructured.Unstructured) { s.SetName("entry-0") },
		"no text":     func(_ *Entry, s *unstructured.Unstructured) { s.Object["data"] = map[string]any{} },
		"not base64":  func(_ *Entry, s *unstructured.Unstructured) { s.Object["data"] = map[string]any{entryKey: "%"} },
		"not a map":   func(_ *Entry, s *unstructured.Unstructured) { s.Object["data"] = "x" },
		"not for all": nil,
	} {
		t.Run(name, func(t *testing.T) {
			e := entry()
			if change != nil {
				change(e, &unstructured.Unstructured{Object: map[string]any{}})
			}
			s, err := e.secret()
			must.OK(t, err)
			if change != nil {
				change(e, s)
			}
			if _, err := parseEntry(s); (err != nil) != (change != nil) {
				t.Errorf("%v", err)
			}
		})
	}
}

func FuzzParseEntry(f *testing.F) {
	s, err := entry().secret()
	must.OK(f, err)
	coded, _, _ := unstructured.NestedString(s.Object, "data", entryKey)
	text, err := base64.StdEncoding.DecodeString(coded)
	must.OK(f, err)
	f.Add(string(text))
	f.Add(`{"schema":1,"done":"made","object":{"apiVersion":"v1","kind":"A","name":"b"},"fields":[{"path":["x"]}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		s := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{entryKey: base64.StdEncoding.EncodeToString([]byte(text))}}}
		if _, err := parseEntry(s); err == nil {
			t.Fatal("an entry under any name is taken")
		}
		var named struct{ Object Object }
		if json.Unmarshal([]byte(text), &named) != nil {
			return
		}
		s.SetName(named.Object.secretName())
		e, err := parseEntry(s)
		if err != nil {
			return
		}
		kept, err := e.secret()
		if err != nil {
			return // too large
		}
		if again, err := parseEntry(kept); err != nil || again.Object != e.Object || again.Done != e.Done || len(again.Fields) != len(e.Fields) {
			t.Errorf("%+v, %v; it was %+v", again, err, e)
		}
	})
}

// The latest first, autoscalers before all others.
func TestInOrder(t *testing.T) {
	named := func(n int, kind string) *Entry { return &Entry{Number: n, Object: Object{Kind: kind}} }
	var got []int
	for _, e := range inOrder([]*Entry{named(1, "ConfigMap"), named(2, "HorizontalPodAutoscaler"), named(3, "Deployment"), named(4, "Sidecar")}) {
		got = append(got, e.Number)
	}
	if !reflect.DeepEqual(got, []int{2, 4, 3, 1}) {
		t.Errorf("%v", got)
	}
}

// Whether a Lease is held depends on a clock that cannot be set. The wall clock may jump by
// an hour in either direction; only a machine that slept, or a missing renewal, ends the
// Lease.
func TestClockSetBack(t *testing.T) {
	now := 5 * time.Hour
	l := &lease{run: "r", now: func() time.Duration { return now }, renewed: now, done: make(chan struct{})}
	for _, wall := range []time.Duration{-time.Hour, 0, time.Hour} {
		o := leaseOf(Holder{Run: "r"}, nil)
		must.OK(t, unstructured.SetNestedField(o.Object, time.Now().Add(wall).UTC().Format(time.RFC3339), "spec", "renewTime"))
		l.object = o
		var w watched // of a waiting run
		if got := w.look("1", holderOf(o), now, nil); got != unsure {
			t.Errorf("a Lease that was renewed %v from now is %v at first sight", wall, got)
		}
		if err := l.held(); err != nil {
			t.Errorf("the holder, whose wall clock is %v off: %v", wall, err)
		}
	}
	for _, step := range []struct {
		after time.Duration
		held  bool
	}{{good - 1, true}, {1, false}, {-time.Second, true}, {time.Hour, false}} { // the last one: its machine slept
		if now += step.after; (l.held() == nil) != step.held {
			t.Errorf("%v after the renewal it is held: %v", now-l.renewed, !step.held)
		}
	}
	close(l.done)
	if err := l.await(t.Context()); !errors.Is(err, ErrLost) {
		t.Errorf("nobody renews any more: %v", err)
	}
}

// The content of a Secret appears in no plan and in no message about what was left alone, but
// the fact that it changes does.
func TestSecretsStayUnsaid(t *testing.T) {
	secret := func(data map[string]any, label string) map[string]any {
		return map[string]any{"data": data, "stringData": map[string]any{"plain": "hunter2"},
			"metadata": map[string]any{"labels": map[string]any{"team": label}, "annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": "hunter" + label}}}
	}
	o := Object{APIVersion: "v1", Kind: "Secret", Namespace: "shop", Name: "db"}
	was, is := secret(map[string]any{"password": "aHVudGVyMQ=="}, "1"), secret(map[string]any{"password": "aHVudGVyMw==", "user": "aHVudGVyNA=="}, "2")
	planned, differs := Plan(o, was, []map[string]any{is})
	text := Text([]Planned{planned})
	_, answers := fields.Undo(secret(map[string]any{"password": "aHVudGVyNQ=="}, "3"), fields.Diff(was, is))
	left := strings.Join(foreign(o, answers), "\n")
	for _, said := range []string{text, left} {
		if strings.Contains(said, "aHVudGVy") || strings.Contains(said, "hunter") {
			t.Errorf("a Secret's value is shown:\n%s", said)
		}
	}
	if !differs || !strings.Contains(text, "data.password: (hidden) -> (hidden)") || !strings.Contains(text, "data.user: not set -> (hidden)") || !strings.Contains(text, `metadata.labels.team: "1" -> "2"`) {
		t.Errorf("planned:\n%s", text)
	}
	if !strings.Contains(left, "data.password is (hidden); it was (hidden), this program wrote (hidden)") || !strings.Contains(left, `metadata.labels.team is "3"`) {
		t.Errorf("left alone:\n%s", left)
	}
	o.Kind = "ConfigMap"
	if planned, _ := Plan(o, was, []map[string]any{is}); !strings.Contains(Text([]Planned{planned}), "aHVudGVyMw==") {
		t.Errorf("of a ConfigMap nothing is hidden: %+v", planned)
	}
}
