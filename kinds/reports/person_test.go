package reports

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/browsertest"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/runtest"
	"github.com/meshtrial/meshtrial/ui"
	"github.com/meshtrial/meshtrial/ui/live"
)

// played is a run that was started from the page. The test plays the runner.
type played struct {
	app.RunOptions
	ctx   context.Context
	ended chan error
}

// players returns a launch whose runs last until the test ends them or the page stops them.
func players(source string) (launch app.Launch, begun <-chan played) {
	runs := make(chan played)
	return app.Launch{
		Studies: func() []string { return []string{"quick"} },
		Study: func(context.Context, string) (*study.Study, []byte, error) {
			return app.ResumedStudy(source)
		},
		Options: app.RunOptions{Where: app.Where{Lab: lab.KindLocal}, Observe: record.ObservedCgroup, Progress: unseen{}, Present: func(app.Analyzed) error { return nil }},
		Run: func(ctx context.Context, o app.RunOptions) error {
			p := played{o, ctx, make(chan error)}
			select {
			case runs <- p:
			case <-ctx.Done():
				return ctx.Err()
			}
			select {
			case err := <-p.ended:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		},
	}, runs
}

// unseen discards a run's progress.
type unseen struct{}

func (unseen) Say(string, ...any)         {}
func (unseen) Note(string, ...any)        {}
func (unseen) Component(components.Event) {}
func (unseen) Clear()                     {}

// madeHere makes a run look like one of this program on this machine, so that it can be resumed.
func madeHere(t *testing.T, dir string) {
	t.Helper()
	h, err := store.ReadHeader(dir)
	must.OK(t, err)
	h.Meshtrial, h.MeshtrialDigest, h.Observed, h.Machine = app.Version(), "", record.ObservedCgroup, record.Machine{}
	data, err := json.Marshal(h)
	must.OK(t, err)
	must.OK(t, os.WriteFile(filepath.Join(dir, store.FileHeader), data, 0o644))
}

// A person starts a study, watches it, stops it, resumes it, and compares it with an earlier run.
func TestPageAsAPersonUsesIt(t *testing.T) {
	const recorded = "data-plane"
	folder := t.TempDir()
	earlier := filepath.Join(folder, "earlier")
	runtest.Copy(t, recorded, earlier, "r1", runtest.All)
	madeHere(t, earlier)
	ctx := browsertest.Start(t)
	pages, _, entrance := serve(t, folder)
	launch, begun := players(earlier)
	working, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { pages.Work(working, launch); close(done) }()
	t.Cleanup(func() { stop(); <-done })
	eventually.Holds(t, "studies can be started", func() bool {
		err := pages.Act(t.Context(), live.Action{Do: "start", Study: "no such study"})
		return err != nil && strings.Contains(err.Error(), "no study")
	})
	complaints := watchServer(t, ctx, entrance)
	says := func(text string) {
		t.Helper()
		browsertest.Shows(t, ctx, text, `document.querySelector('.standing')?.textContent.includes(`+strconv.Quote(text)+`) ?? false`)
	}
	// trial plays the n-th trial of a run, with its window.
	trial := func(p played, dir string, n int) {
		t.Helper()
		plan, err := study.NewPlan(p.Study, 5)
		must.OK(t, err)
		p.Event(plan, runner.Event{Stage: "trial", Block: (n - 1) / 3, Trial: (n-1)%3 + 1, Trials: 3, Cell: "both"})
		says("trial " + strconv.Itoa((n-1)%3+1) + " of 3: both")
		p.Event(plan, runner.Event{Stage: runner.StageQuiet})
		says("no updates until the window ends")
		runtest.Grow(t, recorded, dir, n)
		p.Event(plan, runner.Event{Stage: runner.StageLoud})
		must.OK(t, p.Kept(p.ctx))
	}

	browsertest.Visit(t, ctx, entrance)
	browsertest.Press(t, ctx, "Start")
	first := <-begun
	runtest.Copy(t, recorded, first.Out, "r2", 0)
	madeHere(t, first.Out)
	first.Begun(first.Out)
	says("Getting ready")
	browsertest.Audit(t, ctx, "person-started")
	browsertest.Press(t, ctx, "Look at this run")
	trial(first, first.Out, 1)
	browsertest.Shows(t, ctx, "the first trial", `document.querySelectorAll('#trials tbody tr').length === 1`)
	browsertest.Press(t, ctx, "Stop the run")
	says("The run was stopped")

	browsertest.Press(t, ctx, "Resume the run")
	second := <-begun
	if second.Resume != first.Out {
		t.Errorf("resumes %s", second.Resume)
	}
	second.Begun(first.Out)
	for n := 2; n <= 6; n++ {
		trial(second, first.Out, n)
	}
	analyzed, err := app.Analyze(t.Context(), first.Out)
	must.OK(t, err)
	must.OK(t, second.Present(analyzed))
	second.ended <- nil
	says("The run has ended")
	browsertest.Shows(t, ctx, "the last report", `document.querySelector('.provisional') === null && document.querySelectorAll('#trials').length === 0`)
	browsertest.Audit(t, ctx, "person-ended")
	if pdf := browsertest.Print(t, ctx); !bytes.HasPrefix(pdf, []byte("%PDF")) || len(pdf) < 20_000 {
		t.Errorf("prints %d bytes", len(pdf))
	}

	browsertest.Press(t, ctx, "All runs")
	for _, name := range []string{"earlier", filepath.Base(first.Out)} {
		browsertest.Click(t, ctx, `document.querySelector('[aria-label=`+strconv.Quote("Compare "+name)+`]')`)
	}
	browsertest.Press(t, ctx, "Compare the two")
	browsertest.Shows(t, ctx, "a comparison", `document.querySelectorAll('#comparison tbody tr').length > 0`)
	for _, complaint := range complaints() {
		t.Error(complaint)
	}
}

// A person searches a flame graph for a function, zooms in on it, and prints the page.
func TestProfileAsAPersonUsesIt(t *testing.T) {
	ctx := browsertest.Start(t)
	path := filepath.Join(t.TempDir(), "profile.html")
	data, err := json.Marshal(profilePage(t))
	must.OK(t, err)
	var file bytes.Buffer
	must.OK(t, ui.WritePage(&file, data))
	must.OK(t, os.WriteFile(path, file.Bytes(), 0o600))
	complaints := browsertest.Watch(t, ctx, browsertest.File(path))
	browsertest.Size(t, ctx, 1200, 900)
	browsertest.Visit(t, ctx, browsertest.File(path))
	browsertest.Audit(t, ctx, "profile")
	boxes := browsertest.Eval[int](t, ctx, `document.querySelectorAll('svg.flame g').length`)
	browsertest.Type(t, ctx, `document.querySelector('.flamebar input[type=search]')`, "tcp_")
	browsertest.Shows(t, ctx, "what the search found", `document.querySelectorAll('svg.flame g.hit').length > 0 && /\d% of what is shown/.test(document.querySelector('.flamebar .status').textContent)`)
	browsertest.Audit(t, ctx, "profile-searched")
	browsertest.Click(t, ctx, `document.querySelector('svg.flame g.hit rect')`)
	browsertest.Press(t, ctx, "show all again")
	if n := browsertest.Eval[int](t, ctx, `document.querySelectorAll('svg.flame g').length`); n != boxes {
		t.Errorf("of %d boxes %d are shown again", boxes, n)
	}
	must.OK(t, must.Err(chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})))
	if n := browsertest.Eval[int](t, ctx, `[...document.querySelectorAll('.skip, .controls, .flamebar, .now')].filter(e => e.checkVisibility()).length`); n > 0 {
		t.Errorf("%d controls are printed", n)
	}
	if pdf := browsertest.Print(t, ctx); !bytes.HasPrefix(pdf, []byte("%PDF")) {
		t.Errorf("prints %d bytes", len(pdf))
	}
	for _, complaint := range complaints() {
		t.Error(complaint)
	}
}
