// Package controlplane defines the control-plane kind's part of study files: its section, factors,
// levers, findings and checks. It depends on no lab and no mesh. The packages below it run, judge,
// analyze and report its trials.
package controlplane

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/invopop/jsonschema"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Control is the section of control-plane studies: settings that are the same in every trial.
type Control struct {
	// Changes is the number of changes in a trial; 0: as many as fit into Duration at the cell's
	// rate.
	Changes  int
	Duration time.Duration
	// Settle is the maximum wait after the last change until every proxy has all changes.
	Settle time.Duration
	// Quiet is the time without messages required before the window begins.
	Quiet time.Duration
	// Idle is the time for which the CPU of istiod and real sidecars is measured before the first
	// change; 0: not measured.
	Idle time.Duration
	// Aftermath is the maximum time for which the effects of a disruption are watched.
	Aftermath time.Duration
	// Security is how simulated proxies connect to istiod.
	Security string
	// StreamsPerConnection is the number of simulated proxies that share a connection.
	StreamsPerConnection int
	// AnswerAfter is the mean time that simulated proxies take to answer a response; 0: they answer
	// at once.
	AnswerAfter time.Duration
	// RealEndpoints makes real pods endpoints of a Service in the population, like simulated ones.
	RealEndpoints bool
	// BadShare is the share of proxies that misbehave if factor clients is not good.
	BadShare study.Ratio
	// Namespace is the stem of the study's names for the population's namespaces: NAME-1, NAME-2
	// and so on.
	Namespace string
	// ScopeNamespace is the namespace of a Sidecar of scope namespace or workload.
	ScopeNamespace string
	// DummiesNamespace holds the unused objects.
	DummiesNamespace string
	ServiceEntry     ServiceEntry
	// Objects is the number of objects that configuration changes rotate over: the first changes
	// create them, later ones update them. 0: each change creates its own.
	Objects int
	// EndpointsBy is what writes the EndpointSlices for endpoint changes.
	EndpointsBy string
	// Trace holds recorded changes in order, for change: trace.
	Trace []TraceChange
	// Traffic is real load during the changes; nil for none.
	Traffic *Traffic
	// Gateway is a real gateway of the mesh that changes add routes to; nil for none.
	Gateway *Gateway
	// Soak keeps one istiod, and its real sidecars, for the whole run. Blocks are successive
	// windows of their life, and the study asks what grows from one to the next.
	Soak bool
}

// Writers of the EndpointSlices for endpoint changes.
const (
	EndpointsByControllers = "controllers" // the cluster's, as pods start and end
	EndpointsBySlices      = "slices"      // the driver itself, in its own slices
)

// How simulated proxies connect to istiod.
const (
	SecurityMTLS      = "mtls"
	SecurityTLS       = "tls"
	SecurityPlaintext = "plaintext"
)

// ServiceEntry describes the unused ServiceEntries.
type ServiceEntry struct {
	Host       string // of all entries; "": a different host each
	Port       int
	Resolution string // in Istio's spelling
}

// Resolutions of a ServiceEntry.
const (
	ResolutionDNS    = "DNS"
	ResolutionStatic = "STATIC"
	ResolutionNone   = "NONE"
)

func defaults() *Control {
	return &Control{
		Changes: 10, Settle: 30 * time.Second, Quiet: time.Second, Idle: 2 * time.Second, Aftermath: time.Minute,
		Security: SecurityMTLS, StreamsPerConnection: 1, BadShare: 0.1,
		Namespace: "sim", DummiesNamespace: "default", EndpointsBy: EndpointsByControllers,
		ServiceEntry: ServiceEntry{Port: 80, Resolution: ResolutionDNS},
	}
}

