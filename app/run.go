package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/shell"
	"github.com/meshtrial/meshtrial/kinds"
	"github.com/meshtrial/meshtrial/kinds/analyses"
	"github.com/meshtrial/meshtrial/kinds/resilience/findings"
	"github.com/meshtrial/meshtrial/kinds/resilience/trial"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe/procfs"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/study"
)

// Run runs a study in a lab of its own, the lab that is up, or a cluster, and presents its
// findings. It returns the [Judgement] of the findings, or why the run did not finish.
func Run(ctx context.Context, o RunOptions) error {
	server, err := o.serveMetrics()
	if err != nil {
		return err
	}
	defer server.Close()
	return o.inLab(ctx, func(ctx context.Context, r *prepared) error { return r.run(ctx) })
}

// Revert reverts what dead runs left in the lab that o names, as a run of o would before it
// begins, and does nothing else.
func Revert(ctx context.Context, o RunOptions) error {
	return o.inLab(ctx, func(context.Context, *prepared) error { return nil })
}

// prepared is a run that was checked as far as is possible without starting anything.
type prepared struct {
	RunOptions
	plan   *study.Plan
	runner runner.Options
}

// inLab checks a run, opens its lab, takes the cluster, and reverts what dead runs left there.
// Then it calls work.
func (o *RunOptions) inLab(ctx context.Context, work func(context.Context, *prepared) error) (err error) {
	r, err := o.prepare(ctx)
	if err != nil {
		return err
	}
	defer r.Progress.Clear()
	if r.detachedRun == "" { // whose Job starts another pod, once its volume has room
		if err := store.Room(cmp.Or(r.Resume, r.Out, RunsFolder)); err != nil {
			return err
		}
	}
	remarks, err := r.machineRemarks(ctx) // before the lab makes its own noise
	if err != nil {
		return err
	}
	if r.runner.Lab, err = r.openLab(ctx, r.plan); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLab(r.runner.Lab, r.Progress)) }()
	r.runner.Remarks = slices.Concat(remarks, r.sourceRemarks())
	r.runner.RunID = runner.NewRunID(time.Now())
	claim := Claim{Config: r.runner.Lab.RESTConfig(), Run: r.runner.RunID, Study: r.Study.Name, Wait: r.Wait,
		OwnLab: r.runner.Lab.Kind() == lab.KindLocal, Revert: true}
	return Occupy(ctx, r.Progress, claim, func(ctx context.Context, j *journal.Journal) error {
		r.runner.Journal = j
		if err := removeLeftovers(ctx, r.Progress, r.runner.Lab); err != nil {
			return err
		}
		return work(ctx, r)
	})
}

// prepare finds whatever is wrong that can be found without starting anything.
func (o *RunOptions) prepare(ctx context.Context) (*prepared, error) {
	s, err := Observable(o.Study, o.Observe)
	if err != nil {
		return nil, err
	}
	r := &prepared{RunOptions: *o}
	r.Study = s
	if r.plan, err = CheckedPlan(s, max(s.Seed, 1)); err != nil {
		return nil, err
	}
	if err := r.checkLab(); err != nil {
		return nil, err
	}
	if r.Lab == lab.KindLocal {
		if err := r.fitsLocal(r.plan); err != nil {
			return nil, err
		}
		if err := r.fitsMeshes(ctx, r.plan); err != nil {
			return nil, err
		}
	}
	rules, err := r.rules()
	if err != nil {
		return nil, err
	}
	switch {
	case r.Resume != "":
		// Another study, other rules, or another process at work in the directory.
		dir, contents, err := store.Resume(r.Resume, s.Marshal(), s.Seed)
		if err == nil {
			err = errors.Join(r.resumable(contents.Header), dir.Close())
		}
		if err != nil && r.detachedRun != "" {
			err = errs.WithHint(err, "%s", r.fetchHint())
		}
		if err != nil {
			return nil, err
		}
	case r.Out != "":
		if err := store.Vacant(r.Out); err != nil {
			return nil, err
		}
	}
	for _, n := range levelNotes(r.plan) {
		r.Progress.Note("%s", n)
	}
	r.runner = runner.Options{Study: s, Kind: kinds.Of(s).Trial, Rules: rules, Source: r.Source, Observed: r.Observe,
		LabKind: r.headerLab(), Kept: r.Kept}
	return r, nil
}

// rules are those by which the run's trials are judged.
func (o *RunOptions) rules() (record.Rules, error) {
	kind := kinds.Of(o.Study)
	limits, err := verdict.ParseLimits(o.Limits, kind.Limits)
	return limits.Rules(kind.Limits), err
}

// ownDigest is that of the file of the program that runs, whatever has become of its path.
var ownDigest = sync.OnceValues(func() (string, error) { return local.Digest("/proc/self/exe") })

// resumable refuses to resume a run that another program, lab or machine made, or other rules
// judged, as far as that is known before the lab is open.
func (o *RunOptions) resumable(was record.Header) error {
	digest, err := ownDigest()
	if err != nil {
		return err
	}
	rules, err := o.rules()
	if err != nil {
		return err
	}
	now := record.Header{Meshtrial: Version(), MeshtrialDigest: digest, Lab: o.headerLab(), Observed: o.Observe}
	if o.Lab == lab.KindLocal {
		now.Machine = procfs.Machine(os.DirFS("/"))
		now.Machine.OS, now.Machine.CgroupMode = "", "" // the node has others
	}
	return errors.Join(runner.Same(o.Resume, was, now), runner.SameRules(o.Resume, was, rules))
}

