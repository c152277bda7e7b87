package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/podwait"
	"github.com/meshtrial/meshtrial/internal/shell"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/study"
)

// Options say what to run, where, and where to store the results.
type Options struct {
	Study *study.Study
	// Kind is the study's kind.
	Kind   Kind
	Source []byte // the study file as given
	Lab    lab.Lab
	// LabKind is the lab's kind in the header; "" uses the lab's own. It differs in a local
	// lab that is treated like any other cluster from inside.
	LabKind string
	Mesh    mesh.Mesh
	// Meshes has the adapters by name if cells name their mesh. Mesh is used for missing
	// ones.
	Meshes map[string]mesh.Mesh
	// Ingresses has the adapters of the ingresses that cells name, by name.
	Ingresses map[string]mesh.Ingress
	// Control is the control plane under test; data plane studies need none.
	Control mesh.ControlPlane
	// Revision is the revision of the Istio in use; "" without Istio.
	Revision string
	// Beside has the control planes of other revisions that steps start, by revision: those
	// that the cluster lacks and that the run may create in it.
	Beside map[string]mesh.Addition
	// Observed is the source of CPU and memory values: [record.ObservedKubelet], otherwise
	// cgroups.
	Observed string
	// Journal records what the run changes outside its namespaces.
	Journal *journal.Journal
	// RunID names the run, as in the journal; "" uses [NewRunID].
	RunID string
	// Out is the run directory, to create, or to resume with Resume.
	Out    string
	Resume bool
	// Version and Digest of this program, and what is known of the measured binaries.
	Version    string
	Digest     string
	Components []record.Component
	// Build is the required version of the roles' program; "" is any.
	Build string
	// Rules identifies the validity rules, for the header. A run recorded under other rules
	// cannot be resumed.
	Rules   record.Rules
	Remarks []string // problems of the machine, for the report
	// Enough is called after each block once the study's minimum is reached. It reports
	// whether the intervals are narrow enough, and describes why. nil: only the limits apply.
	Enough func(*study.Plan, record.Run) (stop bool, why string)
	// Next returns the next trial of a block, by its place in the block's order, for a study
	// that searches for the highest levels within a bound, or tunes levers. nil: every cell
	// is measured.
	Next func(plan *study.Plan, run record.Run, block int) (order int, ok bool, err error)
	// Kept is called when a trial is durable, before the next starts; its error ends the run.
	// It may be nil.
	Kept func(ctx context.Context) error
	// Condition compiles a condition of a step. nil: such steps never begin.
	Condition func(expr string) (func(record.Moment) (bool, error), error)
	// Progress is called with every event, by one goroutine at a time. It must not block, and
	// may be nil.
	Progress func(Event)
}

// StageWait is the stage of an event that says what delays pods.
const StageWait = "wait"

// Stages of the events at the start and the end of a trial's measurement. In between, nothing
// may use a CPU of the machines under test.
const (
	StageQuiet = "quiet"
	StageLoud  = "loud"
)

// StageWarming is the stage of events about a trial's warm-up.
const StageWarming = "warming"

// Quiet reports that a trial starts measuring; the returned function reports the end.
func Quiet(tell func(Event)) (end func()) {
	tell(Event{Stage: StageQuiet})
	return func() { tell(Event{Stage: StageLoud}) }
}

// Event is a step of a run, for display.
type Event struct {
	// Stage is deploy, trial, step (of a trial), timeline (a step of a resilience trial),
	// block, [StageWait], [StageWarming], [StageQuiet] or [StageLoud].
	Stage string
	Block int // from 0
	// Trial and Trials count within the block, from 1.
	Trial, Trials int
	Cell          string // label
	Text          string
	// Record is the trial that has just ended, if any.
	Record *record.Trial
}

// Outcome is the result of a run.
type Outcome struct {
	Dir    string
	Trials int    // completed in the whole run, including earlier ones
	Blocks int    // whole blocks
	Stop   string // why the run ended
}

// maxLost is how many consecutive trials may be lost before the run gives up.
const maxLost = 3

// Run executes the study. When ctx ends, Run returns its error with an Outcome whose Dir
// contains every completed trial.
func Run(ctx context.Context, o Options) (out Outcome, err error) {
	if o.Progress == nil {
		o.Progress = func(Event) {}
	}
	r := &run{o: &o, started: time.Now(), now: time.Now}
	if err := r.open(ctx); err != nil {
		return Outcome{}, err
	}
	defer func() { err = errors.Join(err, r.dir.Close()) }()
	ctx = podwait.Reporting(ctx, func(text string) { r.tell(Event{Stage: StageWait, Text: text}) })
	outcome := func() Outcome {
		return Outcome{Dir: r.dir.Path(), Trials: len(r.trials), Blocks: r.wholeBlocks(), Stop: r.stop}
	}
	if o.Resume && !r.searches() {
		if r.stop = r.enough(r.wholeBlocks()); r.stop != "" {
			return outcome(), nil // no trial is left to deploy for
		}
	}
	defer ending.Owe(ctx, "what run "+r.header.RunID+" changed in the cluster", "meshtrial cluster restore")()
	r.redeploy = r.anew
	defer func() { err = Removed(err, r.remove(ctx)) }()
	if err := r.deploy(ctx); err != nil {
		return outcome(), err
	}
	err = r.blocks(ctx)
	return outcome(), err
}

