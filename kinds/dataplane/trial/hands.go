package trial

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/drive/load"
	loadcontrol "github.com/meshtrial/meshtrial/drive/load/control"
	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner/hands"
	"github.com/meshtrial/meshtrial/run/site"
)

// hand is one of the generators that jointly send a trial's requests. Most trials have one.
type hand struct {
	*loadRole
	started loadcontrol.Started
	// before and after are its clock's offsets from the first hand's, before and after the trial.
	before, after hands.Clock
}

// setHands takes as many load pods as the cell requires, and finds the proxies that only requests
// of additional hands pass.
func (t *trialRun) setHands(roles []*loadRole) error {
	n := dataplane.GeneratorsIn(t.cell)
	if len(roles) < n {
		return fmt.Errorf("cell %s: %d of its %d load pods are deployed", t.cell.Key(), len(roles), n)
	}
	t.client, t.more = roles[0], map[string]site.Pod{}
	for i, role := range roles[:n] {
		t.hands = append(t.hands, &hand{loadRole: role})
		way, proxies, err := t.d.wayOf(t.cell, role.pod, t.server.pod)
		if err != nil {
			return err
		}
		if i == 0 {
			t.way, t.proxies = way, proxies
		}
		if !slices.Equal(way, t.way) {
			return errs.WithHint(fmt.Errorf("requests of load pod %s take a different path than those of %s: one of them is on the worker's node", role.pod.Name, t.client.pod.Name),
				"where node proxies carry requests, either all or none of a cell's generators may be on the worker's node")
		}
		for part, pod := range proxies {
			if i > 0 && !t.has(part, pod) {
				t.more[record.OfHand(part, i)] = pod
			}
		}
	}
	return nil
}

func (t *trialRun) all() hands.Hands {
	all := hands.Hands{What: "generator", In: "load pod"}
	for _, h := range t.hands {
		all.Pods = append(all.Pods, h.pod)
	}
	return all
}

func (t *trialRun) each(do func(i int, h *hand) error) error {
	return t.all().Each(func(i int) error { return do(i, t.hands[i]) })
}

// asLost marks an error that a lost hand may have caused. A hand that has begun must still know its
// run.
func (t *trialRun) asLost(ctx context.Context, err error) error {
	return t.all().AsLost(ctx, err, func(ctx context.Context, i int) (err error) {
		if h := t.hands[i]; h.started.Run == "" {
			_, err = h.api.Version(ctx)
		} else {
			_, err = h.api.Intervals(ctx, h.started.Run, 0)
		}
		return err
	})
}

// startLimit limits the retries of a start that reaches no server: a node's rules follow a
// Service's new endpoints with a delay (kube-proxy's minSyncPeriod is a second).
const startLimit = 10 * time.Second

// start starts the generators, each with its share of the schedule. A start that fails leaves
// nothing behind.
func (t *trialRun) start(ctx context.Context, spec load.Spec) error {
	specs, err := spec.Split(len(t.hands))
	if err != nil {
		return err
	}
	if len(specs) > 1 {
		err = t.startTogether(ctx, specs)
	} else {
		err = t.hands[0].start(ctx, spec)
	}
	t.started = t.hands[0].started
	t.clockSet(time.Duration(t.started.SteppedNS) - t.generatorStepped)
	return err
}

// clockSet corrects the offsets if the generator's clock was set ahead after they were measured but
// before its start, which it reports by its new time.
func (t *trialRun) clockSet(ahead time.Duration) {
	t.clockAhead += ahead
	for node := range t.skew {
		t.skew[node] -= ahead
	}
}

func (h *hand) start(ctx context.Context, spec load.Spec) (err error) {
	limited, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		h.started, err = h.api.Start(ctx, spec)
		failed := (*jsonhttp.StatusError)(nil)
		if err == nil || !errors.As(err, &failed) || failed.Status != http.StatusInternalServerError || wake.Pause(limited, toldLook) != nil {
			return err
		}
	}
}

// startAhead is the initial time between announcing a schedule to several generators and its start.
// They connect in the meantime. A generator whose connections come later rejects the schedule, and
// it is announced to all again, with twice the time.
const startAhead = 500 * time.Millisecond

