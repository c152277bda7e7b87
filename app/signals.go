package app

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/advise/advice/gather"
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

// TemporaryRecorder returns a recorder in a folder of its own, which closing it removes.
func TemporaryRecorder() (*signals.Recorder, func() error, error) {
	dir, err := os.MkdirTemp("", "meshtrial-signals-")
	if err != nil {
		return nil, nil, err
	}
	recorder, err := signals.OpenRecorder(dir)
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return recorder, func() error { return errors.Join(recorder.Close(), os.RemoveAll(dir)) }, nil
}

// judge judges istiod by its metrics until a time.
func (r *meshRead) judge(ctx context.Context, source signals.Source, o signals.Options, until time.Time, e *advice.Evidence) (err error) {
	e.Facts = map[*advice.Quantity]float64{}
	if e.Metrics, err = gather.Metrics(ctx, source, o, until); err != nil {
		return err
	}
	r.sums.facts.Facts(e.Facts)
	reading, err := signals.Read(ctx, source, o, until)
	if err != nil {
		return err
	}
	reading.Source = e.Source
	judged := advice.Judge(e)
	r.e.Limits, r.e.Signals = &judged, &reading
	return nil
}

// overall are options for rates over a whole period, with its first sample.
func overall(from, to time.Time) signals.Options {
	return signals.Options{Window: max(to.Sub(from).Truncate(time.Millisecond)+time.Millisecond, time.Second)}
}