// deploy makes the kind create what the plan needs in the cluster.
func (r *run) deploy(ctx context.Context) error {
	stage, err := r.o.Kind.Deploy(ctx, Deployment{Options: r.o, Plan: r.plan, RunID: r.header.RunID, Deployments: r.deployments(), Recorded: r.trials, Folder: r.dir.Subdir, Tell: r.tell})
	if err != nil {
		return err
	}
	r.stage, r.pods = stage, stage
	if err := sameBuild(ctx, r.o.Lab.Kind(), stage.Place(), r.o.Build); err != nil {
		return err
	}
	return r.describe(ctx, stage)
}

// remove removes what deploy created.
func (r *run) remove(ctx context.Context) error {
	stage := r.stage
	if r.stage = nil; stage == nil {
		return nil
	}
	return stage.Remove(ctx)
}

// anew deploys again, like a resumed run, if the run's namespace was deleted. The run still
// holds its Lease, or it would have ended.
func (r *run) anew(ctx context.Context) error {
	place := r.stage.Place()
	if err := r.remove(ctx); err != nil {
		return err
	}
	if err := place.AwaitGone(ctx); err != nil {
		return err
	}
	var err error
	if r.today, err = r.beforehand(ctx); err != nil {
		return err
	}
	return r.deploy(ctx)
}

// tell reports a step, and writes noteworthy ones to log.txt.
func (r *run) tell(e Event) {
	r.telling.Lock() // waits report from their own goroutines
	defer r.telling.Unlock()
	line := e.Text
	if t := e.Record; t != nil {
		line = fmt.Sprintf("trial %s, %s: valid %v", t.ID, e.Cell, t.Validity.Valid)
		if w := t.Warmup; w.Why != "" {
			line += fmt.Sprintf(", warm-up %.2f s (%s)", w.Seconds, w.Why)
		}
		for _, c := range t.Validity.Checks {
			if !c.OK {
				line += fmt.Sprintf("\n  %s: %s", c.Name, c.Detail)
			}
		}
	}
	if line != "" && e.Stage != "step" && e.Stage != StageWarming && r.dir != nil {
		fmt.Fprintf(r.dir.Log(), "%s %s\n", time.Now().UTC().Format("15:04:05.000"), line)
	}
	r.o.Progress(e)
}

// run is a run in progress.
type run struct {
	telling sync.Mutex
	o       *Options
	plan    *study.Plan
	dir     *store.Dir
	header  record.Header
	today   record.Header    // what is known of this attempt, as for a new run
	stage   Stage            // what the kind deployed in the cluster; nil: nothing
	pods    Measurer         // executes trials: the stage
	now     func() time.Time // for the time limit of blocks
	trials  []record.Trial   // completed, earlier ones first
	events  []record.Event   // of these trials
	done    map[string]bool
	hist    map[string]record.TrialHist
	started time.Time
	stop    string
	begin   time.Time     // of the first block in this attempt
	longest time.Duration // duration of a trial in a search
	lost    int           // consecutive lost trials
	// redeploy creates the stage again.
	redeploy func(ctx context.Context) error
}

// open creates the run directory, or resumes an earlier one.
func (r *run) open(ctx context.Context) error {
	r.done, r.hist = map[string]bool{}, map[string]record.TrialHist{}
	if r.o.Resume {
		return r.reopen(ctx)
	}
	seed := r.o.Study.Seed
	if seed == 0 {
		seed = rand.Uint64() >> 11 // exactly representable as a JSON number
	}
	var err error
	if r.plan, err = study.NewPlan(r.o.Study, seed); err != nil {
		return err
	}
	if r.today, err = r.beforehand(ctx); err != nil {
		return err
	}
	r.header = record.Header{
		Schema: record.Schema, Kind: string(r.o.Study.Kind), RunID: r.id(), Study: r.o.Study.Name, Started: r.started.UTC(), Seed: seed,
		Rules: r.o.Rules,
	}
	r.take(r.today)
	r.dir, err = store.Create(r.o.Out, r.header, r.o.Source, r.o.Study.Marshal())
	return err
}

