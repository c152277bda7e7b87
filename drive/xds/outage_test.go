package xds_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/eventually"
)

// All connections end at once. Proxies come back independently, however few the gate
// lets connect at a time. Each records when it lost its stream and when it had
// everything again.
func TestOutage(t *testing.T) {
	const n, refused = 12, 5
	s := newFake(t)
	spec := testSpec(s.address, n)
	spec.StreamsPerConnection, spec.MaxConnecting = 1, 2
	f := start(t, spec)
	synced(t, f)
	if _, begun := f.Outage(); begun {
		t.Fatal("an outage that nobody began")
	}
	s.mu.Lock()
	s.silent, s.refuse = true, refused
	s.mu.Unlock()
	if o := f.BeginOutage(true); o.SinceUnixNS == 0 || len(o.LostNS) != n {
		t.Fatalf("%+v", o)
	}
	eventually.Holds(t, "all of them at the door, none of them answered", func() bool { return len(s.live()) == 2*n })
	if o, _ := f.Outage(); o.Losses != n || o.BackNS[0] != record.Never || o.Down.Count != 0 || o.Ended["connection"] != n || o.Ended["resource-exhausted"] != refused {
		t.Errorf("while nobody answers: %+v", o)
	}
	s.mu.Lock()
	s.silent = false
	s.mu.Unlock()
	for _, one := range s.live()[n:] {
		one.end <- status.Error(codes.Unavailable, "try again")
	}
	synced(t, f)
	o, _ := f.Outage()
	longest := int64(0)
	for i := range n {
		if o.LostNS[i] < o.SinceUnixNS || o.BackNS[i] <= o.LostNS[i] || o.BackNS[i] > o.NowUnixNS {
			t.Errorf("proxy %d: lost at %d, back at %d, since %d", i, o.LostNS[i], o.BackNS[i], o.SinceUnixNS)
		}
		longest = max(longest, o.BackNS[i]-o.LostNS[i])
	}
	// A stream that was never answered does not count as lost.
	if o.Losses != n || o.Down.Count != n || int64(o.Down.Max()*1e3+0.5) != longest || o.Ended["unavailable"] != n {
		t.Errorf("%d losses, down %+v, ended %v; the longest was %d ns", o.Losses, o.Down, o.Ended, longest)
	}
}

// A proxy that loses its stream once more is back only after that, and was without
// configuration twice.
func TestOutageOfOneProxyTwice(t *testing.T) {
	s := newFake(t)
	f := start(t, testSpec(s.address, 1))
	synced(t, f)
	f.BeginOutage(false)
	var first int64
	for i := range 2 {
		s.live()[i].end <- status.Error(codes.Unavailable, "going down")
		eventually.Holds(t, "that it is back", func() bool { o, _ := f.Outage(); return o.Losses == int64(i+1) && o.BackNS[0] != record.Never })
		o, _ := f.Outage()
		if o.Down.Count != int64(i+1) || i == 1 && (o.BackNS[0] <= first || o.LostNS[0] >= first) {
			t.Errorf("loss %d: %+v, back before at %d", i, o, first)
		}
		first = o.BackNS[0]
	}
}

// A proxy that has no stream at the start has none to lose, and the outage does not
// wait for it.
func TestOutageOfOneThatIsAbsent(t *testing.T) {
	s := newFake(t)
	spec := testSpec(s.address, 2)
	spec.StreamsPerConnection = 1
	f := start(t, spec)
	synced(t, f)
	s.mu.Lock()
	s.silent = true
	s.mu.Unlock()
	s.live()[0].end <- status.Error(codes.Unavailable, "going down")
	eventually.Holds(t, "that one is without a stream", func() bool { return f.Status().Connected == 1 })
	f.BeginOutage(true)
	eventually.Holds(t, "that the other one is too", func() bool { o, _ := f.Outage(); return o.Losses == 1 })
	o, _ := f.Outage()
	if len(o.Absent) != 1 || o.LostNS[o.Absent[0]] != record.Never || o.Spared() != 1 || o.Over() {
		t.Errorf("%+v", o)
	}
	for name, tt := range map[string]struct {
		lost, back record.Times
		absent     []int32
		spared     int
		over       bool
	}{
		"all back":           {record.Times{1, 1}, record.Times{2, 3}, nil, 0, true},
		"one not back":       {record.Times{1, 1}, record.Times{2, record.Never}, nil, 0, false},
		"one left alone":     {record.Times{1, record.Never}, record.Times{2, record.Never}, nil, 0, false},
		"one absent":         {record.Times{1, record.Never}, record.Times{2, record.Never}, []int32{1}, 1, true},
		"one came meanwhile": {record.Times{1, record.Never}, record.Times{2, 2}, nil, 1, true},
		"absent, then lost":  {record.Times{1, 3}, record.Times{2, record.Never}, []int32{1}, 0, false},
	} {
		if o := (xds.Outage{LostNS: tt.lost, BackNS: tt.back, Absent: tt.absent}); o.Spared() != tt.spared || o.Over() != tt.over {
			t.Errorf("%s: %d spared, over %v", name, o.Spared(), o.Over())
		}
	}
}
