package runner

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"strconv"
	"time"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/study"
)

// Measurer carries trials through. It is all that the order of a run's
// trials, its limits, its end and its resumption need of the cluster.
type Measurer interface {
	// Measure runs a trial and returns what it left. On an error, which says
	// that the trial could not be carried through, that is what is known. One that is
	// [Futile] ends the run.
	Measure(ctx context.Context, job Job) (Completed, error)
	// Reconnect finds the pods again after a trial was lost.
	Reconnect(ctx context.Context) error
}

// Job is a trial to be carried through.
type Job struct {
	ID    string
	Block int
	Cell  record.Cell
	// Repeat is 1 for the second turn of a baseline in a block.
	Repeat int
	// Seed is the trial's own, the same in every attempt; BlockSeed that of all
	// trials of its block.
	Seed, BlockSeed uint64
}

// Completed is a trial and what is stored beside its line.
type Completed struct {
	record.Trial
	Log    []byte         // histogram log, nil for none
	Events []record.Event // changes, or steps of a timeline
	Files  []Artefact
	// Requests is what was written of each request, packed; nil for nothing.
	Requests []byte
	// Evidence is what the trial saw, a value of its kind that JSON can hold;
	// nil for nothing.
	Evidence any
}

// Artefact is a file that a trial leaves beside its line.
type Artefact struct {
	Profile bool // profiles/, not configs/
	Name    string
	Data    []byte
}

// blocks runs blocks until the stop rule holds or a limit comes.
func (r *run) blocks(ctx context.Context) error {
	limits := r.o.Study.Blocks
	r.begin = r.now()
	longest := time.Duration(0)
	for block := 0; ; block++ {
		if why := r.enough(block); why != "" {
			r.stop = why
			return nil
		}
		if limits.Limit > 0 && block > 0 && !r.searches() && !r.begun(block) && r.spent()+longest > limits.Limit {
			r.stop = limits.LimitReached(block)
			return nil
		}
		at := r.now()
		measured, late, err := r.block(ctx, block)
		if err != nil {
			return err
		}
		if late {
			r.stop = limits.LimitReached(block)
			return nil
		}
		if r.searches() && r.inBlock(block) == 0 {
			r.stop = r.o.Study.ChoicesDone(block)
			return nil
		}
		if measured > 0 {
			longest = max(longest, r.now().Sub(at))
		}
		r.tell(Event{Stage: "block", Block: block})
	}
}

// begun reports whether an earlier attempt began the block.
func (r *run) begun(block int) bool {
	if r.searches() {
		return r.inBlock(block) > 0
	}
	return r.done[study.TrialID(block, 0)]
}

