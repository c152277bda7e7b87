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
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/study"
)

// Options say what to run, where, and where to leave it.
type Options struct {
	Study *study.Study
	// Kind is the study's kind.
	Kind   Kind
	Source []byte // the study file as given
	Lab    lab.Lab
	// LabKind is what the header says of the lab; "": what the lab itself does. Inside
	// of a local lab that takes itself for a cluster as any other.
	LabKind string
	Mesh    mesh.Mesh
	// Meshes are the adapters by name where cells name their mesh; Mesh counts
	// for those that are not there.
	Meshes map[string]mesh.Mesh
	// Control is the control plane under test; studies of the data plane
	// need none.
	Control mesh.ControlPlane
	// Revision is that of the Istio in use; "" without Istio.
	Revision string
	// Beside are the control planes of other revisions that steps bring up, by revision:
	// those that the cluster does not have, and that the run may make in it.
	Beside map[string]mesh.Addition
	// Observed is where CPU and memory are read: [record.ObservedKubelet], or from
	// cgroups.
	Observed string
	// Journal is where it is noted what the run changes outside its namespaces.
	Journal *journal.Journal
	// RunID names the run, as the journal has it; "": [NewRunID].
	RunID string
	// Out is the run directory: to be made, or with Resume to go on with.
	Out    string
	Resume bool
	// Version and Digest of this program, and what it knows of the measured
	// binaries.
	Version    string
	Digest     string
	Components []record.Component
	// Build is the version that the observers' program must be of; "" is any.
	Build string
	// Rules are those by which trials are judged, for the header: a run that
	// was judged by others is not gone on with.
	Rules   record.Rules
	Remarks []string // what is wrong with the machine, for the report
	// Enough is asked after each block from the study's least number on:
	// whether the intervals are narrow enough, and in which words. nil:
	// never before the limits.
	Enough func(*study.Plan, record.Run) (stop bool, why string)
	// Next names the trial that a study which searches for the highest levels
	// within a bound, or tunes levers, needs next in a block, by its place in the block's
	// order. nil: every cell is measured.
	Next func(plan *study.Plan, run record.Run, block int) (order int, ok bool, err error)
	// Kept is called when a trial is durable, before the next begins; its error ends the
	// run. nil: nobody wants that.
	Kept func(ctx context.Context) error
	// Condition compiles a condition of a step. nil: such steps never begin.
	Condition func(expr string) (func(record.Moment) (bool, error), error)
	// Progress is told what happens; it is called from one goroutine at a
	// time and must not block. nil: nobody wants to know.
	Progress func(Event)
}

// StageWait is the stage of an event that says what keeps pods from coming.
const StageWait = "wait"

// Stages of the events at the edges of what a trial measures. Between them nothing may be
// done that uses a CPU of the machines under test.
const (
	StageQuiet = "quiet"
	StageLoud  = "loud"
)

// StageWarming is the stage of events about a trial's warm-up.
const StageWarming = "warming"

// Quiet reports that a trial starts to measure; the function that it returns reports the end.
func Quiet(tell func(Event)) (end func()) {
	tell(Event{Stage: StageQuiet})
	return func() { tell(Event{Stage: StageLoud}) }
}

// Event is a step of a run, for people.
type Event struct {
	// Stage is deploy, trial, step (of a trial), timeline (the same, of a trial
	// of resilience), block, [StageWait], [StageWarming], [StageQuiet]
	// or [StageLoud].
	Stage string
	Block int // from 0
	// Trial and Trials count within the block, from 1.
	Trial, Trials int
	Cell          string // label
	Text          string
	// Record is the trial that has just ended, if any.
	Record *record.Trial
}

// Outcome is what became of a run.
type Outcome struct {
	Dir    string
	Plan   *study.Plan
	Header record.Header
	Trials int    // completed in the whole run, earlier ones included
	Blocks int    // whole blocks
	Stop   string // why it ended
}

// maxLost is how many trials in a row may fail to be carried through before
// the run gives up.
const maxLost = 3

