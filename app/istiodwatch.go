package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/advise/advice/gather"
	"github.com/meshtrial/meshtrial/advise/advice/variables"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/observe/signals"
)

// IstiodWatch says how a running istiod is watched.
type IstiodWatch struct {
	Interval, Duration time.Duration
	// Ask asks the program of an istiod of this version for its settings; the note says why if it
	// could not.
	Ask func(ctx context.Context, version string) (known *variables.Known, note string, err error)
	Say func(text string) // told of progress
}

// IstiodSeen is what a watch saw of a running istiod.
type IstiodSeen struct {
	Version  string
	Evidence *advice.Evidence
	Signals  signals.Reading // over the whole watch
}

// Watch reads how istiod is set up and watches its metrics, its locks and who writes what.
func (i *Istiods) Watch(ctx context.Context, w IstiodWatch) (seen IstiodSeen, err error) {
	e := &advice.Evidence{Source: "istiod of " + i.Lab + " lab, namespace " + i.Namespace,
		Facts: map[*advice.Quantity]float64{}}
	seen.Evidence = e
	if seen.Version, err = i.Settings(ctx, e); err != nil {
		return seen, err
	}
	var note string
	if e.Known, note, err = w.Ask(ctx, seen.Version); err != nil {
		return seen, err
	}
	recorder, remove, err := TemporaryRecorder()
	if err != nil {
		return seen, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	watching, stop := context.WithCancel(ctx)
	defer stop() // ends the watches of writes with this function
	locks, writes := i.WatchLocks(ctx), i.WatchWrites(watching)
	first, last, problems, err := w.scrape(ctx, &signals.Scraper{Recorder: recorder, Discover: i.Targets})
	if err != nil {
		return seen, err
	}
	locks(ctx, e)
	writes(e)
	e.WindowS = last.Sub(first).Seconds()
	if e.Metrics, err = gather.Metrics(ctx, recorder.Source(), overall(first, last), last); err != nil {
		return seen, err
	}
	if seen.Signals, err = readSignals(ctx, recorder.Source(), first, last); err != nil {
		return seen, err
	}
	seen.Signals.Source = e.Source
	if e.Notes = append(e.Notes, problems...); note != "" {
		e.Notes = append(e.Notes, note)
	}
	return seen, nil
}

// scrape scrapes for the time of the watch; first and last are its first and last reading.
func (w IstiodWatch) scrape(ctx context.Context, s *signals.Scraper) (first, last time.Time, problems []string, err error) {
	watching, cancel := context.WithTimeout(ctx, w.Duration)
	defer cancel()
	err = s.Run(watching, w.Interval, func(at time.Time, now []string) error {
		if first.IsZero() {
			first = at
		}
		last = at
		w.Say(fmt.Sprintf("watching istiod for %s", w.Duration))
		for _, p := range now {
			if note := "not read: " + p; !slices.Contains(problems, note) {
				problems = append(problems, note)
			}
		}
		return nil
	})
	switch {
	case ctx.Err() != nil:
		return first, last, problems, context.Cause(ctx)
	case err == nil && !last.After(first):
		err = errs.WithHint(fmt.Errorf("istiod could not be read twice within %s", w.Duration), "increase --duration")
	}
	return first, last, problems, err
}
