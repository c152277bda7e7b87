package findings

import (
	"math"
	"testing"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/rate"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

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
