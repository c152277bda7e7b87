package assess

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/advise/advice"
	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/advise/scope/generate"
	_ "github.com/meshtrial/meshtrial/kinds/controlplane"
	_ "github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/stat/money"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// sidecars of a mesh in which one idles at idle cores and takes each more for a request per second.
func sidecars(n int, idle, each float64) []Proxy {
	var out []Proxy
	for i := range n {
		rate := 10 * float64(i)
		out = append(out, Proxy{Kind: Sidecar, Namespace: fmt.Sprintf("ns-%d", i%3), Workload: fmt.Sprintf("w-%d", i), Pod: fmt.Sprintf("w-%d-0", i), Node: "one",
			Version: "1.31", Requests: Resources{0.1, 128e6}, Cores: new(idle + each*rate), Bytes: new(50e6),
			Called: new(rate / 2), Served: new(rate / 2), Connections: new(0.0)})
	}
	return out
}

func TestCost(t *testing.T) {
	proxies := append(sidecars(10, 0.004, 0.0003), Proxy{Kind: Istiod, Version: "1.31", Limits: Resources{2, 4e9}, Cores: new(0.5), Bytes: new(1e9)},
		Proxy{Kind: Ztunnel}, Proxy{Kind: Ztunnel, Cores: new(0.1), Bytes: new(12e6)})
	a := Assess(Evidence{Proxies: proxies, Prices: Prices{Core: 40, GB: 4, Currency: "USD"}})
	use := map[Kind]Use{}
	for _, u := range a.Cost.Uses {
		use[u.Kind] = u
	}
	if u := use[Sidecar]; u.Count != 10 || u.Measured != 10 || math.Abs(u.Used.Cores-(10*0.004+0.0003*450)) > 1e-9 || u.Used.Bytes != 500e6 ||
		math.Abs(u.Month-(u.Used.Cores*40+0.5*4)) > 1e-9 || math.Abs(u.Reserved-(40+1.28*4)) > 1e-9 {
		t.Errorf("sidecars: %+v", u)
	}
	if u := use[Ztunnel]; u.Count != 2 || u.Measured != 1 || u.Used.Cores != 0.1 || !UnknownUse.In(a.Unknown) {
		t.Errorf("ztunnels, one of them unknown: %+v, %v", u, a.Unknown)
	}
	if _, there := use[Gateway]; there {
		t.Error("gateways that there are none of")
	}
	if c := a.Cost; c.Idle == nil || math.Abs(c.Idle.Estimate-0.004) > 1e-9 || math.Abs(c.Each.Estimate-0.0003) > 1e-9 || c.Fitted != 10 {
		t.Errorf("line: %+v, %+v", c.Idle, c.Each)
	}
	if w := a.Cost.Workloads; len(w) != 10 || w[0].Workload != "w-9" || *w[0].PerS != 90 {
		t.Errorf("the dearest workload: %+v", w[0])
	}
}

// Proxies that are connected to istiod but in no listed pod are reported as missing from all counts.
func TestElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		connected float64
		listed    map[string]int
		want      bool
	}{
		"all are listed":        {10, map[string]int{"Pod": 30}, false},
		"one comes":             {11, map[string]int{"Pod": 30}, false},
		"some in other places":  {14, map[string]int{"Pod": 30}, true},
		"another revision's":    {4, map[string]int{"Pod": 30}, false},
		"nobody has listed any": {14, map[string]int{"Service": 30}, false},
	} {
		a := Assess(Evidence{Proxies: sidecars(10, 0.004, 0.0003), Objects: c.listed,
			Limits: &advice.Report{Values: []advice.Value{{Name: advice.QuantityProxies, Value: c.connected}}}})
		if Elsewhere.In(a.Unknown) != c.want {
			t.Errorf("%s: %v", name, a.Unknown)
		}
	}
}

// The line is through CPU over the time for which requests were counted, and not through one that nobody sampled then.
func TestCostWhileCounted(t *testing.T) {
	proxies := sidecars(10, 0.004, 0.0003)
	for i := range proxies {
		*proxies[i].Cores *= 3
		proxies[i].CoresCounted = new(0.002 + 0.0001*(*proxies[i].Called+*proxies[i].Served))
	}
	proxies[4].CoresCounted = new(math.NaN())
	c := Assess(Evidence{Proxies: proxies}).Cost
	if c.Idle == nil || math.Abs(c.Idle.Estimate-0.002) > 1e-9 || math.Abs(c.Each.Estimate-0.0001) > 1e-9 || c.Fitted != 9 {
		t.Errorf("%+v, %+v, of %d", c.Idle, c.Each, c.Fitted)
	}
}

