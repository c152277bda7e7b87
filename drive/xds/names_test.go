package xds

import (
	"fmt"
	"runtime"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshtrial/meshtrial/drive/xds/wire"
	"github.com/meshtrial/meshtrial/testing/must"
)

// churned is a catalogue through which Services come and go, and a proxy's
// tables.
type churned struct {
	*catalogue
	clusters *table
}

// push gives the proxy a new cluster and removes an old one; "" for none.
func (c *churned) push(t *testing.T, comes, goes string) {
	t.Helper()
	m := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: wire.ClusterType}
	if comes != "" {
		body, err := anypb.New(&clusterv3.Cluster{Name: comes, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
			EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{ServiceName: "endpoints of " + comes}})
		must.OK(t, err)
		m.Resources = []*discoveryv3.Resource{{Name: comes, Resource: body}}
	}
	if goes != "" {
		m.RemovedResources = []string{goes}
	}
	b, err := proto.Marshal(m)
	must.OK(t, err)
	c.clusters = c.step(c.clusters, c.must(t, b)).to
}

// rest does what a fleet does when all is quiet.
func (c *churned) rest() {
	c.forget()
	runtime.GC()
	runtime.GC() // for cleanups
	c.sweep()
}

// holds checks what the proxy holds and subscribes to, by name.
func (c *churned) holds(t *testing.T, want ...string) {
	t.Helper()
	if c.clusters.count != len(want) {
		t.Fatalf("it holds %d clusters, want %q", c.clusters.count, want)
	}
	refs, _ := c.wants(c.clusters)
	for _, name := range want {
		id, ok := c.names[cds].ids[name]
		if !ok || c.clusters.at(id) == nil || c.name(cds, id) != name {
			t.Fatalf("%s is not there", name)
		}
		id, ok = c.names[eds].ids["endpoints of "+name]
		if !ok || !refs.has(id) || c.name(eds, id) != "endpoints of "+name {
			t.Fatalf("endpoints of %s are not asked for", name)
		}
	}
}

// Names of Services that came and went are forgotten, however many there were,
// and later users of their numbers are not mistaken for them.
func TestNamesAreForgotten(t *testing.T) {
	const services = 12 * sweepNames
	c := &churned{newCatalogue(true), emptyTables[cds]}
	c.quarantine = 0
	name := func(i int) string { return fmt.Sprintf("outbound|80||s-%d", i) }
	c.push(t, "stays", "")
	for i := range services {
		before := ""
		if i > 0 {
			before = name(i - 1)
		}
		c.push(t, name(i), before)
		if i%1000 == 0 {
			runtime.GC() // names are forgotten with their holders
			c.holds(t, "stays", name(i))
		}
	}
	c.holds(t, "stays", name(services-1))
	for _, k := range []kind{cds, eds} {
		if n := len(c.names[k].list); n > services/2 {
			t.Errorf("%d numbers for names of %s, of which two are in use", n, k)
		}
	}
	c.rest()
	if n := len(c.names[cds].ids); n != 2 {
		t.Errorf("%d names are kept, two are in use", n)
	}
	c.holds(t, "stays", name(services-1))
	// The same message again refers to a name that no longer exists, whatever
	// has its number now.
	number := c.names[cds].ids[name(services-1)]
	c.push(t, "", name(services-1))
	c.rest()
	c.names[cds].free = []freeName{{id: number}}
	c.push(t, name(1), "")
	if id := c.names[cds].ids[name(1)]; id != number {
		t.Errorf("number %d was not given again, but %d", number, id)
	}
	c.push(t, "", name(services-1))
	c.holds(t, "stays", name(1))
}

// A number that has just become free is not reused yet.
func TestNumbersRestBeforeTheyAreGivenAgain(t *testing.T) {
	c := &churned{newCatalogue(true), emptyTables[cds]}
	c.push(t, "a", "")
	a := c.names[cds].ids["a"]
	c.push(t, "b", "a")
	c.rest()
	if _, ok := c.names[cds].ids["a"]; ok {
		t.Fatal("a is still there")
	}
	c.push(t, "c", "")
	if id := c.names[cds].ids["c"]; id == a {
		t.Error("the number of a was given away at once")
	}
	c.holds(t, "b", "c")
	c.quarantine = 0
	c.push(t, "d", "")
	if id := c.names[cds].ids["d"]; id != a {
		t.Errorf("d has number %d, that of a (%d) is free", id, a)
	}
	c.holds(t, "b", "c", "d")
}
