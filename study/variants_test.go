package study

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
)

func TestVariantsOfAStudy(t *testing.T) {
	const text = `control: {}
settings: {proxies: 11}
variants:
  none: {}
  sidecar: {sidecar_scope: mesh}
  slow: {sidecar_scope: mesh, debounce_after: 2500ms}
`
	p := plan(t, text)
	if got := labels(p); got != "none; sidecar; slow" {
		t.Fatal(got)
	}
	slow := p.Cells[2]
	if slow[FactorDebounceAfter] != "2.5s" || slow["sidecar_scope"] != "mesh" || slow["proxies"] != "11" || slow[FactorVariant] != "slow" {
		t.Errorf("%v", slow)
	}
	if b, ok := p.BaselineOf(slow); !ok || b.Key() != p.Cells[0].Key() || p.BlockSize() != 4 {
		t.Errorf("compared with %v, %d trials", b, p.BlockSize())
	}
	if got := p.Matching(record.Cell{FactorVariant: "sidecar"}); len(got) != 1 || got[0] != 1 {
		t.Errorf("matching %v", got)
	}
	for set, want := range map[string]string{
		"variant=[slow,none]":                            "slow; none",
		"variant=sidecar":                                "11 sidecars",
		"proxies=[1,2]":                                  "1 sidecar · none; 1 sidecar · sidecar; 1 sidecar · slow; 2 sidecars · none; 2 sidecars · sidecar; 2 sidecars · slow",
		"variants.slow={debounce_after: 1s}":             "none; sidecar; slow",
		"exclude=[{variant: sidecar}]":                   "none; slow",
		"baseline={variant: slow}":                       "none; sidecar; slow",
		"variants.slow.debounce_after=3s":                "none; sidecar; slow",
		"factors={variant: [sidecar], change_rate: [3]}": "sidecar · 3 changes/s",
	} {
		if got := labels(plan(t, text, set)); got != want {
			t.Errorf("%s: %s, want %s", set, got, want)
		}
	}
	// The data plane has variants too.
	q := plan(t, "variants: {plain: {sidecars: none}, small: {payload: 1B}, big: {payload: 1MiB}}\n")
	if got := labels(q); got != "plain; small; big" || q.BlockSize() != 4 {
		t.Errorf("%s, %d trials", got, q.BlockSize())
	}
	if b, _ := q.BaselineOf(q.Cells[2]); b[FactorSidecars] != SidecarsNone {
		t.Errorf("compared with %v", b)
	}
}

func TestVariantsRefused(t *testing.T) {
	for _, c := range []struct{ name, text, at, msg string }{
		{"the same", "variants: {a: {}, b: {payload: 1024B}}\n", "3:22", "a and b are the same"},
		{"also varied", "variants: {a: {}, b: {rate: 5}}\nfactors: {rate: [1, 2]}\n", "3:29", "both in variant b and in factors"},
		{"nested", "variants: {a: {}, b: {variant: a}}\n", "3:22", "cannot set variant"},
		{"empty", "variants: {a: }\n", "3:12", "a is empty"},
		{"none", "variants: {}\n", "3:11", "is empty"},
		{"bad name", "variants: {A b: {}}\n", "3:12", `invalid variant name "A b"`},
		{"unknown", "variants: {a: {}, b: {rate: 5}}\nbaseline: {variant: c}\n", "4:21", `unknown variant "c"`},
		{"no variants", "settings: {variant: a}\n", "3:21", "has no variants"},
		{"no list", "variants: [a]\n", "3:11", "must map names to levels"},
		{"strict mutual TLS for a plain client", "variants: {a: {}, b: {sidecars: server, mtls: strict}}\n", "", "cannot serve"},
	} {
		t.Run(c.name, func(t *testing.T) {
			answered(t, minimal+c.text, nil, c.at, c.msg)
		})
	}
}

// Omitted variants contradict nothing, though hints about measured ones suggest omitting them.
func TestVariantsLeftOut(t *testing.T) {
	const variants = "variants: {usual: {}, few: {rate: 50}, many: {rate: 2000}}\n"
	for _, c := range []struct{ sets, want string }{ // no want: accepted
		{"variant=[usual] rate=[100,500]", ""},
		{"variant=usual rate=[100,500]", ""},
		{"variant=[usual,few] rate=2000", ""}, // many would be as usual
		{"variant=many rate=2000", ""},
		{"variant=[usual,few] rate=[100,500]", "rate is both in variant few and in factors"},
		{"rate=[100,500]", "rate is both in variant few and in factors"},
		{"variant=[many,usual] rate=2000", "variants usual and many are the same"},
	} {
		s, err := Parse([]byte(minimal+variants), "x.yaml", strings.Fields(c.sets))
		switch {
		case c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.sets, err, c.want)
		case err == nil:
			sameAgain(t, s)
		}
	}
	tuned := strings.Replace(tuneFile, "factors:", "variants: {a: {}, b: {proxies: 5}, c: {push_throttle: 5}}\nfactors:", 1)
	answered(t, tuned, []string{"variant=[a,c]"}, "", "")
}

