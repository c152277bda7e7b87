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
	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/drive/xds/wire"
	"github.com/meshtrial/meshtrial/testing/must"
)

// edsResource returns a cluster with endpoints of its own name.
func edsResource(t testing.TB, name, text string) *discoveryv3.Resource {
	t.Helper()
	body, err := anypb.New(&clusterv3.Cluster{Name: name, AltStatName: text, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS}})
	must.OK(t, err)
	return &discoveryv3.Resource{Name: name, Resource: body}
}

// wholeMessages returns messages of the same clusters, each in a different order and with the
// given number of additional clusters.
func wholeMessages(t testing.TB, n, services, own int) (out [][]byte) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		m := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: wire.ClusterType, Nonce: fmt.Sprint(i), SystemVersionInfo: fmt.Sprint("v", i)}
		for s := range services {
			m.Resources = append(m.Resources, edsResource(t, fmt.Sprintf("outbound|8080||service-%d.namespace-%d.svc.cluster.local", s, s%10), "all"))
		}
		for o := range own {
			m.Resources = append(m.Resources, edsResource(t, fmt.Sprintf("inbound|%d||", 8080+o), fmt.Sprint("pod ", i)))
		}
		random.Shuffle(len(m.Resources), func(a, b int) { m.Resources[a], m.Resources[b] = m.Resources[b], m.Resources[a] })
		b, err := proto.Marshal(m)
		must.OK(t, err)
		out = append(out, b)
	}
	return out
}

func (c *catalogue) must(t testing.TB, message []byte) *response {
	t.Helper()
	r, _, err := c.read(message, 1)
	must.OK(t, err)
	return r
}

// Istiod sends each proxy the same endpoints in another order, and adds one cluster of its
// own to the same clusters. Neither may be parsed again: known content costs no memory,
// however much it is.
func TestReadOnce(t *testing.T) {
	// Allocations of the runtime and of other goroutines count too: the minimum of some
	// rounds has none.
	const services, runs, rounds = 1000, 10, 3
	for name, test := range map[string]struct {
		own int
		// A message with a cluster of its own is recognised by its resources, and its effect
		// is computed again.
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

// The changes of a step are the difference of its tables, whatever came before and however
// the response arrived.
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

// A change begins when the first proxy gets it. Content that comes back begins a new change;
// a late proxy still gets the change that others got before it.
func TestBegan(t *testing.T) {
	type taken struct {
		proxy int
		text  string // of the only cluster; "" for none
		at    int64
		began int64
	}
	for name, steps := range map[string][]taken{
		"flips":               {{0, "a", 10, 10}, {0, "b", 20, 20}, {0, "a", 120, 120}, {0, "b", 240, 240}, {0, "a", 360, 360}},
		"two follow":          {{0, "a", 10, 10}, {1, "a", 11, 10}, {0, "b", 20, 20}, {1, "b", 22, 20}, {0, "a", 120, 120}, {1, "a", 125, 120}},
		"either comes first":  {{0, "a", 10, 10}, {1, "a", 11, 10}, {1, "b", 20, 20}, {0, "b", 22, 20}, {1, "a", 120, 120}, {0, "a", 125, 120}, {0, "b", 130, 130}, {1, "b", 131, 130}},
		"one is late":         {{0, "a", 10, 10}, {1, "a", 11, 10}, {0, "b", 20, 20}, {0, "a", 120, 120}, {1, "b", 130, 20}, {1, "a", 140, 120}},
		"one skips it":        {{0, "a", 10, 10}, {1, "a", 11, 10}, {0, "b", 20, 20}, {0, "a", 120, 120}, {0, "c", 130, 130}, {1, "c", 190, 130}},
		"goes and comes back": {{0, "a", 10, 10}, {1, "a", 12, 10}, {0, "", 20, 0}, {1, "", 21, 0}, {0, "a", 120, 120}, {1, "a", 123, 120}, {0, "", 200, 0}, {0, "a", 300, 300}},
		"another joins":       {{0, "a", 10, 10}, {0, "b", 20, 20}, {1, "b", 60, 20}, {0, "a", 120, 120}, {1, "a", 121, 120}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCatalogue(true)
			tables, took := [2]*table{emptyTables[cds], emptyTables[cds]}, [2]int64{}
			for i, s := range steps {
				m := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: wire.ClusterType, Nonce: fmt.Sprint(i)}
				if s.text == "" {
					m.RemovedResources = []string{"web"}
				} else {
					m.Resources = []*discoveryv3.Resource{edsResource(t, "web", s.text)}
				}
				b, err := proto.Marshal(m)
				must.OK(t, err)
				r, _, err := c.read(b, s.at)
				must.OK(t, err)
				step := c.step(tables[s.proxy], r)
				if got := c.began(step, took[s.proxy], s.at); got != s.began {
					t.Errorf("step %d: proxy %d gets %q at %d: began at %d, want %d", i, s.proxy, s.text, s.at, got, s.began)
				}
				tables[s.proxy], took[s.proxy] = step.to, s.at
			}
		})
	}
}

// If every push is instant, no convergence is longer than the delay between proxies, whatever
// comes back.
func TestBeganWithoutDelay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCatalogue(true)
		all := []*content{nil}
		for i := range 3 {
			all = append(all, &content{kind: cds, id: uint64(i + 1), sum: uint64(i + 1)})
		}
		if c.nameID(cds, []byte("web")) != 0 {
			t.Fatal("the first name has another number")
		}
		const proxies, apart, between = 3, 5, 1000
		tables, took := [proxies]*table{}, [proxies]int64{}
		for i := range tables {
			tables[i] = emptyTables[cds]
		}
		for push := range int64(20) {
			to := rapid.SampledFrom(all).Draw(t, "to")
			r := &response{kind: cds, partial: true, contents: []*content{to}}
			if to == nil {
				r = &response{kind: cds, partial: true, removed: []uint32{0}}
			}
			at := (push + 1) * between
			for _, i := range rapid.Permutation([]int{0, 1, 2}).Draw(t, "order") {
				if to != nil {
					to.start.CompareAndSwap(0, at) // as when it is first seen
				}
				step := c.step(tables[i], r)
				began := c.began(step, took[i], at)
				if changed := to != nil && step.changed(); changed != (began != 0) || changed && (began > at || at-began > (proxies-1)*apart) {
					t.Fatalf("push %d: proxy %d: %d, which began at %d", push, i, at, began)
				}
				tables[i], took[i] = step.to, at
				at += apart
			}
		}
	})
}
