package runner

import (
	"bytes"
	"compress/gzip"
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

// Measurer executes trials. It is the runner's only interface to the cluster for ordering,
// limiting, ending and resuming a run's trials.
type Measurer interface {
	// Measure executes a trial and returns its results. An error means that the trial
	// could not be completed; the results are then what is known. A [Fatal] error ends
	// the run.
	Measure(ctx context.Context, job Job) (Completed, error)
	// Reconnect finds the pods again after a lost trial.
	Reconnect(ctx context.Context) error
}

// Job is a trial to execute.
type Job struct {
	ID    string
	Block int
	Cell  record.Cell
	// Repeat is 1 for the second turn of a baseline in a block.
	Repeat int
	// Seed is the trial's own seed, the same in every attempt. BlockSeed is shared by all
	// trials of its block.
	Seed, BlockSeed uint64
}

// Completed is a trial with everything that is stored in addition to its line.
type Completed struct {
	record.Trial
	Log    []byte         // histogram log, nil for none
	Events []record.Event // changes, or steps of a timeline
	Files  []Artefact
	// Requests is the compressed per-request log; nil for none.
	Requests []byte
	// Evidence is the trial's evidence, a JSON-encodable value of its kind; nil for none.
	Evidence any
}

// Artefact is a file that a trial stores in addition to its line.
type Artefact struct {
	Profile bool // in profiles/ rather than configs/
	Name    string
	Data    []byte
}

// Gzipped returns a file with compressed data.
func Gzipped(name string, data []byte) (Artefact, error) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write(data)
	err = errors.Join(err, z.Close())
	return Artefact{Name: name, Data: packed.Bytes()}, err
}

// blocks runs blocks until the stop rule is satisfied or a limit is reached.
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

// begun reports whether an earlier attempt started the block.
func (r *run) begun(block int) bool {
	if r.searches() {
		return r.inBlock(block) > 0
	}
	return r.done[study.TrialID(block, 0)]
}

// enough returns why no further block is needed, or "".
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

// memory returns the run so far, as input of analysis.
func (r *run) memory() record.Run {
	return record.Run{Header: r.header, StudyYAML: r.o.Study.Marshal(), Trials: r.trials, Events: r.events, Hist: r.hist,
		Requests: func(trial string) (io.ReadCloser, error) { return store.OpenRequests(r.dir.Path(), trial) },
		Profile:  func(file string) (io.ReadCloser, error) { return store.OpenProfile(r.dir.Path(), file) }}
}

// block runs the remaining trials of a block and returns their number. late means that the
// study's time limit was reached before the end of the block.
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

// trial runs one trial. If it cannot be completed (a pod died, the API server was
// unavailable), the trial's record says so, and the pods are looked up again.
func (r *run) trial(ctx context.Context, job Job) (Completed, error) {
	trial, err := r.pods.Measure(ctx, job)
	if err == nil {
		r.lost = 0
		return trial, nil
	}
	if ctx.Err() != nil {
		return Completed{}, context.Cause(ctx)
	}
	if IsFatal(err) && r.takenAway(ctx) == nil {
		return Completed{}, fmt.Errorf("trial %s could not be completed, nor could any like it: %w", job.ID, err)
	}
	r.lost++
	if r.lost >= maxLost {
		return Completed{}, fmt.Errorf("trial %s, and %d before it, could not be completed: %w", job.ID, maxLost-1, err)
	}
	trial.Ended = time.Now().UTC()
	trial.Validity.Valid = false
	trial.Validity.Checks = append(trial.Validity.Checks, record.Check{Name: CheckCarriedThrough, Detail: err.Error()})
	r.tell(Event{Stage: "deploy", Text: fmt.Sprintf("trial %s was lost (%v); looking for the pods again", job.ID, err)})
	err = r.pods.Reconnect(ctx)
	if err != nil { // it may have disappeared while its pods were awaited
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

// takenAway returns an error if the run's namespace is gone.
func (r *run) takenAway(ctx context.Context) error {
	if r.stage == nil {
		return nil
	}
	return r.stage.Place().TakenAway(ctx)
}

// fatal marks the error of a trial that would fail in the same way for every other trial.
type fatal struct{ error }

func (f fatal) Unwrap() error { return f.error }

// Fatal marks the error of a trial after which no other trial of its kind can be
// completed. The run then ends immediately rather than after the third lost trial in a
// row. It returns nil if err is nil.
func Fatal(err error) error {
	if err == nil {
		return nil
	}
	return fatal{err}
}

// IsFatal reports whether an error is marked by [Fatal].
func IsFatal(err error) bool { return errors.As(err, &fatal{}) }

// CheckCarriedThrough is the check that fails for a trial that was not completed.
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
		t.Events[i].Trial = t.Trial.ID // the next trial of a search depends on them
	}
	if err := r.dir.Append(t.Trial, t.Events...); err != nil {
		return err
	}
	r.trials = append(r.trials, t.Trial)
	r.events = append(r.events, t.Events...)
	r.done[t.Trial.ID] = true
	return nil
}

// wholeBlocks counts the blocks whose trials are all done; in a search, the blocks that
// need no further trial.
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

// seedOf derives a seed for a trial or block from its name, the same in every attempt.
func seedOf(seed uint64, id string) uint64 {
	h := fnv.New64a()
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], seed)
	h.Write(b[:])
	h.Write([]byte(id))
	return h.Sum64()
}

// blockSeed returns the seed shared by all trials of a block.
func blockSeed(seed uint64, block int) uint64 { return seedOf(seed, "block "+strconv.Itoa(block)) }
