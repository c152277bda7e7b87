package app

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/thread"
	"github.com/meshtrial/meshtrial/kinds/analyses"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/observe/procfs"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/runtest"
	"github.com/meshtrial/meshtrial/testing/studytest"
	"github.com/meshtrial/meshtrial/ui/live"
)

func query(t *testing.T, text string) url.Values {
	t.Helper()
	q, err := url.ParseQuery(text)
	must.OK(t, err)
	return q
}

func document(t *testing.T, p *Pages, text string) report.Page {
	t.Helper()
	data, err := p.Document(t.Context(), query(t, text))
	must.OK(t, err)
	var page report.Page
	must.OK(t, json.Unmarshal(data, &page))
	return page
}

func version(t *testing.T, p *Pages, text string) string {
	t.Helper()
	s, err := p.State(query(t, text))
	must.OK(t, err)
	return s.Version
}

// A folder is an index: of runs that ended, were interrupted, are half written or hostile.
func TestPagesIndex(t *testing.T) {
	folder := t.TempDir()
	runtest.Copy(t, "data-plane", filepath.Join(folder, "whole"), "r1", runtest.All)
	runtest.Copy(t, "resilience", filepath.Join(folder, "half"), "r2", 0)
	hostile := `"><script>alert(1)<..`
	must.OK(t, os.CopyFS(filepath.Join(folder, hostile), os.DirFS(runtest.Recorded("control-plane"))))
	must.OK(t, os.Mkdir(filepath.Join(folder, "broken"), 0o755))
	must.OK(t, os.WriteFile(filepath.Join(folder, "broken", store.FileHeader), []byte("{"), 0o644))
	p, err := NewPages([]string{folder})
	must.OK(t, err)
	page := document(t, p, "")
	names := map[string]report.ListedRun{}
	for _, r := range page.Live.Runs {
		names[r.Name] = r
	}
	if len(names) != 4 || len(page.Live.Studies) != 3 || len(page.Live.Startable) != 0 {
		t.Fatalf("%+v", page.Live)
	}
	if r := names["broken"]; !r.Bad || r.State != "unreadable" {
		t.Errorf("a broken run: %+v", r)
	}
	if r := names["whole"]; r.State != "interrupted" {
		t.Errorf("a run without findings: %+v", r)
	}
	if r := names[hostile]; r.Answer == "" || r.Bad {
		t.Errorf("a run with a name: %+v", r)
	}
	if one := document(t, p, "run="+names[hostile].ID); len(one.Sections) == 0 || one.Live.Links[0].Query != "" {
		t.Errorf("%+v", one.Live)
	}
	before := version(t, p, "")
	runtest.Copy(t, "data-plane", filepath.Join(folder, "later"), "r3", 3)
	if version(t, p, "") == before {
		t.Error("another run leaves the index as it was")
	}
	c := document(t, p, "compare="+names["whole"].ID+"&compare="+idOf(filepath.Join(folder, "later")))
	if len(c.Sections) == 0 || len(c.Live.Links) != 3 {
		t.Errorf("%d sections, %+v", len(c.Sections), c.Live)
	}
	if trend := document(t, p, "trend="+names["whole"].Study); len(trend.Answers) != 1 || len(trend.Sections) == 0 {
		t.Errorf("%+v", trend)
	}
}

