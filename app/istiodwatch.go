package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/advise/advice/gather"
	"github.com/meshtrial/meshtrial/advise/advice/variables"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/note"
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
	var said string
	if e.Known, said, err = w.Ask(ctx, seen.Version); err != nil {
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
	if e.Notes = append(e.Notes, note.Texts(problems)...); said != "" {
		e.Notes = append(e.Notes, said)
	}
	return seen, nil
}

// Readings of a watch that failed.
var (
	istiodsNotListed = note.Define("watch_istiods_not_listed", "istiod's pods could not be listed in %d of %d readings, at first: %v")
	istiodNotScraped = note.Define("watch_istiod_not_scraped", "istiod's metrics were not read whole in %d of %d readings, at first: %v")
	kubeletNotRead   = note.Define("watch_kubelet_not_scraped", "the kubelets' metrics of istiod were not read whole in %d of %d readings, at first: %v")
)

// failed counts the readings in which something could not be read.
type failed struct {
	times int
	last  int // reading that was counted
	first signals.Problem
}

// scrape scrapes for the time of the watch; first and last are its first and last reading.
func (w IstiodWatch) scrape(ctx context.Context, s *signals.Scraper) (first, last time.Time, problems []note.Note, err error) {
	watching, cancel := context.WithTimeout(ctx, w.Duration)
	defer cancel()
	readings, failures := 0, map[*note.Kind]*failed{}
	err = s.Run(watching, w.Interval, func(at time.Time, now []signals.Problem) error {
		readings++
		if first.IsZero() {
			first = at
		}
		last = at
		w.Say(fmt.Sprintf("watching istiod for %s", w.Duration))
		for _, p := range now {
			kind := istiodNotScraped
			switch p.Labels["job"] {
			case "": // of no target
				kind = istiodsNotListed
			case "kubelet":
				kind = kubeletNotRead
			}
			if failures[kind] == nil {
				failures[kind] = &failed{first: p}
			}
			if f := failures[kind]; f.last != readings {
				f.times, f.last = f.times+1, readings
			}
		}
		return nil
	})
	for _, kind := range []*note.Kind{istiodsNotListed, istiodNotScraped, kubeletNotRead} {
		if f := failures[kind]; f != nil {
			problems = append(problems, kind.Of(f.times, readings, f.first))
		}
	}
	switch {
	case ctx.Err() != nil:
		return first, last, problems, context.Cause(ctx)
	case err == nil && !last.After(first):
		err = errs.WithHint(fmt.Errorf("istiod could not be read twice within %s", w.Duration), "increase --duration")
	}
	return first, last, problems, err
}