func section(c *Control) study.Object {
	return study.Object{Name: "control", Fields: []study.Field{
		{Name: "changes", Doc: "Changes per trial; 10 if neither this nor duration is given.", Value: study.Int(&c.Changes, 1, maxChanges).OmitZero()},
		{Name: "duration", Doc: "Instead of changes: how long a trial makes changes at the cell's change_rate.",
			Value: study.Duration(&c.Duration, time.Second, time.Hour).OmitZero()},
		{Name: "settle", Doc: "Maximum wait for every proxy to have all changes, after the last one.",
			Value: study.Duration(&c.Settle, time.Second, 10*time.Minute)},
		{Name: "quiet", Doc: "How long all proxies must be quiet before a trial's window begins.",
			Value: study.Duration(&c.Quiet, 100*time.Millisecond, time.Minute)},
		{Name: "idle", Doc: "Time for measuring idle CPU before the first change, with all proxies connected: of istiod, and with measure sidecars of real sidecars; 0 to skip it.",
			Value: study.Duration(&c.Idle, 0, 10*time.Minute)},
		{Name: "aftermath", Doc: "Maximum time to watch the effect of factor disruption: until all proxies have their configuration again or, when istiod is scaled, the whole time.",
			Value: study.Duration(&c.Aftermath, time.Second, time.Hour)},
		{Name: "security", Doc: "How simulated proxies connect to istiod: mutual TLS with certificates that istiod signs for the pods' service accounts, as agents do; TLS with a token; or plain text.",
			Value: study.OneOf(&c.Security, SecurityMTLS, SecurityTLS, SecurityPlaintext)},
		{Name: "streams_per_connection", Doc: "Simulated proxies per connection to istiod; 1 as for real ones. More save memory here, but istiod then uses less memory and CPU than with real proxies. With several istiods fewer share a connection, so that each istiod gets its share.", Value: study.Int(&c.StreamsPerConnection, 1, 1000)},
		{Name: "answer_after", Doc: "Mean time a simulated proxy takes to acknowledge a response, as Envoy does; part of convergence. 0: at once, which costs istiod less CPU time.",
			Value: study.Duration(&c.AnswerAfter, 0, time.Second)},
		{Name: "real_endpoints", Doc: "Whether real pods are endpoints of a Service, as simulated ones are: the first of their namespace. For a pod without a Service, istiod searches all EndpointSlices of its namespace at every push.",
			Value: study.Bool(&c.RealEndpoints)},
		{Name: "bad_share", Doc: "Share of misbehaving proxies if factor clients is not good: of sidecars, gateways and ztunnels each, rounded to whole proxies.", Value: study.Percent(&c.BadShare, 0, 1)},
		{Name: "namespace", Doc: "Prefix of the population's namespaces: test gives test-1, test-2 and so on, also in sidecar_hosts.",
			Value: study.Named(&c.Namespace, reNamespaceStem, "namespace", study.NameHint+", as test")},
		{Name: "scope_namespace", Doc: "Namespace for a Sidecar of scope namespace or workload; the population's first if left out.",
			Value: study.Named(&c.ScopeNamespace, study.NamePattern, "namespace", study.NamespaceHint)},
		{Name: "dummies_namespace", Doc: "Namespace of unused objects: one of the population, or an existing one.",
			Value: study.Named(&c.DummiesNamespace, study.NamePattern, "namespace", study.NamespaceHint)},
		{Name: "service_entry", Doc: "Shape of the unused ServiceEntries.", Value: study.Object{Name: "service_entry", Flow: true, Fields: []study.Field{
			{Name: "host", Doc: "Their common host; each has its own if left out.",
				Value: study.Named(&c.ServiceEntry.Host, reEntryHost, "host", "use a DNS name, as httpbin.org")},
			{Name: "port", Doc: "Their port (HTTP).", Value: study.Int(&c.ServiceEntry.Port, 1, 65535)},
			{Name: "resolution", Doc: "Their resolution.", Value: study.OneOf(&c.ServiceEntry.Resolution, ResolutionDNS, ResolutionStatic, ResolutionNone)},
		}}},
		{Name: "soak", Doc: "Whether one istiod and the real sidecars live through the whole run, which has one cell: blocks are successive windows, in each of which the simulated proxies reconnect, and findings report how memory and convergence grow per hour (docs/method.md). The run lasts blocks.limit, within blocks.max; margin is the growth per hour that does not matter.",
			Value: study.Bool(&c.Soak)},
		{Name: "traffic", Doc: "Real load during every trial, from a pod with a sidecar to a Service of real pods with sidecars; {} for all defaults. Counts requests to stale endpoints.",
			Value: study.Stated(&c.Traffic, defaultTraffic, trafficFields)},
		{Name: "gateway", Doc: "A real ingress gateway (one pod) with a backend pod: changes of kind gateway-route and httproute add routes, and requests probe each from when it is due until the first success; {} for all defaults.",
			Value: study.Stated(&c.Gateway, defaultGateway, gatewayFields)},
		{Name: "objects", Doc: "Number of objects that changes cycle through: the first changes create them, later ones update them; 0: each change creates an object. For service, virtualservice, destinationrule, gateway, serviceentry, authorizationpolicy, gateway-route and httproute.",
			Value: study.Int(&c.Objects, 0, 10_000)},
		{Name: "endpoints_by", Doc: "Who writes EndpointSlices when endpoints change: the cluster's controllers, as pods start and end, or the driver itself (slices), which is faster and has exact commit times.",
			Value: study.OneOf(&c.EndpointsBy, EndpointsByControllers, EndpointsBySlices)},
		{Name: "trace", Doc: "Recorded changes, each with time and kind, such as `1.5s endpoints-scale` (change: trace).",
			Value: study.ListValue[TraceChange]{To: &c.Trace, Least: 1, Element: func(t *TraceChange) study.Value {
				return study.Parsed(t, parseTraceChange, TraceChange.String, jsonschema.Schema{Type: "string", Examples: []any{"1.5s endpoints-scale"}})
			}}},
	}}
}