// What cannot be measured is rejected if a measured variant requests it, and not if only an omitted
// one does. Parts that only an omitted variant uses may stay.
func TestChecksOfVariantsLeftOut(t *testing.T) {
	carried := strings.NewReplacer("a: {calls", "a: {sidecar: false, calls", ", sidecars: LEVEL", "", "ACTION", "remove: {service: b}").Replace(carriedScenario) +
		"variants: {both: {sidecars: both}, ambient: {sidecars: ambient}, waypoint: {sidecars: waypoint}}\n"
	sizedGraph := strings.Replace(ambientGraph, "sidecars: [both, ambient]}", "sidecars: [both, ambient], rate: [100, 300]}", 1) +
		"variants: {one: {replicas: 1}, five: {replicas: 5}}\nsizing: {pods: 100}\n"
	const (
		oneFilter = "variants: {usual: {}, mine: {filters: envoyfilter-mine}}\n"
		oneRoute  = "settings: {gateways: 1}\nvariants: {usual: {}, route: {change: gateway-route}}\n"
		replayed  = "variants: {usual: {}, replay: {change: trace}}\n"
		searched  = minimalControl + "factors: {proxies: [100, 500]}\nvariants: {slow: {}, fast: {change_rate: 3}}\nsearch:\n- {factor: proxies, finding: convergence_p99, bound: 2 s, at: {change_rate: 3}}\n"
		excluded  = minimal + "variants: {a: {}, b: {sidecars: none}}\nfactors: {rate: [100, 500]}\n"
	)
	for _, c := range []struct{ name, text, taken, refused, want string }{
		{"carriers", minimal + "mesh: linkerd\nvariants: {usual: {}, ambient: {sidecars: ambient}}\n", "variant=usual", "variant=ambient", "conflict mesh"},
		{"echo", minimal + "settings: {payload: 0B}\nvariants: {web: {}, bytes: {protocol: tcp}}\n", "variant=web", "variant=bytes", "conflict factors.payload"},
		{"echo in the settings", minimal + "settings: {protocol: tcp}\nvariants: {bytes: {}, empty: {payload: 0B}, web: {protocol: http1, payload: 0B}}\n", "variant=web variant=bytes", "variant=empty", "conflict factors.payload"},
		{"interception", minimal + "load: {tls: true}\nvariants: {usual: {}, straight: {interception: none}}\n", "variant=usual", "variant=straight", "conflict variants.straight.interception"},
		{"planted", minimal + "workload: {service_time: {distribution: exponential, mean: 1ms}}\nvariants: {usual: {}, longer: {planted: 200us}}\n", "variant=usual", "variant=longer", "conflict workload.service_time.distribution"},
		{"filters", minimal + oneFilter, "variant=usual", "variant=mine", "conflict variants.mine.filters"},
		{"files of filters", minimal + "envoy_filters: {mine: mine.yaml, other: other.yaml}\nvariants: {usual: {}, mine: {filters: envoyfilter-mine}, other: {filters: envoyfilter-other}}\n", "variant=usual variant=mine", "variants.other.filters=lua", "conflict envoy_filters.other"},
		{"routes", minimalControl + oneRoute, "variant=usual", "variant=route", "conflict control"},
		{"a gateway", minimal + "control: {gateway: {}}\n" + oneRoute, "variant=usual variant=route", "variants.route.change=no-op", "conflict control.gateway"},
		{"routes that change again", minimal + "control: {objects: 2, gateway: {probes: 0}}\nsettings: {gateways: 1}\nvariants: {route: {change: gateway-route}, api: {change: httproute}}\n", "variant=route", "variant=api", "conflict control.objects"},
		{"a trace", minimalControl + replayed, "variant=usual", "variant=replay", "conflict control"},
		{"recorded changes", minimal + "control: {trace: [1s no-op]}\n" + replayed, "variant=usual variant=replay", "variants.replay.change=no-op", "conflict control.trace"},
		{"real sidecars", minimalControl + "measures: [sidecars]\nvariants: {simulated: {}, real: {real_pods: 5}}\n", "variant=simulated variant=real", "variants.real.real_pods=0", "no-cell measures"},
		{"a graph's carriers", carried, "variant=both", "variant=ambient", "conflict graph.services.a.sidecar"},
		{"a graph behind a waypoint", carried, "variant=both", "variant=[both,waypoint]", "conflict factors.sidecars"},
		{"skipped steps", strings.NewReplacer("skip: gone", "skip: gon", "expect: {less: fail}\n", "").Replace(smallScenario), "variant=all", "variant=less", "unknown variants.less.skip"},
		{"sizing along both", sizedGraph, "variant=one", "variant=[one,five]", "conflict sizing"},
		{"sizing along one", strings.Replace(sizedStudy, ", rate: [250, 1000]", "", 1) + "variants: {few: {rate: 250}, many: {rate: 1000}}\nsizing: {}\n", "variant=few variant=[few,many]", "variants.few.rate=1000", "conflict sizing"},
		{"a search", searched, "variant=fast", "variant=slow", "no-cell search"},
		{"two searches", searched + "- {factor: proxies, finding: convergence_p99, bound: 2 s, at: {change_rate: 0.4}}\n", "variant=slow variant=fast", "variants.fast.change_rate=2", "no-cell search[0].at.change_rate"},
		{"exclude", excluded + "exclude: [{variant: b, rate: 500}]\n", "variant=a variant=b", "exclude=[{variant: b, rate: 200}]", "no-cell exclude[0]"},
		{"exclude by a level", excluded + "exclude: [{sidecars: none, rate: 500}]\n", "variant=a variant=b", "exclude=[{sidecars: none, rate: 200}]", "no-cell exclude[0]"},
	} {
		for set := range strings.FieldsSeq(c.taken) {
			s, err := Parse([]byte(c.text), "x.yaml", []string{set})
			if err == nil {
				_, err = Parse(s.Marshal(), "resolved.yaml", nil)
			}
			if err != nil {
				t.Errorf("%s with %s: %v", c.name, set, err)
			}
		}
		if _, err := Parse([]byte(c.text), "x.yaml", []string{c.refused}); err == nil || !slices.Contains(strings.Split(faults(err), "; "), c.want) {
			t.Errorf("%s with %s: %v, want %s", c.name, c.refused, err, c.want)
		}
	}
}

