package cli

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/detached"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/store"
)

func TestClaimOf(t *testing.T) {
	for text, want := range map[string]string{
		"pvc:disk": "default disk", "pvc:team/disk": "team disk", "pvc:team/disk.one": "team disk.one",
		"": "", "disk": "", "pvc:": "", "pvc:/disk": "", "pvc:team/": "", "pvc:Team/disk": "", "pvc:a/b/c": "", "s3://bucket/runs": "",
	} {
		namespace, name, err := claimOf(text)
		if got := strings.TrimSpace(namespace + " " + name); got != want || (err == nil) != (want != "") || err != nil && errs.Code(err) != errs.CodeUsage {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}

// The pod's command line is one that the program takes, with all that the user gave but
// what is in the study.
func TestDetachedArgs(t *testing.T) {
	f := runFlags{lab: "cluster", image: "registry.example/meshtrial:1", observe: record.ObservedKubelet, pullSecret: "team/registry", revision: "canary", meshWide: true, wait: time.Hour,
		limits: []string{"unattributed=60%", "schedule-lag=0.5"}, sets: []string{"rate=1"}, kubeconfig: "k", context: "c"}
	args := f.detachedArgs(detached.Spec{Run: "r", Namespace: "n"})
	cmd := newDetachedRunCommand(&Env{})
	if args[0] != cmd.Name() {
		t.Errorf("it calls %s", args[0])
	}
	if err := cmd.ParseFlags(args[1:]); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"run": "r", "namespace": "n", "given": detached.GivenDir, "lab": "cluster", "image": f.image, "observe": "kubelet", "yes": "true", "mesh-wide": "true",
		"pull-secret": "team/registry", "revision": "canary", "wait": "1h0m0s", "limit": "[unattributed=60%,schedule-lag=0.5]", "kubeconfig": "", "context": "", "set": "[]"} {
		if got := cmd.Flags().Lookup(name).Value.String(); got != want {
			t.Errorf("--%s is %q, want %q", name, got, want)
		}
	}
	if slices.Contains((runFlags{}).detachedArgs(detached.Spec{}), "--mesh-wide") {
		t.Error("what holds mesh-wide is agreed to by nobody")
	}
	for own, want := range map[bool]string{false: "cluster", true: "local"} {
		f.own = own
		cmd := newDetachedRunCommand(&Env{})
		if err := cmd.ParseFlags(f.detachedArgs(detached.Spec{})[1:]); err != nil {
			t.Fatal(err)
		}
		in := runFlags{}
		in.own, in.lab = cmd.Flags().Lookup("own").Value.String() == "true", cmd.Flags().Lookup("lab").Value.String()
		if got := in.labKind(); got != want {
			t.Errorf("a run whose lab is the user's own (%t) is said to be in a lab that is %s", own, got)
		}
	}
}

// An attempt goes on with what there is, and begins anew where its forerunner had not yet
// made a run.
func TestTakeUp(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	f := runFlags{given: "g"}
	if n, err := f.takeUp(dir, false); n != 0 || err != nil || f.out != dir || f.resume != "" || f.given != "g" || f.wait != 0 {
		t.Errorf("nothing there: %d, %v, %+v", n, err, f)
	}
	if err := os.MkdirAll(filepath.Join(dir, "hist"), 0o755); err != nil {
		t.Fatal(err)
	}
	// Another run may have the cluster.
	if n, err := f.takeUp(dir, true); n != 0 || err != nil || store.Vacant(f.out) != nil || f.wait != 24*time.Hour {
		t.Errorf("half a run: %d, %v, %v, it waits %v", n, err, store.Vacant(f.out), f.wait)
	}
	d, err := store.Create(dir, record.Header{Kind: "data-plane", RunID: "r", Seed: 1}, []byte("name: p\n"), []byte("name: p\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Append(record.Trial{ID: "b0-t0"}); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	f = runFlags{given: "g"}
	if n, err := f.takeUp(dir, false); n != 1 || err != nil || f.resume != dir || f.out != "" || f.given != "" || f.wait != 24*time.Hour {
		t.Errorf("a run with a trial: %d, %v, %+v", n, err, f)
	}
	f = runFlags{given: "g", wait: 48 * time.Hour}
	if _, err := f.takeUp(dir, true); err != nil || f.wait != 48*time.Hour {
		t.Errorf("it waits %v, %v", f.wait, err)
	}
}

// A run that no further trial could be carried through for is not tried again.
func TestLastIfFutile(t *testing.T) {
	failed := errors.New("no waypoint")
	if err := lastIfFutile(failed); err != failed {
		t.Errorf("a failure that the next pod may not have: %v", err)
	}
	if err := lastIfFutile(nil); err != nil {
		t.Errorf("no failure: %v", err)
	}
	last := errs.Code(detached.Last(failed))
	err := lastIfFutile(fmt.Errorf("the run did not finish: %w", runner.Futile(failed)))
	if !errors.Is(err, failed) || errs.Code(err) != last || last == errs.CodeFailure {
		t.Errorf("code %d, want %d: %v", errs.Code(err), last, err)
	}
}

// What is said in a pod is read elsewhere.
func TestFromElsewhere(t *testing.T) {
	failed := errors.New("no space")
	err := fromElsewhere(errs.WithHint(errs.WithCode(failed, errs.CodeInvalid), "go on with --resume %s", detached.Dir("r")), "r")
	if hint := errs.Hint(err); !errors.Is(err, failed) || errs.Code(err) != errs.CodeInvalid || !strings.Contains(hint, "meshtrial runs fetch r ") || strings.Contains(hint, detached.Dir("r")) {
		t.Errorf("%v (hint %q)", err, hint)
	}
	err = fromElsewhere(errs.WithHint(failed, "look there; completed trials are kept; once that is mended go on with --resume %s", detached.Dir("r")), "r")
	if hint := errs.Hint(err); !strings.HasPrefix(hint, "look there; completed trials are kept; meshtrial runs fetch r ") || strings.Contains(hint, "--resume") {
		t.Errorf("what else there is to do: %q", hint)
	}
	if hint := errs.Hint(fromElsewhere(errs.WithHint(failed, "add a node"), "r")); hint != "add a node" {
		t.Errorf("hint %q", hint)
	}
	if fromElsewhere(nil, "r") != nil {
		t.Error("a run without an error has one")
	}
}

// Counted is what nobody puts back by himself: neither a run at work nor what was asked to
// stay.
func TestLeft(t *testing.T) {
	entries := []*journal.Entry{{Run: "dead"}, {Run: "dead", Kept: "me"}, {Run: "alive"}}
	if n := left(entries, &journal.Holder{Run: "alive"}); n != 1 {
		t.Errorf("%d beside a run at work", n)
	}
	if n := left(entries, nil); n != 2 {
		t.Errorf("%d where nobody is at work", n)
	}
}

// Whoever may not take the cluster's Lease has removed a run all the same, and is told what
// stays. Anything else that goes wrong is an error.
func TestTidyJournal(t *testing.T) {
	for reason, c := range map[string]struct {
		code  int
		fails bool
		said  string
	}{
		"Forbidden":     {http.StatusForbidden, false, "namespace meshtrial-journal stays until the next run ends"},
		"InternalError": {http.StatusInternalServerError, true, ""},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if strings.HasSuffix(r.URL.Path, "/namespaces/"+journal.Namespace) {
				fmt.Fprintf(w, `{"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": %q, "uid": "u", "labels": {%q: "namespace"}}}`, journal.Namespace, journal.Label)
				return
			}
			w.WriteHeader(c.code)
			fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": %q, "code": %d, "message": "no"}`, reason, c.code)
		}))
		var said strings.Builder
		err := tidyJournal(t.Context(), newProgress(&said), &rest.Config{Host: server.URL}, false)
		server.Close()
		if (err != nil) != c.fails || !strings.Contains(said.String(), c.said) {
			t.Errorf("%s: %v, said %q", reason, err, said.String())
		}
	}
}

