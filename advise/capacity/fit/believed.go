package fit

import (
	"slices"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Left is a trial that says nothing, and why.
type Left struct{ Trial, Why string }

// schedule is the check that changes left as planned. A trial that fails it is not what
// its cell says, and a comparison of cells cannot have it. The fit can: it replays
// the changes of each trial when they were committed, whatever was planned.
const schedule = "driver-schedule"

// disturbances are checks that fail where others use the machine. What istiod
// counted is its own all the same; times are longer.
var disturbances = []string{"unattributed", "simulator-lag", "commits-noted"}

// believed tells whether a fit can have a trial: it is valid, or fails nothing but the
// schedule, or, where disturbed ones count, nothing but what a busy machine makes fail.
func believed(t *record.Trial, disturbed bool) bool {
	failed := 0
	for _, c := range t.Validity.Checks {
		if c.OK {
			continue
		}
		failed++
		if c.Name != schedule && !(disturbed && slices.Contains(disturbances, c.Name)) {
			return false
		}
	}
	return t.Validity.Valid || failed > 0
}

// failsAs tells how a trial that is believed falls short of a valid one.
func failsAs(t *record.Trial) (late, disturbed bool) {
	for _, c := range t.Validity.Checks {
		if !c.OK {
			late = late || c.Name == schedule
			disturbed = disturbed || c.Name != schedule
		}
	}
	return late, disturbed
}

// unusable says why a trial cannot be used, whatever its cell.
func unusable(t *record.Trial, events []*record.Event, disturbed bool) string {
	c := t.Control
	switch {
	case !believed(t, disturbed):
		return "it is not valid"
	case c == nil || len(c.Istiod) == 0:
		return "istiod's metrics are not in it"
	case c.Proxies == 0:
		return "it has no simulated sidecars"
	case c.RealProxies > 0 || c.Gateways > 0 || c.Ztunnels > 0:
		return "it has real proxies, gateways or ztunnels, whose bytes nobody counted apart"
	case !(t.CPU[record.PartControl].TotalS() > 0) || !(t.Window.Seconds > 0):
		return "istiod's CPU time is not in it"
	case len(events) == 0:
		return "its changes are not in it"
	}
	return ""
}

// unlike says why a cell's pushes are not those of the model's: scope and
// behaviour of clients change what a push is.
func unlike(l study.ControlLevels) string {
	switch {
	case l.SidecarScope != study.SidecarScopeNone || l.DiscoverySelectors != nil || l.ExportTo != "*":
		return "Sidecars, exportTo or discoverySelectors keep changes from proxies, and how much is not known"
	case l.Clients != study.ClientsGood && l.Clients != study.ClientsReconnectStorm:
		return "its clients are " + l.Clients
	case l.XDS != study.XDSDelta:
		return "its proxies speak state of the world, which no proxy does today"
	case l.HBONE:
		return "its sidecars speak HBONE, and are sent all workloads too"
	}
	return ""
}
