package model

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/advise/capacity/push"
	"github.com/meshtrial/meshtrial/testing/must"
)

func made(change func(v *Values)) *Model {
	m := &Model{Schema: Schema, Mix: map[string]float64{MixEndpoints: 9, MixConfiguration: 1},
		Measured: Span{Proxies: [2]float64{50, 300}, Services: [2]float64{50, 300}, Rate: [2]float64{0.5, 6}}}
	v := Assumed()
	v[CPUPerServiceOf(push.RDS)], v[BytesPerServiceOf(push.RDS)], v[MemoryPerPair] = 5e-6, 500, 500
	if change != nil {
		change(&v)
	}
	for i, d := range Definitions {
		m.Parameters = append(m.Parameters, Fitted{Name: d.Name, Unit: d.Unit, Meaning: d.Meaning, Interval: Interval{v[i], v[i], v[i]}})
	}
	for _, o := range Outputs {
		m.Residuals = append(m.Residuals, Residual{Output: o.Name, Spread: 0.1, Cells: 6})
	}
	return m
}

func mesh(proxies, services int, rate float64) Mesh {
	m := Default()
	m.Proxies, m.Services, m.Rate = proxies, services, rate
	m.Mix = map[string]float64{MixEndpoints: 9, MixConfiguration: 1}
	return m
}

// Every parameter is defined, with a unit, and with a reason if it is assumed.
func TestDefinitions(t *testing.T) {
	names := map[string]bool{}
	for i, d := range Definitions {
		if d.Name == "" || d.Unit == "" || d.Meaning == "" || d.Because == "" || !strings.HasPrefix(d.Study, "meshtrial run ") || names[d.Name] || d.Assumed < 0 {
			t.Errorf("parameter %d: %+v", i, d)
		}
		names[d.Name] = true
	}
}

// Intervals include their estimates, widen with the distance from the measured range,
// and say so.
func TestExtrapolation(t *testing.T) {
	m := made(nil)
	width := 0.0
	for _, test := range []struct {
		proxies int
		beyond  float64
	}{{200, 1}, {1200, 4}, {3600, 12}} {
		at := mesh(test.proxies, 100, 1)
		at.Cores = 16
		p, err := m.Predict(at, Options{Seed: 1, Draws: 40})
		must.OK(t, err)
		if math.Abs(p.Times/test.beyond-1) > 0.01 || (test.beyond > 1) != (len(p.Beyond) > 0) {
			t.Errorf("%d proxies lie %v beyond: %v", test.proxies, p.Times, p.Beyond)
		}
		for _, o := range p.Outputs {
			if !(o.Low <= o.Estimate && o.Estimate <= o.High) {
				t.Errorf("%s is %v", o.Name, o.Interval)
			}
		}
		i := p.Output(OutMemory)
		if w := math.Log(i.High / i.Low); w <= width {
			t.Errorf("%d proxies: memory %v, no wider than before (%v)", test.proxies, i, width)
		} else {
			width = w
		}
	}
}

// More proxies, services or changes never cost less; a narrower scope never costs
// more.
func TestMoreTakesMore(t *testing.T) {
	m := made(nil)
	v, err := m.Values()
	must.OK(t, err)
	rapid.Check(t, func(t *rapid.T) {
		a := mesh(rapid.IntRange(10, 400).Draw(t, "proxies"), rapid.IntRange(10, 400).Draw(t, "services"), rapid.Float64Range(0.2, 3).Draw(t, "rate"))
		a.Horizon, a.Cores = 60, 8
		b := a
		switch rapid.IntRange(0, 3).Draw(t, "more") {
		case 0:
			b.Proxies *= 2
		case 1:
			b.Services *= 2
		case 2:
			b.Rate *= 3
		case 3:
			a.Visible = 0.3
		}
		out := map[string][2]float64{}
		for i, at := range []Mesh{a, b} {
			r, err := v.Simulate(at, 1)
			must.OK(t, err)
			for k, y := range v.Simulated(at, r) {
				pair := out[Outputs[k].Name]
				pair[i] = y
				out[Outputs[k].Name] = pair
			}
		}
		for _, name := range []string{OutCPU, OutMemory, OutBytes} {
			if pair := out[name]; pair[1] < 0.97*pair[0] {
				t.Fatalf("%s: %v of %+v, %v of %+v", name, pair[0], a, pair[1], b)
			}
		}
	})
}

