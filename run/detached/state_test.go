package detached

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/testing/must"
)

func TestState(t *testing.T) {
	code := func(n int) Kept { return Kept{Attempts: 1, Exit: &n} }
	pod := func(phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{Phase: phase}}
	}
	final := code(errs.CodeFailure)
	final.Final = true
	deleted := pod(corev1.PodRunning)
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	for name, c := range map[string]struct {
		condition string
		suspended bool
		pod       *corev1.Pod
		kept      Kept
		want      State
	}{
		"just begun":                {"", false, nil, Kept{}, Waiting},
		"no image yet":              {"", false, pod(corev1.PodPending), Kept{}, Waiting},
		"at work":                   {"", false, pod(corev1.PodRunning), Kept{Attempts: 1}, Running},
		"its pod was killed":        {"", false, pod(corev1.PodFailed), Kept{Attempts: 1}, Moving},
		"its pod was deleted":       {"", false, nil, Kept{Attempts: 1}, Moving},
		"its pod is being deleted":  {"", false, deleted, Kept{Attempts: 1}, Moving},
		"the next pod is on it":     {"", false, pod(corev1.PodPending), Kept{Attempts: 1}, Waiting},
		"its Job is yet to say so":  {"", false, pod(corev1.PodFailed), code(errs.CodeInvalid), Running},
		"its pod failed":            {"", false, pod(corev1.PodFailed), code(errs.CodeFailure), Moving},
		"and no other is to come":   {"", false, pod(corev1.PodFailed), final, Running},
		"done":                      {"Complete", false, pod(corev1.PodSucceeded), code(0), Completed},
		"an assertion failed":       {"Failed", false, pod(corev1.PodFailed), code(errs.CodeAssertion), Completed},
		"no answer":                 {"Failed", false, pod(corev1.PodFailed), code(errs.CodeInvalid), Completed},
		"refused":                   {"Failed", false, pod(corev1.PodFailed), code(errs.CodeUsage), Failed},
		"final":                     {"Failed", false, pod(corev1.PodFailed), final, Failed},
		"killed too often":          {"Failed", false, pod(corev1.PodFailed), Kept{Attempts: 5}, Failed},
		"stopped":                   {"", true, nil, Kept{Attempts: 1}, Stopped},
		"stopped, and reverts":      {"", true, pod(corev1.PodRunning), Kept{Attempts: 1}, Stopped},
		"stopped, and is deleted":   {"", true, deleted, Kept{Attempts: 1}, Stopped},
		"stopped, and over":         {"", true, pod(corev1.PodFailed), Kept{Attempts: 1}, Stopped},
		"stopped when it had ended": {"Complete", true, nil, code(0), Completed},
	} {
		var j job
		j.Spec.Suspend = c.suspended
		if c.condition != "" {
			must.OK(t, json.Unmarshal([]byte(`{"conditions": [{"type": "Suspended", "status": "False"}, {"type": "`+c.condition+`", "status": "True"}]}`), &j.Status))
		}
		j.Metadata.Labels = map[string]string{Label: "r"}
		var pods []corev1.Pod
		if c.pod != nil {
			c.pod.Labels = j.Metadata.Labels
			pods = append(pods, *c.pod)
		}
		working := c.pod != nil && !over(c.pod)
		kept, err := json.Marshal(c.kept)
		must.OK(t, err)
		states := []corev1.ConfigMap{{ObjectMeta: metav1.ObjectMeta{Name: stateName("r")}, Data: map[string]string{keptKey: string(kept)}}}
		if got := j.with(pods, states); got.State != c.want || got.Ended() != (c.want == Completed || c.want == Failed || c.want == Stopped && !working) {
			t.Errorf("%s: %s, want %s", name, got.State, c.want)
		}
	}
}