// Usage is compared with the requests and limits of those that have them.
func TestCostOfUnlimited(t *testing.T) {
	proxies := sidecars(4, 0.2, 0)
	proxies[0].Limits = Resources{0.4, 0}
	proxies[1].Requests = Resources{}
	u := Assess(Evidence{Proxies: proxies}).Cost.Uses[0]
	if math.Abs(u.OfLimits.Cores-0.2) > 1e-9 || u.OfLimits.Bytes != 0 || math.Abs(u.OfRequests.Cores-0.6) > 1e-9 || u.OfRequests.Bytes != 150e6 || math.Abs(u.Used.Cores-0.8) > 1e-9 {
		t.Errorf("%+v", u)
	}
	unknown := Assess(Evidence{Proxies: sidecars(2, 1, 0), Prices: Prices{Core: 30}, Unknown: []Unknown{NoResources.Of("x")}})
	if n := unknown.Mesh.Proxies[0].Unlimited; n != 0 {
		t.Errorf("%d without a limit, of proxies whose limits are unknown", n)
	}
}

// What does not follow from what was seen is unknown, with its reason.
func TestUnknown(t *testing.T) {
	quiet := sidecars(10, 0.004, 0)
	for i := range quiet {
		quiet[i].Called, quiet[i].Served = new(0.0), new(0.0)
	}
	blind := sidecars(10, 0.004, 0)
	for i := range blind {
		blind[i].Called, blind[i].Cores = nil, nil
	}
	half := sidecars(10, 0.004, 0.0003)
	half[3].Called = nil
	for name, c := range map[string]struct {
		e         Evidence
		is, isNot []Gap
	}{
		"nothing":        {Evidence{}, []Gap{NoPrices}, []Gap{NoCounters, NoSlope, NoLatency, NoUnitCosts}},
		"quiet":          {Evidence{Proxies: quiet}, []Gap{NoRequests, NoStated, NoPayloads}, []Gap{NoSlope, SomeProxies}},
		"blind":          {Evidence{Proxies: blind}, []Gap{NoCounters, UnknownUse, NoSlope, NoStated}, []Gap{NoRequests}},
		"some":           {Evidence{Proxies: half}, []Gap{SomeProxies, NoStated}, []Gap{NoSlope}},
		"all":            {Evidence{Proxies: sidecars(10, 0.004, 0.0003), Nodes: 2}, []Gap{NoUnitCosts, NoLatency}, []Gap{SomeProxies, NoStated, NoSlope, NoRequests}},
		"few":            {Evidence{Proxies: sidecars(3, 0.004, 0.0003)}, []Gap{NoSlope}, nil},
		"ambient":        {Evidence{Enrolled: 4, Proxies: []Proxy{{Kind: Ztunnel}}}, []Gap{NoAmbient, NoStated}, []Gap{NoLatency}},
		"undecided rule": {Evidence{Limits: &advice.Report{Undecided: []advice.Judgement{{Rule: "throttled"}}}}, []Gap{Undecided}, nil},
		"young": {Evidence{Scope: &scope.Report{}, Sidecars: &generate.Result{Open: []generate.Open{{Code: generate.OpenUnseen}}}},
			[]Gap{TooYoung}, nil},
		"runs of another mesh": {Evidence{Proxies: half, Runs: 1}, []Gap{NoStated}, []Gap{NoUnitCosts}},
	} {
		a := Assess(c.e)
		for _, g := range c.is {
			if !g.In(a.Unknown) {
				t.Errorf("%s: %v is missing: %v", name, g, a.Unknown)
			}
		}
		for _, g := range c.isNot {
			if g.In(a.Unknown) {
				t.Errorf("%s: too much: %v", name, a.Unknown)
			}
		}
	}
}

func TestTraffic(t *testing.T) {
	e := Evidence{Proxies: sidecars(3, 0, 0), Nodes: 1, Calls: []Call{{From: generate.Workload{Namespace: "a"}, Host: "x", PerS: 1}, {From: generate.Workload{Namespace: "b"}, Host: "y", PerS: 3, Routed: true}, {Host: "z", PerS: 9, TCP: true}}}
	a := Assess(e)
	if tr := a.Traffic; tr == nil || tr.Called != 15 || tr.Served != 15 || *tr.Routed != 0.75 || tr.Calls[0].Host != "z" {
		t.Errorf("%+v", tr)
	}
	m, lacks := a.Stated()
	if lacks != "" || m.Pods != 3 || m.RPS != 15 || m.L7 != 0.75 || m.Waypoints != 2 {
		t.Errorf("%+v, %s", m, lacks)
	}
	e.Unread = []string{"VirtualService"}
	a = Assess(e)
	if _, lacks := a.Stated(); lacks == "" || a.Traffic.Routed != nil || !NoPolicies.In(a.Unknown) {
		t.Errorf("objects that may need L7 were not listed: share %v, lacks %q", a.Traffic.Routed, lacks)
	}
}

