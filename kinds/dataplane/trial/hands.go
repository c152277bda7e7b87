package trial

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/load"
	loadcontrol "github.com/meshtrial/meshtrial/load/control"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/site"
	"github.com/meshtrial/meshtrial/study"
)

// hand is one of the generators that send a trial's requests together; most trials
// have one.
type hand struct {
	*loadRole
	started loadcontrol.Started
	// before and after the trial is how its clock stood beside the first hand's.
	before, after loadcontrol.Offset
}

// setHands takes as many load pods as the cell asks for, and finds the proxies that
// requests of the others than the first pass beside those that all pass.
func (t *trialRun) setHands(roles []*loadRole) error {
	n := study.GeneratorsIn(t.cell)
	if len(roles) < n {
		return fmt.Errorf("cell %s: %d of its %d load pods are deployed", t.cell.Key(), len(roles), n)
	}
	t.client, t.more = roles[0], map[string]site.Pod{}
	var err error
	if t.way, t.proxies, err = t.d.wayOf(t.cell, t.client.pod, t.server.pod); err != nil {
		return err
	}
	for i, role := range roles[:n] {
		t.hands = append(t.hands, &hand{loadRole: role})
		way, proxies, err := t.d.wayOf(t.cell, role.pod, t.server.pod)
		if err != nil {
			return err
		}
		if !slices.Equal(way, t.way) {
			return errs.WithHint(fmt.Errorf("requests of load pod %s do not pass what those of %s pass: one of them is on the node of the worker", role.pod.Name, t.client.pod.Name),
				"generators of one cell must all be there, or none, where proxies on nodes carry requests")
		}
		for part, pod := range proxies {
			if i > 0 && pod.UID != t.proxies[part].UID {
				t.more[record.OfHand(part, i)] = pod
			}
		}
	}
	return nil
}

// each does something with all hands at once, and waits for all of them also where
// one fails: what another has begun can then be ended.
func (t *trialRun) each(do func(i int, h *hand) error) error {
	failed := make([]error, len(t.hands))
	var all sync.WaitGroup
	for i, h := range t.hands {
		all.Go(func() {
			if failed[i] = do(i, h); failed[i] != nil && len(t.hands) > 1 {
				failed[i] = fmt.Errorf("load pod %s: %w", h.pod.Name, failed[i])
			}
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

// errLost is in the error of a hand that is not there any more, or that ended before
// its time. What the others did is then no trial, and there can be one once its pod
// is back.
var errLost = errors.New("the generator was lost")

// lost marks the error of one of several hands.
func (t *trialRun) lost(err error) error {
	if err == nil || len(t.hands) == 1 {
		return err
	}
	return fmt.Errorf("%w: %w", errLost, err)
}

// asLost marks an error that only says what one notices of a hand that is gone, as the
// observer of its node does: whether one is, it asks them. A hand that has begun must
// still know of its run.
func (t *trialRun) asLost(ctx context.Context, err error) error {
	if err == nil || len(t.hands) == 1 || errors.Is(err, errLost) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, site.StopTimeout)
	defer cancel()
	gone := t.each(func(_ int, h *hand) (err error) {
		if h.started.Run == "" {
			_, err = h.api.Version(ctx)
		} else {
			_, err = h.api.Intervals(ctx, h.started.Run, 0)
		}
		return t.lost(err)
	})
	if gone == nil {
		return err
	}
	return fmt.Errorf("%w; %w", gone, err)
}

// startLimit bounds how long a start that reaches no server is tried again: a
// node's rules follow a Service's new endpoints with a delay (kube-proxy's
// minSyncPeriod is a second).
const startLimit = 10 * time.Second

// start starts the generators, each with its share of the schedule. A start that
// fails leaves nothing behind.
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
	return err
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

// startAhead is how long before it begins several generators are told of a
// schedule, at first: they connect meanwhile. One that has its connections only
// after that refuses it, and all are told again, with twice the time.
const startAhead = 500 * time.Millisecond

// startTogether starts all hands at one instant, each by its own clock, and returns
// when that has come. What was sent by those that were not late is no part of the
// trial: before all are told again worker and proxies are read anew.
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
			spec.StartAtUnixNS = at.Add(h.before.Offset).UnixNano()
			err := h.start(ctx, spec)
			if answer := (*jsonhttp.StatusError)(nil); errors.As(err, &answer) {
				return err // it is there, and refuses
			}
			return t.lost(err)
		})
		if err == nil {
			if t.d.ahead = ahead; first {
				t.d.ahead = nextAhead(ahead, t.now().Sub(told))
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

// nextAhead is how long before it begins generators are told of the next schedule,
// after a start that took this long of the time they had: twice that, and no less than
// half of what it was, as one quick start says little of the next.
func nextAhead(ahead, took time.Duration) time.Duration { return max(ahead/2, 2*took) }

// stopEvery is how often the generator is asked whether its run has ended:
// requests already due are waited for.
const stopEvery = 20 * time.Millisecond

// stop ends the generators' runs, if there still are any, also when the run itself
// has been cancelled. A pod's next trial cannot start before.
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

// intervals are those of the generators that have ended in all of them, from
// number from on, taken together.
func (t *trialRun) intervals(ctx context.Context, from int) ([]load.Summary, error) {
	all := make([][]load.Summary, len(t.hands))
	err := t.each(func(i int, h *hand) error {
		status, err := h.api.Intervals(ctx, h.started.Run, from)
		if err != nil {
			return t.lost(fmt.Errorf("watch the generator: %w", err))
		}
		if status.Error != "" {
			return t.lost(fmt.Errorf("the generator ended: %s", status.Error))
		}
		all[i] = status.Intervals
		return nil
	})
	return together(all), err
}

// together are the intervals of several generators as if one had sent what they
// did. Its median is the mean of theirs, by requests: near enough to see whether
// latency is steady.
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
		}
	}
	return out
}

