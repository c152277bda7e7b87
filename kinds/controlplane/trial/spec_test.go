package trial

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/drive/churn"
	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

const controlText = `
name: control
question: Which?
control: {changes: 4, namespace: test, scope_namespace: test-2, dummies_namespace: test-1, security: tls, bad_share: 20%}
settings: {namespaces: 3, services: 9, proxies: 10, gateways: 1, service_entries: 5, change: mixed}
`

// controlCell returns the only cell of a control-plane study, with sets applied.
func controlCell(t *testing.T, sets ...string) (*study.Study, record.Cell, controlplane.Levels) {
	t.Helper()
	plan := studytest.Plan(t, controlText, sets...)
	must.OK(t, Kind.Check(plan))
	l, err := controlplane.LevelsOf(plan.Cells[0])
	must.OK(t, err)
	return plan.Study, plan.Cells[0], l
}

func TestLeversOfCell(t *testing.T) {
	s, cell, l := controlCell(t, "sidecar_scope=namespace", "sidecar_hosts=test-2/*,istio-system/*", "debounce_after=250ms")
	sizes := sizesOf(controlplane.Of(s), l)
	if sizes.DummyNamespace != population.Namespace(0) || sizes.Services != 9 || sizes.ServiceEntries != 5 || sizes.Gateways != 1 {
		t.Errorf("sizes %+v", sizes)
	}
	levers := leversOf(controlplane.Of(s), cell, sizes)
	second := population.Namespace(1)
	if levers.Level(controlplane.FactorSidecarScope) != "namespace" || levers.Level(study.FactorDebounceAfter) != "250ms" || !slices.Equal(levers.Namespaces, []string{second}) ||
		!slices.Equal(levers.Hosts(), []string{second + "/*", "istio-system/*"}) || levers.Workload[population.AppLabel] != "svc-1" {
		t.Errorf("levers %+v", levers)
	}
	few := levers.Wait
	sizes.EndpointSlices = 30_000
	if most := leversOf(controlplane.Of(s), cell, sizes).Wait; few < time.Minute || few > 10*time.Minute || most < 26*time.Minute {
		t.Errorf("istiod may take %v, and %v in a large cluster", few, most)
	}
	sizes.EndpointSlices = 0
	// Without a Sidecar its hosts do not apply, and must not reach the mesh as a level.
	_, cell, _ = controlCell(t)
	if cell[controlplane.FactorSidecarHosts] != study.NotApplicable {
		t.Fatalf("hosts %s", cell[controlplane.FactorSidecarHosts])
	}
	if levers := leversOf(controlplane.Of(s), cell, sizes); slices.Contains(levers.Hosts(), study.NotApplicable+"/") {
		t.Errorf("hosts %v", levers.Hosts())
	}
}

func TestFleetSpec(t *testing.T) {
	s, _, l := controlCell(t, "clients=never-acks", "xds=sotw")
	var ids []population.Identity
	for i := range 10 {
		ids = append(ids, population.Identity{Type: population.Sidecar, Name: string(rune('a' + i)), Namespace: "mm-0", IP: "240.0.0.1",
			ServiceAccount: population.ServiceAccount, Labels: map[string]string{"app": "x"}, Ports: []population.Port{{Name: "http", ContainerPort: 8080, Protocol: "TCP"}}})
	}
	d := mesh.Discovery{Plaintext: "istiod:15010", TLS: "istiod:15012", ServerName: "istiod.istio-system.svc", RootCA: []byte("PEM"), Version: "1.31", ClusterID: "c"}
	spec, err := fleetSpec(controlplane.Of(s), l, ids, d, 3)
	must.OK(t, err)
	spec.Security.Tokens = map[string]string{"mm-0/" + population.ServiceAccount: "token"}
	if err := spec.Validate(); err != nil {
		t.Error(err)
	}
	bad := 0
	for _, p := range spec.Proxies {
		if p.Behaviour == xds.BehaviourNeverAcks {
			bad++
		}
	}
	if bad != 2 || spec.Mode != xds.ModeSotW || spec.Addresses[0] != "istiod:15012" || spec.Security.Mode != xds.SecurityToken || spec.Mesh.ClusterID != "c" || spec.Proxies[3].Ports[0].ContainerPort != 8080 {
		t.Errorf("%d misbehave in %+v", bad, spec)
	}
	// The levels of factor clients are the fleet's own names.
	for _, level := range []string{controlplane.ClientsSlowReader, controlplane.ClientsNeverAcks, controlplane.ClientsRejects, controlplane.ClientsReconnectStorm} {
		if !slices.Contains(xds.Behaviours(), level) {
			t.Errorf("no simulated sidecar behaves like %s", level)
		}
	}
}

