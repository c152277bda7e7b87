package trial

import (
	"context"
	"errors"
	"fmt"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/kinds/controlplane/stages"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
)

// Reading of istiod's log.
const (
	logsMargin = time.Second            // before the first change
	logsQuiet  = 500 * time.Millisecond // nothing more comes
	logsLimit  = 20 * time.Second
	// logsKept is what a kubelet keeps at hand of a container's log at least
	// when it has turned it over, in bytes: far below the 10 MB at which it
	// does so (containerLogMaxSize), since the file may be near its end.
	logsKept = 2 << 20
	// A turn of a proxy writes up to logLines lines of logLine bytes.
	logLines = 6
	logLine  = 200
)

// logWatch reads the logs of istiod's replicas.
type logWatch struct {
	logs  []*observe.IstiodLog
	lives map[string]bool // containers that are read; see [planeState.lives]
	stop  context.CancelFunc
	ctx   context.Context
	reads sync.WaitGroup

	mu     sync.Mutex
	broken []error // why reading ended before its time
}

func newLogWatch(ctx context.Context) *logWatch {
	w := &logWatch{lives: map[string]bool{}}
	w.ctx, w.stop = context.WithCancel(ctx)
	return w
}

// close ends the reading; a watch that never was has nothing to end.
func (w *logWatch) close() {
	if w != nil {
		w.stop()
		w.reads.Wait()
	}
}

// follow reads what pods write from an instant on, those that are not read
// yet.
func (w *logWatch) follow(t *controlTrial, pods []mesh.ControlPod, since time.Time) error {
	for _, pod := range pods {
		life := containerLife(pod)
		if w.lives[life] {
			continue
		}
		log := &observe.IstiodLog{}
		if o, err := t.c.observerOf(pod.Node); err == nil {
			if ahead, bound, err := o.ClockOffset(w.ctx); err == nil && ahead.Abs() > bound {
				log.AheadNS = int64(ahead)
			}
		}
		stream, err := t.c.mesh.Logs(w.ctx, pod, since)
		if err != nil {
			return err
		}
		w.lives[life] = true
		w.logs = append(w.logs, log)
		w.reads.Go(func() {
			defer stream.Close()
			if err := log.Read(w.ctx, stream); err != nil { // what was read is what there is
				w.mu.Lock()
				defer w.mu.Unlock()
				w.broken = append(w.broken, fmt.Errorf("pod %s: %w", pod.Name, err))
			}
		})
	}
	return nil
}

// await waits until the logs have been read to an instant: until a line tells
// of a later one, or nothing more comes.
func (w *logWatch) await(ctx context.Context, end time.Time) {
	lines, still := -1, time.Now()
	for ctx.Err() == nil && len(w.logs) > 0 {
		now, past := 0, true
		for _, log := range w.logs {
			n, last := log.Seen()
			now += n
			past = past && last.Add(-time.Duration(log.AheadNS)).After(end)
		}
		if now != lines {
			lines, still = now, time.Now()
		}
		if past || time.Since(still) >= logsQuiet || wake.Pause(ctx, 50*time.Millisecond) != nil {
			return
		}
	}
}

// manyLines tells whether istiod may write more in the window than can be
// asked for afterwards.
func manyLines(proxies, changes int) bool {
	return proxies*changes*logLines*logLine > logsKept
}

// followLogs begins to read istiod's log before the first change, if it would
// have been turned over by the end of the window. Otherwise nobody talks to
// the API server meanwhile, and the log is read afterwards.
func (t *controlTrial) followLogs(ctx context.Context) {
	if !manyLines(len(t.ids)+len(t.c.reals), len(t.plan.Changes)) {
		return
	}
	t.logs = newLogWatch(ctx)
	if err := t.logs.follow(t, t.before.pods, time.Now().Add(-logsMargin)); err != nil {
		t.warn("istiod's log could not be followed from before the first change: %v", err)
	}
}

// stages works out the stages of the changes' way from istiod's log, its
// metrics and the proxies' times.
func (t *controlTrial) stages(ctx context.Context, events []record.Event) {
	logs := t.readLogs(ctx)
	for i := range logs {
		logs[i].FromNS, logs[i].ToNS = t.before.scrape.At.UnixNano(), t.after.scrape.At.UnixNano()
	}
	if lost, of := stages.LostLines(logs, t.out.Control.Istiod); lost > 0 {
		t.warn("%d of the %d lines that tell of istiod's pushes are not in its log any more, or never were: their stages come from its metrics", lost, of)
	}
	var names []string
	for _, p := range t.proxies() {
		names = append(names, p.Name+"."+p.Namespace)
	}
	way := stages.Make(stages.Input{Events: events, Proxies: names, Rises: t.out.Control.Istiod, Logs: logs})
	t.out.Control.Stages, t.out.Control.MissingStages, t.out.Control.Unexplained = way.Stages, way.Missing, way.Unexplained
	t.warnStages(way)
}

// warnStages says what is odd about a waterfall.
func (t *controlTrial) warnStages(way stages.Waterfall) {
	if way.Pairs == 0 {
		return
	}
	if !way.Within() {
		t.warn("%.1f ms of a mean way of %.1f ms are in no stage (%d of %d sightings are in istiod's log from end to end)",
			way.ResidualUS/1000, way.MeanUS/1000, way.Logged, way.Pairs)
	}
	for _, s := range way.Apart() {
		t.warn("stage %s is %.1f ms by %s, but %.1f ms by %s", s.Name, s.MeanUS/1000, s.Source, *s.CheckUS/1000, s.CheckSource)
	}
	for _, s := range way.Stages {
		if s.MeanUS < -earlyStage {
			t.warn("stage %s is %.1f ms: its end was noted before its beginning", s.Name, s.MeanUS/1000)
		}
	}
}

// earlyStage is how far below zero a stage may be for the way of an answer
// and the clocks, in microseconds.
const earlyStage = 2000

// readLogs returns what istiod's replicas wrote in the window, as far as it
// can be had.
func (t *controlTrial) readLogs(ctx context.Context) []observe.IstiodLines {
	ctx, cancel := context.WithTimeout(ctx, logsLimit)
	defer cancel()
	w := t.logs
	if w == nil {
		w = newLogWatch(ctx)
	}
	defer w.close()
	// Those that came meanwhile too.
	if err := w.follow(t, t.after.pods, t.out.Window.Start.Add(-logsMargin)); err != nil {
		t.warn("istiod's log could not be read: %v", err)
	}
	w.await(ctx, windowEnd(t.out.Window))
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.broken) > 0 {
		t.warn("istiod's log was not read to its end: %v", errors.Join(w.broken...))
	}
	var lines []observe.IstiodLines
	for _, log := range w.logs {
		lines = append(lines, log.Lines())
	}
	return lines
}
