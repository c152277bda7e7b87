package assess

import (
	"math"
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/advise/scope/generate"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat/sizing"
)

// Each namespace has its own sidecars, requests and need for L7; a figure with gaps is unknown.
func TestNamespaces(t *testing.T) {
	proxies := sidecars(9, 0.01, 0) // three in each of ns-0, ns-1 and ns-2; that of number i carries 10i requests
	proxies[1].Cores, proxies[2].Called = nil, nil
	for i := range proxies {
		proxies[i].Node = []string{"one", "two"}[i/6]
	}
	call := func(host string, perS float64) Call {
		return Call{From: generate.Workload{Namespace: "ns-0", Name: "w"}, Host: host, PerS: perS}
	}
	e := Evidence{Proxies: proxies, Nodes: 5, Hosts: []Host{{"a", "ns-0", []string{"VirtualService ns-0/a"}}, {"b", "ns-0", nil}, {"c", "ns-1", nil}, {"d", "ns-2", []string{"WasmPlugin ns-2/d"}}},
		Calls: []Call{call("a", 30), call("b", 10)}}
	of := func(a Assessment, name string) Namespace {
		i := slices.IndexFunc(a.Namespaces, func(n Namespace) bool { return n.Name == name })
		if i < 0 || len(a.Namespaces) != 3 {
			t.Fatalf("%+v", a.Namespaces)
		}
		return a.Namespaces[i]
	}
	a := Assess(e)
	if n := of(a, "ns-0"); n.Sidecars != 3 || n.Nodes != 2 || n.Used == nil || math.Abs(n.Used.Cores-0.03) > 1e-9 || math.Abs(n.Requests.Cores-0.3) > 1e-9 || *n.Called != 45 || *n.Served != 45 || n.L7 != nil {
		t.Errorf("ns-0, some of whose hosts need L7 while not all callers were read: %+v", n)
	}
	if n := of(a, "ns-1"); n.Used != nil || n.L7 == nil || *n.L7 != 0 {
		t.Errorf("ns-1: %+v", n)
	}
	n := of(a, "ns-2")
	if _, lack := n.Stated(); n.Called != nil || *n.L7 != 1 || lack != LackRequests || !slices.Equal(n.Needs, []string{"WasmPlugin ns-2/d"}) {
		t.Errorf("ns-2: %+v, %s", n, lack)
	}
	if moves := a.Moves(); len(moves) != 1 || moves[0].Name != "ns-1" {
		t.Errorf("namespaces to size: %+v", moves)
	}
	e.Proxies[2].Called = new(10.0)
	n = of(Assess(e), "ns-0")
	m, lack := n.Stated()
	if want := (sizing.Mesh{Pods: 3, Nodes: 2, RPS: 45, L7: 0.75, Waypoints: 2}); lack != "" || m != want {
		t.Errorf("%+v, %s, want %+v", m, lack, want)
	}
	e.Unread = []string{"WasmPlugin"}
	if n := of(Assess(e), "ns-1"); n.L7 != nil {
		t.Errorf("a share of L7, although a kind was not listed: %+v", n)
	}
}

// A move is to the way of ambient that does what the namespace needs.
func TestMoveOf(t *testing.T) {
	way := func(name string, places ...record.Place) record.SizedWay {
		idle := map[record.Place]record.Priced{}
		for _, p := range places {
			idle[p] = record.Priced{}
		}
		return record.SizedWay{Name: name, Uses: []record.SizedUse{{Of: record.SizedCPU, Total: record.Priced{Estimate: float64(len(name))}, Idle: idle}}}
	}
	z := NamespaceSizing{"shop", record.Sizing{Ways: []record.SizedWay{way("through", record.PlaceNode, record.PlaceWaypoint), way("sidecars", record.PlaceSidecar), way("plain", record.PlaceNode)},
		Differences: []record.SizedDifference{{Of: record.SizedCPU, Between: []string{"through", "sidecars"}, Less: "sidecars"}, {Of: record.SizedCPU, Between: []string{"sidecars", "plain"}, Less: "plain"}},
		Borders:     []record.SizedBorder{{Of: record.SizedCPU, Along: sizing.AlongPods, Between: []string{"sidecars", "plain"}}, {Of: record.SizedCPU, Along: sizing.AlongRate, Between: []string{"sidecars", "plain"}, First: "it"}}}}
	for needsL7, want := range map[bool]string{true: "through", false: "plain"} {
		m, found := MoveOf(z, needsL7)
		if !found || m.Way != want || len(m.Uses) != 1 || m.Uses[0].Now.Estimate != 8 || m.Uses[0].Less != map[bool]string{true: "sidecars", false: "plain"}[needsL7] || (m.Border != nil) == needsL7 {
			t.Errorf("L7 %v: %+v", needsL7, m)
		}
	}
	if _, found := MoveOf(NamespaceSizing{}, false); found {
		t.Error("a move without ways")
	}
}

// Of what runs measured the rate counts that is nearest to that of a sidecar.
func TestLatency(t *testing.T) {
	at := func(run, carried string, rate float64) Latency {
		return Latency{Run: run, Rate: rate, Cell: record.Cell{"sidecars": carried}}
	}
	e := Evidence{Proxies: sidecars(3, 0, 0), Latency: []Latency{at("one", "both", 2), at("one", "both", 15), at("one", "ambient", 15), at("one", "both", 1000), at("two", "both", 200)}}
	a := Assess(e) // 10 requests a second pass a sidecar
	if l := a.Cost.Latency; len(l) != 3 || l[0].Rate != 15 || l[1].Cell["sidecars"] != "ambient" || l[2].Run != "two" || NoLatency.In(a.Unknown) {
		t.Errorf("%+v", l)
	}
	e.Latency = e.Latency[2:3]
	if a := Assess(e); !NoLatency.In(a.Unknown) {
		t.Error("only of ambient")
	}
}

func TestMisfits(t *testing.T) {
	of := func(workload string, used, requested, limit Resources) Proxy {
		return Proxy{Kind: Sidecar, Namespace: "a", Workload: workload, Cores: &used.Cores, Bytes: &used.Bytes, Requests: requested, Limits: limit}
	}
	a := Assess(Evidence{Proxies: []Proxy{
		of("fits", Resources{0.05, 60e6}, Resources{0.1, 128e6}, Resources{2, 1e9}), of("free", Resources{0.05, 60e6}, Resources{}, Resources{}),
		of("idle", Resources{0.001, 100e6}, Resources{0.5, 128e6}, Resources{}), of("idler", Resources{0.001, 20e6}, Resources{1, 128e6}, Resources{}),
		of("busy", Resources{0.3, 60e6}, Resources{0.1, 128e6}, Resources{}), of("full", Resources{0.05, 900e6}, Resources{0.1, 950e6}, Resources{0, 1e9}),
		of("rollout", Resources{0.1, 60e6}, Resources{0.2, 128e6}, Resources{0.2, 0}), of("rollout", Resources{0.9, 60e6}, Resources{}, Resources{}),
	}})
	var got []string
	for _, m := range a.Cost.Misfits {
		got = append(got, m.Workload+" "+m.Of+" "+string(m.Fit))
	}
	want := []string{"full memory near_limit", "busy cpu under", "idler cpu over", "idle cpu over", "idler memory over"}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
