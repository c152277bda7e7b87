package worker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/internal/errs"
	"golang.org/x/sync/semaphore"
)

// stagedTime is how long a staged change blocks others.
const stagedTime = 30 * time.Second

// maxAhead limits how far in the future a commit may be.
const maxAhead = time.Minute

// staged is a change that waits for its commit.
type staged struct {
	id    string
	ready *active // prepared, not activated
	until time.Time
}

var (
	errConflict = errors.New("the active configuration has a different version")
	errStaged   = errors.New("another change is waiting for its commit")
	errUnknown  = errors.New("no such change is waiting")
)

// configure replaces the configuration in force. The first call accepts any
// version.
func (w *Worker) configure(config control.Config) (control.Config, error) {
	w.configMu.Lock()
	defer w.configMu.Unlock()
	next, err := w.prepare(config)
	if err != nil {
		return control.Config{}, err
	}
	return next.config, w.activate(next)
}

// prepare builds what a configuration needs without side effects. The caller holds
// configMu.
func (w *Worker) prepare(config control.Config) (*active, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	for i, f := range config.Failures {
		if f.How == control.FailCrash && w.options.Crash == nil {
			return nil, fmt.Errorf("failures[%d]: %w", i, errs.Usage("this worker cannot end its process"))
		}
	}
	old := w.active.Load()
	switch {
	case old == nil:
		config.Version = 1
	case config.Version != old.config.Version:
		return nil, errConflict
	default:
		config.Version++
	}
	config.Schema = control.Schema
	if config.ServiceTime.Distribution == "" {
		config.ServiceTime.Distribution = control.None
	}
	next := &active{config: config, needBody: config.ResponseBytes == control.EchoBody,
		length: []string{strconv.FormatInt(max(config.ResponseBytes, 0), 10)}}
	if old != nil && old.gate != nil && old.gate.limit == config.Concurrency && old.gate.queue == config.Queue {
		next.gate = old.gate // keeps counting the requests in flight
	} else if config.Concurrency > 0 {
		next.gate = &gate{limit: config.Concurrency, queue: config.Queue, places: semaphore.NewWeighted(int64(config.Concurrency))}
	}
	if old != nil && int64(len(old.memory)) == config.MemoryBytes {
		next.memory = old.memory
	} else {
		next.memory = hoard(config.MemoryBytes)
	}
	return next, nil
}

// activate puts a prepared configuration in force. The caller holds configMu.
func (w *Worker) activate(next *active) error {
	config := next.config
	callers, err := w.callers(config.Calls)
	if err != nil {
		return err
	}
	next.serve = chain(
		count(w.counters, w.log),
		admit(next.gate, w.counters),
		w.fail(config.Failures, false),
		burn(microseconds(config.BurnUS)),
		hold(newSampler(config.ServiceTime), w.pacer, w.counters),
		forward(callers, config.Parallel),
		w.fail(config.Failures, true),
		respond(config.ResponseBytes),
	)
	w.active.Store(next)
	return nil
}

// stage checks and prepares a change, which then waits for its commit.
func (w *Worker) stage(change control.Change) error {
	if err := change.Validate(); err != nil {
		return err
	}
	w.configMu.Lock()
	defer w.configMu.Unlock()
	if s := w.staged; s != nil && s.id != change.ID && time.Now().Before(s.until) {
		return errStaged
	}
	next, err := w.prepare(change.Config)
	if err != nil {
		return err
	}
	w.staged = &staged{id: change.ID, ready: next, until: time.Now().Add(stagedTime)}
	return nil
}

// commit puts a staged change in force, at an instant or immediately.
func (w *Worker) commit(ctx context.Context, id string, at time.Time) (control.Committed, error) {
	now := time.Now()
	if at.Sub(now) > maxAhead {
		return control.Committed{}, errs.Usage("at_unix_ns is %v ahead of this worker's clock, at most %v are possible", at.Sub(now).Round(time.Second), maxAhead)
	}
	w.configMu.Lock()
	s := w.staged
	if s == nil || s.id != id || now.After(s.until) {
		w.configMu.Unlock()
		return control.Committed{}, errUnknown
	}
	s.until = s.until.Add(max(0, at.Sub(now))) // block other changes until then
	w.configMu.Unlock()
	if err := w.pacer.timer.Until(ctx, at); err != nil {
		return control.Committed{}, err
	}
	w.configMu.Lock()
	defer w.configMu.Unlock()
	if w.staged != s {
		return control.Committed{}, errUnknown
	}
	w.staged = nil
	if s.ready.config.Version != w.active.Load().config.Version+1 {
		return control.Committed{}, errConflict
	}
	if err := w.activate(s.ready); err != nil {
		return control.Committed{}, err
	}
	return control.Committed{Config: s.ready.config, AtNS: time.Now().UnixNano()}, nil
}

// discard drops a staged change.
func (w *Worker) discard(id string) error {
	w.configMu.Lock()
	defer w.configMu.Unlock()
	if w.staged == nil || w.staged.id != id {
		return errUnknown
	}
	w.staged = nil
	return nil
}
