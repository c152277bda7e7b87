package xds_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/xdsserver"
)

// TestStopsReading: proxies that read nothing more after their first
// synchronization fill their windows and the kernel's buffers, and no more;
// the server cannot send to them and gives them up; no other stream is
// disturbed, and the account says how many stopped and what they hold back.
func TestStopsReading(t *testing.T) {
	const (
		good, stops = 20, 3
		pushes      = 40
		each        = 256 << 10 // bytes of a push: all of them are far more than a window
	)
	c, err := xdsserver.Synthetic(50, 2)
	must.OK(t, err)
	// Those that read must not be given up because the machine stood still for a while.
	const aliveTime = 8 * time.Second
	s, address := serve(t, c, grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Second, Timeout: aliveTime}))
	spec := testSpec(address, good+stops)
	for i := range stops {
		spec.Proxies[7*i].Behaviour = xds.BehaviourStopsReading
	}
	f := start(t, spec)
	synced(t, f)
	eventually.Holds(t, "all to stop", func() bool { return f.Account().StoppedReading == stops })
	acks := f.Account().Wire["eds"].Acks
	for i := range pushes {
		changed, err := xdsserver.SyntheticEndpoints(i%50, 2, strings.Repeat(string(rune('a'+i%26)), each))
		must.OK(t, err)
		s.Push(xdsserver.Change{Type: xdsserver.EndpointType, Changed: []xdsserver.Resource{changed}})
		want := acks + int64(i+1)*good
		eventually.Holds(t, "the ACKs of all that read", func() bool { return f.Account().Wire["eds"].Acks == want })
	}
	a := f.Account()
	if a.Connected != good+stops || a.Synced != good+stops || len(a.Reconnects) != 0 {
		t.Errorf("%d connected, %d synced, lost %v", a.Connected, a.Synced, a.Reconnects)
	}
	// Some of it lies in the kernel, no more than it was allowed.
	if a.UnreadBytes == 0 || a.UnreadBytes > stops*256<<10 {
		t.Errorf("%d bytes are unread", a.UnreadBytes)
	}
	eventually.Holds(t, "that the server gives them up", func() bool { return s.Counts().Open == good })
	if a := f.Account(); a.StoppedReading != stops || len(a.Reconnects) != 0 || a.Wire["eds"].Acks != acks+pushes*good {
		t.Errorf("%+v", a)
	}
}