// Run executes the study. When ctx ends, Run returns its error with an
// Outcome whose Dir holds every completed trial.
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
		return Outcome{Dir: r.dir.Path(), Plan: r.plan, Header: r.header, Trials: len(r.trials), Blocks: r.wholeBlocks(), Stop: r.stop}
	}
	defer ending.Owe(ctx, "what run "+r.header.RunID+" changed in the cluster", "meshtrial cluster restore")()
	r.redeploy = r.anew
	defer func() { err = errors.Join(err, r.remove(ctx)) }()
	if err := r.deploy(ctx); err != nil {
		return outcome(), err
	}
	err = r.blocks(ctx)
	return outcome(), err
}

// deploy has the kind make what the plan needs in the cluster.
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

// remove takes away what deploy made.
func (r *run) remove(ctx context.Context) error {
	stage := r.stage
	if r.stage = nil; stage == nil {
		return nil
	}
	return stage.Remove(ctx)
}

// anew deploys once more, as a run does that is gone on with, when the run's namespace
// was taken away. Nobody has taken its Lease, or it would have ended.
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

// tell reports a step, and writes what is worth reading later to log.txt.
func (r *run) tell(e Event) {
	r.telling.Lock() // waits report from goroutines of their own
	defer r.telling.Unlock()
	line := e.Text
	if t := e.Record; t != nil {
		line = fmt.Sprintf("trial %s, %s: valid %v, warm-up %.2f s (%s)", t.ID, e.Cell, t.Validity.Valid, t.Warmup.Seconds, t.Warmup.Why)
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

// run is a run under way.
type run struct {
	telling sync.Mutex
	o       *Options
	plan    *study.Plan
	dir     *store.Dir
	header  record.Header
	today   record.Header    // what is known of this attempt, as of a run of its own
	stage   Stage            // what the kind has in the cluster; nil: nothing
	pods    Measurer         // carries trials through: the stage
	now     func() time.Time // bounds the blocks
	trials  []record.Trial   // completed, earlier ones first
	events  []record.Event   // their changes
	done    map[string]bool
	hist    map[string]record.TrialHist
	started time.Time
	stop    string
	begin   time.Time     // of the first block in this attempt
	longest time.Duration // trial of a search
	lost    int           // trials in a row that could not be carried through
	// redeploy makes the stage anew.
	redeploy func(ctx context.Context) error
}

// open makes the run directory, or takes up an earlier one.
func (r *run) open(ctx context.Context) error {
	r.done, r.hist = map[string]bool{}, map[string]record.TrialHist{}
	if r.o.Resume {
		return r.reopen(ctx)
	}
	seed := r.o.Study.Seed
	if seed == 0 {
		seed = rand.Uint64() >> 11 // exact also as a JSON number
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

// fit says whether the plan can be run in the lab as it is, and which
// binaries of the mesh would be measured.
func (r *run) fit(ctx context.Context) ([]record.Component, error) {
	if err := r.o.Kind.Check(r.plan); err != nil {
		return nil, err
	}
	images := r.o.Lab.Images()
	if images.Meshtrial == "" {
		return nil, errs.WithHint(errs.Usage("which image do the load generator, the worker and the observer run from?"),
			"give one that the cluster can pull with --image")
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
		r.hist, r.trials = loaded.Hist, loaded.Trials // which are not valid if histograms are lost
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
	// Pods of the earlier attempt may be on their way out: a new namespace.
	r.header.RunID = r.id()
	return nil
}

// SameRules refuses to go on with the run at path if its trials were judged by
// other rules than today's: verdicts of different rules must not meet in one
// run.
func SameRules(path string, h record.Header, today record.Rules) error {
	words := verdict.Differ(h.Rules, today)
	if words == "" {
		return nil
	}
	return errs.WithHint(errs.Usage("run %s cannot be resumed: its %s", path, words),
		"`meshtrial report %s --rejudge` judges what is there by today's rules; to measure more, make a new run with --out, or resume with meshtrial %s, which made this one", path, h.Meshtrial)
}

// deployments is how many sets of pods the trials so far had.
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

// NewRunID names a run by its start, with a suffix so that two never meet.
func NewRunID(start time.Time) string {
	return fmt.Sprintf("%s-%04x", start.UTC().Format("20060102-150405"), rand.Uint32()&0xffff)
}

// describe finds what is only known once the pods run: the machine, and the
// versions that the proxies themselves report. A run with trials was described
// when they were made, and nothing of it may have changed since.
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

// mergeComponents makes one entry of what is known of a component from
// several sides, and sorts by name.
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
