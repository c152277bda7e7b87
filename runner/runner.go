package runner

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sort"
	"time"

	"github.com/meshmark/meshmark/errs"
	"github.com/meshmark/meshmark/lab"
	"github.com/meshmark/meshmark/mesh"
	"github.com/meshmark/meshmark/record"
	"github.com/meshmark/meshmark/store"
	"github.com/meshmark/meshmark/study"
)

// Options say what to run, where, and where to leave it.
type Options struct {
	Study  *study.Study
	Source []byte // the study file as given
	Lab    lab.Lab
	Mesh   mesh.Mesh
	// Out is the run directory: to be made, or with Resume to go on with.
	Out    string
	Resume bool
	// Version of this program, and what it knows of the measured binaries.
	Version    string
	Components []record.Component
	Remarks    []string // what is wrong with the machine, for the report
	// Enough is asked after each block from the study's least number on:
	// whether the intervals are narrow enough, and in which words. nil:
	// never before the limits.
	Enough func(*study.Plan, record.Run) (stop bool, why string)
	// Progress is told what happens; it is called from one goroutine at a
	// time and must not block. nil: nobody wants to know.
	Progress func(Event)
}

// Event is a step of a run, for people.
type Event struct {
	// Stage is deploy, trial, or block.
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
	r := &run{o: &o, started: time.Now()}
	if err := r.open(ctx); err != nil {
		return Outcome{}, err
	}
	defer func() { err = errors.Join(err, r.dir.Close()) }()
	outcome := func() Outcome {
		return Outcome{Dir: r.dir.Path(), Plan: r.plan, Header: r.header, Trials: len(r.trials), Blocks: r.wholeBlocks(), Stop: r.stop}
	}
	r.tell(Event{Stage: "deploy", Text: fmt.Sprintf("deploying %d client and %d server pods", len(r.plan.ClientVariants()), len(r.plan.ServerVariants()))})
	r.deployed, err = deploy(ctx, &o, r.plan, r.header.RunID)
	if err != nil {
		return outcome(), err
	}
	defer func() { err = errors.Join(err, r.deployed.remove()) }()
	if err := r.describe(ctx); err != nil {
		return outcome(), err
	}
	err = r.blocks(ctx)
	return outcome(), err
}

// tell reports a step, and writes what is worth reading later to log.txt.
func (r *run) tell(e Event) {
	line := e.Text
	if t := e.Record; t != nil {
		line = fmt.Sprintf("trial %s, %s: valid %v, warm-up %.2f s (%s)", t.ID, e.Cell, t.Validity.Valid, t.Warmup.Seconds, t.Warmup.Why)
		for _, c := range t.Validity.Checks {
			if !c.OK {
				line += fmt.Sprintf("\n  %s: %s", c.Name, c.Detail)
			}
		}
	}
	if line != "" && r.dir != nil {
		fmt.Fprintf(r.dir.Log(), "%s %s\n", time.Now().UTC().Format("15:04:05.000"), line)
	}
	r.o.Progress(e)
}

// run is a run under way.
type run struct {
	o        *Options
	plan     *study.Plan
	dir      *store.Dir
	header   record.Header
	deployed *deployed
	trials   []record.Trial // completed, earlier ones first
	done     map[string]bool
	hist     map[string]record.TrialHist
	started  time.Time
	stop     string
	lost     int // trials in a row that could not be carried through
}

// open makes the run directory, or takes up an earlier one.
func (r *run) open(ctx context.Context) error {
	r.done, r.hist = map[string]bool{}, map[string]record.TrialHist{}
	if r.o.Resume {
		return r.reopen()
	}
	seed := r.o.Study.Seed
	if seed == 0 {
		seed = rand.Uint64() >> 11 // exact also as a JSON number
	}
	var err error
	if r.plan, err = study.NewPlan(r.o.Study, seed); err != nil {
		return err
	}
	components, err := r.o.Mesh.Check(ctx, r.o.Lab.RESTConfig(), newTopology("", r.plan).proxies())
	if err != nil {
		return err
	}
	r.header = record.Header{
		Schema: record.Schema, RunID: NewRunID(r.started), Study: r.o.Study.Name, Started: r.started.UTC(), Seed: seed,
		Lab: r.o.Lab.Kind(), Components: append(components, r.o.Components...), Meshmark: r.o.Version,
	}
	r.header.Machine.Remarks = r.o.Remarks
	r.dir, err = store.Create(r.o.Out, r.header, r.o.Source, r.o.Study.Marshal())
	return err
}

