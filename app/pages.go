package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/comparison"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/thread"
	"github.com/meshtrial/meshtrial/kinds"
	"github.com/meshtrial/meshtrial/kinds/analyses"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/ui/live"
)

// Pages are documents about runs for [live.Server]: an index of folders, and of each run its
// report so far, comparisons and trends. They are rendered from run directories on request, and
// cached until those change. Queries name runs by ID, and only runs in the given folders.
//
// While a run of this process measures ([Pages.Follow]), nothing is rendered, no event is sent
// and no file is looked at.
type Pages struct {
	// Settle, if set, returns once readers have the current states, so that nothing is sent in
	// the window that begins then.
	Settle func()

	dirs []string // runs, and folders of runs
	// making holds one token, taken to render a document and for the length of a trial.
	making chan struct{}

	mu      sync.Mutex
	giveWay context.CancelCauseFunc // cancels the document being rendered
	refuses bool                    // a trial has waited long enough: waiting requests fail
	changed chan struct{}
	paths   map[string]string // of runs, by ID
	made    map[string]made   // documents, by place
	entries map[string]entry  // of the index, by path
	states  map[string]live.State
	now     *underway
	last    bool
	launch  *Launch         // nil: readers start nothing
	jobs    chan RunOptions // at most one, see asked
	asked   bool            // a run that a reader asked for is queued or running, of study asks
	asks    string
}

// made is a document, and the version of its source. Until next it stands for newer versions
// too, as long as the same runs go on.
type made struct {
	version string
	data    []byte
	next    time.Time
}

// entry is a line of the index, and the version of its source.
type entry struct {
	version string
	report.ListedRun
	started time.Time
}

// Limits of the caches, and of the findings that the index reads for a line.
const (
	maxMade     = 64 << 20 // bytes of documents; the last is kept in any case
	maxStates   = 1024
	maxFindings = 16 << 20
	maxDocument = 128 << 20
)

// margin is that of comparisons and trends on pages; the commands have a flag.
const margin = 0.05

// NewPages returns the documents of the runs in dirs, each a run or a folder of runs.
func NewPages(dirs []string) (*Pages, error) {
	p := newPages(dirs)
	for _, dir := range dirs {
		if _, err := folders(dir); err != nil && dir != RunsFolder { // which the first run makes
			return nil, errs.WithHint(errs.WithCode(err, errs.CodeUsage), "give a run, or a folder of runs")
		}
	}
	return p, nil
}

func newPages(dirs []string) *Pages {
	p := &Pages{dirs: dirs, making: make(chan struct{}, 1), changed: make(chan struct{}), paths: map[string]string{},
		made: map[string]made{}, entries: map[string]entry{}, states: map[string]live.State{}, jobs: make(chan RunOptions, 1)}
	p.making <- struct{}{}
	return p
}

// Changed implements [live.Source].
func (p *Pages) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// tell has readers look again; during a window it does nothing, since the window's end tells them.
// The caller holds p.mu.
func (p *Pages) tell() {
	if p.now != nil && p.now.quiet {
		return
	}
	p.wake()
}

// wake has readers look again in any case. The caller holds p.mu.
func (p *Pages) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// idOf names a run in queries.
func idOf(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		path = full
	}
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:8])
}

// runs lists the paths of all runs, with a warning for each folder that cannot be read.
func (p *Pages) runs() (out, damage []string) {
	for _, dir := range p.dirs {
		if isRun(dir) {
			out = append(out, dir)
			continue
		}
		in, err := runsBelow(dir, func(text string) { damage = append(damage, text) })
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // the first run makes it
			damage = append(damage, err.Error())
		}
		out = append(out, in...)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now != nil && p.now.dir != "" {
		out = append(out, p.now.dir)
	}
	p.paths = map[string]string{}
	return slices.DeleteFunc(out, func(path string) bool {
		id := idOf(path)
		_, ok := p.paths[id]
		if !ok {
			p.paths[id] = path
		}
		return ok
	}), damage
}

// place is what a query names.
type place struct {
	run     string   // path
	compare []string // paths, two
	trend   string   // a study
	across  []string
	// index: none of these; begins: a run that has no directory yet.
	index, begins bool
}

// key is the same for all queries that name a place.
func (at place) key() string {
	query := url.Values{}
	if at.run != "" {
		return idOf(at.run)
	}
	for _, path := range at.compare {
		query.Add("compare", idOf(path))
	}
	query.Set("trend", at.trend)
	query["across"] = at.across
	return query.Encode()
}

