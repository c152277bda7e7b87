package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/run/detached"
)

func TestClaimOf(t *testing.T) {
	for text, want := range map[string]string{
		"pvc:disk": "default disk", "pvc:team/disk": "team disk", "pvc:team/disk.one": "team disk.one",
		"": "", "disk": "", "pvc:": "", "pvc:/disk": "", "pvc:team/": "", "pvc:Team/disk": "", "pvc:a/b/c": "", "s3://bucket/runs": "",
	} {
		claim, err := claimOf(text)
		if got := strings.TrimSpace(claim.Namespace + " " + claim.Claim); got != want || (err == nil) != (want != "") || err != nil && errs.Code(err) != errs.CodeUsage {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}

// Counted is what nobody reverts by himself: neither a run at work nor what was asked to
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

func TestRunsText(t *testing.T) {
	now, code, refused := time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC), errs.CodeInvalid, errs.CodeUsage
	text := runsText([]detached.Run{
		{Name: "a", Study: "quick", State: detached.Running, Since: now.Add(-90 * time.Second), Results: "pvc:team/disk", Kept: detached.Kept{Trials: 7}},
		{Name: "b", Study: "hops", State: detached.Completed, Since: now.Add(-time.Hour), Fetched: true, Kept: detached.Kept{Exit: &code, Error: "inconclusive"}},
		{Name: "c", Study: "hops", State: detached.Failed, Since: now.Add(-time.Hour), Kept: detached.Kept{Exit: &refused, Error: "this user lacks rights:\n  get pods\x1b[2J"}},
		{Name: "d", Study: "hops", State: detached.Failed, Since: now.Add(-time.Hour), Kept: detached.Kept{Attempts: 5}},
	}, now)
	contains(t, text, "RUN  STUDY  STATE", "a    quick  running ", "7       1m30s   pvc:team/disk", "b    hops   completed, exit code 4, fetched",
		"c    hops   failed, exit code 2 ", "\nrun c failed: this user lacks rights:\n    get pods\\x1b[2J\nrun d failed: its last pod, number 5, ")
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
		"refused": {detached.Failed, errs.CodeUsage, "no such mesh", errs.CodeUsage}, "killed": {detached.Failed, -1, "without output", errs.CodeFailure},
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
