package push

import (
	"slices"
	"testing"
)

// at creates changes of some kinds of [mesh] at the given times.
func at(in Input, kinds []int, times ...float64) Input {
	in.Changes = nil
	for i, t := range times {
		in.Changes = append(in.Changes, Change{At: t, Kind: kinds[i]})
	}
	return in
}

// Kinds in mesh, by index.
const (
	anEndpoint = iota
	aService
	aRoute
)

// Endpoints are sent as differences, until a change joins that eds cannot send
// as a difference: then all are sent. That change on its own sends none.
func TestSpoiledEndpoints(t *testing.T) {
	for _, test := range []struct {
		name   string
		kinds  []int
		times  []float64
		pushes float64
		whole  float64
		bytes  float64
	}{
		{"endpoints twice, together", []int{anEndpoint, anEndpoint}, []float64{0, 0.01}, 1, 0, 700},
		{"endpoints twice, apart", []int{anEndpoint, anEndpoint}, []float64{0, 5}, 2, 0, 700},
		{"a route alone", []int{aRoute}, []float64{0}, 0, 0, 0},
		{"endpoints and a route, apart", []int{anEndpoint, aRoute}, []float64{0, 5}, 1, 0, 350},
		{"endpoints and a route, together", []int{anEndpoint, aRoute}, []float64{0, 0.01}, 1, 1, 100_000},
		{"a new service's are asked for", []int{aService}, []float64{0}, 1, 0, 350},
		{"a new service and endpoints", []int{aService, anEndpoint}, []float64{0, 0.01}, 2, 0, 700},
		{"a new service and a route", []int{aService, aRoute}, []float64{0, 0.01}, 2, 1, 100_350},
	} {
		r := Simulate(at(mesh(10, 1), test.kinds, test.times...))
		if r.Pushes[EDS] != 10*test.pushes || r.Whole[EDS] != 10*test.whole || !near(r.Bytes[EDS], 10*test.bytes, 1e-9) {
			t.Errorf("%s: %v pushes, %v of them whole, %v bytes; want 10 times %v, %v, %v", test.name, r.Pushes[EDS], r.Whole[EDS], r.Bytes[EDS], test.pushes, test.whole, test.bytes)
		}
	}
}

// What one proxy of a namespace was sent is cached for the others, unless
// something is pushed in the meantime. While pushes overlap nothing stays in the
// cache.
func TestCache(t *testing.T) {
	calm := at(mesh(300, 1), []int{aRoute, aRoute}, 0, 20)
	if r := Simulate(calm); r.Anew[RDS] != 2*3 {
		t.Errorf("routes of 3 namespaces are made %v times for two changes", r.Anew[RDS])
	}
	var kinds []int
	var times []float64
	for i := range 20 {
		kinds, times = append(kinds, aRoute), append(times, 0.15*float64(i))
	}
	busy := at(mesh(300, 1), kinds, times...)
	busy.Settings.Cores = 0.5
	busy.Kinds = slices.Clone(busy.Kinds)
	for i := range busy.Kinds {
		busy.Kinds[i].Context = 0
	}
	r := Simulate(busy)
	if r.Anew[RDS] < 0.7*r.Pushes[RDS] || r.Pushes[RDS] > 300*15 {
		t.Errorf("of %v pushes that overlap %v are made anew", r.Pushes[RDS], r.Anew[RDS])
	}
	// Endpoints also clear the cache's token, but leave its content.
	kinds[0] = aRoute
	for i := 1; i < len(kinds); i++ {
		kinds[i] = anEndpoint
	}
	if r := Simulate(at(busy, kinds, times...)); r.Pushes[RDS] != 300 || r.Anew[RDS] < 30 {
		t.Errorf("of one change's routes for 300 proxies %v are made anew while endpoints are pushed", r.Anew[RDS])
	}
	many := calm
	many.Settings.Cores = 32
	if r := Simulate(many); r.Anew[RDS] <= 2*3 || r.Anew[RDS] > 2*3*11 {
		t.Errorf("on 32 CPUs, which do not wait for each other, %v are made anew", r.Anew[RDS])
	}
	// Groups of proxies regenerate no more than individual ones.
	calm.Batch = 5
	if r := Simulate(calm); r.Anew[RDS] != 2*3 {
		t.Errorf("in groups of five %v are made anew", r.Anew[RDS])
	}
}