// find reads a query.
func (p *Pages) find(query url.Values) (place, error) {
	for name := range query {
		if !slices.Contains([]string{"run", "compare", "trend", "across"}, name) {
			return place{}, errs.Usage("unknown parameter %q", name)
		}
	}
	at := place{trend: query.Get("trend"), across: query["across"]}
	if _, err := comparison.ParseAcross(at.across); err != nil {
		return place{}, err
	}
	ids := query["compare"]
	switch run := query.Get("run"); {
	case run != "":
		ids = []string{run}
	case len(ids) == 0 && at.trend == "":
		p.alone(&at)
	case len(ids) != 0 && len(ids) != 2:
		return at, errs.Usage("two runs are compared, not %d", len(ids))
	}
	for _, id := range ids {
		path, ok := p.pathOf(id)
		if !ok {
			p.runs()
			path, ok = p.pathOf(id)
		}
		if !ok {
			return at, errs.WithHint(errs.Usage("this page has no run %q", id), "the index lists its runs")
		}
		at.compare = append(at.compare, path)
	}
	if len(ids) == 1 {
		at.run, at.compare = at.compare[0], nil
	}
	return at, nil
}

func (p *Pages) pathOf(id string) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	path, ok := p.paths[id]
	return path, ok
}

// alone finds the page without a query: the only run, or an index.
func (p *Pages) alone(at *place) {
	if len(p.dirs) == 1 && isRun(p.dirs[0]) {
		at.run = p.dirs[0]
		return
	}
	if len(p.dirs) > 0 {
		at.index = true
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now != nil {
		at.run = p.now.dir
	}
	at.begins = at.run == ""
}

// forget drops a run that ended here once another process resumes it.
func (p *Pages) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if u := p.now; len(p.dirs) > 0 && u != nil && u.ended && u.dir != "" && store.ReadWriters().Have(u.dir) {
		p.now = nil
	}
}

// State implements [live.Source].
func (p *Pages) State(query url.Values) (live.State, error) {
	key := query.Encode()
	p.mu.Lock()
	quiet := p.now != nil && p.now.quiet
	known, ok := p.states[key]
	p.mu.Unlock()
	if quiet && ok {
		return known, nil
	}
	p.forget()
	at, err := p.find(query)
	if err != nil {
		return live.State{}, err
	}
	state := live.State{Version: p.version(at)}
	p.mu.Lock()
	defer p.mu.Unlock()
	state.Quiet = p.now != nil && p.now.quiet
	if p.now != nil && (at.begins || at.index || p.now.dir != "" && at.run == p.now.dir) {
		status := p.now.status
		if at.index {
			status.Title = p.now.study.Name + ": " + status.Title
		}
		state.Status = &status
	} else if p.last {
		state.Status = &report.Status{Last: true}
	}
	if len(p.states) >= maxStates {
		clear(p.states)
	}
	p.states[key] = state
	return state, nil
}

// version identifies the state of what a place is rendered from. While other processes write to
// its runs, which then measure on this machine's CPUs, it stays that of the last document for a
// while (gapShare).
func (p *Pages) version(at place) string {
	paths := at.compare
	switch {
	case at.begins:
		return "begins"
	case at.run != "":
		p.mu.Lock()
		u := p.now
		if u != nil && at.run == u.dir && (!u.ended || u.files != "" && u.files == versionOf(u.dir, nil)) {
			defer p.mu.Unlock()
			return u.shown // changes when the run lets it
		}
		p.mu.Unlock()
		paths = []string{at.run}
	case len(paths) == 0:
		paths, _ = p.runs()
	}
	writers := store.ReadWriters()
	sum, going := sha256.New(), sha256.New()
	written := false
	for _, path := range paths {
		fmt.Fprintf(sum, "%q %s\n", path, versionOf(path, writers))
		if writers.Have(path) {
			fmt.Fprintf(going, "%q\n", path)
			written = true
		}
	}
	prefix := hex.EncodeToString(going.Sum(nil)[:8]) + "."
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := p.made[at.key()]; written && strings.HasPrefix(m.version, prefix) && time.Now().Before(m.next) {
		return m.version
	}
	return prefix + hex.EncodeToString(sum.Sum(nil)[:8])
}

func versionOf(path string, writers store.Writers) string {
	return fmt.Sprintf("%s%v", store.Version(path), writers.Have(path))
}

