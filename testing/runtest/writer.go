package runtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/study"
)

// Writer writes a run of any length, as a runner does: its trials are those of a recorded run
// again and again.
type Writer struct {
	Plan *study.Plan

	dir      *store.Dir
	recorded string
	trials   []record.Trial
	events   map[string][]record.Event // by recorded trial
	change   func(*record.Trial, []record.Event)
	written  int
	at       time.Time // the end of the last trial
}

// Repeat makes a run at path of a study whose trials the recorded run's can stand for. If change
// is not nil, it changes each trial and its events before they are written.
func Repeat(recorded, path string, source []byte, change func(*record.Trial, []record.Event)) (*Writer, error) {
	s, err := study.Parse(source, recorded, nil)
	if err != nil {
		return nil, err
	}
	run, _, err := store.Load(context.Background(), Recorded(recorded))
	if err != nil {
		return nil, err
	}
	w := &Writer{recorded: Recorded(recorded), trials: run.Trials, events: map[string][]record.Event{}, change: change, at: run.Header.Started}
	for _, e := range run.Events {
		w.events[e.Trial] = append(w.events[e.Trial], e)
	}
	header := run.Header
	header.RunID, header.Study = filepath.Base(path), s.Name
	if w.Plan, err = study.NewPlan(s, header.Seed); err != nil {
		return nil, err
	}
	w.dir, err = store.Create(path, header, source, s.Marshal())
	return w, err
}

// Close ends the run, which other processes then see as interrupted or ended.
func (w *Writer) Close() error { return w.dir.Close() }

// Next writes the next trial.
func (w *Writer) Next() (record.Trial, error) {
	block, order := w.written/w.Plan.BlockSize(), w.written%w.Plan.BlockSize()
	slot := w.Plan.Block(block)[order]
	t := w.like(w.Plan.Cells[slot.Cell])
	events := make([]record.Event, len(w.events[t.ID]))
	later := w.at.Sub(t.Started)
	for i, e := range w.events[t.ID] {
		for _, ns := range []*int64{&e.PlannedNS, &e.SentNS, &e.CommittedNS, &e.WatchedNS} {
			if *ns != 0 {
				*ns += later.Nanoseconds()
			}
		}
		events[i] = e
	}
	hist := t.Hist
	t.ID, t.Block, t.Order, t.Repeat, t.Cell = study.TrialID(block, order), block, order, slot.Repeat, w.Plan.Cells[slot.Cell]
	t.Started, t.Ended, t.Window.Start = t.Started.Add(later), t.Ended.Add(later), t.Window.Start.Add(later)
	w.at = t.Ended
	if w.change != nil {
		w.change(&t, events)
	}
	if hist != "" {
		log, err := os.ReadFile(filepath.Join(w.recorded, hist))
		if err == nil {
			t.Hist, err = w.dir.WriteHist(t.ID, log)
		}
		if err != nil {
			return t, fmt.Errorf("trial %s: %w", t.ID, err)
		}
	}
	w.written++
	return t, w.dir.Append(t, events...)
}

// like is the recorded trial whose cell has most in common with one.
func (w *Writer) like(cell record.Cell) record.Trial {
	best, most := w.trials[0], -1
	for k := range w.trials {
		t := w.trials[(k+w.written)%len(w.trials)]
		same := 0
		for factor, level := range cell {
			if t.Cell[factor] == level {
				same++
			}
		}
		if same > most {
			best, most = t, same
		}
	}
	return best
}
