package churn

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/drive/load/arrival"
	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

func rate(rps float64) arrival.Shape { return arrival.Shape{Kind: arrival.Constant, RateRPS: rps} }

func drawSpec(t *rapid.T) Spec {
	s := Spec{
		Trial:     rapid.StringMatching(`[a-z][a-z0-9-]{0,8}[a-z0-9]`).Draw(t, "trial"),
		Kind:      rapid.SampledFrom(Kinds()).Draw(t, "kind"),
		Arrival:   rapid.SampledFrom([]string{ArrivalUniform, ArrivalPoisson, ArrivalBurst}).Draw(t, "arrival"),
		Shape:     rate(rapid.Float64Range(0.1, 100).Draw(t, "rate")),
		Count:     rapid.IntRange(1, 80).Draw(t, "count"),
		Seed:      rapid.Uint64().Draw(t, "seed"),
		Objects:   rapid.IntRange(0, 5).Draw(t, "objects"),
		Endpoints: rapid.SampledFrom([]string{"", EndpointsControllers, EndpointsDirect}).Draw(t, "endpoints"),
		Population: population.Sizes{Namespaces: rapid.IntRange(1, 4).Draw(t, "namespaces"), Services: rapid.IntRange(1, 9).Draw(t, "services"),
			EndpointsPerService: rapid.IntRange(1, 3).Draw(t, "endpoints of each"), Ztunnels: rapid.IntRange(0, 1).Draw(t, "ztunnels")},
		DiscoverySelector: rapid.SampledFrom([]string{"", "mesh=in", "mesh!=out"}).Draw(t, "selector"),
		Gateway:           &Gateway{Service: population.Service{Namespace: "mm-0", Name: "gateway"}, Backend: population.Service{Namespace: "mm-0", Name: "behind"}},
	}
	return s
}

// TestPlan checks the properties of every plan.
func TestPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t)
		p, err := NewPlan(s)
		must.OK(t, err)
		groups, last := 0, int64(0)
		made := map[string]int{} // objects, by the change that creates them
		for _, o := range p.prepare {
			made[population.Key(o)] = -1
		}
		for i, c := range p.Changes {
			if c.Index != i || c.OffsetNS < last || c.Kind == KindMixed {
				t.Fatalf("change %d: %+v", i, c)
			}
			last = c.OffsetNS
			groups = max(groups, c.Group+1)
			if (len(c.writes) > 0) == (c.pods != nil) {
				t.Fatalf("change %d does nothing, or two things: %+v", i, c)
			}
			for _, m := range c.Markers {
				if m.Change != i || m.Text == "" || m.Type == "" {
					t.Fatalf("marker of change %d: %+v", i, m)
				}
			}
			for _, w := range c.writes {
				_, there := made[population.Key(w.object)]
				ours := w.object.GetLabels()[Label] == s.Trial
				switch {
				case w.patch == nil && (there || !ours):
					t.Fatalf("change %d makes %s again, or not as ours", i, population.Key(w.object))
				case w.patch != nil && ours && !there:
					t.Fatalf("change %d patches %s before it is made", i, population.Key(w.object))
				}
				made[population.Key(w.object)] = i
			}
			told := slices.ContainsFunc(c.Markers, record.Marker.OfZtunnels)
			if c.Scope.Ztunnels != (told || c.Late && s.Population.Ztunnels > 0) || told && s.Population.Ztunnels == 0 {
				t.Fatalf("change %d, with %d ztunnels: scope %+v, markers %v", i, s.Population.Ztunnels, c.Scope, c.Markers)
			}
			shows := c.Scope.Sidecars || c.Scope.Gateways
			if shows != (len(c.Markers) > 0 || c.Late) {
				t.Fatalf("change %d: scope %+v, markers %v", i, c.Scope, c.Markers)
			}
		}
		if groups != s.Count {
			t.Fatalf("%d changes of %d", groups, s.Count)
		}
		unique(t, p)
		again, err := NewPlan(s)
		if err != nil || !reflect.DeepEqual(p, again) {
			t.Fatalf("the same spec gave another plan: %v", err)
		}
	})
}