// endAfter ends all schedules with an interval.
func (t *trialRun) endAfter(ctx context.Context, interval int) error {
	return t.each(func(_ int, h *hand) error {
		_, err := h.api.StopAfter(ctx, h.started.Run, interval)
		return t.lost(err)
	})
}

// result is what the generators recorded, once all have ended: of several the sum,
// with what each did in the intervals of the window.
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

// sum adds up what the hands recorded while it is read.
func (t *trialRun) sum(ctx context.Context, from, to int) (*load.Result, []record.Hand, error) {
	streams := make([]*load.Stream, len(t.hands))
	err := t.each(func(i int, h *hand) (err error) {
		streams[i], err = h.api.Stream(ctx, h.started.Run)
		return t.lost(err)
	})
	if err == nil {
		err = t.clocks(ctx, func(h *hand) *loadcontrol.Offset { return &h.after })
	}
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
	out.Spec.Connections = t.spec.Connections // at rate max nothing says that they are shares
	return out, hands, nil
}

// complete says who the hands are, whose streams it has begin by the first one's
// clock. It fails if one was not there until the window had ended, before interval
// number to: what is left would pass for all of it.
func (t *trialRun) complete(streams []*load.Stream, to int) ([]record.Hand, error) {
	out := make([]record.Hand, len(streams))
	for i, s := range streams {
		h := t.hands[i]
		if end := int64(to) * int64(t.o.Study.Interval); s.Interrupted || s.EndNS < end || s.Count < to {
			return nil, t.lost(fmt.Errorf("load pod %s ended %v after its start, before the window did", h.pod.Name, time.Duration(s.EndNS).Round(time.Millisecond)))
		}
		s.Start = s.Start.Add(-h.before.Offset)
		out[i] = record.Hand{Pod: h.pod.Name, Node: h.pod.Node, Connections: s.Spec.Connections, Before: recordClock(h.before), After: recordClock(h.after)}
	}
	return out, nil
}

func recordClock(o loadcontrol.Offset) record.Clock {
	return record.Clock{AheadUS: record.Microseconds(o.Offset), ErrorUS: record.Microseconds(o.Uncertainty)}
}