// Only runs that the server lists can be named.
func TestPagesRefuse(t *testing.T) {
	folder, outside := t.TempDir(), t.TempDir()
	runtest.Copy(t, "data-plane", filepath.Join(folder, "in"), "r1", 1)
	runtest.Copy(t, "data-plane", filepath.Join(outside, "out"), "r2", 1)
	p, err := NewPages([]string{folder})
	must.OK(t, err)
	for _, text := range []string{"run=" + idOf(filepath.Join(outside, "out")), "run=" + url.QueryEscape(filepath.Join(folder, "in")), "run=../in", "file=/etc/passwd",
		"compare=" + idOf(filepath.Join(folder, "in")), "trend=x&across=everything", "compare=a&compare=b&compare=c"} {
		if _, err := p.State(query(t, text)); errs.Code(err) != errs.CodeUsage {
			t.Errorf("%s: %v", text, err)
		}
		if _, err := p.Document(t.Context(), query(t, text)); errs.Code(err) != errs.CodeUsage {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := NewPages([]string{filepath.Join(folder, "nowhere")}); errs.Code(err) != errs.CodeUsage {
		t.Errorf("a folder that is not there: %v", err)
	}
}

// A run of another process grows from trial to trial: each is in the next document, and
// estimates are provisional until the last.
func TestPagesOfAGrowingRun(t *testing.T) {
	for _, name := range []string{"data-plane", "control-plane", "resilience"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			all := runtest.Copy(t, name, dir, "r", 0)
			p, err := NewPages([]string{dir})
			must.OK(t, err)
			seen := map[string]bool{}
			for n := range all + 1 {
				runtest.Grow(t, name, dir, n)
				v := version(t, p, "")
				if seen[v] {
					t.Errorf("with %d trials the version is an old one", n)
				}
				seen[v] = true
				page := document(t, p, "")
				if got := page.Live.Status.Facts[0].Text; !strings.HasPrefix(got, words.Plural(n, "trial")) {
					t.Errorf("%d trials are reported as %q", n, got)
				}
				for _, s := range page.Sections {
					if s.Name == "trials" && !hasValues(s.Tables[0]) {
						t.Errorf("of the last trials there are empty columns: %+v", s.Tables[0])
					}
				}
				if want := map[bool]string{true: report.Interrupted}[n < all]; page.Provisional != want {
					t.Errorf("with %d of %d trials the page is marked %q", n, all, page.Provisional)
				}
			}
			run, _, err := store.Load(t.Context(), dir)
			must.OK(t, err)
			f, err := analyses.All().Analyze(run)
			must.OK(t, err)
			if page := document(t, p, ""); page.Title != f.Study || page.Live.Status.Going {
				t.Errorf("at the end %+v", page.Live.Status)
			}
		})
	}
}

// hasValues says whether each column of a table has a value.
func hasValues(t report.Table) bool {
	for c := range t.Columns {
		if !slices.ContainsFunc(t.Rows, func(row []report.Text) bool { return row[c] != report.Dash && row[c].S != "" }) {
			return false
		}
	}
	return true
}

// A run that its time limit ended is not interrupted.
func TestPagesOfALimitedRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	runtest.Copy(t, "data-plane", dir, "r", 3) // of six: one block
	for _, name := range []string{store.FileStudy, store.FileResolved} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		must.OK(t, err)
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(strings.Replace(string(data), "limit: 20m", "limit: 1s", 1)), 0o644))
	}
	p, err := NewPages([]string{dir})
	must.OK(t, err)
	page := document(t, p, "")
	if s := page.Live.Status; page.Provisional != "" || s.Share != 1 || s.Title != "The run has ended" {
		t.Errorf("after its limit: %q, %+v", page.Provisional, s)
	}
	runtest.Grow(t, "data-plane", dir, 4) // whose second block has begun
	if page := document(t, p, ""); page.Provisional != report.Interrupted {
		t.Errorf("in the midst of a block: %q", page.Provisional)
	}
}