func TestSearchSection(t *testing.T) {
	s := parseOK(t, minimalControl+"factors: {proxies: [100, 500, 2000], change_rate: [1, 10]}\nsearch:\n- {factor: proxies, finding: convergence_p99, bound: 2 s}\n- {factor: change_rate, finding: convergence_p99, bound: 500ms}\n")
	if len(s.Search) != 2 || !reflect.DeepEqual(s.Search[0], Search{Factor: "proxies", Finding: "convergence_p99", Bound: Quantity{2e6, "us"}}) || s.Search[1].Bound.Value != 5e5 {
		t.Errorf("%+v", s.Search)
	}
	for _, c := range []struct{ text, at, msg string }{
		{"factors: {proxies: [500, 100]}\nsearch: [{factor: proxies, finding: convergence_p99, bound: 2 s}]\n", "4:20", "must increase"},
		{"search: [{factor: proxies, finding: convergence_p99, bound: 2 s}]\n", "4:19", "not a numeric factor"},
		{"factors: {xds: [delta, sotw]}\nsearch: [{factor: xds, finding: convergence_p99, bound: 2 s}]\n", "5:19", "not a numeric factor"},
		{"factors: {proxies: [1, 2]}\nsearch: [{factor: proxies, finding: convergence_p99, bound: 2}]\n", "5:61", "not a unit of convergence_p99"},
		{"factors: {proxies: [1, 2]}\nsearch: [{factor: proxies, finding: latency_p99, bound: 2 s}]\n", "5:37", "is for studies of the data plane"},
		{"factors: {proxies: [1, 2]}\nsearch: [{factor: proxies, finding: convergence_p99}]\n", "5:10", `lacks the field "bound"`},
		{"factors: {proxies: [1, 2]}\nsearch: [{factor: proxies, finding: convergence_p99, bound: 2 s, at: {proxies: 1}}]\n", "5:70", "is the factor that is searched"},
		{"factors: {proxies: [1, 2]}\nsearch: [{factor: proxies, finding: convergence_p99, bound: 2 s, at: {change_rate: 3}}]\n", "5:84", "no cell has change_rate at 3"},
		{"factors: {proxies: [1, 2]}\nsearch: [{factor: proxies, finding: convergence_p99, bound: 2 s, tolerance: 200%}]\n", "5:77", "200% is out of range"},
	} {
		answered(t, minimalControl+c.text, nil, c.at, c.msg)
	}
}

func TestFactorValue(t *testing.T) {
	for _, c := range []struct {
		factor, level string
		want          float64
	}{
		{"proxies", "2000", 2000}, {FactorDebounceAfter, "2.5s", 2.5}, {"istiod_memory", "1536Mi", 1536 << 20},
		{"istiod_cpu", "500m", 0.5}, {"istiod_cpu", "2", 2}, {FactorPayload, "1KiB", 1024}, {FactorRate, "0.5", 0.5},
	} {
		f, _ := FactorByName(c.factor)
		if v, ok := f.Value(c.level); !ok || v != c.want {
			t.Errorf("%s %s = %v %v", c.factor, c.level, v, ok)
		}
	}
	for _, c := range [][2]string{{"push_throttle", "default"}, {FactorRate, "max"}, {"xds", "delta"}, {"istiod_cpu", "none"}, {"istiod_memory", "none"}} {
		f, _ := FactorByName(c[0])
		if v, ok := f.Value(c[1]); ok {
			t.Errorf("%s %s = %v", c[0], c[1], v)
		}
	}
}