// value is the section of a file.
type value struct{ c *Control }

func (v value) Decode(d *study.Decoder, n *study.Node) {
	section(v.c).Decode(d, n)
	if n.Kind == study.Mapping && n.Get("duration") != nil && n.Get("changes") == nil {
		v.c.Changes = 0
	}
}

func (v value) Encode() *study.Node { return section(v.c).Encode() }

func (v value) Schema() *jsonschema.Schema { return section(v.c).Schema() }

// checkControl finds errors within the section, and between it and the factors.
func checkControl(d *study.Decoder, s *study.Study) {
	c := Of(s)
	at := func(path ...any) study.Pos { return d.Pos(append([]any{"control"}, path...)...) }
	traced := slices.Contains(s.Levels(FactorChange), ChangeTrace)
	switch {
	case c.Changes > 0 && c.Duration > 0:
		d.Fail(at("duration"), study.CodeConflict, "leave one of them out", "changes and duration both set the number of changes")
	case traced && len(c.Trace) == 0:
		d.Fail(at(), study.CodeConflict, "for example trace: [0s no-op, 1.5s endpoints-scale]", "change: trace needs recorded changes")
	case !slices.Contains(s.Written(FactorChange), ChangeTrace) && len(c.Trace) > 0:
		d.Fail(at("trace"), study.CodeConflict, "set change: trace, or leave them out", "this study does not use recorded changes")
	case len(c.Trace) > maxTrace:
		d.Fail(at("trace"), study.CodeLimit, "", "more than %d recorded changes", maxTrace)
	}
	for i := 1; i < len(c.Trace); i++ {
		if c.Trace[i].At < c.Trace[i-1].At {
			d.Fail(at("trace", i), study.CodeConflict, "sort them by time", "this change is earlier than the previous one")
		}
	}
	if c.Traffic != nil && c.Traffic.Rate <= 0 {
		d.Fail(at("traffic", "rate"), study.CodeConflict, "a number of requests per second", "there is no traffic at rate 0")
	}
	checkGateway(d, s)
	checkSidecars(d, s)
	checkSoak(d, s)
	if s.Mesh != study.MeshIstio {
		d.Fail(d.Pos("mesh"), study.CodeConflict, "leave it out: istio", "mesh %s has no control plane to study", s.Mesh)
	}
}

// checkSidecars finds what a study of real sidecars cannot measure.
func checkSidecars(d *study.Decoder, s *study.Study) {
	switch at := d.Pos("measures"); {
	case !s.Measured(MeasureSidecars):
	case s.Measured(MeasureConvergence):
		d.Fail(at, study.CodeConflict, "leave convergence out", "measure convergence polls real sidecars constantly, which would dominate what measure sidecars finds")
	case Of(s).Idle == 0:
		d.Fail(d.Pos("control", "idle"), study.CodeConflict, "set control.idle: 15s, the period of the kubelet's probes of a sidecar", "measure sidecars needs an idle period")
	case !slices.ContainsFunc(s.Written(FactorRealPods), func(n string) bool { return n != "0" }):
		d.Fail(at, study.CodeNoCell, "settings: {real_pods: 10}", "measure sidecars: no cell has real_pods")
	}
}