// run runs the study in a cluster that is this run's until it ends.
func (r *prepared) run(ctx context.Context) (err error) {
	closePlane, connected, err := r.complete(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closePlane()) }()
	if err := r.confirm(ctx, connected); err != nil {
		return err
	}
	if r.Event != nil {
		r.runner.Progress = func(e runner.Event) { r.Event(r.plan, e) }
	}
	if r.Begun != nil {
		r.Begun(r.runner.Out)
	}
	outcome, runErr := runner.Run(ctx, r.runner)
	if lost := context.Cause(ctx); errors.Is(lost, journal.ErrLost) { // nobody interrupted it
		runErr = errs.WithHint(fmt.Errorf("%w (%v)", lost, runErr),
			"meshtrial cluster status shows which run holds the cluster; meshtrial cluster restore reverts what is left")
	}
	r.Progress.Clear()
	if outcome.Dir == "" || outcome.Trials == 0 {
		return runErr
	}
	analyzed, err := writeFindings(context.WithoutCancel(ctx), outcome.Dir)
	if err == nil {
		err = r.Present(analyzed)
	}
	switch {
	case runErr != nil:
		return r.unfinished(runErr, err, outcome)
	case err != nil:
		return err
	}
	return Judgement(analyzed.Findings)
}

// complete fills in what the runner needs to know of the lab. It opens the control plane, if
// the run needs it, for closePlane to close; connected counts the proxies of others there, and
// is nil without it.
func (r *prepared) complete(ctx context.Context) (
	closePlane func() error, connected func(context.Context) (int, error), err error) {
	o := &r.runner
	if o.Components, err = measuredComponents(ctx, o.Lab); err != nil {
		return nil, nil, err
	}
	if o.Digest, err = ownDigest(); err != nil {
		return nil, nil, err
	}
	o.Version, o.Condition = Version(), condition
	if o.Version != unstamped {
		o.Build = o.Version
	}
	o.Mesh, o.Meshes = planMeshes(r.plan, o.Lab.Images())
	o.Ingresses = planIngresses(r.plan, o.Lab.Images())
	if err := r.chooseRevision(ctx, r.plan, o); err != nil {
		return nil, nil, err
	}
	o.Enough, o.Next = analyses.All().Enough, analyses.All().Next
	switch o.Out = r.Out; {
	case r.Resume != "":
		o.Out, o.Resume = r.Resume, true
	case o.Out == "":
		o.Out = newRunIn(RunsFolder, r.Study)
	}
	if r.Study.Kind != study.ControlPlane && !trial.SetsControl(r.plan) {
		return func() error { return nil }, nil, nil
	}
	m, ok := adapter[mesh.Controlled](r.plan, o.Mesh, o.Meshes)
	if !ok {
		return nil, nil, errs.Usage("mesh %s has no control plane whose settings a run can change", r.Study.Mesh)
	}
	plane, err := m.Control(ctx, o.Lab.RESTConfig(), o.Revision, o.Journal)
	if err != nil {
		return nil, nil, err
	}
	o.Control = plane
	return plane.Close, plane.Connected, nil
}

// condition compiles a condition of a step.
func condition(expr string) (func(record.Moment) (bool, error), error) {
	c, err := findings.CompileCondition(expr)
	if err != nil {
		return nil, err
	}
	return c.Holds, nil
}

// unfinished is the error of a run that has trials and ended before it was done, with that of
// its report, which a full disk fails too. It adds to the hint how to continue.
func (o *RunOptions) unfinished(err, reportErr error, outcome runner.Outcome) error {
	hint := "continue with: meshtrial run --resume " + shell.Quote(outcome.Dir)
	if o.detachedRun != "" {
		hint = o.fetchHint()
	}
	if own := errs.Hint(err); own != "" {
		hint = own + "; " + hint
	}
	err = fmt.Errorf("the run did not finish (%s kept): %w", words.Plural(outcome.Trials, "trial"), err)
	return errs.WithHint(errors.Join(err, reportErr), "%s", hint)
}

// RunsFolder is where runs are made unless their user says otherwise.
const RunsFolder = "runs"

// newRunIn is the path of a run of a study that begins now.
func newRunIn(folder string, s *study.Study) string {
	return filepath.Join(folder, s.Name+"-"+time.Now().UTC().Format("20060102-150405"))
}

// ReportFile is the name of the page in a run directory.
const ReportFile = "report.html"

// writeFindings analyses a run directory and writes its findings and its report.
func writeFindings(ctx context.Context, dir string) (Analyzed, error) {
	a, err := Analyze(ctx, dir)
	if err != nil {
		return a, err
	}
	d, _, err := store.Resume(dir, nil, 0)
	if err != nil {
		return a, err
	}
	defer d.Close()
	if err := d.WriteFindings(a.Findings); err != nil {
		return a, err
	}
	var page strings.Builder
	if err := kinds.Reports().Render(&page, a.Findings, "html", report.Options{}); err != nil {
		return a, err
	}
	return a, d.WriteFile(ReportFile, []byte(page.String()))
}
