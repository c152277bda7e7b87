package findings

import (
	"math"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/record"
)

const moneyStudy = analysistest.RateStudy + `
money: {rps: 100000, hops: 2, proxies: 1000, core_month: 30, gb_month: 5, currency: EUR, utilisation: 50%}
`

// In the quiet world a hop's proxies take 200 us per request and 30 mCPU when idle, and 40 MB each.
func TestMoney(t *testing.T) {
	text := strings.NewReplacer("[latency, cpu]", "[latency, cpu, memory]", "[none, both]", "[none, client, both]").Replace(moneyStudy)
	f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, text, 6, 5, analysistest.Quiet()))
	cell := record.Cell{"sidecars": "both", "rate": "1000"}
	near := func(name string, cell record.Cell, want float64, unit string) record.Finding {
		t.Helper()
		x := analysistest.Get(t, f, name, cell)
		if math.Abs(x.Estimate-want) > 0.05*want || x.Low > want || x.High < want || x.Low >= x.High || x.Unit != unit {
			t.Errorf("%s: %+v, want %g %s", name, x, want, unit)
		}
		return x
	}
	cores := 100_000 * 2 * (200e-6 + 0.03/1000)
	near("money_cores", cell, cores, "cores")
	near("money_cpu", cell, cores*60, "EUR/month")
	near("money_memory", cell, 1000*0.040*5, "EUR/month")
	near("money_month", cell, cores*60+200, "EUR/month")
	// The mesh is stated, and its proxies are like a cell's: one that has them at one end only is
	// charged for both, in cores as in memory.
	oneEnd := record.Cell{"sidecars": "client", "rate": "1000"}
	near("money_cores", oneEnd, 100_000*2*2*(110e-6+0.02/1000), "cores")
	near("money_memory", oneEnd, 1000*0.040*5, "EUR/month")
	near("money_cpu_fit", record.Cell{"sidecars": "client"}, (100_000*2*2*110e-6+1000*0.02)*60, "EUR/month")
	// From the fits: the slope for each request, and the idle cost of each of the thousand proxies.
	near("money_cpu_fit", record.Cell{"sidecars": "both"}, (100_000*2*200e-6+1000*0.015)*60, "EUR/month")
	for _, x := range f.Findings {
		if strings.HasPrefix(x.Name, "money") && (x.Cell["sidecars"] == "none" || strings.HasSuffix(x.Name, "_overhead")) {
			t.Errorf("without proxies: %+v", x)
		}
	}
	for _, part := range []string{"100,000 requests per second", "2 calls", "30 EUR per core", "50% of the cores", "1,000 proxies in all, 400 requests per second at each", "5 EUR per GB-month"} {
		if !strings.Contains(f.Money, part) {
			t.Errorf("%q lacks %q", f.Money, part)
		}
	}
}

// Memory that could not be read in a trial is not priced as zero. If memory has no price, shared
// proxies still have one.
func TestMoneyWithoutMemory(t *testing.T) {
	cell := record.Cell{"sidecars": "both", "rate": "1000"}
	w := analysistest.Quiet()
	w.Spoil = func(t *record.Trial) {
		if m, ok := t.Memory[record.PartClientProxy]; ok && t.Block == 2 {
			m.PSSBytes = 0
			t.Memory[record.PartClientProxy] = m
		}
	}
	text := strings.Replace(moneyStudy, "[latency, cpu]", "[latency, cpu, memory]", 1)
	f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, text, 6, 5, w))
	for name, want := range map[string]float64{"money_memory": 200, "money_month": 100_000*2*(200e-6+0.03/1000)*60 + 200} {
		if x := analysistest.Get(t, f, name, cell); math.Abs(x.Estimate-want) > 0.02*want || x.Blocks != 5 {
			t.Errorf("%s: %+v, want %g of 5 blocks", name, x, want)
		}
	}
	w.Spoil = func(t *record.Trial) {
		if cpu, ok := t.CPU[record.PartServerProxy]; ok {
			delete(t.CPU, record.PartServerProxy)
			t.CPU[record.PartWaypoint] = cpu
			t.Way = record.Way{record.PartClientProxy, record.PartWaypoint}
		}
	}
	text = strings.Replace(moneyStudy, "gb_month: 5", "gb_month: 0", 1)
	f = analysistest.Analyze(t, kinds, analysistest.Simulate(t, text, 6, 5, w))
	if x := analysistest.Get(t, f, "money_month", cell); math.Abs(x.Estimate/(100_000*2*(200e-6+0.03/1000)*60)-1) > 0.05 {
		t.Errorf("%+v", x)
	}
	if !strings.HasSuffix(f.Money, "a call costs what its own path did, and their memory is not priced)") {
		t.Error(f.Money)
	}
	for _, x := range f.Findings {
		if x.Name == "money_cpu_fit" && x.Cell["sidecars"] == "both" {
			t.Errorf("a fit of half of the way has a price: %+v", x)
		}
	}
}

// The saving of a lever is a paired difference, priced.
func TestMoneySaved(t *testing.T) {
	text := `
name: saves
question: What does it save?
factors: {telemetry: [access-log-json, "off"]}
baseline: {telemetry: access-log-json}
blocks: {min: 4, max: 6}
stop: none
measures: [cpu]
money: {rps: 100000, core_month: 30}
`
	w := analysistest.Quiet()
	cpu := w.CPU
	w.CPU = func(c record.Cell, part string, rps float64) float64 {
		v := cpu(c, part, rps)
		if c["telemetry"] != "off" && (part == record.PartClientProxy || part == record.PartServerProxy) {
			v += 20e-6 * rps
		}
		return v
	}
	x := analysistest.Get(t, analysistest.Analyze(t, kinds, analysistest.Simulate(t, text, 6, 5, w)), "money_month_overhead", record.Cell{"telemetry": "off"})
	if want := -100_000 * 40e-6 * 30; math.Abs(x.Estimate-want) > 30 || x.Low > want || x.High < want || x.High >= 0 || x.Verdict != record.VerdictReal || x.Unit != "USD/month" {
		t.Errorf("%+v, want %g", x, want)
	}
}
