package xds_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshtrial/meshtrial/record"
)

// All connections end at once. Proxies come back each by itself, however few the
// gate let connect at a time, and each says when it lost its stream and when it had
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
	eventually(t, "all of them at the door, none of them answered", func() bool { return len(s.live()) == 2*n })
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
	// A stream that was never answered was no loss.
	if o.Losses != n || o.Down.Count != n || int64(o.Down.Max*1e3+0.5) != longest || o.Ended["unavailable"] != n {
		t.Errorf("%d losses, down %+v, ended %v; the longest was %d ns", o.Losses, o.Down, o.Ended, longest)
	}
}

// A proxy that loses its stream once more is back only after that, and was
// without configuration twice.
func TestOutageOfOneProxyTwice(t *testing.T) {
	s := newFake(t)
	f := start(t, testSpec(s.address, 1))
	synced(t, f)
	f.BeginOutage(false)
	var first int64
	for i := range 2 {
		s.live()[i].end <- status.Error(codes.Unavailable, "going down")
		eventually(t, "that it is back", func() bool { o, _ := f.Outage(); return o.Losses == int64(i+1) && o.BackNS[0] != record.Never })
		o, _ := f.Outage()
		if o.Down.Count != int64(i+1) || i == 1 && (o.BackNS[0] <= first || o.LostNS[0] >= first) {
			t.Errorf("loss %d: %+v, back before at %d", i, o, first)
		}
		first = o.BackNS[0]
	}
}
