package worker

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"golang.org/x/sync/semaphore"
)

var errConflict = jsonhttp.WithStatus(http.StatusConflict, errs.WithHint(errors.New("the active configuration has a different version"),
	"read /v1/config again and repeat the change"))

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