// unique checks that no marker announced at the start could match another change: no
// text occurs as a whole word in another one.
func unique(t *rapid.T, p *Plan) {
	owner := map[record.Marker]int{}
	for i := range p.Changes {
		c := &p.Changes[i]
		for _, m := range c.Markers {
			m.Change = 0
			if first, twice := owner[m]; twice && !c.repeats() {
				t.Fatalf("changes %d and %d have the same marker %+v", first, i, m)
			}
			owner[m] = i
		}
	}
	early := p.early()
	for _, a := range early {
		for _, b := range early {
			if a.Change == b.Change || a.Type != b.Type || a.Resource != b.Resource || a.Gone != b.Gone {
				continue
			}
			if i := strings.Index(b.Text, a.Text); i >= 0 && (i+len(a.Text) == len(b.Text) || b.Text[i+len(a.Text)] < '0' || b.Text[i+len(a.Text)] > '9') {
				t.Fatalf("the marker %+v is found in %+v", a, b)
			}
		}
	}
}

func TestSchedules(t *testing.T) {
	base := Spec{Trial: "t", Kind: KindService, Arrival: ArrivalUniform, Shape: rate(2), Population: population.Sizes{Namespaces: 1}}
	offsets := func(change func(*Spec)) []int64 {
		s := base
		change(&s)
		p, err := NewPlan(s)
		must.OK(t, err)
		var out []int64
		for _, c := range p.Changes {
			out = append(out, c.OffsetNS/1e6)
		}
		return out
	}
	for _, test := range []struct {
		what   string
		change func(*Spec)
		want   []int64
	}{
		{"uniform by count", func(s *Spec) { s.Count = 3 }, []int64{0, 500, 1000}},
		{"uniform by time", func(s *Spec) { s.DurationS = 1.6 }, []int64{0, 500, 1000, 1500}},
		{"bursts", func(s *Spec) { s.Count, s.Arrival, s.BurstSize = 5, ArrivalBurst, 2 }, []int64{0, 0, 1000, 1000, 2000}},
		{"a ramp", func(s *Spec) {
			s.Count, s.Shape = 4, arrival.Shape{Kind: arrival.Ramp, FromRPS: 0, ToRPS: 2, OverS: 1}
		}, []int64{0, 1000, 1500, 2000}},
		{"a trace", func(s *Spec) {
			s.Trace = []TraceChange{{0, KindService}, {7e6, KindPublished}}
		}, []int64{0, 7, 7, 7}},
		{"published", func(s *Spec) { s.Kind, s.Count = KindPublished, 2 }, []int64{0, 0, 0, 500, 500, 500}},
	} {
		if got := offsets(test.change); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: changes at %v ms, want %v", test.what, got, test.want)
		}
	}
	poisson := func(seed uint64) []int64 {
		return offsets(func(s *Spec) { s.Arrival, s.Count, s.Seed = ArrivalPoisson, 200, seed })
	}
	if a, b := poisson(1), poisson(2); reflect.DeepEqual(a, b) || a[199] < 70_000 || a[199] > 140_000 {
		t.Errorf("200 changes at 2/s, with another seed elsewhere: the last at %d and %d ms", a[199], b[199])
	}
}