// The studies of any mesh are studies that a lab can run.
func TestStudies(t *testing.T) {
	saving := &generate.Result{Sidecars: []generate.Sidecar{{Namespace: "a", Name: "b", Change: generate.Create}}}
	for name, c := range map[string]struct {
		sidecars, nodes, services int
		updates                   float64
		routed                    bool
		want                      int
	}{
		"none": {0, 0, 0, 0, false, 2}, "one": {1, 1, 3, 0, false, 4}, "rarely changed": {12, 2, 7, 0.00006, true, 6},
		"of middle size": {300, 20, 1000, 0.457, true, 6}, "large": {5000, 200, 20000, 900, false, 5},
	} {
		e := Evidence{Nodes: c.nodes, Objects: map[string]int{"Service": c.services}, Proxies: append(sidecars(c.sidecars, 0.004, 0.0003), Proxy{Kind: Istiod}),
			Limits: &advice.Report{Values: []advice.Value{{Name: advice.QuantityUpdates, Value: c.updates}}}}
		if c.sidecars > 1 {
			e.Scope, e.Sidecars = &scope.Report{}, saving
		}
		if c.routed {
			e.Calls = []Call{{Host: "x", PerS: 2}, {Host: "y", PerS: 1, Routed: true}}
			e.Filters = []Filter{{"shop/lua", "shop-lua", `{"configPatches":[{"applyTo":"HTTP_FILTER","patch":{"operation":"INSERT_BEFORE","value":{"name":"it's"}}}]}`}, {"a/b", "a-b", `{"priority":3,"configPatches":[{"applyTo":"HTTP_FILTER","patch":{}}]}`}}
			e.Settings = []Setting{{Name: "debounce_after", Level: "1s"}, {Name: "istiod_env", Level: "A=1"}, {Name: "push_throttle", Level: "200"}}
			e.Objects["VirtualService"], e.Objects["DestinationRule"] = 30, 50_000
			for i := range e.Proxies {
				e.Proxies[i].Threads, e.Proxies[i].Limits = 4, Resources{0.5, 1e9}
			}
		}
		if c.routed && c.sidecars > 100 {
			e.Sizes = &Sizes{311.4, 5e9}
			for i := range e.Proxies {
				e.Proxies[i].Open = new(float64(i % 3 * 8)) // 12 of those that have any
			}
		}
		a := Assess(e)
		if len(a.Settle) != c.want {
			t.Errorf("%s: %d studies, want %d", name, len(a.Settle), c.want)
		}
		for _, s := range a.Settle {
			parsed, err := study.Parse([]byte(s.File), s.Name+".yaml", nil)
			if err == nil {
				_, err = study.NewPlan(parsed, 1)
			}
			if err != nil {
				t.Errorf("%s: %s: %v\n%s", name, s.Name, err, s.File)
			}
			if s.Name == StudyLatency || s.Name == StudyModes || s.Name == StudyFilters {
				for _, text := range []string{"connections: 12, ", "payload: 311B", "response: 1048576B"} {
					if strings.Contains(s.File, text) != (e.Sizes != nil) {
						t.Errorf("%s: %s has other requests than this mesh, %q:\n%s", name, s.Name, text, s.File)
					}
				}
				if strings.Contains(s.File, "does not tell") != (e.Sizes == nil) {
					t.Errorf("%s: %s does not tell what it assumes:\n%s", name, s.Name, s.File)
				}
			}
			own := map[string]string{StudyLatency: "concurrency: 4, cpu_limit: 500m", StudyFilters: "filters: [none, envoyfilter-shop-lua, envoyfilter-a-b]", StudyReplica: `virtual_services: 30, destination_rules: 1000, debounce_after: "1s", push_throttle: "200"`}[s.Name]
			if c.routed != strings.Contains(s.File, own) && own != "" {
				t.Errorf("%s: %s is not of this mesh:\n%s", name, s.Name, s.File)
			}
		}
	}
}

