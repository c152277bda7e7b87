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

// In the quiet world a hop's proxies take 200 us a request and 30 mCPU when
// idle, and 40 MB each.
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
	// A mesh is stated, and proxies are as those of a cell are: one that has
	// them at one end only is paid for at both, in cores as in memory.
	oneEnd := record.Cell{"sidecars": "client", "rate": "1000"}
	near("money_cores", oneEnd, 100_000*2*2*(110e-6+0.02/1000), "cores")
	near("money_memory", oneEnd, 1000*0.040*5, "EUR/month")
	near("money_cpu_fit", record.Cell{"sidecars": "client"}, (100_000*2*2*110e-6+1000*0.02)*60, "EUR/month")
	// From the fits: the slope for each request, and the idle cost of each of
	// the thousand proxies.
	near("money_cpu_fit", record.Cell{"sidecars": "both"}, (100_000*2*200e-6+1000*0.015)*60, "EUR/month")
	for _, x := range f.Findings {
		if strings.HasPrefix(x.Name, "money") && (x.Cell["sidecars"] == "none" || strings.HasSuffix(x.Name, "_overhead")) {
			t.Errorf("without proxies: %+v", x)
		}
	}
	for _, part := range []string{"100,000 requests a second", "2 calls", "30 EUR a core", "50% of the cores", "1,000 proxies in all, 400 requests a second at each", "5 EUR a GB"} {
		if !strings.Contains(f.Money, part) {
			t.Errorf("%q lacks %q", f.Money, part)
		}
	}
}

// What a lever saves is a paired difference, priced.
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

func TestStudiesWithoutMoneyHaveNone(t *testing.T) {
	f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, analysistest.RateStudy, 2, 5, analysistest.Quiet()))
	for _, x := range f.Findings {
		if strings.HasPrefix(x.Name, "money") {
			t.Errorf("%+v", x)
		}
	}
	if f.Money != "" {
		t.Error(f.Money)
	}
}