func TestSpecErrors(t *testing.T) {
	good := Spec{Trial: "t", Kind: KindService, Arrival: ArrivalUniform, Shape: rate(1), Count: 1, Population: population.Sizes{Namespaces: 1}}
	for want, change := range map[string]func(*Spec){
		`trial "T"`:                          func(s *Spec) { s.Trial = "T" },
		`trial "a-trial-with-a-name-too-lon`: func(s *Spec) { s.Trial = "a-trial-with-a-name-too-long" },
		`kind "x"`:                           func(s *Spec) { s.Kind = "x" },
		`arrival "x"`:                        func(s *Spec) { s.Arrival = "x" },
		`rate_rps 0`:                         func(s *Spec) { s.Shape.RateRPS = 0 },
		"neither a count nor":                func(s *Spec) { s.Count = 0 },
		"no change falls into":               func(s *Spec) { s.Count, s.DurationS, s.Arrival, s.Shape = 0, 1e-9, ArrivalPoisson, rate(0.001) },
		"only 2 of 5 changes":                func(s *Spec) { s.Count, s.DurationS = 5, 1.5 },
		"more than 40000":                    func(s *Spec) { s.Count = 50_000 },
		"use a shorter":                      func(s *Spec) { s.Count, s.DurationS, s.Shape = 0, 1e6, rate(10) },
		"no namespace":                       func(s *Spec) { s.Population.Namespaces = 0 },
		`endpoints "x"`:                      func(s *Spec) { s.Endpoints = "x" },
		`discovery selector "x"`:             func(s *Spec) { s.DiscoverySelector = "x" },
		"services -1":                        func(s *Spec) { s.Population.Services = -1 },
		"needs Services with endpoints":      func(s *Spec) { s.Kind = KindEndpointsScale },
		"needs a Service in":                 func(s *Spec) { s.Kind, s.Endpoints = KindRollingRestart, EndpointsDirect },
		"needs a Service of its own": func(s *Spec) {
			s.Population.Services, s.Population.EndpointsPerService = 2, 1
			s.Trace = []TraceChange{{0, KindEndpointsScale}}
		},
		"change 1 of the trace is earlier":  func(s *Spec) { s.Trace = []TraceChange{{2, KindService}, {1, KindService}} },
		"change 0 of the trace is earlier":  func(s *Spec) { s.Trace = []TraceChange{{-1, KindService}} },
		`unknown kind of change "gatewayy"`: func(s *Spec) { s.Trace = []TraceChange{{0, "gatewayy"}} },
		`unknown kind of change "mixed"`:    func(s *Spec) { s.Trace = []TraceChange{{0, KindMixed}} },
		"trace's 40001 changes":             func(s *Spec) { s.Trace = make([]TraceChange, MaxChanges+1) },
	} {
		s := good
		change(&s)
		if _, err := NewPlan(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		} else if errs.Code(err) != errs.CodeUsage {
			t.Errorf("%v: exit code %d", err, errs.Code(err))
		}
	}
	must.OK(t, must.Err(NewPlan(good)))
}

func TestNeeds(t *testing.T) {
	proxy := func(kind, namespace string) population.Identity {
		return population.Identity{Type: kind, Namespace: namespace}
	}
	egress := func(hosts ...string) Visibility {
		return Visibility{EgressHosts: func(population.Identity) []string { return hosts }}
	}
	plan := func(kind string) Change {
		p, err := NewPlan(Spec{Trial: "t", Kind: kind, Arrival: ArrivalUniform, Shape: rate(1), Count: 2,
			Population: population.Sizes{Namespaces: 2, Services: 2, EndpointsPerService: 1}})
		must.OK(t, err)
		return p.Changes[1] // in namespace mm-1, of kinds that use namespaces in turn
	}
	for _, test := range []struct {
		kind       string
		proxy      population.Identity
		visibility Visibility
		want       bool
	}{
		{KindService, proxy("sidecar", "mm-0"), Visibility{}, true},
		{KindService, proxy("router", "gateways"), Visibility{}, true},
		{KindService, proxy("sidecar", "mm-0"), egress("./*", "istio-system/*"), false},
		{KindService, proxy("sidecar", "mm-1"), egress("./*", "istio-system/*"), true},
		{KindService, proxy("sidecar", "mm-0"), egress("mm-1/*"), true},
		{KindService, proxy("sidecar", "mm-0"), egress("*/*"), true},
		{KindService, proxy("sidecar", "mm-0"), egress(), true}, // no Sidecar resource
		{KindService, proxy("sidecar", "mm-0"), egress("~/*"), false},
		{KindService, proxy("router", "gateways"), egress("./*"), true},
		{KindService, proxy("sidecar", "mm-0"), Visibility{ExportTo: "."}, false},
		{KindService, proxy("sidecar", "mm-1"), Visibility{ExportTo: "."}, true},
		{KindService, proxy("sidecar", "mm-1"), Visibility{ExportTo: "~"}, false},
		{KindVirtualService, proxy("router", "gateways"), Visibility{}, false},
		{KindGateway, proxy("sidecar", "mm-1"), Visibility{}, false},
		{KindGateway, proxy("router", "gateways"), egress("./*"), true},
		{KindAuthorizationPolicy, proxy("sidecar", "mm-1"), egress("istio-system/*"), true},
		{KindAuthorizationPolicy, proxy("sidecar", "mm-0"), Visibility{}, false},
		{KindPublished, proxy("sidecar", "mm-0"), Visibility{}, false}, // its Gateway
		{KindNoOp, proxy("sidecar", "mm-1"), Visibility{}, false},
		{KindEndpointsReplace, proxy("sidecar", "mm-0"), Visibility{}, true},
	} {
		if got := plan(test.kind).Needs(test.proxy, test.visibility); got != test.want {
			t.Errorf("%s needed by %+v: %v", test.kind, test.proxy, got)
		}
	}
}

