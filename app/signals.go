package app

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/observe/signals"
	"github.com/meshtrial/meshtrial/run/store"
)

// RecordedSeries opens the series of a run, or a folder with series.
func RecordedSeries(dir string) (*signals.Series, error) {
	folder, err := store.Folder(dir, store.DirSeries)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(dir, store.FileHeader)); err == nil {
			return nil, errs.WithHint(errs.Usage("run %s has no recorded series", dir),
				"its study must include the measure signals, for example measures: [convergence, signals]")
		}
		folder, err = dir, nil
	}
	if err != nil {
		return nil, err
	}
	return signals.OpenSeries(folder)
}

// SignalsOfRun reads everything that a run recorded.
func SignalsOfRun(ctx context.Context, dir string) (r signals.Reading, err error) {
	s, err := RecordedSeries(dir)
	if err != nil {
		return r, err
	}
	from, to := s.Span()
	return readSignals(ctx, s, from, to)
}

// readSignals reads the signals of a whole period, and the alerts that fired in it.
func readSignals(ctx context.Context, s signals.Source, from, to time.Time) (signals.Reading, error) {
	r, err := signals.Read(ctx, s, overall(from, to), to)
	if err != nil {
		return r, err
	}
	r.Alerts, err = signals.Alerts(ctx, s, signals.Options{}, from, to, time.Second)
	return r, err
}

// overall are options for rates over a whole period, with its first sample.
func overall(from, to time.Time) signals.Options {
	return signals.Options{Window: max(to.Sub(from).Truncate(time.Millisecond)+time.Millisecond, time.Second)}
}
