package trial

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/kinds/controlplane/verdict"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
)

// Limits for reading istiod's log.
const (
	logsMargin = time.Second            // before the first change
	logsQuiet  = 500 * time.Millisecond // nothing more arrives
	logsLimit  = 20 * time.Second
	// logsKept is the minimum size of a container's log, in bytes, that a kubelet keeps accessible
	// after rotation: far below the 10 MB at which it rotates (containerLogMaxSize), since the file
	// may be nearly full.
	logsKept = 2 << 20
	// A proxy's turn writes up to logLines lines of logLine bytes.
	logLines = 6
	logLine  = 200
)

// logWatch reads the logs of istiod's replicas.
type logWatch struct {
	logs  []*observe.IstiodLog
	lives map[verdict.Replica]bool // containers being read; see [containerLife]
	stop  context.CancelFunc
	ctx   context.Context
	reads sync.WaitGroup

	mu     sync.Mutex
	broken []error // why reading ended early
}

func newLogWatch(ctx context.Context) *logWatch {
	w := &logWatch{lives: map[verdict.Replica]bool{}}
	w.ctx, w.stop = context.WithCancel(ctx)
	return w
}

// close ends the reading. It may be called on a watch that never started.
func (w *logWatch) close() {
	if w != nil {
		w.stop()
		w.reads.Wait()
	}
}

// follow reads the logs of pods starting at an instant, except for pods already being read.
func (w *logWatch) follow(t *controlTrial, pods []mesh.ControlPod, since time.Time) error {
	for _, pod := range pods {
		life := containerLife(pod)
		if w.lives[life] {
			continue
		}
		log := &observe.IstiodLog{}
		if o, err := t.c.observerOf(pod.Node); err == nil {
			if clock, err := o.Clock(w.ctx); err == nil && clock.Ahead.Abs() > clock.Bound {
				log.AheadNS = int64(clock.Ahead)
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
			if err := log.Read(w.ctx, stream); err != nil { // what was read is all there is
				w.mu.Lock()
				defer w.mu.Unlock()
				w.broken = append(w.broken, fmt.Errorf("pod %s: %w", pod.Name, err))
			}
		})
	}
	return nil
}

// await waits until the logs have been read up to an instant: until a line is later than that, or
// no more lines arrive.
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

// followLogs starts reading istiod's log before the first change if the log would otherwise rotate
// by the end of the window. Otherwise the log is read afterwards, so that nothing uses the API
// server in the meantime.
func (t *controlTrial) followLogs(ctx context.Context) {
	if turns := (len(t.ids) + len(t.c.reals)) * len(t.plan.Changes); turns*logLines*logLine <= logsKept {
		return
	}
	t.logs = newLogWatch(ctx)
	if err := t.logs.follow(t, t.before.pods, time.Now().Add(-logsMargin)); err != nil {
		t.warn(noteLogBegins, err)
	}
}

// readLogs returns what istiod's replicas wrote in the window, as far as available.
func (t *controlTrial) readLogs(ctx context.Context) []observe.IstiodLines {
	ctx, cancel := context.WithTimeout(ctx, logsLimit)
	defer cancel()
	w := t.logs
	if w == nil {
		w = newLogWatch(ctx)
	}
	defer w.close()
	// Including pods that came in the meantime.
	if err := w.follow(t, t.after.pods, t.out.Window.Start.Add(-logsMargin)); err != nil {
		t.warn(noteLogUnread, err)
	}
	w.await(ctx, windowEnd(t.out.Window))
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.broken) > 0 {
		t.warn(noteLogCut, errors.Join(w.broken...))
	}
	var lines []observe.IstiodLines
	for _, log := range w.logs {
		one := log.Lines()
		one.FromNS, one.ToNS = t.before.scrape.At.UnixNano(), t.after.scrape.At.UnixNano()
		lines = append(lines, one)
	}
	return lines
}
