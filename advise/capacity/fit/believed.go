package fit

import (
	"slices"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Left is a trial that was left out.
type Left struct {
	Trial string `json:"trial"`
	model.Why
}

// schedule is the check that changes left as planned. The fit takes trials that fail it: it
// replays each change at the time of its commit.
const schedule = "driver-schedule"

// disturbances are checks that fail if others use the machine. Istiod's counts are still its own;
// times are longer.
var disturbances = []string{"unattributed", "simulator-lag", "commits-noted"}

// believed reports whether a fit can use a trial: it is valid, or fails nothing but the schedule
// or, if disturbed trials count, the disturbances.
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

// isDisturbed reports whether a believed trial fails any check but the schedule.
func isDisturbed(t *record.Trial) bool {
	return slices.ContainsFunc(t.Validity.Checks, func(c record.Check) bool { return !c.OK && c.Name != schedule })
}

// unusable returns why a trial cannot be used whatever its cell; "" if it can.
func unusable(t *record.Trial, events []*record.Event, disturbed bool) model.WhyCode {
	c := t.Control
	switch {
	case !believed(t, disturbed):
		return model.WhyInvalid
	case c == nil || len(c.Istiod) == 0:
		return model.WhyNoMetrics
	case c.Proxies == 0:
		return model.WhyNoProxies
	case c.RealProxies > 0 || c.Gateways > 0 || c.Ztunnels > 0:
		return model.WhyRealProxies
	case !(t.CPU[record.PartControl].TotalS() > 0) || !(t.Window.Seconds > 0):
		return model.WhyNoCPU
	case len(events) == 0:
		return model.WhyNoChanges
	}
	return ""
}

// unlike returns why the pushes of a cell are not those of the model: scope and clients change
// what a push is.
func unlike(l study.ControlLevels) model.Why {
	switch {
	case l.SidecarScope != study.SidecarScopeNone || l.DiscoverySelectors != nil || l.ExportTo != "*":
		return model.Why{Code: model.WhyScope}
	case l.Clients != study.ClientsGood && l.Clients != study.ClientsReconnectStorm:
		return model.Why{Code: model.WhyClients, Level: l.Clients}
	case l.XDS != study.XDSDelta:
		return model.Why{Code: model.WhyXDS}
	case l.HBONE:
		return model.Why{Code: model.WhyHBONE}
	}
	return model.Why{}
}