// The limit separates meshes within the bound from meshes beyond it.
func TestLimits(t *testing.T) {
	m := made(nil)
	at := mesh(300, 200, 0.5)
	at.Cores = 1
	l, err := m.Limits(at, 2, Options{Seed: 1})
	must.OK(t, err)
	if l.Rate <= 0.5 || l.Proxies <= 300 || l.RateEnd.Code == "" || l.ProxiesEnd.Code == "" {
		t.Fatalf("%+v", l)
	}
	v, _ := m.Values()
	for _, test := range []struct {
		proxies int
		within  bool
	}{{int(0.8 * float64(l.Proxies)), true}, {2 * l.Proxies, false}} {
		other := at
		other.Proxies = test.proxies
		r, err := v.Simulate(other, 2)
		must.OK(t, err)
		if got := r.Drained && r.Convergence.Quantile(0.99) <= 2; got != test.within {
			t.Errorf("%d proxies with the end at %d: drained %v, p99 %v", test.proxies, l.Proxies, r.Drained, r.Convergence.Quantile(0.99))
		}
	}
	tight, err := m.Limits(at, 0.05, Options{Seed: 1})
	if err != nil || tight.Rate != 0 || tight.Proxies != 0 {
		t.Errorf("within 50 ms, shorter than debouncing: %+v, %v", tight, err)
	}
}

// Fewer replicas must take over more proxies, and need more time for it.
func TestLoss(t *testing.T) {
	m := made(nil)
	var before *Loss
	for _, replicas := range []int{10, 3, 1} {
		at := mesh(3000, 200, 0.5)
		at.Replicas, at.Cores = replicas, 4
		l, err := m.Loss(at, Options{Seed: 1})
		must.OK(t, err)
		if l.Proxies != 3000/replicas || l.Half > l.All || !(l.Half > 0) {
			t.Errorf("%d replicas: %+v", replicas, l)
		}
		if before != nil && l.All <= before.All {
			t.Errorf("with %d replicas all are back after %v s, with more after %v", replicas, l.All, before.All)
		}
		before = l
	}
	lone := mesh(1, 10, 1)
	lone.Replicas = 2
	if l, err := m.Loss(lone, Options{Seed: 1}); l != nil || err != nil {
		t.Errorf("no replica of two has half of one proxy: %+v (%v)", l, err)
	}
}

// A document with other parameters, or with impossible figures, is rejected.
func TestParse(t *testing.T) {
	good, err := json.Marshal(made(nil))
	must.OK(t, err)
	must.OK(t, must.Err(Parse(good)))
	for name, spoil := range map[string]func(m *Model){
		"schema":   func(m *Model) { m.Schema = 99 },
		"fewer":    func(m *Model) { m.Parameters = m.Parameters[1:] },
		"name":     func(m *Model) { m.Parameters[0].Name = "other" },
		"huge":     func(m *Model) { m.Parameters[0].Estimate = 1e300 },
		"negative": func(m *Model) { m.Parameters[0].Estimate = -1 },
		"draw":     func(m *Model) { m.Draws = [][]float64{{1}} },
		"bad draw": func(m *Model) { m.Draws = [][]float64{make([]float64, Parameters)}; m.Draws[0][3] = -2 },
		"residual": func(m *Model) { m.Residuals[0].Spread = -1 },
		"mix":      func(m *Model) { m.Mix["nothing"] = 1 },
	} {
		m := made(nil)
		spoil(m)
		data, err := json.Marshal(m)
		must.OK(t, err)
		if _, err := Parse(data); err == nil {
			t.Errorf("%s: it is read", name)
		}
	}
	if _, err := Parse([]byte("{}")); err == nil {
		t.Error("nothing is a model")
	}
}