func TestBadProxies(t *testing.T) {
	ids := slices.Repeat([]population.Identity{{Type: population.Sidecar}}, 10)
	for clients, want := range map[string][]int32{controlplane.ClientsNeverAcks: {0, 3, 6}, controlplane.ClientsGood: nil, study.NotApplicable: nil} {
		if got := badProxies(&controlplane.Control{BadShare: 0.3}, controlplane.Levels{Clients: clients}, ids); !slices.Equal(got, want) {
			t.Errorf("clients %s: %v, want %v", clients, got, want)
		}
	}
}

// Each type of proxy has its share of misbehaving ones, whatever the order: evenly mixed, as
// simulators get them, or one type after the other.
func TestBadProxiesOfEachType(t *testing.T) {
	const share = 0.1
	for _, sizes := range [][3]int{ // sidecars, gateways, ztunnels
		{300, 1, 16}, {80, 0, 4}, {200, 2, 0}, {1000, 1, 0}, {500, 1, 0}, {100, 1, 0}, {50, 50, 0}, {100, 0, 100}, {0, 0, 3}, {1, 1, 1}, {2, 0, 30},
	} {
		type placed struct {
			id population.Identity
			at float64
		}
		var all []placed
		of := map[string]int{}
		for k, kind := range []string{population.Sidecar, population.Router, population.Ztunnel} {
			of[kind] = sizes[k]
			for i := range sizes[k] {
				all = append(all, placed{population.Identity{Type: kind}, (float64(i) + 0.5) / float64(sizes[k])})
			}
		}
		for range 2 {
			ids := make([]population.Identity, len(all))
			for i, p := range all {
				ids[i] = p.id
			}
			got := badProxies(&controlplane.Control{BadShare: share}, controlplane.Levels{Clients: controlplane.ClientsSlowReader}, ids)
			want := max(1, int(share*float64(len(ids))+0.5))
			if len(got) != want || !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != want {
				t.Errorf("%v: %v misbehave, want %d", sizes, got, want)
			}
			bad := map[string]int{}
			for _, i := range got {
				bad[ids[i].Type]++
			}
			for kind, n := range of {
				if exact := float64(want) * float64(n) / float64(len(ids)); math.Abs(float64(bad[kind])-exact) >= 1 {
					t.Errorf("%v: %d of %d proxies of type %s misbehave, want about %.1f", sizes, bad[kind], n, kind, exact)
				}
			}
			slices.SortStableFunc(all, func(a, b placed) int { return cmp.Compare(a.at, b.at) })
		}
	}
}

// The driver supports every kind of change that a study can name.
func TestChurnSpec(t *testing.T) {
	f, _ := study.FactorByName(controlplane.FactorChange)
	if len(f.Levels) < 15 {
		t.Fatalf("kinds of change: %v", f.Levels)
	}
	for _, kind := range f.Levels {
		sets := []string{"change=" + kind, "change_arrival=burst"}
		if kind == controlplane.ChangeTrace {
			continue
		}
		if controlplane.RoutesGateway(kind) {
			sets = append(sets, "control.gateway.probes=3")
		}
		s, cell, l := controlCell(t, sets...)
		plan, err := churn.NewPlan(churnSpec(s, cell, l, trialLabel("20261121-141552-c85c", "b000-t00"), 1))
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if len(plan.Changes) < 4 || plan.DurationNS() != 0 {
			t.Errorf("%s: %d changes over %d ns, want 4 at once", kind, len(plan.Changes), plan.DurationNS())
		}
	}
	if label := trialLabel("20261121-141552-c85c", "b000-t00"); label != "b000-t00-c85c" || len(label+"-p") > 20 {
		t.Errorf("label %s", label)
	}
}