// startTogether starts all hands at one instant, each by its own clock, and returns at that
// instant. What punctual hands sent in a failed start is not part of the trial: before the next
// attempt it reads worker and proxies anew.
func (t *trialRun) startTogether(ctx context.Context, specs []load.Spec) error {
	first := true
	for ahead := max(startAhead, t.d.ahead); ; ahead *= 2 {
		if !first {
			var err error
			if t.before, err = t.count(ctx); err != nil {
				return err
			}
		}
		told := t.now()
		at := told.Add(ahead)
		err := t.each(func(i int, h *hand) error {
			spec := specs[i]
			spec.StartAtUnixNS = at.Add(h.before.Ahead).UnixNano()
			err := h.start(ctx, spec)
			if answer := (*jsonhttp.StatusError)(nil); errors.As(err, &answer) {
				return err // it is present, and rejected the schedule
			}
			return t.all().Lost(err)
		})
		if err == nil {
			if t.d.ahead = ahead; first { // one quick start says little about the next
				t.d.ahead = max(ahead/2, 2*t.now().Sub(told))
			}
			return wake.Pause(ctx, at.Sub(t.now()))
		}
		first = false
		late := t.now().After(at)
		t.stop(ctx)
		if !late || ahead >= startLimit || ctx.Err() != nil {
			return err
		}
	}
}

// stopEvery is the interval of checks whether the generator's run has ended, which takes until the
// requests already due have finished.
const stopEvery = 20 * time.Millisecond

// stop ends the generators' runs, if any, even if the run itself was cancelled. A pod's next trial
// cannot start before.
func (t *trialRun) stop(ctx context.Context) {
	ctx, cancel := ending.Within(ctx, site.StopTimeout)
	defer cancel()
	_ = t.each(func(_ int, h *hand) error {
		for h.started.Run != "" {
			status, err := h.api.Stop(ctx, h.started.Run)
			if err != nil || status.Done { // an error means that it has ended, or that its pod is gone
				return nil
			}
			if err := wake.Pause(ctx, stopEvery); err != nil {
				return err
			}
		}
		return nil
	})
}

// intervals returns the merged intervals, starting at number from, that have ended at all
// generators.
func (t *trialRun) intervals(ctx context.Context, from int) ([]load.Summary, error) {
	all := make([][]load.Summary, len(t.hands))
	err := t.each(func(i int, h *hand) error {
		status, err := h.api.Intervals(ctx, h.started.Run, from)
		if err != nil {
			return t.all().Lost(fmt.Errorf("watch the generator: %w", err))
		}
		if status.Error != "" {
			return t.all().Lost(fmt.Errorf("the generator ended: %s", status.Error))
		}
		all[i] = status.Intervals
		return nil
	})
	return together(all), err
}

// together merges the intervals of several generators as if one had sent all requests. Its median
// is the mean of theirs, weighted by requests, which is close enough to see whether latency is
// steady.
func together(all [][]load.Summary) []load.Summary {
	out := all[0]
	for _, one := range all[1:] {
		out = slices.Clone(out[:min(len(out), len(one))])
		for k := range out {
			a, b := &out[k], one[k]
			if n := float64(a.Completed + b.Completed); b.Completed > 0 {
				a.P50NS = (a.P50NS*float64(a.Completed) + b.P50NS*float64(b.Completed)) / n
			}
			a.Scheduled += b.Scheduled
			a.Completed += b.Completed
			a.Failed += b.Failed
			a.Unfinished += b.Unfinished
			a.Answered += b.Answered
		}
	}
	return out
}

func (t *trialRun) endAfter(ctx context.Context, interval int) error {
	return t.each(func(_ int, h *hand) error {
		_, err := h.api.StopAfter(ctx, h.started.Run, interval)
		return t.all().Lost(err)
	})
}

// result returns what the generators recorded, once all have ended: the sum, with each one's part
// in the window.
func (t *trialRun) result(ctx context.Context, from, to int) (out *load.Result, hands []record.Hand, err error) {
	if len(t.hands) == 1 {
		out, err = t.client.api.Result(ctx, t.started.Run)
	} else {
		out, hands, err = t.sum(ctx, from, to)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("collect the generator's record: %w", err)
	}
	return out, hands, nil
}

