package findings

import (
	"fmt"
	"math"

	"github.com/meshtrial/meshtrial/analysis"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
)

// unattributedLimit is the share of all CPUs' time from which on use that belongs
// to no part of the study is told. Kubelet, observer and kernel threads use 1 to
// 3% of two cores in the local lab.
const unattributedLimit = 0.1

// unattributedCPU warns of trials in which much of the machine was used by
// somebody who is no part of the study.
func unattributedCPU(o *analysis.Observations) []string {
	above, most, known := 0, 0.0, 0
	for i := range o.Run.Trials {
		share := unattributed(&o.Run.Trials[i], o.Run.Header.Machine)
		if math.IsNaN(share) {
			continue
		}
		known++
		if share > unattributedLimit {
			above, most = above+1, math.Max(most, share)
		}
	}
	if above == 0 {
		return nil
	}
	return []string{fmt.Sprintf("unattributed CPU: in %d of %d trials more than %s of the machine's CPU time (up to %s) went to processes outside the study",
		above, known, words.Percent(unattributedLimit), words.Percent(most))}
}

// unattributed is the share of all CPUs' time in a trial's window that the
// machine used and no part of the study did; NaN where that is not known, as on
// several nodes, whose parts are not all on the machine that was read. It may be
// slightly negative: the machine's own account has ticks of 10 ms.
func unattributed(t *record.Trial, m record.Machine) float64 {
	machine, ok := t.CPU[record.PartMachine]
	if !ok || m.Nodes != 1 || m.CPUs <= 0 || t.Window.Seconds <= 0 {
		return math.NaN()
	}
	rest := machine.TotalS()
	for part, cpu := range t.CPU {
		if part != record.PartMachine {
			rest -= cpu.TotalS()
		}
	}
	return rest / (float64(m.CPUs) * t.Window.Seconds)
}