// fit reports whether the lab in its current state can run the plan, and returns the binaries
// of the mesh that would be measured.
func (r *run) fit(ctx context.Context) ([]record.Component, error) {
	if err := r.o.Kind.Check(r.plan); err != nil {
		return nil, err
	}
	images := r.o.Lab.Images()
	if images.Meshtrial == "" {
		return nil, errs.WithHint(errs.Usage("no image for the load generator, the worker and the observer"),
			"name one that the cluster can pull: --image")
	}
	return r.o.Kind.Fit(ctx, r.o, r.plan)
}

func (r *run) reopen(ctx context.Context) error {
	dir, contents, err := store.Resume(r.o.Out, r.o.Study.Marshal(), r.o.Study.Seed)
	if err != nil {
		return err
	}
	r.dir, r.header, r.trials, r.events = dir, contents.Header, contents.Trials, contents.Events
	if err = SameRules(r.o.Out, r.header, r.o.Rules); err == nil {
		r.plan, err = study.NewPlan(r.o.Study, r.header.Seed)
	}
	if err == nil {
		err = r.plan.CheckTrials(r.trials)
	}
	if err == nil {
		r.today, err = r.beforehand(ctx)
	}
	if err == nil {
		err = Same(r.o.Out, r.header, r.today)
	}
	var notes []string
	if err == nil {
		var loaded record.Run
		loaded, notes, err = store.Load(ctx, r.o.Out)
		r.hist, r.trials = loaded.Hist, loaded.Trials // trials with lost histograms are invalid
	}
	if err != nil {
		return errors.Join(err, dir.Close())
	}
	for _, t := range r.trials {
		r.done[t.ID] = true
	}
	for _, note := range append(contents.Notes, notes...) {
		r.tell(Event{Stage: "deploy", Text: note})
	}
	// Use a new namespace: pods of the earlier attempt may still be terminating.
	r.header.RunID = r.id()
	return nil
}

// SameRules refuses to resume the run at path if its trials were judged by other rules than
// today's. Verdicts of different rules must not be mixed in one run.
func SameRules(path string, h record.Header, today record.Rules) error {
	words := verdict.Differ(h.Rules, today)
	if words == "" {
		return nil
	}
	return errs.WithHint(errs.Usage("run %s cannot be resumed: its %s", path, words),
		"`meshtrial report %s --rejudge` judges its trials by this version's rules; to measure more, start a new run with --out, or resume with the --limit flags that it began with, by meshtrial %s, which made it", shell.Quote(path), h.Meshtrial)
}

// deployments returns the number of sets of pods that the trials used so far.
func (r *run) deployments() (n int) {
	for i := range r.trials {
		n = max(n, r.trials[i].Deployment)
	}
	return n
}

func (r *run) id() string {
	if r.o.RunID != "" {
		return r.o.RunID
	}
	return NewRunID(r.started)
}

// NewRunID returns a run name from its start, with a suffix that makes it unique.
func NewRunID(start time.Time) string {
	return fmt.Sprintf("%s-%04x", start.UTC().Format("20060102-150405"), rand.Uint32()&0xffff)
}

// describe determines what is known only once the pods run: the machine, and the versions
// that the proxies themselves report. A run with trials was already described, and nothing
// may have changed since.
func (r *run) describe(ctx context.Context, pods Stage) error {
	at, now := pods.Place(), &r.today
	machine, err := r.machine(ctx, at, pods.Pods())
	if err != nil {
		return fmt.Errorf("describe the machine: %w", err)
	}
	machine.Remarks, machine.Nodes = slices.Concat(machine.Remarks, now.Machine.Remarks), countNodes(at, pods.Pods())
	now.Machine = machine
	if version, err := at.Kube.Discovery().ServerVersion(ctx); err == nil {
		now.Machine.Kubernetes = version.GitVersion
	}
	seen := map[string]bool{}
	for _, pod := range pods.Pods() {
		if pod.State == nil || seen[pod.State.Version] {
			continue
		}
		seen[pod.State.Version] = true
		now.Components = append(now.Components, record.Component{Name: "envoy", Version: pod.State.Version, Source: "as the running sidecar reports"})
	}
	now.Components = mergeComponents(now.Components)
	if len(r.trials) > 0 {
		return Same(r.o.Out, r.header, *now)
	}
	r.take(*now)
	data, err := json.MarshalIndent(r.header, "", "  ")
	if err != nil {
		return err
	}
	return r.dir.WriteFile(store.FileHeader, append(data, '\n'))
}

// mergeComponents merges the entries about each component from several sources, and sorts by
// name.
func mergeComponents(in []record.Component) []record.Component {
	var out []record.Component
	index := map[string]int{}
	for _, c := range in {
		key := c.Name + " " + c.Version
		i, ok := index[key]
		if !ok {
			index[key] = len(out)
			out = append(out, c)
			continue
		}
		if out[i].Digest == "" {
			out[i].Digest, out[i].Source = c.Digest, c.Source
		}
		if len(out[i].Lacks) == 0 {
			out[i].Lacks = c.Lacks
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}
