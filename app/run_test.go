package app

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/studies"
	"github.com/meshtrial/meshtrial/testing/must"
)

// The next run names what an earlier one left in place.
func TestKeptNotes(t *testing.T) {
	all := []*journal.Entry{}
	for _, e := range [][2]string{{"a", "1"}, {"b", "1"}, {"a", "2"}} {
		all = append(all, &journal.Entry{Run: "scope-apply-" + e[1], Kept: "meshtrial assess config --apply", Object: journal.Object{Kind: "Sidecar", Namespace: "shop", Name: e[0]}})
	}
	got := keptNotes(all)
	if len(got) != 2 || !strings.HasPrefix(got[0], "Sidecar shop/a and 1 more: kept on purpose by meshtrial assess config --apply") || !strings.HasSuffix(got[1], "meshtrial cluster restore --run scope-apply-2") {
		t.Errorf("%q", got)
	}
}

// A run that ends early says how to continue it, after anything else that has to be done. The
// directory of a detached run is known only in its pod.
func TestUnfinished(t *testing.T) {
	why, full, outcome := errors.New("no waypoint"), errors.New("the report does not fit"), runner.Outcome{Dir: "runs/one", Trials: 3}
	fetch := (&RunOptions{detachedRun: "r"}).fetchHint()
	for _, c := range []struct{ own, detached, want string }{
		{"", "", "continue with: meshtrial run --resume runs/one"},
		{"look there", "", "look there; continue with: meshtrial run --resume runs/one"},
		{"", "r", fetch},
		{"look there", "r", "look there; " + fetch},
	} {
		err := why
		if c.own != "" {
			err = errs.WithHint(err, "%s", c.own)
		}
		o := RunOptions{detachedRun: c.detached}
		for _, reportErr := range []error{nil, full} {
			got := o.unfinished(err, reportErr, outcome)
			if !errors.Is(got, why) || errors.Is(got, full) != (reportErr != nil) || errs.Hint(got) != c.want {
				t.Errorf("hint %q, want %q: %v", errs.Hint(got), c.want, got)
			}
		}
	}
}

// Invalid options are found before anything starts.
func TestRunRefuses(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir()) // no lab exists
	full := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(full, "file"), nil, 0o644))
	data, err := studies.Read("quick")
	must.OK(t, err)
	s, err := study.Parse(data, "quick.yaml", nil)
	must.OK(t, err)
	for name, change := range map[string]func(*RunOptions){
		"an unknown lab":             func(o *RunOptions) { o.Lab = "moon" },
		"an unknown source of CPU":   func(o *RunOptions) { o.Observe = "guess" },
		"a cluster without an image": func(o *RunOptions) { o.Lab = lab.KindCluster },
		"too many nodes":             func(o *RunOptions) { o.Nodes = 17 },
		"an unknown limit":           func(o *RunOptions) { o.Limits = []string{"patience=1"} },
		"a directory in use":         func(o *RunOptions) { o.Out = full },
		"no run to resume":           func(o *RunOptions) { o.Resume = filepath.Join(full, "run") },
	} {
		p := &recorder{}
		o := RunOptions{Study: s, Source: data, Where: Where{Lab: lab.KindLocal}, Observe: record.ObservedCgroup, Progress: p}
		change(&o)
		if err := Run(t.Context(), o); errs.Code(err) != errs.CodeUsage || len(p.said) > 0 {
			t.Errorf("%s: %v (code %d), after %q", name, err, errs.Code(err), p.said)
		}
	}
	t.Chdir(t.TempDir())
	must.OK(t, os.Symlink(RunsFolder, RunsFolder)) // which leads nowhere
	o := RunOptions{Study: s, Source: data, Where: Where{Lab: lab.KindLocal}, Observe: record.ObservedCgroup, Progress: &recorder{}}
	if err := Run(t.Context(), o); errs.Code(err) != errs.CodeUsage {
		t.Errorf("nowhere to write: %v", err)
	}
	if _, err := o.prepare(t.Context()); err != nil {
		t.Errorf("a detached run needs room here: %v", err)
	}
}
