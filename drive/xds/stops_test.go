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

// TestStopsReading checks that proxies that stop reading after their first
// synchronization fill their windows and the kernel's buffers, and no more. The server
// cannot send to them and gives up on them, no other stream is affected, and the
// account has their number and their unread bytes.
func TestStopsReading(t *testing.T) {
	const (
		good, stops = 20, 3
		pushes      = 40
		each        = 256 << 10 // bytes per push: all pushes together far exceed a window
	)
	c, err := xdsserver.Synthetic(50, 2)
	must.OK(t, err)
	// The server must not give up on proxies that read because the machine stalled for
	// a while.
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
	// Some of it is in the kernel, within its limit.
	if a.UnreadBytes == 0 || a.UnreadBytes > stops*256<<10 {
		t.Errorf("%d bytes are unread", a.UnreadBytes)
	}
	eventually.Holds(t, "that the server gives them up", func() bool { return s.Counts().Open == good })
	if a := f.Account(); a.StoppedReading != stops || len(a.Reconnects) != 0 || a.Wire["eds"].Acks != acks+pushes*good {
		t.Errorf("%+v", a)
	}
}
