package controlplane

import (
	"strconv"
	"time"

	"github.com/meshtrial/meshtrial/drive/load/arrival"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Levels holds the levels of a control-plane cell as typed values, for code that acts on them. Of
// the levers it has only those that trials, besides the mesh, need to know.
type Levels struct {
	// Population.
	Proxies, Gateways, RealPods     int
	Ztunnels                        int
	Services, Endpoints, Namespaces int // Endpoints is per Service
	ServiceEntries, VirtualServices int
	DestinationRules                int
	GatewayResources                int
	AuthorizationPolicies           int
	EndpointSlices, SliceNamespaces int

	XDS        string // XDSDelta or XDSSotW
	Clients    string
	Simulators int // pods for the simulated proxies

	Change        string
	ChangeRate    arrival.Shape // zero if a trace sets the times
	ChangeArrival string        // see Arrival; NotApplicable if a trace sets the times
	Disruption    Disruption    // after the window

	SidecarScope, ExportTo string
	DiscoverySelectors     string // key=value or key!=value; "": istiod watches every namespace
	DNSCapture             bool
	HBONE                  bool // sidecars support it

	DebounceAfter, DebounceMax time.Duration
	EDSDebounce                bool
	IstiodReplicas             int
	// ConnectionAge is istiod's maximum age of a proxy's connection; 0: no limit.
	ConnectionAge time.Duration
}

// Connected returns the number of simulated proxies, including gateways and ztunnels.
func (l Levels) Connected() int { return l.Proxies + l.Gateways + l.Ztunnels }

// LevelsOf reads a cell of a control-plane study. An installed lever counts as its usual level;
// [Known] replaces it by the level found. LevelsOf fails only for a cell that did not come from the
// plan of such a study.
func LevelsOf(cell record.Cell) (Levels, error) {
	r := study.ReadCell(factors, cell)
	out := Levels{
		Proxies: r.Int(FactorProxies), Gateways: r.Int(FactorGateways), Ztunnels: r.Int(FactorZtunnels), RealPods: r.Int(FactorRealPods),
		Services: r.Int(FactorServices), Endpoints: r.Int(FactorEndpoints), Namespaces: r.Int(FactorNamespaces),
		ServiceEntries: r.Int(FactorServiceEntries), VirtualServices: r.Int(FactorVirtualServices), DestinationRules: r.Int(FactorDestinationRules),
		GatewayResources: r.Int(FactorGatewayResources), AuthorizationPolicies: r.Int(FactorAuthorizationPolicies),
		EndpointSlices: r.Int(FactorEndpointSlices), SliceNamespaces: r.Int(FactorSliceNamespaces),
		XDS: r.Text(FactorXDS), Clients: r.Text(FactorClients), Simulators: r.Int(FactorSimulators),
		Change: r.Text(FactorChange), ChangeArrival: r.Text(FactorChangeArrival),
		SidecarScope: r.Text(FactorSidecarScope), ExportTo: r.Text(FactorExportTo), DiscoverySelectors: r.Set(FactorDiscoverySelectors), DNSCapture: r.Bool(FactorDNSCapture), HBONE: r.Bool(FactorHBONE),
		DebounceAfter: r.Duration(study.FactorDebounceAfter), DebounceMax: r.Duration(FactorDebounceMax), EDSDebounce: r.Bool(FactorEDSDebounce),
		IstiodReplicas: r.Int(FactorIstiodReplicas), ConnectionAge: r.Duration(FactorConnectionAge),
	}
	if level := r.Set(FactorChangeRate); level != "" {
		out.ChangeRate, _ = parseChangeRate(level)
	}
	if level := r.Set(FactorDisruption); level != "" {
		out.Disruption = parseDisruption(level)
	}
	return out, r.Err()
}

// SimulatorsIn returns the number of pods for a cell's simulated proxies.
func SimulatorsIn(cell record.Cell) int { return study.CountIn(cell, FactorSimulators) }

// Simulators returns the maximum number of simulator pods that the plan needs at once.
func Simulators(p *study.Plan) int { return max(1, most(p, FactorSimulators)) }

// EndpointSlices returns the maximum number of EndpointSlices without pods in a cell.
func EndpointSlices(p *study.Plan) int { return most(p, FactorEndpointSlices) }

// most returns the highest level of a factor in a plan's cells, 0 where it does not apply.
func most(p *study.Plan, factor string) (out int) {
	for _, cell := range p.Cells {
		n, _ := strconv.Atoi(cell[factor])
		out = max(out, n)
	}
	return out
}

// Known returns a cell completed with the levels found for levers that it does not name, if these
// are valid levels. Other levers stay as installed, and strange lists their names.
func Known(cell, found record.Cell) (known record.Cell, strange []string) {
	known = cell.With(nil)
	for _, f := range Levers() {
		level, ok := found[f.Name]
		if !ok || f.Sets(cell[f.Name]) {
			continue
		}
		if canonical, err := f.Canonical(level); err == nil {
			known[f.Name] = canonical
		} else {
			strange = append(strange, f.Name)
		}
	}
	return known, strange
}