// Document implements [live.Source].
func (p *Pages) Document(ctx context.Context, query url.Values) ([]byte, error) {
	at, err := p.find(query)
	if err != nil {
		return nil, err
	}
	key, version := at.key(), p.version(at)
	if data, ok := p.known(key, version); ok {
		return data, nil
	}
	if p.measuresFirst(at) {
		return json.Marshal(p.beginning())
	}
	select {
	case <-p.making:
		defer func() { p.making <- struct{}{} }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p.mu.Lock()
	p.giveWay = cancel
	refuses := p.refuses
	p.mu.Unlock()
	if refuses {
		return nil, errGaveWay
	}
	if data, ok := p.known(key, version); ok { // rendered while this request waited
		return data, nil
	}
	var data []byte
	began := time.Now()
	err = thread.Apart(func() error {
		// Another process may be measuring on this machine.
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19)
		data, err = render(func() (report.Page, error) { return p.page(ctx, at) })
		return err
	})
	if err != nil {
		if gave := context.Cause(ctx); errors.Is(gave, errGaveWay) {
			err = gave
		}
		return nil, err
	}
	p.keep(key, made{version, data, time.Now().Add(pauseAfter(began))})
	return data, nil
}

// errGaveWay is the error of a document that was canceled because a trial was due.
var errGaveWay = errs.WithHint(errors.New("the page was interrupted by a trial"), "it is retried after the trial; fewer runs take less time")

// measuresFirst reports whether the place is a run of this process in its first trial, before its
// first document.
func (p *Pages) measuresFirst(at place) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.now
	return u != nil && u.dir != "" && at.run == u.dir && u.holds && u.shown == ""
}

// known returns the cached document of a version.
func (p *Pages) known(key, version string) ([]byte, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m, ok := p.made[key]
	return m.data, ok && m.version == version
}

func (p *Pages) keep(key string, m made) {
	p.mu.Lock()
	defer p.mu.Unlock()
	size := len(m.data)
	for other, kept := range p.made { // in any order
		if size += len(kept.data); other == key || size > maxMade {
			size -= len(kept.data)
			delete(p.made, other)
		}
	}
	p.made[key] = m
}

// render returns a page as a document. A panic becomes an error, so that a run of this process
// continues.
func render(page func() (report.Page, error)) (data []byte, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			data, err = nil, errs.WithHint(fmt.Errorf("the page could not be rendered: %v", fault), "report this as a bug, with: %s", debug.Stack())
		}
	}()
	content, err := page()
	if err != nil {
		return nil, err
	}
	data, err = json.Marshal(content)
	if err == nil && len(data) > maxDocument {
		err = errs.WithHint(errs.Usage("the page would be %d MB", len(data)>>20), "`meshtrial report` writes it to a file")
	}
	return data, err
}

func (p *Pages) page(ctx context.Context, at place) (report.Page, error) {
	how := comparison.CompareOptions{MarginRatio: margin}
	var err error
	if how.Across, err = comparison.ParseAcross(at.across); err != nil {
		return report.Page{}, err
	}
	served := report.Live{Links: []report.Link{{Text: "All runs"}}}
	var damage []string
	warn := func(text string) { damage = append(damage, text) }
	var page report.Page
	var of []string // runs
	switch {
	case at.index:
		return p.index(ctx)
	case at.begins:
		return p.beginning(), nil
	case at.run != "":
		return p.runPage(ctx, at.run)
	case at.trend != "":
		o := TrendOptions{Study: at.trend, How: how, Warn: warn}
		of, damage = p.runs()
		trend, err := o.of(ctx, of)
		if err != nil {
			return page, err
		}
		page = kinds.Reports().TrendPage(trend)
	default:
		c, err := Compare(ctx, at.compare[:1], at.compare[1:], how, warn)
		if err != nil {
			return page, err
		}
		page, of = kinds.Reports().ComparisonPage(c), at.compare
		for i, path := range at.compare {
			served.Links = append(served.Links, report.Link{Text: "Run " + string(rune('A'+i)), Query: "?run=" + idOf(path)})
		}
	}
	writers := store.ReadWriters()
	for _, path := range of {
		if !writers.Have(path) {
			continue
		}
		if h, err := store.ReadHeader(path); err == nil && (at.trend == "" || h.Study == at.trend) {
			page.Provisional = report.Unfinished
		}
	}
	page.Warnings = append(page.Warnings, damage...)
	return page.Served(served), nil
}

// runPage is the report of a run so far.
func (p *Pages) runPage(ctx context.Context, path string) (report.Page, error) {
	a, err := Analyze(ctx, path)
	if err != nil {
		return report.Page{}, err
	}
	return p.reportOf(a)
}