func TestChoose(t *testing.T) {
	run := func(name string, s State) Run { return Run{Name: name, State: s} }
	for name, c := range map[string]struct {
		all  []Run
		name string
		want string // or the hint
	}{
		"by its name":            {[]Run{run("a", Running), run("b", Running)}, "b", "b"},
		"the only one":           {[]Run{run("a", Completed)}, "", "a"},
		"the only one at work":   {[]Run{run("a", Completed), run("b", Moving)}, "", "b"},
		"of two at work":         {[]Run{run("a", Running), run("b", Moving)}, "", "a (, running), b (, moving)"},
		"of two that have ended": {[]Run{run("a", Completed), run("b", Failed)}, "", "a (, completed)"},
		"of another name":        {[]Run{run("a", Running)}, "c", "there are: a"},
		"none":                   {nil, "", "--detach"},
	} {
		got, err := choose(c.all, c.name)
		if err == nil && got.Name != c.want || err != nil && (errs.Code(err) != errs.CodeUsage || !strings.Contains(errs.Hint(err), c.want)) {
			t.Errorf("%s: %q, %v (hint %q)", name, got.Name, err, errs.Hint(err))
		}
	}
}

// Repeatedly losing pods without a trial in between ends the run. Another trial resets the
// count, and a pod that reported its end does not count.
func TestExhausted(t *testing.T) {
	kube := fakecluster.New(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: stateName("r")}})
	attempt := func() *Reporter {
		t.Helper()
		r, err := NewReporter(t.Context(), kube, "n", "r")
		must.OK(t, err)
		return r
	}
	lose := func(n int) {
		t.Helper()
		for i := range n {
			if err := attempt().Exhausted(); err != nil {
				t.Fatalf("after %d: %v", i, err)
			}
		}
	}
	first := attempt()
	if err := first.Exhausted(); err != nil || first.Again() {
		t.Errorf("the first pod: %v, there was another: %t", err, first.Again())
	}
	lose(mostLost - 2)
	attempt().Trial(t.Context())
	lose(mostLost - 2) // the pod with the trial was lost too
	interrupted := errs.WithCode(errors.New("interrupted"), errs.CodeInterrupted)
	kept := func() Kept {
		t.Helper()
		found, err := kube.CoreV1().ConfigMaps("n").Get(t.Context(), stateName("r"), metav1.GetOptions{})
		must.OK(t, err)
		return readKept(found)
	}
	attempt().End(t.Context(), interrupted)
	if k := kept(); k.Final || k.Exit == nil || *k.Exit != errs.CodeInterrupted {
		t.Errorf("kept of a pod that was evicted: %+v", k)
	}
	lose(1)
	for range 2 { // its pod may be evicted before it has ended
		r := attempt()
		err := r.Exhausted()
		if errs.Code(err) != codeFinal || !strings.Contains(errs.Hint(err), "runs fetch r ") {
			t.Errorf("its pod ends with code %d: %v (hint %q)", errs.Code(err), err, errs.Hint(err))
		}
		r.End(t.Context(), err)
		if k := kept(); !k.Final || k.Exit == nil || *k.Exit != errs.CodeFailure || k.Error != err.Error() {
			t.Errorf("kept: %+v", k)
		}
	}
	for i := range mostReverting { // it reverts changes, and may be killed while doing so
		if r := attempt(); r.Exhausted() == nil || !r.Reverts() {
			t.Errorf("pod %d of an exhausted run: %v, it reverts: %t", i, r.Exhausted(), r.Reverts())
		}
	}
	if r := attempt(); errs.Code(r.Exhausted()) != codeFinal || r.Reverts() {
		t.Errorf("after %d: %v, it reverts: %t", mostReverting, r.Exhausted(), r.Reverts())
	}
	if Final(nil) != nil {
		t.Error("an attempt without an error has one")
	}
}