// checkPopulation finds cells without proxies, and trials with too many changes.
func checkPopulation(d *study.Decoder, p *study.Plan) {
	if Of(p.Study).Soak && len(p.Cells) > 1 {
		d.Fail(d.Pos("control", "soak"), study.CodeConflict, "fix each factor at one level, and compare runs with meshtrial compare", "a soak has one cell, because one istiod lives through it, and this study has %d", len(p.Cells))
		return
	}
	if !checkDisruption(d, p) {
		return
	}
	number := Of(p.Study).NamespaceNumber(Of(p.Study).ScopeNamespace)
	for _, cell := range p.Cells {
		l, err := LevelsOf(cell)
		switch {
		case err != nil:
			d.Fail(d.Pos("factors"), study.CodeConflict, "", "%v", err)
		case l.Connected()+l.RealPods == 0:
			d.Fail(d.Pos("factors"), study.CodeConflict, "add proxies, gateways or real_pods", "cell %s has no proxies", p.Label(cell))
		case (l.SidecarScope == SidecarScopeNamespace || l.SidecarScope == SidecarScopeWorkload) && (number == 0 || number > l.Namespaces):
			d.Fail(d.Pos("control", "scope_namespace"), study.CodeConflict, fmt.Sprintf("use %s-1 to %s-%d", Of(p.Study).Namespace, Of(p.Study).Namespace, l.Namespaces),
				"no proxy of cell %s is in namespace %s", p.Label(cell), Of(p.Study).ScopeNamespace)
		case !d.Stored && l.SliceNamespaces > l.EndpointSlices: // 0 without slices
			d.Fail(p.Study.Place(FactorSliceNamespaces, FactorEndpointSlices), study.CodeConflict, "use at most as many namespaces as slices", "cell %s: %d EndpointSlices cannot fill %d namespaces", p.Label(cell), l.EndpointSlices, l.SliceNamespaces)
		case !checkRoutes(d, p, cell, l):
		case ChangeTime(p.Study, cell) < 0:
			d.Fail(d.Pos("control"), study.CodeConflict, "end at a rate above 0, or use fewer changes", "cell %s never reaches %d changes: its rate falls to 0 before", p.Label(cell), ChangesIn(p.Study, cell))
		case !checkLevers(d, p, cell, l):
		case ChangesIn(p.Study, cell) > maxChanges:
			d.Fail(d.Pos("control"), study.CodeConflict, fmt.Sprintf("use at most %d", maxChanges), "cell %s makes %d changes per trial", p.Label(cell), ChangesIn(p.Study, cell))
		default:
			continue
		}
		return
	}
}

// NamespaceNumber returns the number of a namespace of the population from the study's name for it:
// NAME-1 is the first. It returns 0 for other names.
func (c *Control) NamespaceNumber(name string) int {
	text, ok := strings.CutPrefix(name, c.Namespace+"-")
	n, err := strconv.Atoi(text)
	if !ok || err != nil || n < 1 || strconv.Itoa(n) != text {
		return 0
	}
	return n
}

// Durations of parts of a control-plane trial, measured on two cores.
const (
	restartTime = 8 * time.Second       // restarting istiod with other levers, until ready
	electedTime = 6 * time.Second       // until istiod wins its election, which continues while proxies connect
	connectTime = 40 * time.Millisecond // per proxy, as fast as istiod admits them
	deliverTime = time.Second           // after the last change, until every proxy has it
	renewTime   = 13 * time.Second      // recreating real pods
	sliceTime   = 3 * time.Millisecond  // creating and deleting an EndpointSlice and its Service
	gatewayTime = 2 * time.Second       // starting a real gateway, until it serves its first route
)

// controlTrial returns the minimum and maximum duration of a trial of a cell.
func controlTrial(s *study.Study, cell record.Cell) (shortest, longest time.Duration) {
	l, err := LevelsOf(cell)
	if err != nil {
		return 0, 0
	}
	c := Of(s)
	base := time.Duration(l.Connected()+l.RealPods)*connectTime + c.Quiet + c.Idle + ChangeTime(s, cell) + study.SwitchTime
	if !c.Soak {
		base += restartTime + electedTime
	}
	base += time.Duration(l.EndpointSlices) * sliceTime
	if s.Measured(MeasureSidecars) && l.RealPods > 0 {
		base += renewTime
	}
	least, most := aftermath(s, l)
	if c.Gateway != nil {
		base += gatewayTime
	}
	if l.Change == ChangeHTTPRoute { // plus status updates, and again on deletion
		least, most = least+deliverTime, most+2*c.Settle
	}
	return base + least + min(deliverTime+l.DebounceAfter, c.Settle), base + most + c.Settle
}

// Of returns the section of a control-plane study, nil for others.
func Of(s *study.Study) *Control {
	c, _ := s.Section.(*Control)
	return c
}

func init() { study.AddKind(study.ControlPlane, spec()) }