func (r *run) reopen() error {
	dir, contents, err := store.Resume(r.o.Out, r.o.Study.Marshal(), r.o.Study.Seed)
	if err != nil {
		return err
	}
	r.dir, r.header, r.trials = dir, contents.Header, contents.Trials
	if r.plan, err = study.NewPlan(r.o.Study, r.header.Seed); err == nil {
		err = r.plan.CheckTrials(r.trials)
	}
	if err == nil {
		var loaded record.Run
		loaded, _, err = store.Load(r.o.Out)
		r.hist = loaded.Hist
	}
	if err != nil {
		return errors.Join(err, dir.Close())
	}
	for _, t := range r.trials {
		r.done[t.ID] = true
	}
	for _, note := range contents.Notes {
		r.tell(Event{Stage: "deploy", Text: note})
	}
	// Pods of the earlier attempt may be on their way out: a new namespace.
	r.header.RunID = NewRunID(r.started)
	return nil
}

// NewRunID names a run by its start, with a suffix so that two never meet.
func NewRunID(start time.Time) string {
	return fmt.Sprintf("%s-%04x", start.UTC().Format("20060102-150405"), rand.Uint32()&0xffff)
}

// describe notes what is only known once the pods run: the machine, and the
// versions that the proxies themselves report.
func (r *run) describe(ctx context.Context) error {
	if len(r.trials) > 0 {
		return nil // a resumed run has been described
	}
	for _, observer := range r.deployed.observers {
		machine, err := observer.Machine(ctx)
		if err != nil {
			return fmt.Errorf("describe the machine: %w", err)
		}
		machine.Remarks = append(machine.Remarks, r.header.Machine.Remarks...)
		r.header.Machine = machine
		break
	}
	r.header.Machine.Nodes = len(r.deployed.observers)
	if version, err := r.deployed.kube.Discovery().ServerVersion(); err == nil {
		r.header.Machine.Kubernetes = version.GitVersion
	}
	seen := map[string]bool{}
	for _, pod := range r.deployed.pods() {
		if pod.proxyState == nil || seen[pod.proxyState.Version] {
			continue
		}
		seen[pod.proxyState.Version] = true
		r.header.Components = append(r.header.Components, record.Component{Name: "envoy", Version: pod.proxyState.Version, Source: "as the running sidecar reports"})
	}
	r.header.Components = mergeComponents(r.header.Components)
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

// blocks runs blocks until the stop rule holds or a limit comes.
func (r *run) blocks(ctx context.Context) error {
	limits := r.o.Study.Blocks
	begin := time.Now()
	longest := time.Duration(0)
	for block := 0; ; block++ {
		if why := r.enough(block); why != "" {
			r.stop = why
			return nil
		}
		if limits.Limit > 0 && block > 0 && !r.begun(block) && time.Since(begin)+longest > limits.Limit {
			r.stop = fmt.Sprintf("time limit of %v after %d blocks", limits.Limit, block)
			return nil
		}
		at := time.Now()
		measured, err := r.block(ctx, block)
		if err != nil {
			return err
		}
		if measured > 0 {
			longest = max(longest, time.Since(at))
		}
		r.tell(Event{Stage: "block", Block: block})
	}
}

// begun reports whether an earlier attempt began the block.
func (r *run) begun(block int) bool { return r.done[study.TrialID(block, 0)] }

// enough says why no further block is needed, or "".
func (r *run) enough(blocks int) string {
	limits := r.o.Study.Blocks
	if blocks >= limits.Max {
		return fmt.Sprintf("all %d blocks done", limits.Max)
	}
	if blocks < limits.Min || r.o.Enough == nil || r.begun(blocks) {
		return ""
	}
	if stop, why := r.o.Enough(r.plan, r.memory()); stop {
		return why
	}
	return ""
}

// memory is the run so far, as analysis takes it.
func (r *run) memory() record.Run {
	return record.Run{Header: r.header, StudyYAML: r.o.Study.Marshal(), Trials: r.trials, Hist: r.hist}
}

// block runs what is left of a block's trials and returns how many.
func (r *run) block(ctx context.Context, block int) (int, error) {
	slots := r.plan.Block(block)
	measured := 0
	for order, slot := range slots {
		id := study.TrialID(block, order)
		if r.done[id] {
			continue
		}
		cell := r.plan.Cells[slot.Cell]
		r.tell(Event{Stage: "trial", Block: block, Trial: order + 1, Trials: len(slots), Cell: r.plan.Label(cell)})
		trial, err := r.trial(ctx, id, cell)
		if err != nil {
			return measured, err
		}
		trial.Trial.ID, trial.Block, trial.Order, trial.Repeat = id, block, order, slot.Repeat
		if err := r.keep(trial); err != nil {
			return measured, err
		}
		measured++
		r.tell(Event{Stage: "trial", Block: block, Trial: order + 1, Trials: len(slots), Cell: r.plan.Label(cell), Record: &trial.Trial})
	}
	return measured, nil
}

type completed struct {
	record.Trial
	log []byte
}

// trial runs one trial. If it cannot be carried through (a pod died, the API
// server went away) that is what the trial's record says, and the pods are
// looked up anew.
func (r *run) trial(ctx context.Context, id string, cell record.Cell) (completed, error) {
	t, err := newTrial(r.deployed, r.o, cell, trialSeed(r.header.Seed, id))
	if err != nil {
		return completed{}, err
	}
	trial, log, err := t.measure(ctx)
	if err == nil {
		r.lost = 0
		return completed{trial, log}, nil
	}
	if ctx.Err() != nil {
		return completed{}, ctx.Err()
	}
	r.lost++
	if r.lost >= maxLost {
		return completed{}, errs.WithHint(fmt.Errorf("trial %s, and %d before it, could not be carried through: %w", id, maxLost-1, err),
			"completed trials are kept; once the cause is mended go on with --resume %s", r.dir.Path())
	}
	trial.Ended = time.Now().UTC()
	trial.Validity.Valid = false
	trial.Validity.Checks = append(trial.Validity.Checks, record.Check{Name: "carried-through", Detail: err.Error()})
	r.tell(Event{Stage: "deploy", Text: fmt.Sprintf("trial %s was lost (%v); looking for the pods again", id, err)})
	if err := r.deployed.reconnect(ctx, r.o); err != nil {
		return completed{}, errs.WithHint(err, "completed trials are kept; go on with --resume %s", r.dir.Path())
	}
	return completed{trial, nil}, nil
}

// keep makes a trial durable.
func (r *run) keep(t completed) error {
	if t.log != nil {
		path, err := r.dir.WriteHist(t.Trial.ID, t.log)
		if err != nil {
			return err
		}
		t.Hist = path
		if r.hist[t.Trial.ID], err = store.MergeHist(t.log); err != nil {
			return err
		}
	}
	if err := r.dir.Append(t.Trial); err != nil {
		return err
	}
	r.trials = append(r.trials, t.Trial)
	r.done[t.Trial.ID] = true
	return nil
}

// wholeBlocks counts the blocks all of whose trials are done.
func (r *run) wholeBlocks() int {
	for block := 0; ; block++ {
		for order := range r.plan.BlockSize() {
			if !r.done[study.TrialID(block, order)] {
				return block
			}
		}
	}
}

// trialSeed gives each trial arrivals of its own, the same in every attempt.
func trialSeed(seed uint64, id string) uint64 {
	h := fnv.New64a()
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], seed)
	h.Write(b[:])
	h.Write([]byte(id))
	return h.Sum64()
}
