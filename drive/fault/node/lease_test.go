package node

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/testing/must"
)

// A lease that is renewed after it was seen to have ended but before the fault
// is removed continues: its owner was told that it does.
func TestRenewedWhileItEnds(t *testing.T) {
	s := newServer(t)
	ended := false
	f := &standing{Fault: Fault{ID: "1"}, end: func() error { ended = true; return nil }}
	f.count = func() (Packets, error) { // what undo calls before it removes the fault
		must.OK(t, must.Err(s.extend("1", ExtendRequest{LeaseMS: 60_000})))
		return Packets{}, nil
	}
	s.faults[1] = f
	must.OK(t, s.undoAll(lapsed(time.Now())))
	if _, stands := s.faults[1]; !stands || ended {
		t.Errorf("stands = %v, ended = %v: it was renewed", stands, ended)
	}
	f.count, f.until = nil, time.Now()
	must.OK(t, s.undoAll(lapsed(time.Now())))
	if _, stands := s.faults[1]; stands || !ended {
		t.Errorf("stands = %v, ended = %v: its lease is over", stands, ended)
	}
}

// The time of day does not matter. Otherwise a clock that is set back an hour
// would keep a process stopped for an hour, and one set forward would end a
// fault in the middle of a trial.
func TestLeasesGoByTheMonotonicClock(t *testing.T) {
	s := newServer(t)
	now := time.Now()
	for id, f := range []*standing{
		{Fault: Fault{ExpiresNS: 0}, until: now.Add(time.Hour)},                                // the clock was set forward
		{Fault: Fault{ExpiresNS: now.Add(time.Hour).UnixNano()}, until: now},                   // and back
		{Fault: Fault{ExpiresNS: now.Add(-time.Hour).UnixNano()}, until: now.Add(time.Second)}, // forward
	} {
		f.ID, f.end = strconv.Itoa(id), func() error { return nil }
		s.faults[uint64(id)] = f
	}
	must.OK(t, s.undoAll(lapsed(now)))
	left := []string{}
	for _, f := range s.list() {
		left = append(left, f.ID)
	}
	slices.Sort(left)
	if !slices.Equal(left, []string{"0", "2"}) {
		t.Errorf("%v stand", left)
	}
}

// A fault lasts exactly as long as its lease, counted again when it is
// extended.
func TestExpire(t *testing.T) {
	s := newServer(t)
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var ended time.Duration
		f, err := s.stand(7, standing{end: func() error { ended = time.Since(begin); return nil }}, 20*time.Second)
		if err != nil || f.ExpiresNS != begin.Add(20*time.Second).UnixNano() {
			t.Fatalf("%+v, %v", f, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go s.expire(ctx)
		time.Sleep(15 * time.Second)
		must.OK(t, must.Err(s.extend("7", ExtendRequest{LeaseMS: 20_000})))
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := 35 * time.Second; ended < want || ended > want+expireEvery {
			t.Errorf("it ended after %v, want %v", ended, want)
		}
	})
}

// A role that hears nothing from the runner reverts everything that it did,
// however long the leases are, and ends.
func TestAlone(t *testing.T) {
	pod := newPod(t)
	container, cmd := pod.run(t, "app", "meshtrial")
	alive := jsonhttp.NewAlive(3 * time.Second)
	s, err := New(Options{Control: "127.0.0.1:0", Token: testToken, Alive: alive})
	must.OK(t, err)
	ctx, cancel := alive.While(context.Background(), func(error) {})
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := Client{HTTPClient: &http.Client{Transport: transport}, BaseURL: "http://" + s.Address(), Token: testToken}
	if _, err := client.Signal(t.Context(), SignalRequest{Container: container, Kind: KindWorker, Signal: SignalStop, LeaseMS: 600_000}); err != nil {
		t.Fatal(err) // it checked whether the process stopped
	}
	must.OK(t, <-done)
	if state(t, cmd) == "T" || len(tables(t, cmd)) != 0 {
		t.Errorf("the role has ended: state %s, marks %v", state(t, cmd), tables(t, cmd))
	}
	if !errors.Is(context.Cause(ctx), jsonhttp.ErrAlone) {
		t.Errorf("it ended for %v", context.Cause(ctx))
	}
}
