package app

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/shell"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/ui/live"
)

// underway is the latest run of this process, known before its directory exists.
type underway struct {
	study  *study.Study
	dir    string // "" at first
	status report.Status
	stop   context.CancelFunc
	quiet  bool // in a window: no event is sent
	holds  bool // has the token of making, for a trial
	ended  bool
	began  time.Time // its first trial in this process
	// resumable: a reader could resume it if it ended now.
	resumable bool
	// shown is the version of the document that readers have. The next one is rendered after a
	// trial, not before next; the last one from the version files.
	shown string
	files string
	next  time.Time
}

// gapShare is the largest share of a run's time that is spent on its documents. Events, requests
// and the garbage collector come on top; all of it is to be at most 1% of a CPU (bench/page).
const gapShare = 0.005

// pauseAfter is how long no other document is made after one that was begun at a time.
func pauseAfter(began time.Time) time.Duration {
	return time.Duration(float64(time.Since(began)) / gapShare)
}

// Follow shows a run of this process while work carries it out, and returns the error of work. A
// reader who stops the run cancels the context of work.
func (p *Pages) Follow(ctx context.Context, o *RunOptions, work func(context.Context, *RunOptions) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.mu.Lock()
	if p.now != nil && !p.now.ended {
		name := p.now.study.Name
		p.mu.Unlock()
		return errGoing(name)
	}
	u := &underway{study: o.Study, stop: cancel, status: report.Status{Title: "Getting ready", Going: true, Stop: true}}
	p.now = u
	p.tell()
	p.mu.Unlock()

	followed := *o
	followed.Progress = pagesProgress{o.Progress, p, u}
	followed.Begun = func(dir string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		u.dir, u.status.Run = dir, idOf(dir)
		p.tell()
	}
	followed.Event = func(plan *study.Plan, e runner.Event) {
		if o.Event != nil {
			o.Event(plan, e)
		}
		p.event(ctx, u, plan, e)
	}
	followed.Kept = func(ctx context.Context) error {
		p.gap(ctx, u)
		if o.Kept != nil {
			return o.Kept(ctx)
		}
		return nil
	}
	followed.Present = func(a Analyzed) error {
		p.release(u) // nothing is measured any more
		files := versionOf(a.Dir, nil)
		p.renew(u, func() (report.Page, error) { return p.reportOf(a) })
		p.mu.Lock()
		u.files = files
		p.mu.Unlock()
		return o.Present(a)
	}
	err := work(ctx, &followed)
	p.ended(u, err)
	return err
}

func errGoing(name string) error {
	return errs.WithHint(errs.Usage("a run of study %s is in progress", name), "wait for it to end, or stop it first")
}

// event records a step of the run.
func (p *Pages) event(ctx context.Context, u *underway, plan *study.Plan, e runner.Event) {
	if e.Stage == "trial" && e.Record == nil {
		p.hold(ctx, u) // waits for a document being rendered
	}
	if e.Stage == runner.StageQuiet {
		p.measures(u)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case e.Stage == runner.StageLoud:
		u.quiet = false
		u.status.Step = ""
	case e.Stage == "trial" && e.Record == nil:
		u.status.Title, u.status.Step = report.UpperFirst(TrialWords(plan, e)), "warming up"
		if u.began.IsZero() {
			u.began = time.Now()
		}
	case e.Stage == "trial", e.Stage == "block":
	default:
		u.status.Step = e.Text
	}
	p.tell()
}

// measures has readers know that a window begins before it does.
func (p *Pages) measures(u *underway) {
	p.mu.Lock()
	u.status.Step = "measuring: no updates until the window ends"
	u.quiet = true
	clear(p.states) // so that readers get this one
	p.wake()
	p.mu.Unlock()
	if p.Settle != nil {
		p.Settle()
	}
}

// maxWait is how long a trial waits for a document being rendered.
const maxWait = 5 * time.Second

// hold takes the token for the run, so that nothing else is rendered during a trial.
func (p *Pages) hold(ctx context.Context, u *underway) {
	p.mu.Lock()
	holds := u.holds
	u.holds = true
	p.mu.Unlock()
	if holds {
		return
	}
	taken := p.take(ctx)
	p.mu.Lock()
	p.refuses, u.holds = false, taken
	p.mu.Unlock()
}

// take waits for the token until ctx ends. After maxWait it cancels the document being rendered,
// and requests that wait for the token fail.
func (p *Pages) take(ctx context.Context) (taken bool) {
	patience := time.NewTimer(maxWait)
	defer patience.Stop()
	for {
		select {
		case <-p.making:
			return true
		case <-ctx.Done():
			return false
		case <-patience.C: // once
			p.mu.Lock()
			p.refuses = true
			if p.giveWay != nil {
				p.giveWay(errGaveWay)
			}
			p.mu.Unlock()
		}
	}
}

// release returns the token.
func (p *Pages) release(u *underway) {
	p.mu.Lock()
	holds := u.holds
	u.holds = false
	p.mu.Unlock()
	if holds {
		p.making <- struct{}{}
	}
}

