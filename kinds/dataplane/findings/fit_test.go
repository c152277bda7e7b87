package findings

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/analysis/analysistest"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/stat"
	"github.com/meshtrial/meshtrial/study"
)

const fitStudy = `
name: rate
question: What does a proxy's CPU depend on?
mesh: istio
settings: {connections: 16}
factors:
  sidecars: [none, both]
  rate: [250, 1000, 3000]
baseline: {sidecars: none}
blocks: {min: 4, max: 8}
stop: none
measures: [latency, cpu, memory]
`

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