// The reason for a failed run is its last pod's report, or that there was none.
func TestWhy(t *testing.T) {
	code := errs.CodeUsage
	for want, r := range map[string]Run{
		"no rights":                {State: Failed, Kept: Kept{Attempts: 1, Exit: &code, Error: "no rights"}},
		"its last pod, number 5, ": {State: Failed, Kept: Kept{Attempts: 5}},
		"none of its pods ":        {State: Failed},
		"":                         {State: Running, Kept: Kept{Attempts: 2}},
	} {
		if got := r.Why(); !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// An attempt is counted when it starts, together with the state of the run, so that its
// failure is not mistaken for that of the previous one.
func TestNewReporter(t *testing.T) {
	state := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: stateName("r")}, Data: map[string]string{keptKey: `{"attempts": 1, "trials": 3, "exit": 1, "error": "old"}`}}
	kube := fakecluster.New(state)
	r, err := NewReporter(t.Context(), kube, "n", "r")
	must.OK(t, err)
	r.End(t.Context(), errs.Usage("no bucket"))
	found, err := kube.CoreV1().ConfigMaps("n").Get(t.Context(), stateName("r"), metav1.GetOptions{})
	must.OK(t, err)
	if k := readKept(found); !r.Again() || k.Attempts != 2 || k.Trials != 3 || k.Exit == nil || *k.Exit != errs.CodeUsage || k.Error != "no bucket" {
		t.Errorf("%+v", k)
	}
	r, err = NewReporter(t.Context(), kube, "n", "r")
	must.OK(t, err)
	r.Has(t.Context(), 7)
	r.Trial(t.Context())
	r.End(t.Context(), nil)
	found, err = kube.CoreV1().ConfigMaps("n").Get(t.Context(), stateName("r"), metav1.GetOptions{})
	must.OK(t, err)
	if k := readKept(found); k.Attempts != 3 || k.Trials != 8 || *k.Exit != 0 || k.Error != "" {
		t.Errorf("%+v", k)
	}
}

// A write has completed when the call returns, so that none overlaps with the next trial. A
// failed write is included in the next one, and not waited for long. The last one is retried
// for a while, even if the attempt is interrupted.
func TestReporter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		took := time.Duration(0)
		written, tries := Kept{}, 0
		r := &Reporter{kept: Kept{Attempts: 2, Trials: 3}, patch: func(ctx context.Context, data []byte) error {
			tries++
			if away.Load() {
				return errors.New("no route to host")
			}
			if err := wake.Pause(ctx, took); err != nil {
				return err
			}
			var patch corev1.ConfigMap
			if err := json.Unmarshal(data, &patch); err != nil {
				return err
			}
			written = readKept(&patch)
			return nil
		}}
		took = time.Second
		if r.Trial(t.Context()); written.Attempts != 2 || written.Trials != 4 || written.Exit != nil {
			t.Errorf("a trial: %+v", written)
		}
		took = time.Hour // an API server that stands still
		began := time.Now()
		if r.Trial(t.Context()); time.Since(began) > reportLimit || written.Trials != 4 {
			t.Errorf("the next trial waited %v, %+v", time.Since(began), written)
		}
		took = 0
		away.Store(true)
		began = time.Now()
		if r.Trial(t.Context()); time.Since(began) > reportLimit {
			t.Errorf("the next trial waited %v", time.Since(began))
		}
		interrupted, cancel := context.WithCancel(t.Context())
		cancel()
		began = time.Now()
		if r.Trial(interrupted); time.Since(began) > 0 {
			t.Errorf("an interrupted attempt waited %v", time.Since(began))
		}
		time.AfterFunc(20*time.Second, func() { away.Store(false) })
		if r.End(interrupted, errs.WithCode(errors.New("inconclusive"), errs.CodeInvalid)); written.Trials != 7 || written.Exit == nil || *written.Exit != errs.CodeInvalid || written.Error != "inconclusive" || time.Since(began) > 30*time.Second {
			t.Errorf("the end, after %v: %+v", time.Since(began), written)
		}
		tries, began = 0, time.Now()
		away.Store(true)
		r = &Reporter{patch: r.patch}
		r.End(t.Context(), nil)
		if took := time.Since(began); took > lastLimit || tries < 10 {
			t.Errorf("an API server that stays away was asked %d times in %v", tries, took)
		}
	})
}

// Whoever may read the runs of one namespace only learns how to name it.
func TestListRefused(t *testing.T) {
	c, kube := fake()
	kube.PrependReactor("list", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, "", errors.New("not yours"))
	})
	if _, err := c.List(t.Context(), ""); !apierrors.IsForbidden(err) || !strings.Contains(errs.Hint(err), " -n; ") {
		t.Errorf("%v (hint %q)", err, errs.Hint(err))
	}
}