func spec() study.Spec {
	return study.Spec{
		About: "the control plane", Section: "control", ByDefault: "{}",
		Example: FactorSidecarScope + ": " + SidecarScopeNone,
		Factors: factors,
		Lacks: func(t *record.Trial) string { // invalid trials have it, too
			if t.Control == nil {
				return "control"
			}
			return ""
		},
		Measures: []string{MeasureConvergence, MeasureCost, MeasureConfig, MeasureAmplification, MeasureStaleness, MeasureSignals, MeasureSidecars, MeasureRecovery},
		// Scraping signals during the window costs istiod CPU, sidecars are recreated for each
		// trial, and recovery is watched after the window.
		Unasked:    []string{MeasureSignals, MeasureSidecars, MeasureRecovery},
		Findings:   findings,
		TuneNames:  tuneNames,
		Reference:  reference,
		Sample:     "{control: {traffic: {}, gateway: {}}, tune: {}}",
		NewSection: func() any { return defaults() },
		Fields: func(section any) []study.Placed {
			return []study.Placed{{After: "envoy_filters", Field: study.Field{Name: "control", Value: value{section.(*Control)},
				Doc: "Makes this a control-plane study, with its own factors: changes are made and followed to every proxy. {} for all defaults."}}}
		},
		Begin: func(s *study.Study) {
			s.Load, s.Warmup = study.Load{}, study.Warmup{}
		},
		Resolve: func(_ *study.Decoder, s *study.Study) {
			if Of(s).ScopeNamespace == "" {
				Of(s).ScopeNamespace = Of(s).Namespace + "-1"
			}
		},
		Check:     checkControl,
		CheckPlan: checkPopulation,
		Trial:     controlTrial,
		Warnings:  resonances,
	}
}

// checkLevers finds levels in a cell that Kubernetes or istiod would reject or misinterpret.
func checkLevers(d *study.Decoder, p *study.Plan, cell record.Cell, l Levels) bool {
	fail := func(hint, text, factor, with string) bool {
		d.Fail(p.Study.Place(factor, with), study.CodeConflict, hint, "cell %s: "+text, p.Label(cell), factor, usualIn(cell, factor), with, usualIn(cell, with))
		return false
	}
	value := func(name string) (float64, bool) {
		f, _ := study.FactorByName(name)
		return f.Value(cell[name])
	}
	for _, pair := range [][2]string{{FactorIstiodCPURequest, FactorIstiodCPU}, {FactorIstiodMemRequest, FactorIstiodMemory}} {
		request, requested := value(pair[0])
		if limit, limited := value(pair[1]); requested && limited && request > limit {
			return fail("Kubernetes rejects a request above its limit: lower one or raise the other", "%s %s is more than the limit, %s %s", pair[0], pair[1])
		}
	}
	if l.DebounceAfter > l.DebounceMax {
		return fail("istiod never waits longer than debounce_max: raise that too", "%s %s is longer than %s %s", study.FactorDebounceAfter, FactorDebounceMax)
	}
	if kind, n := l.Arrival(); kind == study.ArrivalBurst && n > ChangesIn(p.Study, cell) {
		d.Fail(p.Study.Place(FactorChangeArrival), study.CodeConflict, fmt.Sprintf("use burst for all at once, or make at least %d changes", n),
			"cell %s: bursts of %d changes, but a trial makes %d", p.Label(cell), n, ChangesIn(p.Study, cell))
		return false
	}
	return true
}

// usualIn returns a cell's level of a lever, and the usual level if it is as installed.
func usualIn(cell record.Cell, factor string) string {
	f, _ := study.FactorByName(factor)
	if level := cell[factor]; level != study.LevelInstalled {
		return level
	}
	return f.Usual
}

const reference = `
A study with the section ` + "`control`, even `{}`" + `, is a control-plane study. It has only these factors,
and no ` + "`workload`, `load`, `warmup`, `window` or `interval`" + `. ` + "`sidecar_hosts`" + ` needs a Sidecar resource,
` + "`xds` and `clients`" + ` need simulated proxies, and a trace replaces ` + "`change_rate` and `change_arrival`" + `:
` + "`ramp:1:20:30s`" + ` goes from 1 to 20 changes per second in 30 s, ` + "`steps:1:10s,8:5s`" + ` holds one rate after
the other, and ` + "`burst:10`" + ` makes ten at a time.

The factors from ` + "`sidecar_scope`" + ` on are levers: settings of istiod and of the mesh. ` + "`installed`" + ` leaves a
lever unchanged. Trials set only levers to which a study gives another level, and the run reverts
them at the end. The running istiod's other levers are read and recorded.
`
