package study

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/record"
)

// ControlLevels is a cell of a control-plane study with its levels as values,
// for code that acts on them.
type ControlLevels struct {
	// Population.
	Proxies, Gateways, RealPods     int
	Services, Endpoints, Namespaces int // Endpoints are behind each Service
	ServiceEntries, VirtualServices int
	DestinationRules                int
	GatewayResources                int
	AuthorizationPolicies           int

	XDS     string // XDSDelta or XDSSotW
	Clients string

	Change        string
	ChangeRate    ChangeRate // without parts where a trace says when
	ChangeArrival string     // see Arrival; NotApplicable where a trace says when

	SidecarScope       string
	SidecarHosts       []string // nil without a Sidecar
	OutboundPolicy     string
	ExportTo           string
	DiscoverySelectors *Selector // nil: istiod watches every namespace
	DNSCapture         bool

	DebounceAfter, DebounceMax time.Duration
	EDSDebounce                bool
	PushThrottle               int     // 0: istiod's own default
	RequestLimit               float64 // a second; 0: istiod's own default
	IstiodReplicas             int
	IstiodCPU                  string // a quantity; "" for no limit
	IstiodMemory               string // a quantity; "" for no limit
	Delta                      bool
	XDSCache                   bool
	IstiodEnv                  map[string]string
	Istiod                     string // an image; "" for the installed one
}

// Selector is one requirement on a namespace's labels.
type Selector struct {
	Key, Value string
	Not        bool // namespaces that lack the label are selected
}

// Connected is how many simulated proxies there are, gateways included.
func (l ControlLevels) Connected() int { return l.Proxies + l.Gateways }

// ControlOf reads a cell of a control-plane study. It fails only for a cell
// that did not come from such a plan.
func ControlOf(cell record.Cell) (ControlLevels, error) {
	r := controlReader{cell: cell}
	l := ControlLevels{
		Proxies: r.whole(FactorProxies), Gateways: r.whole(FactorGateways), RealPods: r.whole(FactorRealPods),
		Services: r.whole(FactorServices), Endpoints: r.whole(FactorEndpoints), Namespaces: r.whole(FactorNamespaces),
		ServiceEntries: r.whole(FactorServiceEntries), VirtualServices: r.whole(FactorVirtualServices),
		DestinationRules: r.whole(FactorDestinationRules), GatewayResources: r.whole(FactorGatewayResources),
		AuthorizationPolicies: r.whole(FactorAuthorizationPolicies),

		XDS: r.text(FactorXDS), Clients: r.text(FactorClients),
		Change: r.text(FactorChange), ChangeRate: r.changeRate(), ChangeArrival: r.text(FactorChangeArrival),

		SidecarScope: r.text(FactorSidecarScope), OutboundPolicy: r.text(FactorOutboundPolicy), ExportTo: r.text(FactorExportTo),
		DNSCapture: r.bool(FactorDNSCapture),

		DebounceAfter: r.duration(FactorDebounceAfter), DebounceMax: r.duration(FactorDebounceMax),
		EDSDebounce: r.bool(FactorEDSDebounce), PushThrottle: r.whole(FactorPushThrottle), RequestLimit: r.number(FactorRequestLimit),
		IstiodReplicas: r.whole(FactorIstiodReplicas), IstiodCPU: r.set(FactorIstiodCPU), IstiodMemory: r.set(FactorIstiodMemory),
		Delta: r.bool(FactorDelta), XDSCache: r.bool(FactorXDSCache), Istiod: r.set(FactorIstiod),
	}
	if hosts := r.set(FactorSidecarHosts); hosts != "" {
		l.SidecarHosts = strings.Split(hosts, ",")
	}
	if s := r.set(FactorDiscoverySelectors); s != "" {
		key, value, _ := strings.Cut(s, "=")
		key, not := strings.CutSuffix(key, "!")
		l.DiscoverySelectors = &Selector{Key: key, Value: value, Not: not}
	}
	if env := r.set(FactorIstiodEnv); env != "" {
		l.IstiodEnv = map[string]string{}
		for item := range strings.SplitSeq(env, ";") {
			name, value, _ := strings.Cut(item, "=")
			l.IstiodEnv[name] = value
		}
	}
	return l, r.err
}

// controlReader reads levels and keeps the first fault.
type controlReader struct {
	cell record.Cell
	err  error
}

func (r *controlReader) text(factor string) string {
	level := r.cell[factor]
	if level == NotApplicable || r.err != nil {
		return level
	}
	f, _ := FactorByName(factor)
	out, err := f.Canonical(level)
	if err != nil {
		r.err = fmt.Errorf("cell %s: %s: %w", r.cell.Key(), factor, err)
	}
	return out
}

// set is the level, or "" for one that leaves things as they are.
func (r *controlReader) set(factor string) string {
	switch level := r.text(factor); level {
	case NotApplicable, LevelNone, LevelDefault:
		return ""
	default:
		return level
	}
}

func (r *controlReader) number(factor string) float64 {
	level := r.set(factor)
	if level == "" || r.err != nil {
		return 0
	}
	v, err := strconv.ParseFloat(level, 64)
	if err != nil {
		r.err = fmt.Errorf("cell %s: %s: %w", r.cell.Key(), factor, err)
	}
	return v
}

func (r *controlReader) changeRate() ChangeRate {
	level := r.set(FactorChangeRate)
	if level == "" || r.err != nil {
		return ChangeRate{}
	}
	out, c := parseChangeRate(level)
	if c != nil {
		r.err = fmt.Errorf("cell %s: %s: %w", r.cell.Key(), FactorChangeRate, c)
	}
	return out
}

func (r *controlReader) whole(factor string) int { return int(r.number(factor)) }

func (r *controlReader) bool(factor string) bool { return r.text(factor) == "true" }

func (r *controlReader) duration(factor string) time.Duration {
	level := r.set(factor)
	if level == "" || r.err != nil {
		return 0
	}
	d, c := parseDuration(level)
	if c != nil {
		r.err = fmt.Errorf("cell %s: %s: %w", r.cell.Key(), factor, c)
	}
	return d
}

// controlEffective is a full cell of the control plane as it takes effect.
func controlEffective(cell record.Cell) record.Cell {
	out := cell.With(nil)
	none := func(names ...string) {
		for _, name := range names {
			out[name] = NotApplicable
		}
	}
	if out[FactorSidecarScope] == SidecarScopeNone {
		none(FactorSidecarHosts)
	}
	if out[FactorServices] == "0" {
		none(FactorEndpoints)
	}
	if out[FactorProxies] == "0" && out[FactorGateways] == "0" {
		none(FactorXDS, FactorClients)
	}
	if out[FactorChange] == ChangeTrace {
		none(FactorChangeRate, FactorChangeArrival)
	}
	return out
}