// The remaining time of a resumed run is estimated from its trials since, and its limit starts over.
func TestTimeWords(t *testing.T) {
	plan := studytest.Plan(t, measuredStudy) // three trials a block, 1h for at most 12
	start := time.Date(2024, 1, 1, 8, 0, 0, 0, time.UTC)
	var trials []record.Trial
	for _, after := range []time.Duration{0, 10 * time.Minute, 20 * time.Minute, 5 * time.Hour, 5*time.Hour + 2*time.Minute} {
		trials = append(trials, record.Trial{Started: start.Add(after), Ended: start.Add(after + time.Minute)})
	}
	now := start.Add(5*time.Hour + 4*time.Minute)
	for name, c := range map[string]struct {
		trials int
		began  time.Time
		now    time.Time
		want   string
	}{
		"resumed, by a pause":     {5, time.Time{}, now, "so far 5m0s; it ends at about 13:18 at the latest"},
		"resumed, by its process": {5, start.Add(5 * time.Hour), now, "so far 5m0s; it ends at about 13:18 at the latest"},
		"nothing ended since":     {3, start.Add(5 * time.Hour), now, "so far 3m0s"},
		"limited":                 {2, start, start.Add(20 * time.Minute), "so far 2m0s; it ends at about 09:00 at the latest"},
	} {
		if got := timeWords(trials[:c.trials], plan, c.began, c.now); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// follow has pages follow a run that grows by copying a recorded one; each step waits to be
// let on.
type follow struct {
	p    *Pages
	dir  string
	next chan func(o *RunOptions)
	done chan error
}

func following(t *testing.T, name string) *follow {
	t.Helper()
	p, err := NewPages(nil)
	must.OK(t, err)
	f := &follow{p: p, dir: filepath.Join(t.TempDir(), "run"), next: make(chan func(*RunOptions)), done: make(chan error, 1)}
	data, err := os.ReadFile(filepath.Join(runtest.Recorded(name), store.FileStudy))
	must.OK(t, err)
	s, err := study.Parse(data, name, nil)
	must.OK(t, err)
	runtest.Copy(t, name, f.dir, "r", 0)
	o := RunOptions{Study: s, Where: Where{Lab: lab.KindLocal}, Progress: &recorder{}, Present: func(Analyzed) error { return nil }}
	go func() {
		f.done <- p.Follow(t.Context(), &o, func(ctx context.Context, o *RunOptions) error {
			for {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case step := <-f.next:
					if step == nil {
						return nil
					}
					step(o)
				}
			}
		})
	}()
	return f
}

// do has the run do something, and waits until it is done.
func (f *follow) do(step func(o *RunOptions)) {
	done := make(chan struct{})
	f.next <- func(o *RunOptions) { step(o); close(done) }
	<-done
}

func (f *follow) status(t *testing.T) report.Status {
	t.Helper()
	s, err := f.p.State(url.Values{})
	must.OK(t, err)
	status, ok := s.Status.(*report.Status)
	if !ok {
		t.Fatalf("no status: %+v", s)
	}
	return *status
}

// A run of this process is shown while it runs. During a window no event is sent,
// and nothing is made before the trial has ended.
func TestPagesFollowARun(t *testing.T) {
	f := following(t, "data-plane")
	plan, err := study.NewPlan(f.p.waitFor(t).study, 1)
	must.OK(t, err)
	if page := document(t, f.p, ""); page.Title != plan.Study.Name || !page.Live.Status.Stop {
		t.Errorf("before it begins: %+v", page.Live.Status)
	}
	f.do(func(o *RunOptions) { o.Begun(f.dir) })
	f.do(func(o *RunOptions) {
		o.Event(plan, runner.Event{Stage: "trial", Trial: 1, Trials: 6, Cell: "both"})
	})
	if s := f.status(t); !strings.Contains(s.Title, "trial 1 of 6: both") {
		t.Errorf("%+v", s)
	}
	told, settled := f.p.Changed(), 0
	f.p.Settle = func() {
		<-told
		state, err := f.p.State(url.Values{})
		if status, ok := state.Status.(*report.Status); err != nil || !ok || !state.Quiet || !strings.HasPrefix(status.Step, "measuring") {
			t.Errorf("as a window begins: %+v, %v", state, err)
		}
		settled++
	}
	f.do(func(o *RunOptions) { o.Event(plan, runner.Event{Stage: runner.StageQuiet}) })
	if settled != 1 {
		t.Errorf("readers are waited for %d times before a window", settled)
	}
	changed, before := f.p.Changed(), version(t, f.p, "")
	runtest.Grow(t, "data-plane", f.dir, 1)
	f.do(func(o *RunOptions) { o.Event(plan, runner.Event{Stage: "step", Text: "a step"}) })
	select {
	case <-changed:
		t.Error("readers are told of something while the run measures")
	default:
	}
	if version(t, f.p, "") != before {
		t.Error("the version changes while the run measures")
	}
	limited, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.p.Document(limited, url.Values{"trend": {"x"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("a document is made while a trial is on: %v", err)
	}
	f.do(func(o *RunOptions) { o.Event(plan, runner.Event{Stage: runner.StageLoud}) })
	<-changed
	if s, err := f.p.State(url.Values{}); err != nil || s.Quiet {
		t.Errorf("after the window: %+v, %v", s, err)
	}
	f.do(func(o *RunOptions) {
		if err := o.Kept(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if version(t, f.p, "") == before {
		t.Error("a trial has ended, and the version is as it was")
	}
	page := document(t, f.p, "")
	if page.Live.Status.Facts[0].Text != "1 trial, all valid" || page.Provisional == "" || page.Sections[0].Name != "trials" {
		t.Errorf("after a trial: %+v, %q", page.Live.Status, page.Sections[0].Name)
	}
	runtest.Grow(t, "data-plane", f.dir, 6)
	last, err := Analyze(t.Context(), f.dir)
	must.OK(t, err)
	must.OK(t, os.RemoveAll(filepath.Join(f.dir, "hist"))) // the run has been read: nothing reads it again
	f.do(func(o *RunOptions) {
		if err := o.Present(last); err != nil {
			t.Error(err)
		}
	})
	final := version(t, f.p, "")
	f.next <- nil
	must.OK(t, <-f.done)
	f.p.End()
	if version(t, f.p, "") != final || version(t, f.p, "run="+idOf(f.dir)) != final {
		t.Error("the last document is made again at the end")
	}
	byID, err := f.p.Document(t.Context(), query(t, "run="+idOf(f.dir)))
	must.OK(t, err)
	if _, kept := f.p.known(place{run: f.dir}.key(), final); !kept || !strings.Contains(string(byID), "6 trials, all valid") {
		t.Errorf("the last document is not kept, or not the last: %s", byID)
	}
	if s := f.status(t); s.Going || s.Stop || !s.Last {
		t.Errorf("at the end: %+v", s)
	}
	if page := document(t, f.p, ""); page.Provisional != "" {
		t.Errorf("at the end: %q", page.Provisional)
	}
}

// A trial does not wait for ever for a document that somebody asked for before it.
func TestPagesGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPages(nil)
		<-p.making // a document is being made
		ctx, cancel := context.WithCancelCause(t.Context())
		p.giveWay = cancel
		go func() {
			<-ctx.Done()
			p.making <- struct{}{}
		}()
		waited := make(chan error, 1)
		go func() {
			_, err := p.Document(t.Context(), url.Values{})
			waited <- err
		}()
		synctest.Wait()
		u := &underway{}
		began := time.Now()
		p.hold(t.Context(), u)
		if took := time.Since(began); took != maxWait || !errors.Is(context.Cause(ctx), errGaveWay) {
			t.Errorf("waited %v, %v", took, context.Cause(ctx))
		}
		if err := <-waited; !errors.Is(err, errGaveWay) {
			t.Errorf("the document that waited before the trial: %v", err)
		}
		p.release(u)
		<-p.making
		stopped, stop := context.WithCancel(t.Context())
		stop()
		if p.hold(stopped, u); u.holds {
			t.Error("a run that was stopped holds what it did not get")
		}
	})
}

// A fault in making a document is an error, and leaves the process and its run alone.
func TestPagesOutliveAPanic(t *testing.T) {
	p := newPages([]string{t.TempDir()})
	p.launch = &Launch{Studies: func() []string { panic("no studies") }}
	for range 2 { // the second finds everything as it was
		if _, err := p.Document(t.Context(), url.Values{}); err == nil || !strings.Contains(err.Error(), "no studies") {
			t.Errorf("%v", err)
		}
	}
	if got := headline(record.Findings{}); got == "" {
		t.Error("findings without an answer have no headline")
	}
}

// A run that was stopped here and is resumed by another process goes on, and what it is compared
// with is provisional.
func TestPagesOfARunResumedElsewhere(t *testing.T) {
	folder := t.TempDir()
	dir, other := filepath.Join(folder, "stopped"), filepath.Join(folder, "other")
	runtest.Copy(t, "data-plane", dir, "r1", 4)
	runtest.Copy(t, "data-plane", other, "r2", runtest.All)
	p := newPages([]string{folder})
	p.now = &underway{dir: dir, ended: true, status: report.Status{Title: "The run was stopped"}}
	id := "run=" + idOf(dir)
	if page := document(t, p, id); page.Live.Status.Title != "The run was stopped" || page.Provisional != report.Interrupted {
		t.Errorf("%+v, %q", page.Live.Status, page.Provisional)
	}
	compared := "compare=" + idOf(dir) + "&compare=" + idOf(other)
	if page := document(t, p, compared); page.Provisional != "" {
		t.Errorf("compared: %q", page.Provisional)
	}
	d, _, err := store.Resume(dir, nil, 0)
	must.OK(t, err)
	t.Cleanup(func() { d.Close() })
	if page := document(t, p, id); !page.Live.Status.Going || page.Provisional != report.Provisional {
		t.Errorf("resumed: %+v, %q", page.Live.Status, page.Provisional)
	}
	if s, err := p.State(query(t, id)); err != nil || s.Status != nil {
		t.Errorf("resumed: %+v, %v", s, err)
	}
	for _, text := range []string{compared, "trend=recorded-data-plane"} {
		if page := document(t, p, text); page.Provisional != report.Unfinished {
			t.Errorf("%s with a run that goes on: %q", text, page.Provisional)
		}
	}
}

// A folder that cannot be read hides no run beside it.
func TestPagesBesideAnUnreadableFolder(t *testing.T) {
	folder := t.TempDir()
	runtest.Copy(t, "data-plane", filepath.Join(folder, "run"), "r", 1)
	closed := filepath.Join(folder, "closed")
	must.OK(t, os.Mkdir(closed, 0))
	must.OK(t, os.Chmod(filepath.Dir(folder), 0o755))
	var runs, damage []string
	must.OK(t, thread.Apart(func() error {
		_, _ = unix.SetfsuidRetUid(65534) // root could read it
		runs, damage = newPages([]string{folder, filepath.Join(folder, "later")}).runs()
		return nil
	}))
	if len(runs) != 1 || len(damage) != 1 || !strings.Contains(damage[0], closed) {
		t.Errorf("%q, with warnings %q", runs, damage)
	}
}

// Documents that were made are kept within bounds, the last in any case.
func TestPagesKeepLittle(t *testing.T) {
	p := newPages(nil)
	for i := range 10 {
		p.keep(strings.Repeat("k", i+1), made{version: "v", data: make([]byte, maxMade/3)})
	}
	p.keep("k", made{version: "w", data: make([]byte, maxMade+1)})
	if _, ok := p.known("k", "w"); !ok || len(p.made) != 1 {
		t.Errorf("%d documents are kept", len(p.made))
	}
}

// waitFor waits until a run is followed.
func (p *Pages) waitFor(t *testing.T) *underway {
	t.Helper()
	var u *underway
	eventually.Holds(t, "a run is followed", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		u = p.now
		return u != nil
	})
	return u
}

// A reader stops a run as Ctrl-C does, and no other run than the one meant.
func TestPagesStopARun(t *testing.T) {
	f := following(t, "data-plane")
	f.p.waitFor(t)
	f.do(func(o *RunOptions) { o.Begun(f.dir) })
	if err := f.p.Act(t.Context(), live.Action{Do: "stop", Run: "other"}); errs.Code(err) != errs.CodeUsage {
		t.Errorf("another run is stopped: %v", err)
	}
	must.OK(t, f.p.Act(t.Context(), live.Action{Do: "stop", Run: idOf(f.dir)}))
	if err := <-f.done; !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
	if s := f.status(t); s.Going || s.Title != "The run was stopped" {
		t.Errorf("%+v", s)
	}
	for _, a := range []live.Action{{Do: "stop"}, {Do: "start", Study: "quick"}, {Do: "resume", Run: idOf(f.dir)}, {Do: "delete"}} {
		if err := f.p.Act(t.Context(), a); errs.Code(err) != errs.CodeUsage {
			t.Errorf("%+v: %v", a, err)
		}
	}
}

// Readers start one run at a time; which studies there are the server says.
func TestPagesStartARun(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	folder := t.TempDir()
	interrupted := filepath.Join(folder, "interrupted")
	runtest.Copy(t, "data-plane", interrupted, "r", 1)
	p, err := NewPages([]string{folder})
	must.OK(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	entered, leave := make(chan struct{}), make(chan struct{})
	launch := Launch{Studies: func() []string { return []string{"quick"} },
		Study: func(_ context.Context, name string) (*study.Study, []byte, error) {
			s, source, err := ResumedStudy(interrupted)
			return s, source, err
		},
		Options: RunOptions{Progress: &recorder{}},
		Run: func(ctx context.Context, o RunOptions) error {
			if o.Resume != "" {
				return errs.Usage("resumed")
			}
			if filepath.Dir(o.Out) != folder {
				t.Errorf("the run is made at %s", o.Out)
			}
			close(entered)
			<-leave
			return errs.Usage("started")
		}}
	done := make(chan struct{})
	go func() { p.Work(ctx, launch); close(done) }()
	eventually.Holds(t, "runs can be started", func() bool {
		page, err := p.index(ctx)
		return err == nil && len(page.Live.Startable) == 1
	})
	if err := p.Act(ctx, live.Action{Do: "start", Study: "../quick"}); errs.Code(err) != errs.CodeUsage {
		t.Errorf("a study that is not listed: %v", err)
	}
	must.OK(t, p.Act(ctx, live.Action{Do: "start", Study: "quick"}))
	<-entered
	for _, a := range []live.Action{{Do: "start", Study: "quick"}, {Do: "resume", Run: idOf(interrupted)}} {
		if err := p.Act(ctx, a); errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), "is in progress") {
			t.Errorf("%+v beside another run: %v", a, err)
		}
	}
	close(leave)
	said := func(what string) {
		eventually.Holds(t, "the run has ended", func() bool {
			s, err := p.State(url.Values{})
			status, ok := s.Status.(*report.Status)
			return err == nil && ok && strings.HasSuffix(status.Title, "has ended: "+what)
		})
	}
	said("started")
	eventually.Holds(t, "another run may begin", func() bool { return p.Act(ctx, live.Action{Do: "resume", Run: idOf(interrupted)}) == nil })
	said("resumed")
	cancel()
	<-done
}

// A run of another process is rendered again after a while, and at once when it has ended: that
// process may measure on this machine's CPUs.
func TestPagesSpareOtherProcesses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	runtest.Copy(t, "data-plane", dir, "r", 1)
	d, _, err := store.Resume(dir, nil, 0)
	must.OK(t, err)
	t.Cleanup(func() { d.Close() })
	p := newPages([]string{dir})
	document(t, p, "")
	next := func(at time.Time) {
		m := p.made[idOf(dir)]
		if m.next.Before(time.Now()) {
			t.Errorf("the document stands until %v", m.next)
		}
		m.next = at
		p.made[idOf(dir)] = m
	}
	first := version(t, p, "")
	next(time.Now().Add(time.Hour))
	runtest.Grow(t, "data-plane", dir, 2)
	if got := version(t, p, ""); got != first {
		t.Errorf("a new version %s at once", got)
	}
	next(time.Now())
	second := version(t, p, "")
	if document(t, p, ""); second == first {
		t.Error("no new version after a while")
	}
	next(time.Now().Add(time.Hour))
	must.OK(t, d.Close())
	if version(t, p, "") == second {
		t.Error("no new version at the end")
	}
}