// gap is the time between two trials: waiting requests are served, then the run's own document is
// rendered, unless that would exceed gapShare.
func (p *Pages) gap(ctx context.Context, u *underway) {
	p.release(u)
	p.hold(ctx, u) // after the requests that waited
	p.mu.Lock()
	postponed := time.Now().Before(u.next)
	p.mu.Unlock()
	if !postponed {
		p.renew(u, func() (report.Page, error) { return p.runPage(ctx, u.dir) })
	}
}

// renew renders the run's document and tells readers.
func (p *Pages) renew(u *underway, page func() (report.Page, error)) {
	began := time.Now()
	data, err := render(page)
	next := time.Now().Add(pauseAfter(began))
	version := fmt.Sprint(began.UnixNano())
	if err == nil {
		p.keep(place{run: u.dir}.key(), made{version, data, next})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		u.status.Step = "the page could not be rendered: " + err.Error()
	}
	u.next, u.shown = next, version
	p.tell()
}

// ended records how the run ended.
func (p *Pages) ended(u *underway, err error) {
	p.release(u)
	p.mu.Lock()
	defer p.mu.Unlock()
	u.ended, u.quiet = true, false
	u.status.Going, u.status.Stop, u.status.Resume, u.status.Step = false, false, u.resumable, ""
	switch {
	case err == nil:
		u.status.Title = "The run has ended"
	case errors.Is(err, context.Canceled):
		u.status.Title = "The run was stopped"
	default:
		u.status.Title = "The run has ended: " + err.Error()
		if hint := errs.Hint(err); hint != "" {
			u.status.Step = hint
		}
	}
	p.tell()
}

// End tells readers that the server is about to stop.
func (p *Pages) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = true
	if p.now != nil {
		p.now.status.Last = true
	}
	p.tell()
}

// beginning is the page of a run that has no directory yet.
func (p *Pages) beginning() report.Page {
	p.mu.Lock()
	defer p.mu.Unlock()
	page := report.Page{Title: "meshtrial", Answers: []string{"Nothing has been measured yet."}}
	var served report.Live
	if p.now != nil {
		status, s := p.now.status, p.now.study
		served.Status = &status
		page.Title, page.Question, page.Story, page.Study = s.Name, s.Question, s.Story, string(s.Marshal())
	}
	return page.Served(served)
}

// pagesProgress passes a command's progress on, and shows it on the pages too.
type pagesProgress struct {
	Progress
	p *Pages
	u *underway
}

func (s pagesProgress) step(text string) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	s.u.status.Step = text
	s.p.tell()
}

func (s pagesProgress) Say(format string, args ...any) {
	s.Progress.Say(format, args...)
	s.step(fmt.Sprintf(format, args...))
}

func (s pagesProgress) Note(format string, args ...any) {
	s.Progress.Note(format, args...)
	s.step(fmt.Sprintf(format, args...))
}

func (s pagesProgress) Component(e components.Event) {
	s.Progress.Component(e)
	s.step(fmt.Sprintf("preparing %s", e.Component))
}

// TrialWords says which trial of a run begins.
func TrialWords(plan *study.Plan, e runner.Event) string {
	switch {
	case plan.Study.Tune != nil:
		return fmt.Sprintf("block %d, trial %d: %s", e.Block+1, e.Trial, e.Cell)
	case e.Trials == 0:
		return fmt.Sprintf("block %d of at most %d, trial %d of the search: %s", e.Block+1, plan.Study.Blocks.Max, e.Trial, e.Cell)
	}
	return fmt.Sprintf("block %d of at most %d, trial %d of %d: %s", e.Block+1, plan.Study.Blocks.Max, e.Trial, e.Trials, e.Cell)
}

// standing is the status of a run at a moment, by its records and the validity of its trials.
// began is when it was started or resumed, zero if unknown.
func standing(run record.Run, valid record.ValiditySummary, plan *study.Plan, progress analysis.Progress, going bool, began, now time.Time) report.Status {
	s := report.Status{Going: going}
	n, most := len(run.Trials), plan.Study.Blocks.Max*plan.BlockSize()
	ended := progress.Ended(going)
	if s.Share = 1; !ended {
		s.Share = min(1, float64(n)/float64(most))
	}
	at := fmt.Sprintf("%s of at most %d done", words.Plural(progress.Blocks, "block"), plan.Study.Blocks.Max)
	switch {
	case going:
		s.Title = report.UpperFirst(at)
	case ended:
		s.Title = "The run has ended"
	default:
		s.Title = "Interrupted, " + at
	}
	s.Facts = []report.Fact{{Name: "trials", Text: trialsWords(valid)}}
	if n > 0 && going {
		s.Facts = append(s.Facts, report.Fact{Name: "time", Text: timeWords(run.Trials, plan, began, now)})
	}
	if progress.Why != "" && !ended {
		s.Facts = append(s.Facts, report.Fact{Name: "stop rule", Text: progress.Why})
	}
	return s
}

