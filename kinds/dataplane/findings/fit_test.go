package findings

import (
	"math"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/rate"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

var fitStudy = strings.NewReplacer("[latency, cpu]", "[latency, cpu, memory]", "max: 6", "max: 8").Replace(analysistest.RateStudy)

// arrivals gives each block its own number of requests, as with Poisson arrivals.
func arrivals(t *record.Trial) { t.Load.Completed += int64(t.Block) }

// A curve is not a line, even if no two trials had exactly the same rate.
func TestPoorFit(t *testing.T) {
	for bent, want := range map[bool]bool{false: false, true: true} {
		w := analysistest.Quiet()
		plain := w.CPU
		w.CPU = func(c record.Cell, part string, rps float64) float64 {
			if bent {
				return 1e-7 * rps * rps
			}
			return plain(c, part, rps)
		}
		w.Spoil = arrivals
		text := strings.Replace(fitStudy, "settings:", "money: {rps: 1000000, proxies: 100}\nsettings:", 1)
		f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, text, 8, 7, w))
		for _, name := range []string{"cpu_client_proxy_slope", study.FindingMoneyFit} {
			x := analysistest.Get(t, f, name, record.Cell{"sidecars": "both"})
			if got := stat.PoorFit.In(x.Warnings); got != want {
				t.Errorf("bent %v: %+v", bent, x)
			}
		}
	}
}

// Variants measured at the same rates are fitted separately, even if an omitted one would set the
// rate.
func TestFitsOfVariants(t *testing.T) {
	text := strings.Replace(fitStudy, "factors:", "variants: {plain: {}, large: {payload: 64KiB}, fast: {rate: 5000}}\nfactors:\n  variant: [plain, large]", 1)
	w := analysistest.Quiet()
	w.Spoil = arrivals
	f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, text, 8, 7, w))
	for _, name := range []string{"plain", "large"} {
		analysistest.Get(t, f, "cpu_client_proxy_slope", record.Cell{"sidecars": "both", "variant": name})
	}
}

// The unit of a fit is the deployment, as everywhere else.
func TestFitsOfDeployments(t *testing.T) {
	w := analysistest.Quiet()
	w.Deployments, w.Spoil = 2, arrivals
	text := strings.Replace(fitStudy, "settings:", "money: {rps: 1000000, proxies: 100}\nsettings:", 1)
	f := analysistest.Analyze(t, kinds, analysistest.Simulate(t, text, 8, 7, w))
	for _, name := range []string{"cpu_client_proxy_idle", "cpu_client_proxy_slope", "memory_client_proxy_per_rps", study.FindingMoneyFit} {
		if x := analysistest.Get(t, f, name, record.Cell{"sidecars": "both"}); x.Blocks != 4 {
			t.Errorf("%s rests on %d units, want 4 deployments of 2 blocks", name, x.Blocks)
		}
	}
}

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

// Whatever is counted between the edges of the window is divided by the requests answered between
// them: 1,000, although 1,300 were due and answered in the end.
func TestPerRequestAnsweredWithin(t *testing.T) {
	s := studytest.Parse(t, `
name: priced
question: What does it cost?
factors: {sidecars: [both]}
measures: [latency, cpu]
money: {rps: 1000, hops: 1, proxies_per_hop: 2, core_month: 40}
`)
	trial := func() *record.Trial {
		return &record.Trial{
			Cell: record.Cell{study.FactorSidecars: study.SidecarsBoth, study.FactorRate: "260"}, Window: record.Window{Seconds: 5},
			Load:   &record.Load{Rate: 260, Scheduled: 1300, Completed: 1300, Within: record.Within{Answered: 1000, BacklogStart: 10, BacklogEnd: 310}},
			CPU:    map[string]record.CPU{record.PartClientProxy: {UserS: 1}, record.PartServerProxy: {UserS: 1}},
			Waits:  map[string]record.Wait{record.PartWorker: {WaitS: 1, Seconds: 5}},
			Probed: map[string]map[string]uint64{},
		}
	}
	for name, of := range map[string]func(*record.Trial) float64{
		"CPU per request, us": func(t *record.Trial) float64 {
			return analysis.CPUPerRequest(t, record.PartClientProxy, record.CPU.TotalS)
		},
		"waiting, us": waiting,
		"money, us of CPU per request": func(t *record.Trial) float64 {
			u, _ := trialUse(s, t)
			return u.CPUPerHop.Estimate * 1e6 / 2
		},
		"us per request by rate": func(t *record.Trial) float64 {
			at, _ := axes[0].at(t)
			return 1e6 / (at * t.Window.Seconds)
		},
		"throughput, us per request": func(t *record.Trial) float64 {
			t.Load.Rate = rate.Max
			return 1e6 / (throughput(nil, t) * t.Window.Seconds)
		},
	} {
		if got := of(trial()); math.Abs(got-1000) > 1e-6 {
			t.Errorf("%s: %g, want 1000", name, got)
		}
	}
}