// enough says why no further block is needed, or "".
func (r *run) enough(blocks int) string {
	limits := r.o.Study.Blocks
	if blocks >= limits.Max {
		return study.AllDone(limits.Max)
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
	return record.Run{Header: r.header, StudyYAML: r.o.Study.Marshal(), Trials: r.trials, Events: r.events, Hist: r.hist,
		Requests: func(trial string) (io.ReadCloser, error) { return store.OpenRequests(r.dir.Path(), trial) },
		Profile:  func(file string) (io.ReadCloser, error) { return store.OpenProfile(r.dir.Path(), file) }}
}

// block runs what is left of a block's trials and returns how many; late says
// that the study's time was up before its end.
func (r *run) block(ctx context.Context, block int) (measured int, late bool, err error) {
	if r.searches() {
		return r.searchBlock(ctx, block)
	}
	slots := r.plan.Block(block)
	for order := range slots {
		if r.done[study.TrialID(block, order)] {
			continue
		}
		if err := r.slot(ctx, block, order, slots, len(slots)); err != nil {
			return measured, false, err
		}
		measured++
	}
	return measured, false, nil
}

// trial runs one trial. If it cannot be carried through (a pod died, the API
// server went away) that is what the trial's record says, and the pods are
// looked up anew.
func (r *run) trial(ctx context.Context, job Job) (Completed, error) {
	trial, err := r.pods.Measure(ctx, job)
	if err == nil {
		r.lost = 0
		return trial, nil
	}
	if ctx.Err() != nil {
		return Completed{}, context.Cause(ctx)
	}
	if IsFutile(err) && r.takenAway(ctx) == nil {
		return Completed{}, fmt.Errorf("trial %s could not be carried through, and none like it could: %w", job.ID, err)
	}
	r.lost++
	if r.lost >= maxLost {
		return Completed{}, fmt.Errorf("trial %s, and %d before it, could not be carried through: %w", job.ID, maxLost-1, err)
	}
	trial.Ended = time.Now().UTC()
	trial.Validity.Valid = false
	trial.Validity.Checks = append(trial.Validity.Checks, record.Check{Name: CheckCarriedThrough, Detail: err.Error()})
	r.tell(Event{Stage: "deploy", Text: fmt.Sprintf("trial %s was lost (%v); looking for the pods again", job.ID, err)})
	err = r.pods.Reconnect(ctx)
	if err != nil { // it may have gone while its pods were waited for
		if gone := r.takenAway(ctx); gone != nil {
			err = gone
		}
	}
	if errors.Is(err, site.ErrTakenAway) {
		r.tell(Event{Stage: "deploy", Text: fmt.Sprintf("%v; deploying anew", err)})
		err = r.redeploy(ctx)
	}
	if err != nil {
		return Completed{}, err
	}
	trial.Log = nil
	return trial, nil
}

// takenAway says whether the run's namespace is gone.
func (r *run) takenAway(ctx context.Context) error {
	if r.stage == nil {
		return nil
	}
	return r.stage.Place().TakenAway(ctx)
}

// futile is the error of a trial after which none of its kind would fare better.
type futile struct{ error }

func (f futile) Unwrap() error { return f.error }

// Futile marks the error of a trial that no other one of its kind could be carried through
// after: the run ends, where it would otherwise end with the third that is lost in a row.
// A nil err stays nil.
func Futile(err error) error {
	if err == nil {
		return nil
	}
	return futile{err}
}

// IsFutile says whether an error is so marked.
func IsFutile(err error) bool { return errors.As(err, &futile{}) }

// CheckCarriedThrough is the check that a trial fails which came to no end.
const CheckCarriedThrough = "carried-through"

// keep makes a trial durable.
func (r *run) keep(t Completed) error {
	if t.Log != nil {
		path, err := r.dir.WriteHist(t.Trial.ID, t.Log)
		if err != nil {
			return err
		}
		t.Hist = path
		if r.hist[t.Trial.ID], err = store.MergeHist(t.Log); err != nil {
			return err
		}
	}
	for _, f := range t.Files {
		write := r.dir.WriteConfig
		if f.Profile {
			write = r.dir.WriteProfile
		}
		if _, err := write(t.Trial.ID, f.Name, f.Data); err != nil {
			return err
		}
	}
	if t.Evidence != nil {
		document, err := json.Marshal(t.Evidence)
		if err == nil {
			err = r.dir.WriteEvidence(t.Trial.ID, document)
		}
		if err != nil {
			return fmt.Errorf("evidence of trial %s: %w", t.Trial.ID, err)
		}
	}
	if t.Requests != nil {
		if _, err := r.dir.WriteRequests(t.Trial.ID, t.Requests); err != nil {
			return err
		}
	}
	for i := range t.Events {
		t.Events[i].Trial = t.Trial.ID // the next trial of a search follows from them
	}
	if err := r.dir.Append(t.Trial, t.Events...); err != nil {
		return err
	}
	r.trials = append(r.trials, t.Trial)
	r.events = append(r.events, t.Events...)
	r.done[t.Trial.ID] = true
	return nil
}

// wholeBlocks counts the blocks all of whose trials are done; of a search
// those that need no further one.
func (r *run) wholeBlocks() int {
	for block := 0; ; block++ {
		if r.searches() {
			if _, more, err := r.o.Next(r.plan, r.memory(), block); more || err != nil || r.inBlock(block) == 0 {
				return block
			}
			continue
		}
		for order := range r.plan.BlockSize() {
			if !r.done[study.TrialID(block, order)] {
				return block
			}
		}
	}
}

// seedOf gives each trial, or block, by its name a seed of its own, the same in
// every attempt.
func seedOf(seed uint64, id string) uint64 {
	h := fnv.New64a()
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], seed)
	h.Write(b[:])
	h.Write([]byte(id))
	return h.Sum64()
}

// blockSeed is that of all trials of a block.
func blockSeed(seed uint64, block int) uint64 { return seedOf(seed, "block "+strconv.Itoa(block)) }
