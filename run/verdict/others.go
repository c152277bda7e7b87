package verdict

import (
	"strings"

	"github.com/meshtrial/meshtrial/record"
)

// Limits of what others may use of a machine while a trial measures on it. Use that leaves
// enough idle CPUs is harmless: it is common on a large node with other tenants, and a
// warning of the run reports the amount.
var (
	Unattributed = Limit{Name: "unattributed", Default: 0.25, Unit: "ratio",
		Doc: "share of the machine's CPU time that processes outside the study may use when few CPUs are idle"}
	UnattributedBusy = Limit{Name: "unattributed-busy", Default: 0.7, Unit: "ratio",
		Doc: "CPU utilization of the machine above which the limit unattributed applies"}
)

// CheckUnattributed checks the use by others, if known.
func (s *Sheet) CheckUnattributed(t record.Trial, l Limits) {
	if t.Others == nil || t.Pressure == nil {
		return
	}
	// Accounts are read one after another, so their sum may exceed the total.
	busy, share := t.Pressure.BusyRatio, min(t.Others.UnattributedRatio, 1)
	var who []string
	for _, p := range t.Others.Who {
		who = append(who, p.Command)
	}
	named := ""
	if len(who) > 0 {
		named = " (" + strings.Join(who, ", ") + ")"
	}
	s.Check(Unattributed.Name, share <= l.Of(Unattributed) || busy <= l.Of(UnattributedBusy),
		"others used %.0f%% of the machine's CPU time%s, which was %.0f%% busy", share*100, named, busy*100)
}
