package xds

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshtrial/meshtrial/drive/xds/wire"
	"github.com/meshtrial/meshtrial/testing/must"
)

// heapAlloc returns the live heap in bytes.
func heapAlloc() int64 {
	runtime.GC()
	runtime.GC() // for pools and cleanups
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Istiod sends each proxy a different message: in another order, and with a
// cluster of its own pod. The fleet must not keep what it computes from them
// when all is quiet, nor what the proxies held before a push.
func TestMemoryOfMessagesThatDiffer(t *testing.T) {
	const (
		proxies  = 100
		services = 1000
		pushes   = 2
		limit    = 4 << 10 // bytes per proxy for clusters: a pointer per 64 names, and the chunk with its own cluster
	)
	f := &Fleet{catalogue: newCatalogue(true)}
	c := f.catalogue
	random := rand.New(rand.NewPCG(1, 2))
	tables := make([]*table, proxies)
	for i := range tables {
		tables[i] = emptyTables[cds]
	}
	// take makes every proxy take a version of everything. It returns the bytes
	// of one proxy's bodies.
	take := func(version int) (bodies int64) {
		shared := make([]*discoveryv3.Resource, services)
		for i := range shared {
			shared[i] = edsResource(t, fmt.Sprintf("outbound|8080||service-%d.namespace-%d.svc.cluster.local", i, i%10), fmt.Sprintf("version %d", version))
		}
		for i := range tables {
			random.Shuffle(len(shared), func(a, b int) { shared[a], shared[b] = shared[b], shared[a] })
			own := edsResource(t, "inbound|8080||", fmt.Sprintf("pod %d, version %d", i, version))
			message, err := proto.Marshal(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: wire.ClusterType, Nonce: fmt.Sprint(i), Resources: append(shared, own)})
			must.OK(t, err)
			tables[i] = c.step(tables[i], c.must(t, message)).to
		}
		if got := tables[0].count; got != services+1 {
			t.Fatalf("a proxy holds %d clusters", got)
		}
		return tables[0].bytes
	}
	empty := heapAlloc()
	bodies := take(0)
	f.giveBack()
	first := heapAlloc() - empty
	t.Logf("%d bytes, of which %d are bodies that all share", first, bodies)
	// Once for all proxies: bodies, contents and names.
	const once = services * 1200
	if each := (first - bodies - once) / proxies; each > limit {
		t.Errorf("a proxy takes %d bytes, want at most %d", each, limit)
	}
	for version := range pushes {
		take(1 + version)
	}
	f.giveBack()
	last := heapAlloc() - empty
	t.Logf("%d bytes after pushes", last)
	if last > first+first/4 {
		t.Errorf("%d bytes before pushes, %d after", first, last)
	}
	if kept := c.bodies.Load(); kept > 2*bodies {
		t.Errorf("%d bytes of bodies are kept; a proxy's have %d", kept, bodies)
	}
	runtime.KeepAlive(tables)
}