// Resuming is offered where this program can, and else the page says why not.
func TestPagesOfferToResume(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	runtest.Copy(t, "data-plane", dir, "r", 3)
	header, err := store.ReadHeader(dir)
	must.OK(t, err)
	p := newPages([]string{dir})
	p.launch = &Launch{Options: RunOptions{Where: Where{Lab: lab.KindLocal}, Observe: record.ObservedCgroup}}
	own, err := ownDigest()
	must.OK(t, err)
	here := procfs.Machine(os.DirFS("/"))
	for name, c := range map[string]struct {
		change func(*record.Header)
		why    string
	}{
		"this build":    {func(h *record.Header) {}, ""},
		"another build": {func(h *record.Header) { h.MeshtrialDigest = "sha256:0123456789abcdef" }, "meshtrial was"},
		"other rules":   {func(h *record.Header) { h.Rules.Version++ }, "cannot be resumed: its"},
		"a cluster":     {func(h *record.Header) { h.Lab = lab.KindCluster }, "meshtrial run --resume " + dir},
	} {
		h := header
		h.Meshtrial, h.MeshtrialDigest, h.Observed, h.Machine = Version(), own, record.ObservedCgroup, here
		c.change(&h)
		data, err := json.Marshal(h)
		must.OK(t, err)
		must.OK(t, os.WriteFile(filepath.Join(dir, store.FileHeader), data, 0o644))
		s := document(t, p, "").Live.Status
		at := slices.IndexFunc(s.Facts, func(f report.Fact) bool { return f.Name == "resume" })
		if s.Resume != (c.why == "") || (at < 0) != s.Resume || at >= 0 && !strings.Contains(s.Facts[at].Text, c.why) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// Of a large run only bounded files are read, and a file that grows beyond its bounds ends the
// page with an error that says so.
func TestPagesOfALargeRun(t *testing.T) {
	folder := t.TempDir()
	dir := filepath.Join(folder, "large")
	runtest.Copy(t, "data-plane", dir, "r", 1)
	must.OK(t, os.Truncate(filepath.Join(dir, store.FileHeader), 5<<30)) // sparse
	p, err := NewPages([]string{folder})
	must.OK(t, err)
	if page := document(t, p, ""); len(page.Live.Runs) != 1 || !page.Live.Runs[0].Bad {
		t.Errorf("%+v", page.Live)
	}
	if _, err := p.Document(t.Context(), url.Values{"run": {idOf(dir)}}); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("a header of 5 GB: %v", err)
	}
}

// The analysis of a run rejects trials too, such as those that were less steady than the baseline's.
func TestTrialsWords(t *testing.T) {
	for want, v := range map[string]record.ValiditySummary{
		"20 trials, 4 not valid": {Trials: 20, Valid: 16, Invalid: 4},
		"1 trial, all valid":     {Trials: 1, Valid: 1},
	} {
		if got := trialsWords(v); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