// What both assessments know whole is compared, and which rules came and went; a document that was
// written is read again.
func TestCompare(t *testing.T) {
	old := Assess(Evidence{Proxies: append(sidecars(6, 0.004, 0.0003), Proxy{Kind: Istiod, Cores: new(1.0), Bytes: new(1e9)}, Proxy{Kind: Ztunnel}),
		Objects: map[string]int{"Service": 9}, Limits: &advice.Report{Advice: []advice.Judgement{{Rule: "one"}, {Rule: "two"}, {Rule: "no longer known"}}, Undecided: []advice.Judgement{{Rule: "not known"}}}})
	data, err := json.Marshal(old)
	must.OK(t, err)
	read, err := Parse(data)
	must.OK(t, err)
	now := Assess(Evidence{Proxies: append(sidecars(8, 0.002, 0.0003), Proxy{Kind: Istiod, Cores: new(3.0), Bytes: new(1e9)}, Proxy{Kind: Ztunnel, Cores: new(1.0), Bytes: new(1.0)}),
		Limits: &advice.Report{Advice: []advice.Judgement{{Rule: "two"}, {Rule: "three"}, {Rule: "not known"}}, Undecided: []advice.Judgement{{Rule: "no longer known"}}}})
	now.Compare(read)
	got := map[string]Change{}
	for _, c := range now.Against.Figures {
		got[c.Name+string(c.Kind)] = c
	}
	for name, want := range map[string][2]float64{FigureCount + "sidecar": {6, 8}, FigureCores + "istiod": {1, 3}, FigureMemory + "istiod": {1e9, 1e9}, FigureRequests: {75, 140}, FigureCount + "ztunnel": {1, 1}} {
		if c := got[name]; c.Old != want[0] || c.New != want[1] {
			t.Errorf("%s: %+v, want %v", name, c, want)
		}
	}
	for name, want := range map[string]Trend{FigureCores + "istiod": "", FigureCoresEach + "istiod": "", FigureIdle + "sidecar": Better, FigureMemory + "istiod": "", FigureRequests: ""} {
		if got[name].Trend != want {
			t.Errorf("%s: %q, want %q", name, got[name].Trend, want)
		}
	}
	for _, name := range []string{FigureCores + "ztunnel", FigureServices} { // one of the two does not know it
		if _, there := got[name]; there {
			t.Errorf("%s is compared", name)
		}
	}
	if a := now.Against; !slices.Equal(a.Came, []string{"three"}) || !slices.Equal(a.Went, []string{"one"}) {
		t.Errorf("rules: %v came, %v went", a.Came, a.Went)
	}
}

// A mesh that grew does not become worse, nor does one that shrank become better: costs are judged for each proxy and
// by the load together.
func TestCompareGrown(t *testing.T) {
	mesh := func(n int, rate, cores, bytes, proxies float64, prices Prices) Assessment {
		e := Evidence{Prices: prices, Nodes: 1, Limits: &advice.Report{Values: []advice.Value{{Name: advice.QuantityProxies, Value: proxies}}}}
		for i := range n {
			x := sidecars(1, 0, 0)[0]
			x.Pod = strconv.Itoa(i)
			x.Called, x.Served, x.Cores, x.Bytes, x.Requests = new(rate), new(0.0), new(cores), new(bytes), Resources{0.1, 1e8}
			e.Proxies = append(e.Proxies, x)
		}
		e.Proxies = append(e.Proxies, Proxy{Kind: Istiod, Cores: new(proxies / 1000), Bytes: new(proxies * 1e6)})
		return Assess(e)
	}
	usual := Prices{30, 4, "USD"}
	then := mesh(10, 100, 0.1, 1e8, 10, usual)
	for name, c := range map[string]struct {
		now           Assessment
		cores, memory Trend
		changed       []Changed
	}{
		"the same":                  {mesh(10, 100, 0.1, 1e8, 10, usual), "", "", nil},
		"more proxies":              {mesh(40, 100, 0.1, 1e8, 40, usual), "", "", nil},
		"fewer proxies":             {mesh(3, 100, 0.1, 1e8, 3, usual), "", "", nil},
		"more requests":             {mesh(10, 400, 0.35, 1e8, 10, usual), "", "", nil},
		"fewer requests":            {mesh(10, 20, 0.05, 1e8, 10, usual), "", "", nil},
		"more CPU for each request": {mesh(10, 120, 0.3, 1e8, 10, usual), Worse, "", nil},
		"less memory for each":      {mesh(40, 100, 0.1, 5e7, 40, usual), "", Better, nil},
		"another price":             {mesh(10, 100, 0.1, 1e8, 10, Prices{60, 4, "USD"}), "", "", []Changed{{ChangedCore, "30", "60"}}},
		"another currency":          {mesh(10, 100, 0.1, 1e8, 10, Prices{30, 4, "€"}), "", "", []Changed{{ChangedCurrency, "USD", "€"}}},
	} {
		c.now.Compare(then)
		for _, f := range c.now.Against.Figures {
			want := Trend("")
			switch {
			case f.Kind == Sidecar && (f.Name == FigureCoresEach || f.Name == FigureCoresLoad):
				want = c.cores
			case f.Kind == Sidecar && f.Name == FigureBytesEach:
				want = c.memory
			}
			if f.Trend != want && f.Name != FigureIdle && f.Name != FigureEach {
				t.Errorf("%s: %s of %s is %q, want %q: %+v", name, f.Name, f.Kind, f.Trend, want, f)
			}
		}
		if !slices.Equal(c.now.Against.Changed, c.changed) {
			t.Errorf("%s: %v changed, want %v", name, c.now.Against.Changed, c.changed)
		}
	}
}

