package observe

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/wallclock"
	"github.com/meshtrial/meshtrial/testing/must"
)

// setClock is a node's clock that can be set.
type setClock struct{ ahead atomic.Int64 }

func (c *setClock) now() wallclock.Reading {
	r := wallclock.Now()
	r.UnixNS += c.ahead.Load()
	return r
}

// Setting the wall clock, before or within a window, moves neither of its edges: both are
// at the requested times of the old clock, and times between them are correct.
func TestSnapshotsAtASetClock(t *testing.T) {
	const length = 200 * time.Millisecond
	for name, step := range map[string]struct {
		before, within time.Duration // the window
	}{
		"not set": {}, "set ahead": {within: time.Hour}, "set back": {within: -time.Hour},
		"set ahead before": {before: time.Hour}, "set back before": {before: -time.Hour, within: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			clock := &setClock{}
			c, _ := startServer(t, Options{CgroupRoot: v1Tree(t, "pod"+testUID, testContainer), ProcRoot: procTree(t), Clock: clock.now})
			compared := clock.now()
			stepped := compared.SteppedNS()
			start := compared.UnixNS + int64(100*time.Millisecond)
			clock.ahead.Add(int64(step.before))
			set := time.AfterFunc(150*time.Millisecond, func() { clock.ahead.Add(int64(step.within)) })
			defer set.Stop()
			shots, err := c.Snapshots(t.Context(), SnapshotsRequest{
				AtUnixNS: []int64{start, start + int64(length)}, SteppedNS: &stepped, Threads: true,
				Targets: []Target{{Name: "x", PodUID: testUID, ContainerID: testContainer}},
			})
			must.OK(t, err)
			ended := clock.now()
			for i, at := range []int64{start, start + int64(length)} {
				// By the old clock; not later than now.
				s, latest := shots[i], ended.SteadyNS+stepped
				if s.StartNS < at || s.EndNS > latest || s.Targets["x"].AtUnixNS < s.StartNS || s.Targets["x"].AtUnixNS > s.EndNS || s.SteppedNS != stepped {
					t.Errorf("snapshot %d from %v to %v after its instant, of %+v", i, time.Duration(s.StartNS-at), time.Duration(s.EndNS-at), s)
				}
			}
			if between := shots[1].Machine.Elapsed(shots[0].Machine); between < time.Duration(shots[1].StartNS-shots[0].EndNS) || between > time.Duration(ended.SteadyNS-compared.SteadyNS) {
				t.Errorf("the machine's samples are %v apart", between)
			}
		})
	}
}

// Elapsed is correct for samples of two requests even if the clock was set in between.
func TestElapsedAcrossRequests(t *testing.T) {
	clock := &setClock{}
	c, _ := startServer(t, Options{CgroupRoot: v1Tree(t, "pod"+testUID, testContainer), ProcRoot: procTree(t), Clock: clock.now})
	take := func() MachineSample {
		s, err := c.Snapshot(context.Background(), nil, false)
		must.OK(t, err)
		return s.Machine
	}
	begin := time.Now()
	first := take()
	clock.ahead.Add(int64(-time.Hour))
	second := take()
	if e := second.Elapsed(first); e < 0 || e > time.Since(begin) {
		t.Errorf("%v apart", e)
	}
	if second.AtUnixNS > first.AtUnixNS {
		t.Error("the node's clock was set back")
	}
	if _, _, err := second.Since(first); err != nil {
		t.Error(err)
	}
}
