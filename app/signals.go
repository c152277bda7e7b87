package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/observe/signals"
	"github.com/meshtrial/meshtrial/run/store"
)

// SignalsWatch configures a watch of golden signals, and what receives each reading.
type SignalsWatch struct {
	signals.Options
	Duration time.Duration // 0: until ctx ends
	Interval time.Duration
	Once     bool // one reading
	Show     func(signals.Reading) error
}

// SignalsOfRun reads everything that a run recorded, or a folder that a watch kept. fired reports
// whether an alert fired in that time.
func SignalsOfRun(ctx context.Context, dir string, o signals.Options) (r signals.Reading, fired bool, err error) {
	folder, err := store.Folder(dir, store.DirSeries)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(dir, store.FileHeader)); err == nil {
			return r, false, errs.WithHint(errs.Usage("run %s has no recorded series", dir),
				"its study must include the measure signals, for example measures: [convergence, signals]")
		}
		folder, err = dir, nil
	}
	if err != nil {
		return r, false, err
	}
	s, err := signals.OpenSeries(folder)
	if err != nil {
		return r, false, err
	}
	from, to := s.Span()
	whole := o
	// Compute rates over the whole run, including its first sample.
	whole.Window = max(to.Sub(from)+time.Millisecond, time.Second)
	if r, err = signals.Read(ctx, s, whole, to); err != nil {
		return r, false, err
	}
	w := signals.NewWatch(s, o)
	if err := w.Replay(ctx, from, to, time.Second); err != nil {
		return r, false, err
	}
	r.Alerts = w.Alerts()
	return r, slices.ContainsFunc(r.Alerts, func(a signals.Alert) bool { return len(a.Fired) > 0 }), nil
}

// alertsLookBack is how far before the first reading a Prometheus server is asked for alerts.
const alertsLookBack = 30 * time.Second

// Ask watches the signals of a Prometheus server. firing reports whether an alert is firing at
// the end.
func (o SignalsWatch) Ask(ctx context.Context, s *signals.Remote) (firing bool, err error) {
	w := signals.NewWatch(s, o.Options)
	now := time.Now()
	if err := w.Replay(ctx, now.Add(-alertsLookBack), now, time.Second); err != nil {
		return false, err
	}
	ctx, cancel := o.limited(ctx)
	defer cancel()
	for {
		r, err := w.Read(ctx, o.Options, time.Now())
		if err == nil {
			err = o.Show(r)
		}
		if err != nil && ctx.Err() == nil {
			return false, err
		}
		if err != nil || o.Once || wake.Pause(ctx, o.Interval) != nil {
			return w.Firing(), nil
		}
	}
}

// limited applies the duration of a watch, if it has one, to ctx.
func (o SignalsWatch) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if o.Duration == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, o.Duration)
}

// Scrape reads istiod directly into its own database: in the folder keep, or in a temporary one
// if keep is "".
func (o SignalsWatch) Scrape(ctx context.Context, istiod Istiod, keep string) (firing bool, err error) {
	from, err := istiod.Open(ctx, rights.Signals)
	if err != nil {
		return false, err
	}
	defer from.Close()
	if _, err := from.Targets(ctx); err != nil { // later it is only a problem
		return false, err
	}
	if keep == "" {
		if keep, err = os.MkdirTemp("", "meshtrial-signals-"); err != nil {
			return false, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(keep)) }()
	}
	recorder, err := signals.OpenRecorder(keep)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, recorder.Close()) }()
	ctx, cancel := o.limited(ctx)
	defer cancel()
	w := signals.NewWatch(recorder.Source(), o.Options)
	scraper := &signals.Scraper{Recorder: recorder, Discover: from.Targets}
	var first time.Time
	readings := 0
	err = scraper.Run(ctx, o.Interval, func(at time.Time, problems []string) error {
		if first.IsZero() {
			first = at
			return nil // rates need two samples
		}
		seen := o.Options
		// A rate over more time than was watched would be too low.
		seen.Window = min(o.Window, time.Duration(at.UnixMilli()-first.UnixMilli()+1)*time.Millisecond)
		r, err := w.Read(ctx, seen, at)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		r.Source, r.Problems = "istiod of "+istiod.Lab+" lab, namespace "+istiod.Namespace, problems
		readings++
		if err := o.Show(r); err != nil {
			return err
		}
		if o.Once {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return false, err
	}
	if readings == 0 && o.Duration > 0 {
		return false, errs.WithHint(fmt.Errorf("istiod could not be read twice within %s", o.Duration), "increase --duration to at least two intervals")
	}
	return w.Firing(), nil
}

// errEnough ends a scrape loop.
var errEnough = errors.New("enough")