// A trend takes a tenth, and intervals apart where there are any. Costs fitted by a line may be below zero.
func TestTrend(t *testing.T) {
	between := func(low, v, high float64) Figure {
		return Figure{costs: true, Value: v, within: &money.Value{Estimate: v, Low: low, High: high}}
	}
	for name, c := range map[string]struct {
		old, now Figure
		want     Trend
	}{
		"more":             {Figure{costs: true, Value: 10}, Figure{costs: true, Value: 11.5}, Worse},
		"less":             {Figure{costs: true, Value: 11.5}, Figure{costs: true, Value: 10}, Better},
		"too little":       {Figure{costs: true, Value: 10}, Figure{costs: true, Value: 10.5}, ""},
		"no cost":          {Figure{Value: 10}, Figure{Value: 20}, ""},
		"from none":        {Figure{costs: true}, Figure{costs: true, Value: 1}, Worse},
		"the same, < 0":    {between(-2, -1, -0.5), between(-2, -1, -0.5), ""},
		"overlap":          {between(1, 4, 7), between(6, 8, 10), ""},
		"apart":            {between(1, 4, 5), between(6, 8, 10), Worse},
		"less, both below": {Figure{costs: true, Value: -1}, Figure{costs: true, Value: -2}, Better},
	} {
		if got := trendOf(c.now, c.old); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// What was measured holds for other builds and releases of a branch only where their patch is unknown.
func TestSameVersion(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"1.31-eed52ebb66ad", "1.31.2", true}, {"1.31-eed52ebb66ad", "1.31-0123456789ab", true}, {"1.31.2-distroless", "v1.31.2", true}, {"1.31.0-rc.1", "1.31.0", true},
		{"1.31.1", "1.31.2", false}, {"1.31-eed52ebb66ad", "1.30.2", false}, {"latest", "1.31.2", false}, {"latest", "latest", true},
	} {
		if SameVersion(c.a, c.b) != c.same || SameVersion(c.b, c.a) != c.same {
			t.Errorf("%s and %s: same %v", c.a, c.b, !c.same)
		}
	}
}

// A comparison lists changed versions and settings, and known problems that appeared or were fixed.
func TestCompareVersions(t *testing.T) {
	of := func(version, debounce string) Assessment {
		return Assess(Evidence{Istiod: version, Proxies: []Proxy{{Kind: Istiod, Version: version}}, Settings: []Setting{{Name: "debounce_after", Level: debounce}}, Limits: &advice.Report{}})
	}
	now := of("1.30.4", "1s")
	now.Compare(of("1.30.2", "2s"))
	if a := now.Against; !slices.Contains(a.ProblemsWent, "virtual_service_metadata") || len(a.ProblemsCame) != 0 || !slices.Equal(a.Changed, []Changed{{"istiod", "1.30.2", "1.30.4"}, {"debounce_after", "2s", "1s"}}) {
		t.Errorf("%+v", a)
	}
	same := of("1.30.4", "1s")
	if same.Compare(now); len(same.Against.Changed) != 0 {
		t.Errorf("%+v", same.Against.Changed)
	}
}

func FuzzParse(f *testing.F) {
	a := Assess(Evidence{Proxies: sidecars(5, 0.004, 0.0003), Scope: &scope.Report{}})
	data, err := json.Marshal(a)
	must.OK(f, err)
	f.Add(data)
	f.Add([]byte(`{"schema":1,"configuration":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		old, err := Parse(data)
		if err == nil {
			now := a
			now.Compare(old)
		}
	})
}
