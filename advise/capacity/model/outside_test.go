package model

import (
	"math"
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
)

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