// sum adds up the hands' records while reading them. Clocks are compared first: a connection to a
// pod carries no responses while it is full of an unread record.
func (t *trialRun) sum(ctx context.Context, from, to int) (*load.Result, []record.Hand, error) {
	if err := t.clocks(ctx, func(h *hand) *hands.Clock { return &h.after }); err != nil {
		return nil, nil, err
	}
	streams := make([]*load.Stream, len(t.hands))
	err := t.each(func(i int, h *hand) (err error) {
		streams[i], err = h.api.Stream(ctx, h.started.Run)
		return t.all().Lost(err)
	})
	var hands []record.Hand
	if err == nil {
		hands, err = t.complete(streams, to)
	}
	if err != nil {
		for _, s := range streams {
			if s != nil {
				_ = s.Close()
			}
		}
		return nil, nil, err
	}
	out, err := load.MergeStreams(ctx, streams, func(i int, iv *load.Interval) {
		if h := &hands[i]; iv.Index >= from && iv.Index < to {
			h.Scheduled += iv.Scheduled
			h.Completed += iv.Completed
			h.CPU = h.CPU.Plus(record.CPU{UserS: iv.CPU.User, SystemS: iv.CPU.System})
		}
	})
	if err != nil {
		return nil, nil, err
	}
	out.Spec.Connections = t.spec.Connections // at rate max nothing shows that they are shares
	return out, hands, nil
}

// complete returns the hands, and shifts their streams to the first one's clock. It fails if a hand
// was gone before the end of the window, before interval number to: the rest would pass for all.
func (t *trialRun) complete(streams []*load.Stream, to int) ([]record.Hand, error) {
	out := make([]record.Hand, len(streams))
	for i, s := range streams {
		h := t.hands[i]
		if end := int64(to) * int64(dataplane.Of(t.o.Study).Interval); s.Interrupted || s.EndNS < end || s.Count < to {
			ended := fmt.Sprintf("load pod %s ended %v after its start, before the window did", h.pod.Name, time.Duration(s.EndNS).Round(time.Millisecond))
			if !s.Interrupted { // it is present, and followed the schedule
				return nil, fmt.Errorf("%s: it received its stop time, %v, too late and stopped at once", ended, time.Duration(end))
			}
			return nil, t.all().Lost(errors.New(ended))
		}
		s.Start = s.Start.Add(-h.before.Ahead)
		out[i] = record.Hand{Pod: h.pod.Name, Node: h.pod.Node, Connections: s.Spec.Connections, Before: h.before.Record(), After: h.after.Record()}
	}
	return out, nil
}

// clocks compares the hands' clocks with the first one's.
func (t *trialRun) clocks(ctx context.Context, of func(*hand) *hands.Clock) error {
	seen, err := t.all().Clocks(func(i int) (jsonhttp.Clock, error) { return t.hands[i].api.Clock(ctx) })
	if err != nil {
		return err
	}
	for i, h := range t.hands {
		*of(h) = seen[i]
	}
	return nil
}

// measureSkew compares the generator's clock with this machine's, and those of other nodes'
// observers with the generator's; on its own node they are the same clock. Kubelets' clocks on
// other nodes count as the generator's: their offset shifts a part's window without changing its
// length.
func (t *trialRun) measureSkew(ctx context.Context) error {
	generator, err := t.client.api.Clock(ctx)
	if err != nil {
		return t.all().Lost(fmt.Errorf("compare clocks with the generator: %w", err))
	}
	if generator.Ahead.Abs() > generator.Bound {
		t.clockAhead = generator.Ahead
	}
	t.generatorStepped = generator.Stepped
	if len(t.hands) > 1 {
		if err := t.clocks(ctx, func(h *hand) *hands.Clock { return &h.before }); err != nil {
			return err
		}
	}
	for node := range t.targets {
		if t.d.Kubelets {
			continue
		}
		observer, err := t.d.Observers[node].Clock(ctx)
		if err != nil {
			return fmt.Errorf("compare clocks with node %s: %w", node, err)
		}
		t.stepped[node], t.skew[node] = int64(observer.Stepped), observer.Ahead-generator.Ahead
		if node == t.client.pod.Node {
			t.skew[node] = 0
		}
	}
	return nil
}