func TestWriteRuns(t *testing.T) {
	now, code, refused := time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC), errs.CodeInvalid, errs.CodeUsage
	var out strings.Builder
	env := &Env{Stdout: &out}
	if err := writeRuns(env, nil, now); err != nil || out.String() != "there are no detached runs\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	out.Reset()
	err := writeRuns(env, []detached.Run{
		{Name: "a", Study: "quick", State: detached.Running, Since: now.Add(-90 * time.Second), Results: "pvc:team/disk", Kept: detached.Kept{Trials: 7}},
		{Name: "b", Study: "hops", State: detached.Completed, Since: now.Add(-time.Hour), Fetched: true, Kept: detached.Kept{Exit: &code, Error: "inconclusive"}},
		{Name: "c", Study: "hops", State: detached.Failed, Since: now.Add(-time.Hour), Kept: detached.Kept{Exit: &refused, Error: "this user lacks rights:\n  get pods\x1b[2J"}},
		{Name: "d", Study: "hops", State: detached.Failed, Since: now.Add(-time.Hour), Kept: detached.Kept{Attempts: 5}},
	}, now)
	for _, want := range []string{"RUN  STUDY  STATE", "a    quick  running ", "7       1m30s   pvc:team/disk", "b    hops   completed, exit code 4, fetched",
		"c    hops   failed, exit code 2 ", "\nrun c failed: this user lacks rights:\n    get pods\\x1b[2J\nrun d failed: the last of its 5 pods "} {
		if err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("it lacks %q (%v):\n%s", want, err, out.String())
		}
	}
}

// Whoever is attached ends as the run does.
func TestVerdictOf(t *testing.T) {
	for name, c := range map[string]struct {
		state detached.State
		exit  int // -1: not known
		text  string
		want  int
	}{
		"done": {detached.Completed, 0, "", 0}, "done, and its pod could not say so": {detached.Completed, -1, "", 0},
		"no answer": {detached.Completed, errs.CodeInvalid, "", errs.CodeInvalid}, "an assertion": {detached.Completed, errs.CodeAssertion, "", errs.CodeAssertion},
		"refused": {detached.Failed, errs.CodeUsage, "no such mesh", errs.CodeUsage}, "killed": {detached.Failed, -1, "without a word", errs.CodeFailure},
		"stopped": {detached.Stopped, errs.CodeInterrupted, "interrupted", errs.CodeInterrupted},
	} {
		run := detached.Run{Name: "r", State: c.state, Kept: detached.Kept{Attempts: 5}}
		if c.exit >= 0 {
			run.Exit, run.Error = &c.exit, c.text
		}
		if err := verdictOf(run); errs.Code(err) != c.want || c.text != "" && !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v (code %d)", name, err, errs.Code(err))
		}
	}
}