// trialsWords counts trials; the report below says which checks failed.
func trialsWords(v record.ValiditySummary) string {
	if v.Invalid == 0 {
		return words.Plural(v.Trials, "trial") + ", all valid"
	}
	return fmt.Sprintf("%s, %d not valid", words.Plural(v.Trials, "trial"), v.Invalid)
}

// pauseOfRuns is the shortest gap between two trials that counts as a resume.
const pauseOfRuns = 5 * time.Minute

// timeWords says how long a run's trials took and when it ends at the latest, judging by the
// trials since it was started or resumed: at began or, if that is zero, at the first trial after
// a long pause.
func timeWords(trials []record.Trial, plan *study.Plan, began, now time.Time) string {
	var spent time.Duration
	ended := 0
	for i := range trials {
		t := &trials[i]
		spent += t.Ended.Sub(t.Started)
		if ended++; began.IsZero() && (i == 0 || t.Started.Sub(trials[i-1].Ended) > pauseOfRuns) {
			ended = 1
		}
	}
	if began.IsZero() {
		began = trials[len(trials)-ended].Started
	} else {
		for ended = 0; ended < len(trials) && !trials[len(trials)-1-ended].Started.Before(began); {
			ended++
		}
	}
	so := "so far " + spent.Round(time.Second).String()
	if ended == 0 {
		return so
	}
	left := longestLeft(plan, now.Sub(began), ended, plan.Study.Blocks.Max*plan.BlockSize()-len(trials))
	return fmt.Sprintf("%s; it ends at about %s at the latest", so, now.Add(left).Format("15:04"))
}

// Launch is which runs readers may start, and how.
type Launch struct {
	// Studies returns the names of the available studies; Study reads one.
	Studies func() []string
	Study   func(ctx context.Context, name string) (*study.Study, []byte, error)
	// Options are those of every run. Nobody is asked for consent.
	Options RunOptions
	// Run carries one out; nil: [Run].
	Run func(context.Context, RunOptions) error
}

// refusal says why readers cannot resume the run at path, nil if they can.
func (l *Launch) refusal(path string, s *study.Study, was record.Header) error {
	if was.Lab != lab.KindLocal {
		return errs.Usage("this page only runs studies in the local lab; continue with: meshtrial run --resume %s", shell.Quote(path))
	}
	o := l.Options
	o.Study, o.Resume = s, path
	return o.resumable(was)
}

// Work carries out the runs that readers start or resume, one at a time, until ctx ends and the
// last of them has. Without it no run can be started.
func (p *Pages) Work(ctx context.Context, launch Launch) {
	if launch.Run == nil {
		launch.Run = Run
	}
	p.mu.Lock()
	p.launch = &launch
	p.mu.Unlock()
	for {
		select {
		case <-ctx.Done():
			return
		case o := <-p.jobs:
			_ = p.Follow(ctx, &o, func(ctx context.Context, o *RunOptions) error { return launch.Run(ctx, *o) }) // the pages show it
			p.mu.Lock()
			p.asked = false
			p.mu.Unlock()
		}
	}
}

// Act implements [live.Source].
func (p *Pages) Act(ctx context.Context, a live.Action) error {
	switch a.Do {
	case "stop":
		return p.stop(a.Run)
	case "start", "resume":
		return p.begin(ctx, a)
	}
	return errs.Usage("unknown action %q", a.Do)
}

// stop ends a run as Ctrl-C does.
func (p *Pages) stop(id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.now
	if u == nil || u.ended || id != "" && (u.dir == "" || id != idOf(u.dir)) {
		return errs.WithHint(errs.Usage("this page did not start that run"), "stop it where it was started")
	}
	u.status.Title, u.status.Stop = "Stopping: reverting what the run changed", false
	p.tell()
	u.stop()
	return nil
}

// begin starts a study, or resumes a run.
func (p *Pages) begin(ctx context.Context, a live.Action) (err error) {
	p.mu.Lock()
	launch := p.launch
	p.mu.Unlock()
	if launch == nil {
		return errs.WithHint(errs.Usage("this page starts no runs"), "`meshtrial page` does")
	}
	o := launch.Options
	if a.Do == "start" {
		if !slices.Contains(launch.Studies(), a.Study) {
			return errs.Usage("there is no study %q", a.Study)
		}
		if o.Study, o.Source, err = launch.Study(ctx, a.Study); err == nil {
			o.Out = newRunIn(p.folder(), o.Study)
		}
	} else {
		var at place
		if at, err = p.find(url.Values{"run": {a.Run}}); err == nil {
			o.Resume = at.run
			o.Study, o.Source, err = ResumedStudy(at.run)
		}
	}
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked {
		return errGoing(p.asks)
	}
	p.asked, p.asks = true, o.Study.Name
	p.jobs <- o // has room for the only one
	return nil
}

// folder is where runs started by readers go: the first folder of runs, or the first run's parent.
func (p *Pages) folder() string {
	for _, dir := range p.dirs {
		if !isRun(dir) {
			return dir
		}
	}
	return filepath.Dir(filepath.Clean(p.dirs[0]))
}