// Changes arrive when the cell says, and the study knows their number and duration.
func TestChurnTimes(t *testing.T) {
	for _, tt := range []struct {
		sets []string
		want []int64 // milliseconds
	}{
		{[]string{"change_rate=2"}, []int64{0, 500, 1000, 1500}},
		{[]string{"change_rate=2", "change_arrival=burst:3"}, []int64{0, 0, 0, 1500}},
		{[]string{"change_rate=ramp:0:2:1s"}, []int64{0, 1000, 1500, 2000}},
		{[]string{"change_rate=steps:1:2s,10:1s"}, []int64{0, 1000, 2000, 2100}},
		{[]string{"change_arrival=burst"}, []int64{0, 0, 0, 0}},
	} {
		s, cell, l := controlCell(t, append(tt.sets, "change=service")...)
		plan, err := churn.NewPlan(churnSpec(s, cell, l, "t", 1))
		if err != nil {
			t.Errorf("%v: %v", tt.sets, err)
			continue
		}
		var got []int64
		for _, c := range plan.Changes {
			got = append(got, c.OffsetNS/1e6)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%v: changes at %v ms, want %v", tt.sets, got, tt.want)
		}
		if long := controlplane.ChangeTime(s, cell).Milliseconds(); controlplane.ChangesIn(s, cell) != len(got) || long < got[len(got)-1] || long > got[len(got)-1]+500 {
			t.Errorf("%v: the study says %d changes in %d ms", tt.sets, controlplane.ChangesIn(s, cell), long)
		}
	}
	s, cell, l := controlCell(t, "change=virtualservice", "control.objects=2")
	plan, err := churn.NewPlan(churnSpec(s, cell, l, "t", 1))
	if err != nil || plan.Changes[1].Op != "create" || plan.Changes[2].Op != "update" {
		t.Errorf("the third change of two objects: %+v, %v", plan, err)
	}
	s, cell, l = controlCell(t, "change=endpoints-scale", "control.endpoints_by=slices")
	if plan, err = churn.NewPlan(churnSpec(s, cell, l, "t", 1)); err != nil || plan.Changes[0].Late || len(plan.Changes[0].Markers) == 0 {
		t.Errorf("slices of the driver's own: %+v, %v", plan, err)
	}
}

// An istiod that turns out not to be in ambient mode gets no ztunnels.
func TestFleetOfZtunnels(t *testing.T) {
	s, _, l := controlCell(t, "proxies=0", "ztunnels=1", "hbone=true")
	if l.Connected() != 2 || sizesOf(controlplane.Of(s), l).Ztunnels != 1 { // there is a gateway
		t.Errorf("%+v", l)
	}
	ids := []population.Identity{{Type: population.Ztunnel, Name: "ztunnel-1", Namespace: population.ZtunnelNamespace, IP: "240.0.0.1", ServiceAccount: population.ServiceAccount, Node: "mm-node-0"}}
	d := mesh.Discovery{Plaintext: "istiod:15010", TLS: "istiod:15012", RootCA: []byte("PEM")}
	if _, err := fleetSpec(controlplane.Of(s), l, ids, d, 3); err == nil || !strings.Contains(err.Error(), "istiod is not in ambient mode") {
		t.Errorf("%v", err)
	}
	d.Ambient = true
	spec, err := fleetSpec(controlplane.Of(s), l, ids, d, 3)
	if err != nil || spec.Proxies[0].Type != xds.NodeZtunnel || !spec.HBONE {
		t.Errorf("%+v, %v", spec, err)
	}
}

// A disruption that takes istiod from everyone is listed once, as mesh-wide. The restart before
// each trial is not, nor is what only the simulated proxies notice.
func TestPlanIstiod(t *testing.T) {
	for name, tt := range map[string]struct {
		levels   []string
		measures string
		done     string
		wide     []string
	}{
		"none":    {[]string{"none"}, "cost", "restarted before each trial", nil},
		"dropped": {[]string{"none", "drop"}, "recovery, cost", "restarted before each trial", nil},
		"all": {[]string{"kill", "restart", "scale:3"}, "recovery, cost", "restarted before each trial, killed in some, restarted once more in some, scaled to 3 replicas in some",
			[]string{"disruption kill: all proxies lose", "disruption restart: all proxies lose", "disruption scale:3: proxies that connect"}},
	} {
		text := fmt.Sprintf("name: all\nquestion: Who?\ncontrol: {changes: 1}\nsettings: {proxies: 4, change: no-op, istiod_replicas: 1}\nfactors:\n  disruption: [%s]\n  xds: [delta, sotw]\nbaseline: {disruption: %s, xds: delta}\nmeasures: [%s]\n",
			strings.Join(tt.levels, ", "), tt.levels[0], tt.measures)
		p := planIstiod(studytest.Plan(t, text))
		if string(p.Done) != tt.done || !slices.EqualFunc(p.Wide, tt.wide, strings.HasPrefix) {
			t.Errorf("%s: %s", name, journal.Text([]journal.Planned{p}))
		}
	}
}

