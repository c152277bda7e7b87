package xds_test

import (
	"testing"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/xdsserver"
)

// TestMemoryOfFleet limits the live heap of a sidecar with 1,000 services, at
// rest and after pushes. It includes what the server, in the same process,
// keeps for each sidecar.
func TestMemoryOfFleet(t *testing.T) {
	const (
		proxies = 300
		limit   = 24 << 10 // bytes
		once    = 4 << 20  // bodies and names, whatever the number of proxies
		pushes  = 5
	)
	s, address := serveSynthetic(t, 1000)
	before := xds.HeapAlloc()
	f := start(t, testSpec(address, proxies))
	check := func(when string) {
		t.Helper()
		f.GiveBack() // as when all is quiet
		each := (xds.HeapAlloc() - before - once) / proxies
		t.Logf("%s: %d bytes a sidecar", when, each)
		if each > limit {
			t.Errorf("%s: %d bytes a sidecar, want at most %d", when, each, limit)
		}
	}
	synced(t, f)
	eventually.Holds(t, "all ACKs", func() bool { return f.Account().Wire["rds"].Acks == proxies })
	check("at rest")
	for i := range pushes {
		changed, err := xdsserver.SyntheticEndpoints(i, 2, "changed")
		must.OK(t, err)
		acks := f.Account().Wire["eds"].Acks
		s.Push(xdsserver.Change{Type: xdsserver.EndpointType, Changed: []xdsserver.Resource{changed}})
		eventually.Holds(t, "the push", func() bool { return f.Account().Wire["eds"].Acks == acks+proxies })
	}
	check("after pushes")
}
