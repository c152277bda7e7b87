package xds

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshtrial/meshtrial/drive/xds/wire"
)

// wholeMessages are messages of the same clusters, each in an order of its own
// and with as many clusters of its own as wanted.
func wholeMessages(t testing.TB, n, services, own int) (out [][]byte) {
	t.Helper()
	resource := func(name, text string) *discoveryv3.Resource {
		body, err := anypb.New(&clusterv3.Cluster{Name: name, AltStatName: text, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS}})
		if err != nil {
			t.Fatal(err)
		}
		return &discoveryv3.Resource{Name: name, Resource: body}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		m := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: wire.ClusterType, Nonce: fmt.Sprint(i), SystemVersionInfo: fmt.Sprint("v", i)}
		for s := range services {
			m.Resources = append(m.Resources, resource(fmt.Sprintf("outbound|8080||service-%d.namespace-%d.svc.cluster.local", s, s%10), "all"))
		}
		for o := range own {
			m.Resources = append(m.Resources, resource(fmt.Sprintf("inbound|%d||", 8080+o), fmt.Sprint("pod ", i)))
		}
		random.Shuffle(len(m.Resources), func(a, b int) { m.Resources[a], m.Resources[b] = m.Resources[b], m.Resources[a] })
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

func (c *catalogue) must(t testing.TB, message []byte) *response {
	t.Helper()
	r, _, err := c.read(message, 1)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Istiod gives each proxy the same endpoints in another order, and to the same
// clusters adds one of its own. Neither may be read from the beginning: what
// is known costs no memory, however much it is.
func TestReadOnce(t *testing.T) {
	// The runtime's allocations and those of whatever else runs are counted too: the least of
	// some rounds has none.
	const services, runs, rounds = 1000, 10, 3
	for name, test := range map[string]struct {
		own int
		// A message with something of its own is known by its resources, and
		// what it does is worked out anew.
		allocations float64
	}{
		"another order":      {own: 0, allocations: 4},
		"one of its own too": {own: 1, allocations: 60},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCatalogue(true)
			messages := wholeMessages(t, rounds*(runs+1)+1, services, test.own)
			first := c.must(t, messages[0])
			if len(first.contents) != services+test.own {
				t.Fatalf("%d contents", len(first.contents))
			}
			next, got := 0, math.Inf(1)
			for range rounds {
				got = min(got, testing.AllocsPerRun(runs, func() {
					next++
					r := c.must(t, messages[next])
					if same := r == first; same != (test.own == 0) {
						t.Errorf("message %d says the same: %v", next, same)
					}
					if to := c.step(emptyTables[cds], r).to; to.count != services+test.own {
						t.Errorf("message %d: %d clusters", next, to.count)
					}
				}))
			}
			if got > test.allocations {
				t.Errorf("%.0f allocations for a message, want at most %.0f", got, test.allocations)
			}
		})
	}
}

// What a step changes is what tells one table from the other, whatever came
// before and however the response came.
func TestChanges(t *testing.T) {
	c := newCatalogue(true)
	a, b := &content{kind: cds, name: 1, id: 1, sum: 1}, &content{kind: cds, name: 2, id: 2, sum: 2}
	b2, d := &content{kind: cds, name: 2, id: 3, sum: 3}, &content{kind: cds, name: 200, id: 4, sum: 4}
	from := c.step(emptyTables[cds], &response{kind: cds, partial: true, contents: []*content{a, b, d}}).to
	for name, test := range map[string]struct {
		response response
		changes  []change
		removed  int64
	}{
		"changed":         {response{partial: true, contents: []*content{b2}}, []change{{b, b2}}, 0},
		"the same again":  {response{partial: true, contents: []*content{b}}, []change{{b, b}}, 0},
		"removed":         {response{partial: true, removed: []uint32{1, 7}}, []change{{a, nil}}, 1},
		"both":            {response{partial: true, contents: []*content{b2}, removed: []uint32{200}}, []change{{b, b2}, {d, nil}}, 1},
		"the whole world": {response{contents: []*content{a, b2}}, []change{{a, a}, {b, b2}, {d, nil}}, 1},
		"nothing left":    {response{}, []change{{a, nil}, {b, nil}, {d, nil}}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			test.response.kind = cds
			s := c.step(from, &test.response)
			var got []change
			for one := range s.changes {
				got = append(got, one)
			}
			if fmt.Sprint(got) != fmt.Sprint(test.changes) || s.removed != test.removed {
				t.Errorf("changes %v, %d removed; want %v, %d", got, s.removed, test.changes, test.removed)
			}
		})
	}
}