// What others receive because of a population, and what its nodes receive, is listed; only --yes
// confirms it.
func TestPlanOfPopulationSaysWhatOthersAreTold(t *testing.T) {
	for want, sizes := range map[string]population.Sizes{
		"every proxy without a scope, including others', receives those Services and every change of theirs":                       {Services: 200},
		"receives those Services and every change of theirs, and 1000 ServiceEntries":                                              {Services: 1, ServiceEntries: 1000, DummyNamespace: "istio-system"},
		"simulated Nodes: made (run by kwok; of other workloads only DaemonSet pods that tolerate every taint are scheduled there": {Services: 1},
	} {
		plan := populationPlan(sizes)
		if text := journal.Text(plan); !strings.Contains(text, want+")\n") || strings.Contains(text, "mesh-wide") {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

func TestChosenHoldings(t *testing.T) {
	h := func(node, namespace string, proxies int, bytes int64) xds.Holding {
		return xds.Holding{Type: node, Namespace: namespace, Proxies: proxies, Bytes: bytes}
	}
	words := func(list []xds.Holding) string {
		var out []string
		for _, one := range list {
			out = append(out, fmt.Sprintf("%s.%s:%d", one.Type, one.Namespace, one.Proxies))
		}
		return strings.Join(out, " ")
	}
	all := []xds.Holding{h("sidecar", "test-2", 9, 1000), h("sidecar", "test-3", 8, 1010), h("sidecar", "test-4", 8, 2000), h("sidecar", "test-5", 7, 990), h("sidecar", "test-1", 5, 400), h("router", "edge", 1, 1000)}
	if got, want := words(chosen(all, "test-1")), "sidecar.test-1:5 router.edge:1 sidecar.test-2:24 sidecar.test-4:8"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if all[0].Proxies != 9 {
		t.Error("the fleet's own list was changed")
	}
	// If the scope changes nothing, one represents all.
	all[4].Bytes = 1005
	if got, want := words(chosen(all[:5], "test-1")), "sidecar.test-1:29 sidecar.test-4:8"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := chosen(nil, "x"); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	var many []xds.Holding
	for i := range 20 {
		many = append(many, h("sidecar", fmt.Sprint(i), 1, int64(1000*(i+1))))
	}
	if got := chosen(many, "7"); len(got) != maxHoldings || got[0].Namespace != "7" {
		t.Errorf("%+v", got)
	}
}

// The record of a proxy's configuration adds up.
func TestHoldingAddsUp(t *testing.T) {
	p := scope.Proxy{Name: "a.b", DumpBytes: 0, Resources: 40, Types: []scope.TypeSize{{Type: scope.TypeEndpoint, DumpBytes: 77}, {Type: scope.TypeCluster, DumpBytes: 5}}}
	for i := range 20 {
		p.Owners = append(p.Owners, scope.OwnerSize{Owner: scope.Owner{Kind: "Service", Namespace: "x", Name: string(rune('a' + i))}, DumpBytes: int64(100 - i), WireBytes: int64(50 - i), Resources: 2})
		p.DumpBytes, p.WireBytes = p.DumpBytes+int64(100-i), p.WireBytes+int64(50-i)
	}
	h := holding(p)
	dump, wire, resources := h.Others.DumpBytes, h.Others.WireBytes, h.Others.Resources
	for _, o := range h.Owners {
		dump, wire, resources = dump+o.DumpBytes, wire+o.WireBytes, resources+o.Resources
	}
	if dump != p.DumpBytes || wire != p.WireBytes || resources != 40 || len(h.Owners) != maxOwners || h.OtherOwners != 20-maxOwners || h.EndpointDumpBytes != 77 || h.Owners[0].Owner != "Service x/a" {
		t.Errorf("%+v", h)
	}
}