func FuzzParse(f *testing.F) {
	good, _ := json.Marshal(made(nil))
	f.Add(good)
	f.Add([]byte(`{"schema":1,"parameters":[{}],"draws":[[1e308]]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse(data)
		if err != nil {
			return
		}
		at := mesh(20, 10, 1)
		at.Horizon = 2
		_, _ = m.Predict(at, Options{Draws: 2}) // returns an error or a result, but does not panic
	})
}

// Impossible meshes are rejected with the field's name.
func TestMeshCheck(t *testing.T) {
	for field, spoil := range map[string]func(m *Mesh){
		"proxies": func(m *Mesh) { m.Proxies = 0 }, "visible": func(m *Mesh) { m.Visible = 2 }, "rate": func(m *Mesh) { m.Rate = math.NaN() }, "arrival": func(m *Mesh) { m.Arrival = "x" },
		"mix": func(m *Mesh) { m.Mix = map[string]float64{"x": 1} }, "replicas": func(m *Mesh) { m.Replicas = 0 },
	} {
		m := mesh(10, 10, 1)
		spoil(&m)
		if err := m.Check(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// A mesh with overlapping pushes sends all endpoints and regenerates its routes; with
// more namespaces a calm one regenerates them more often.
func TestOverlappingPushesTakeMore(t *testing.T) {
	v := Assumed()
	at := mesh(600, 500, 0.2)
	at.Mix, at.Cores, at.Horizon = map[string]float64{MixEndpoints: 2, "virtualservice": 1}, 8, 120
	calm, err := v.Simulate(at, 1)
	must.OK(t, err)
	if calm.Whole[push.EDS] > 0.2*calm.Pushes[push.EDS] || calm.Anew[push.RDS] > 0.15*calm.Pushes[push.RDS] {
		t.Errorf("calm: of %v pushes of endpoints %v are whole, of %v of routes %v are made anew", calm.Pushes[push.EDS], calm.Whole[push.EDS], calm.Pushes[push.RDS], calm.Anew[push.RDS])
	}
	more := at
	more.Namespaces *= 5
	if r, err := v.Simulate(more, 1); err != nil || r.Anew[push.RDS] < 1.5*calm.Anew[push.RDS] {
		t.Errorf("in 50 namespaces routes are made %v times, in 10 %v times; %v", r.Anew[push.RDS], calm.Anew[push.RDS], err)
	}
	busy := at
	busy.Rate, busy.Cores = 4, 1
	r, err := v.Simulate(busy, 1)
	must.OK(t, err)
	if r.Whole[push.EDS] < 0.5*r.Pushes[push.EDS] || r.Anew[push.RDS] < 0.5*r.Pushes[push.RDS] || r.AllBytes()/r.Turns < 2*calm.AllBytes()/calm.Turns {
		t.Errorf("busy: of %v pushes of endpoints %v are whole, of %v of routes %v are made anew, %.0f bytes a turn after %.0f", r.Pushes[push.EDS], r.Whole[push.EDS],
			r.Pushes[push.RDS], r.Anew[push.RDS], r.AllBytes()/r.Turns, calm.AllBytes()/calm.Turns)
	}
}

// Proxies that do not come back are counted, and do not prevent a prediction.
func TestLossWithoutEnd(t *testing.T) {
	at := mesh(3000, 200, 0.5)
	at.Replicas, at.Cores = 3, 4
	stuck := made(func(v *Values) { v[ConnectCPU] = 20 }) // reconnecting because of connections' age takes all CPUs
	if l, err := stuck.Loss(at, Options{Seed: 1}); err != nil || l.Away == 0 || l.Away > l.Proxies || l.Half > l.All {
		t.Errorf("no CPU is left to serve streams: %+v (%v)", l, err)
	}
}

// Changes that never arrive are late, not instantaneous.
func TestNothingArrives(t *testing.T) {
	m := mesh(20, 10, 1)
	m.Horizon = 60
	p, err := made(func(v *Values) { v[Watch] = 1e6 }).Predict(m, Options{Seed: 1, Draws: 5})
	must.OK(t, err)
	if p99 := p.Output(OutConvergenceP99).Estimate; p99 < 60 {
		t.Errorf("istiod is never told of a change, and p99 of convergence is %g s", p99)
	}
}

// A document that claims very many cells takes no longer than others.
func TestManyCells(t *testing.T) {
	m := made(nil)
	for i := range m.Residuals {
		m.Residuals[i].Cells = math.MaxInt
	}
	must.OK(t, must.Err(m.Predict(mesh(20, 10, 1), Options{Seed: 1, Draws: 5})))
}

// A mesh exceeds the measured range in any respect that costs istiod something. Respects
// in which it is smaller are listed and widen nothing.
func TestOutside(t *testing.T) {
	m := made(nil)
	m.Measured.Cores = [2]float64{1, 2}
	for name, test := range map[string]struct {
		change func(m *Mesh)
		beyond float64
		code   RespectCode // in Beyond, or in Below if beyond is 1
		value  float64
	}{
		"within":         {func(*Mesh) {}, 1, "", 0},
		"proxies":        {func(m *Mesh) { m.Proxies = 600 }, 2, RespectProxies, 600},
		"of a replica":   {func(m *Mesh) { m.Proxies, m.Replicas = 600, 2 }, 1, "", 0},
		"services":       {func(m *Mesh) { m.Services, m.Visible = 30000, 0.01 }, 100, RespectServices, 30000},
		"visible":        {func(m *Mesh) { m.Visible = 0.1 }, 1, RespectVisible, 20},
		"cores":          {func(m *Mesh) { m.Cores = 64 }, 32, RespectCores, 64},
		"few cores":      {func(m *Mesh) { m.Cores = 0.5 }, 2, RespectFewCores, 0.5},
		"new kind":       {func(m *Mesh) { m.Mix = map[string]float64{MixEndpoints: 1, "authorizationpolicy": 1} }, newKind, RespectKinds, 0},
		"the same kind":  {func(m *Mesh) { m.Mix = map[string]float64{"endpoints-flap": 1, "service": 1, "telemetry": 0} }, 1, "", 0},
		"quiet":          {func(m *Mesh) { m.Rate = 0.001 }, 1, RespectRate, 0.001},
		"small and busy": {func(m *Mesh) { m.Proxies, m.Rate = 5, 12 }, 2, RespectRate, 12},
	} {
		at := mesh(200, 200, 1)
		test.change(&at)
		must.OK(t, at.Check())
		o := m.Outside(at)
		respects := o.Beyond
		if test.beyond == 1 {
			respects = o.Below
		}
		found := slices.ContainsFunc(respects, func(r Respect) bool {
			return r.Code == test.code && math.Abs(r.Value-test.value) < 0.1 && r.String() != ""
		})
		if math.Abs(o.Times/test.beyond-1) > 0.01 || o.Extrapolates() != (test.beyond > 1) || o.Extrapolates() != (len(o.Beyond) > 0) ||
			found != (test.code != "") || test.code == "" && len(o.Below) > 0 {
			t.Errorf("%s: %+v, want %v times, %s", name, o, test.beyond, test.code)
		}
	}
}

// However rare changes are, some are simulated; if a requested horizon contains none, that
// is reported.
func TestQuiet(t *testing.T) {
	m := made(nil)
	for _, at := range []Mesh{mesh(20, 10, 1e-4), mesh(20, 10, 0.001)} {
		p, err := m.Predict(at, Options{Seed: 1, Draws: 5})
		must.OK(t, err)
		if p99 := p.Output(OutConvergenceP99); p.Pairs < 20 || !(p99.Low > 0.05) {
			t.Errorf("%g changes a second: %v pairs, p99 is %v", at.Rate, p.Pairs, p99)
		}
		l, err := m.Limits(at, 5, Options{Seed: 1})
		must.OK(t, err)
		if l.Rate <= at.Rate || l.Proxies <= at.Proxies {
			t.Errorf("%g changes a second to %d proxies are as much as istiod can: %+v", at.Rate, at.Proxies, l)
		}
	}
	none := mesh(20, 10, 1e-4)
	none.Horizon = 60
	p, err := m.Predict(none, Options{Seed: 1, Draws: 5})
	if err != nil || p.Pairs != 0 || p.Output(OutConvergenceP99).High != 0 {
		t.Errorf("a minute without changes: %+v (%v)", p, err)
	}
	if l, err := m.Loss(mesh(20, 10, 1e-4), Options{Seed: 1}); err != nil || l.Pairs != 0 {
		t.Errorf("nothing changes while a replica is away: %+v (%v)", l, err)
	}
}

// CPU in use never exceeds the available CPUs, however uncertain it is.
func TestNoMoreCPUThanThereIs(t *testing.T) {
	m := made(nil)
	for i := range m.Residuals {
		m.Residuals[i].Spread = 3
	}
	at := mesh(300, 300, 6)
	at.Cores = 1.5
	p, err := m.Predict(at, Options{Seed: 1, Draws: 20})
	must.OK(t, err)
	if i := p.Output(OutCPU); i.High != 1.5 || !(i.Low < i.Estimate) || p.Utilisation > 1 {
		t.Errorf("of 1.5 CPUs %v are taken", i)
	}
}

// The grown mesh and the one after a loss lie outside the measured range in their own
// right.
func TestEndsLieBeyond(t *testing.T) {
	m := made(nil)
	at := mesh(300, 200, 0.5)
	at.Cores = 1
	l, err := m.Limits(at, 2, Options{Seed: 1})
	must.OK(t, err)
	if math.Abs(l.ProxiesBeyond/(float64(l.Proxies)/300)-1) > 0.01 || math.Abs(l.RateBeyond-math.Max(1, l.Rate/6)) > 0.01 {
		t.Errorf("%+v", l)
	}
	at = mesh(600, 200, 0.5)
	at.Replicas, at.Cores = 2, 4
	loss, err := m.Loss(at, Options{Seed: 1})
	if err != nil || m.Outside(at).Times != 1 || loss.Times != 2 || len(loss.Beyond) != 1 {
		t.Errorf("300 proxies on each of two replicas, and then 600 on one: %+v (%v)", loss, err)
	}
}

// Numbers for people have no exponents.
func TestFigure(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 3991.3: "3,991", 99218: "99,218", 1234567: "1,234,567", 0.0001: "0.0001", 33.3333: "33.3", 500: "500", 1: "1", 0.40: "0.4", -2570: "-2,570", 999.7: "1,000", 2.0: "2"} {
		if got := Figure(v, 3); got != want {
			t.Errorf("%g is %s, want %s", v, got, want)
		}
	}
}
