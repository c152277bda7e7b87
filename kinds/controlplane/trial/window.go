package trial

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/kinds/controlplane/verdict"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
)

// window measures istiod at idle, makes the changes on their schedule, and waits until every proxy
// has all of them, up to the settle limit. In the meantime only the proxies talk to istiod, unless
// the study measures signals. The simulated sidecars receive markers and, after the last change,
// are asked whether anything still arrives; real Envoys are asked what they have in force.
func (t *controlTrial) window(ctx context.Context) error {
	err := t.compareClocks(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(t.findTargets(ctx), t.findNodes(ctx)); err != nil {
		return err
	}
	defer t.stopTraffic(ctx)
	if err := t.startTraffic(ctx); err != nil {
		return err
	}
	if err := t.idle(ctx); err != nil {
		return err
	}
	if t.before, err = t.c.look(ctx); err != nil {
		return err
	}
	if len(t.ids) > 0 {
		if t.seen.AccountBefore, err = t.fleet.account(ctx); err != nil {
			return err
		}
	}
	t.c.say("%s in %.1f s", words.Plural(len(t.plan.Changes), "change"), time.Duration(t.plan.DurationNS()).Seconds())
	t.envoys = t.watchEnvoys(ctx)
	defer t.envoys.stop()
	t.attached.forget()
	t.followLogs(ctx)
	defer t.logs.close()
	series := t.watchSeries(ctx)
	defer func() { _ = series.stop() }()
	t.host = t.c.Host()
	if t.windowStart, err = t.snapshot(ctx, false, observe.Begin); err != nil {
		return err
	}
	start := time.Now()
	defer t.stopRoutes(ctx)
	if err := t.startRoutes(ctx, start.Add(driveLead)); err != nil {
		return err
	}
	if !t.weighsSidecars() {
		t.envoys.begin(start.Add(driveLead))
	}
	driven, err := t.driver.Drive(ctx, start.Add(driveLead), t.announce)
	t.seen.Changes = driven
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if len(driven) != len(t.plan.Changes) {
		return fmt.Errorf("make the changes: %w", err)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		t.seen.DriveError = err.Error()
	}
	if err := t.endWindow(ctx, start); err != nil {
		return err
	}
	if err := t.endRoutes(ctx); err != nil {
		return err
	}
	t.envoys.stop()
	if err := series.stop(); err != nil {
		t.warn(noteSeries, err)
	}
	return t.afterWindow(ctx)
}

// afterWindow reads what must be read soon after the window.
func (t *controlTrial) afterWindow(ctx context.Context) (err error) {
	if len(t.ids) > 0 {
		if t.seen.AccountAfter, err = t.fleet.account(ctx); err != nil {
			return err
		}
	}
	if !t.weighsSidecars() { // else settling read last, after the window
		if err := t.sight(ctx); err != nil {
			return err
		}
	}
	if err := t.compareAgain(ctx); err != nil {
		return err
	}
	if t.after, err = t.c.look(ctx); err != nil {
		return err
	}
	if err := t.endTraffic(ctx); err != nil {
		return err
	}
	t.join(ctx)
	return ctx.Err()
}

// endWindow waits until every proxy has all changes, and ends the window. If the window measures
// what real sidecars use, it ends with the last push, before they are asked what they have in
// force: answering costs them more than anything else.
func (t *controlTrial) endWindow(ctx context.Context, start time.Time) (err error) {
	if !t.weighsSidecars() {
		if err := t.settle(ctx); err != nil {
			return err
		}
		if err := t.awaitAttached(ctx); err != nil {
			return err
		}
		t.out.Window, err = t.closeWindow(ctx, start)
		return err
	}
	if err := wake.Pause(ctx, t.levels.DebounceAfter+settleQuiet); err != nil {
		return err
	}
	window, err := t.closeWindow(ctx, start)
	if err != nil {
		return err
	}
	t.envoys.begin(start.Add(driveLead))
	if err := t.settle(ctx); err != nil {
		return err
	}
	t.out.Window = window
	return t.awaitAttached(ctx)
}

// closeWindow reads the counters at the end of the window.
func (t *controlTrial) closeWindow(ctx context.Context, start time.Time) (w record.Window, err error) {
	if t.windowEnd, err = t.endSnapshot(ctx); err != nil {
		return w, err
	}
	t.host = t.c.HostAfter(t.host)
	return record.Window{Start: start.UTC(), Seconds: time.Since(start).Seconds(), Intervals: 1}, nil
}

// firstClock returns the offset of the simulated sidecars' clock; of several pods, the first one's.
func (t *controlTrial) firstClock(ctx context.Context) (verdict.Clock, error) {
	clock, err := t.fleet.apis[0].Clock(ctx)
	if err != nil {
		return verdict.Clock{}, t.fleet.Lost(fmt.Errorf("compare clocks with the simulated sidecars: %w", err))
	}
	return verdict.Clock{Ahead: clock.Ahead, Bound: clock.Bound}, nil
}

// compareClocks measures the simulated sidecars' clocks before the window.
func (t *controlTrial) compareClocks(ctx context.Context) (err error) {
	if t.seen.Clock, err = t.firstClock(ctx); err != nil {
		return err
	}
	t.fleet.clocks, err = t.fleet.compare(ctx)
	return err
}

// compareAgain measures the simulated sidecars' clocks at the end. With several pods it must
// succeed.
func (t *controlTrial) compareAgain(ctx context.Context) error {
	clock, err := t.firstClock(ctx)
	if err != nil {
		t.warn(noteClockNotAgain, err)
	} else {
		t.seen.ClockAfter = &clock
	}
	after, err := t.fleet.compare(ctx)
	if err != nil {
		return err
	}
	t.out.Control.Simulators = t.fleet.record(after)
	return nil
}

// driveLead is the time from the driver's start to the first change. The driver announces the
// markers first.
const driveLead = 700 * time.Millisecond

// announce tells every watcher which markers to look for.
func (t *controlTrial) announce(ctx context.Context, markers []record.Marker) error {
	t.envoys.announce(markers)
	if len(t.ids) == 0 {
		return nil
	}
	return t.fleet.announce(ctx, markers)
}

// endSnapshot takes the snapshot at the end of the window. If a container is gone (istiod was
// killed), it reads the present ones, whose use in the window is unknown; the trial's checks report
// that.
func (t *controlTrial) endSnapshot(ctx context.Context) (map[string]observe.Snapshot, error) {
	shots, err := t.snapshot(ctx, true, observe.End)
	if err == nil || ctx.Err() != nil {
		return shots, err
	}
	if findErr := t.findTargets(ctx); findErr != nil {
		return nil, errors.Join(err, findErr)
	}
	return t.snapshot(ctx, true, observe.End)
}

// idle measures istiod with all proxies connected and nothing to do.
func (t *controlTrial) idle(ctx context.Context) error {
	idle := controlplane.Of(t.c.study).Idle
	if idle == 0 {
		return nil
	}
	t.c.say("idle for %v", idle)
	var err error
	if t.idleAPI.first, err = t.c.look(ctx); err != nil {
		return err
	}
	if t.idleAPI.second, err = t.c.look(ctx); err != nil {
		return err
	}
	if t.idleStart, err = t.snapshot(ctx, false, observe.Begin); err != nil {
		return err
	}
	if err := wake.Pause(ctx, idle); err != nil {
		return err
	}
	t.idleEnd, err = t.snapshot(ctx, t.weighsSidecars(), observe.End)
	return err
}

// settleQuiet is the time without messages, beyond istiod's longest debounce, that is required
// before sightings are read: they are large, and reading them costs the simulated sidecars CPU.
const settleQuiet = 300 * time.Millisecond

// settleMost is the longest interval between checks whether anything still arrived: answering costs
// the simulated sidecars CPU too.
const settleMost = 2 * time.Second

// settle waits until every proxy that needs a change has it. It waits for proxies that misbehave on
// purpose only as long as they receive anything: they may never have, or acknowledge, what they
// need.
func (t *controlTrial) settle(ctx context.Context) error {
	limit := time.Now().Add(controlplane.Of(t.c.study).Settle)
	wait := int64(t.levels.DebounceAfter + settleQuiet)
	looked, silent, lastCommit := int64(-1), 0, int64(0)
	for _, e := range t.seen.Changes {
		lastCommit = max(lastCommit, e.CommittedNS)
	}
	for every := statusEvery; ; every = min(settleMost, every*9/8) {
		quiet, lastChange := true, int64(0)
		if len(t.ids) > 0 {
			s, err := t.fleet.status(ctx)
			if err != nil {
				return fmt.Errorf("watch the simulated sidecars: %w", err)
			}
			t.seen.StreamError = s.LastError
			lastChange = s.LastChangeUnixNS
			quiet = s.NowUnixNS-max(s.LastChangeUnixNS, lastCommit+int64(t.seen.Clock.Known())) >= wait
		}
		late := time.Now().After(limit)
		if quiet && (looked != lastChange || silent > 0 || len(t.c.reals) > 0 || t.probing) || late {
			looked = lastChange
			if err := t.sight(ctx); err != nil {
				return err
			}
			var lacking, expected int
			lacking, silent, expected = t.seen.Outstanding()
			unserved, err := t.unserved(ctx)
			if err != nil {
				return err
			}
			if lacking+silent+unserved == 0 || late {
				return nil
			}
			also := ""
			if unserved > 0 {
				also = fmt.Sprintf("; %d routes are not served yet", unserved)
			}
			t.c.say("%d of %d sightings and %d acknowledgements are outstanding%s", lacking, expected, silent, also)
		}
		if err := wake.Pause(ctx, every); err != nil {
			return err
		}
	}
}