// TestEndpointsThereAndBack tracks the addresses of direct changes: every marker
// matches its patch.
func TestEndpointsThereAndBack(t *testing.T) {
	for _, kind := range []string{KindEndpointsScale, KindEndpointsReplace, KindEndpointsFlap, KindRollingRestart} {
		p, err := NewPlan(Spec{Trial: "t", Kind: kind, Arrival: ArrivalUniform, Shape: rate(1), Count: 12, Endpoints: EndpointsDirect,
			Population: population.Sizes{Namespaces: 1, Services: 3}})
		must.OK(t, err)
		ready := map[string]map[string]bool{}
		for _, o := range p.prepare {
			ready[population.Key(o)] = readyIn(o.Object["endpoints"])
			if len(ready[population.Key(o)]) != directEndpoints {
				t.Fatalf("%s: %v", kind, o.Object)
			}
		}
		for _, c := range p.Changes {
			before := ready[c.Object]
			after := readyIn(c.writes[len(c.writes)-1].patch["endpoints"])
			moved := 0
			for _, m := range c.Markers {
				if before[m.Text] != m.Gone || after[m.Text] == m.Gone {
					t.Errorf("%s: marker %+v: before %v, after %v", kind, m, before, after)
				}
				moved++
			}
			for _, a := range []map[string]bool{before, after} {
				for ip := range a {
					if before[ip] != after[ip] {
						moved--
					}
				}
			}
			if moved != 0 || len(c.Markers) == 0 {
				t.Errorf("%s: %d markers do not tell what changed from %v to %v", kind, len(c.Markers), before, after)
			}
			ready[c.Object] = after
		}
	}
}

func readyIn(endpoints any) map[string]bool {
	out := map[string]bool{}
	for _, e := range endpoints.([]any) {
		if e.(map[string]any)["conditions"].(map[string]any)["ready"] == true {
			out[fmt.Sprint(e.(map[string]any)["addresses"].([]any)[0])] = true
		}
	}
	return out
}

// Ztunnels see a change under other names than sidecars, and see nothing of a change
// that does not concern them.
func TestMarkersForZtunnels(t *testing.T) {
	for kind, want := range map[string][]record.Marker{
		KindService:             {{Type: "wds", Resource: "mm-0/mm-t-00000.mm-0.svc.cluster.local", Text: "mm-t-00000.mm-0.svc.cluster.local"}},
		KindServiceEntry:        {{Type: "wds", Resource: "mm-0/mm-t-00000.meshtrial.test", Text: "mm-t-00000.meshtrial.test"}},
		KindAuthorizationPolicy: {{Type: "wads", Resource: "mm-0/mm-t-00000", Text: "mm-t-00000"}},
		KindPodLabels:           {{Type: "wds", Text: "mm-t-00000"}},
		KindVirtualService:      nil, KindDestinationRule: nil, KindGateway: nil, KindSidecar: nil, KindTelemetry: nil, KindNoOp: nil,
	} {
		s := Spec{Trial: "t", Kind: kind, Arrival: ArrivalUniform, Shape: rate(1), Count: 1, Population: population.Sizes{Namespaces: 1, Services: 1, EndpointsPerService: 1, Ztunnels: 1}}
		p, err := NewPlan(s)
		must.OK(t, err)
		c := p.Changes[0]
		if got := slices.DeleteFunc(slices.Clone(c.Markers), func(m record.Marker) bool { return !m.OfZtunnels() }); !slices.Equal(got, want) {
			t.Errorf("%s: %+v, want %+v", kind, got, want)
		}
		ztunnel := population.Identity{Type: population.Ztunnel, Namespace: population.ZtunnelNamespace}
		if c.Needs(ztunnel, Visibility{ExportTo: "~"}) != (want != nil) {
			t.Errorf("%s: a ztunnel needs it: %v", kind, want == nil)
		}
	}
}
