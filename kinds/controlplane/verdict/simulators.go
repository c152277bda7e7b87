package verdict

import (
	"math"
	"time"

	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/run/verdict"
)

// simulatorsApart limits the difference between the clocks of different simulator pods.
var simulatorsApart = verdict.Limit{Name: "simulators-apart", Default: 1, Unit: "ms",
	Doc: "maximum offset between the clocks of several simulators, after correction for their offset before the window"}

// simulators checks that the simulator pods together observed what a single one would have: all
// proxies, each once, by one clock. The clock check is inconclusive if the error bounds are wider
// than the limit.
func (r *ruling) simulators() {
	all, asked := r.trial.Control.Simulators, controlplane.SimulatorsIn(r.trial.Cell)
	if asked == 1 && len(all) == 0 {
		return
	}
	proxies, clocks := 0, make([]verdict.Clocks, len(all))
	for i, s := range all {
		proxies += s.Proxies
		clocks[i] = verdict.Clocks{Pod: s.Pod, Before: s.Before, After: s.After}
	}
	simulated, counted := r.seen.Audience.Simulated, r.seen.AccountAfter.Proxies
	r.Check("simulators", len(all) == asked && proxies == simulated && counted == simulated,
		"%d of %d simulators had %d of the %d simulated proxies, and their records cover %d", len(all), asked, proxies, simulated, counted)
	least, most, of := verdict.Apart(clocks)
	for _, s := range all { // the first offset was subtracted, so the second comparison shows what remains
		least = max(least, math.Abs(s.After.AheadUS-s.Before.AheadUS)-s.After.ErrorUS)
	}
	limit := float64(r.lasting(simulatorsApart)) / float64(time.Microsecond)
	r.Check(simulatorsApart.Name, least <= limit, "the simulators' clocks were between %.0f and %.0f us apart%s, once corrected; limit %.0f", least, most, of, limit)
	if least <= limit && most > limit {
		r.Warn(noteClocksApart, most/1e3)
	}
}