// reportOf is the page of a run that goes on or has ended.
func (p *Pages) reportOf(a Analyzed) (page report.Page, err error) {
	path, run := a.Dir, a.Run
	plan, err := analysis.Plan(run)
	if err != nil {
		return page, err
	}
	p.forget()
	going := store.ReadWriters().Have(path)
	var progress analysis.Progress
	if len(run.Trials) == 0 {
		s := plan.Study
		page = report.Page{Title: s.Name, Question: s.Question, Story: s.Story, Answers: []string{"No trial has ended yet."}, Study: string(run.StudyYAML)}
	} else {
		f := a.Findings
		if going {
			f.Stop = "" // nothing has ended it
		}
		if page, err = kinds.Reports().Page(f); err == nil {
			progress, err = analyses.All().Progress(run)
		}
		if err != nil {
			return page, err
		}
	}
	page.Warnings = append(page.Warnings, a.Notes...)
	ended := progress.Ended(going)
	var began time.Time
	p.mu.Lock()
	launch := p.launch
	if p.now != nil && p.now.dir == path {
		began = p.now.began
	}
	p.mu.Unlock()
	status := standing(run, a.Findings.Validity, plan, progress, going, began, time.Now())
	status.Run = idOf(path)
	resumable := false
	if launch != nil && !ended {
		refusal := launch.refusal(path, plan.Study, run.Header)
		if resumable = refusal == nil; !resumable && !going {
			status.Facts = append(status.Facts, report.Fact{Name: "resume", Text: refusal.Error()})
		}
	}
	if !ended {
		page.Provisional = report.Interrupted
		if going {
			page.Provisional = report.Provisional
		}
		page.Sections = append(report.ProgressSections(progress, plan, run.Trials), page.Sections...)
	}
	served := report.Live{Status: &status}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.dirs) > 1 || len(p.dirs) == 1 && p.dirs[0] != path {
		served.Links = []report.Link{{Text: "All runs"}}
	}
	status.Resume = resumable && !going
	if u := p.now; u != nil && u.dir == path {
		u.resumable = resumable
		u.status.Facts, u.status.Share, u.status.Resume = status.Facts, status.Share, resumable && u.ended
		status = u.status
	}
	return page.Served(served), nil
}

// index lists the runs of the folders.
func (p *Pages) index(ctx context.Context) (report.Page, error) {
	var all []entry
	writers := store.ReadWriters()
	kept := map[string]entry{}
	paths, damage := p.runs()
	for _, path := range paths {
		if err := ctx.Err(); err != nil {
			return report.Page{}, err
		}
		version := versionOf(path, writers)
		p.mu.Lock()
		e, ok := p.entries[path]
		p.mu.Unlock()
		if !ok || e.version != version {
			e = listed(path, writers.Have(path))
			e.version = version
		}
		kept[path] = e
		all = append(all, e)
	}
	slices.SortStableFunc(all, func(a, b entry) int { return b.started.Compare(a.started) })
	served := report.Live{Across: comparison.AcrossAll}
	studies := map[string]bool{}
	for _, e := range all {
		served.Runs = append(served.Runs, e.ListedRun)
		if e.Study != "" {
			studies[e.Study] = true
		}
	}
	served.Studies = slices.Sorted(maps.Keys(studies))
	p.mu.Lock()
	p.entries = kept
	launch := p.launch
	p.mu.Unlock()
	if launch != nil {
		served.Startable = launch.Studies()
	}
	counted := "No run yet."
	if len(all) > 0 {
		counted = fmt.Sprintf("%s of %s", words.Plural(len(all), "run"), words.Plural(len(studies), "study"))
	}
	return report.Page{Title: strings.Join(p.dirs, ", "), Answers: []string{counted}, Warnings: damage}.Served(served), nil
}

// listed is a run's line in the index.
func listed(path string, going bool) entry {
	e := entry{ListedRun: report.ListedRun{ID: idOf(path), Name: filepath.Base(path)}}
	h, err := store.ReadHeader(path)
	if err != nil {
		e.State, e.Answer, e.Bad = "unreadable", err.Error(), true
		return e
	}
	e.Study, e.started, e.Started = h.Study, h.Started, h.Started.Local().Format(time.DateTime)
	if going {
		e.State = "in progress"
	}
	n, _ := store.CountTrials(path) // none yet
	f, current, err := store.ReadFindings(path, n, maxFindings)
	switch {
	case err != nil:
		e.State, e.Answer, e.Bad = "unreadable", err.Error(), true
	case current && !going:
		e.State = fmt.Sprintf("%s of %s valid", report.Count(f.Validity.Valid), words.Plural(f.Validity.Trials, "trial"))
		e.Bad = f.Validity.Valid == 0
		e.Answer = headline(f)
	default:
		e.Answer = words.Plural(n, "trial") + " so far"
		if !going {
			e.State = "interrupted"
		}
	}
	return e
}

// headline is what a run found, in a sentence.
func headline(f record.Findings) string {
	page, err := kinds.Reports().Page(f)
	if err != nil {
		return err.Error()
	}
	if len(page.Answers) == 0 {
		return "No answer."
	}
	return page.Answers[0]
}
