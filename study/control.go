package study

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/invopop/jsonschema"

	"github.com/meshtrial/meshtrial/record"
)

// Control is the section that makes a study one of the control plane: what is
// the same in every trial.
type Control struct {
	// Changes is how many changes a trial makes; 0: as many as fit into
	// Duration at the cell's rate.
	Changes  int
	Duration time.Duration
	// Settle is how long to wait at most after the last change until every
	// proxy has all of them.
	Settle time.Duration
	// Quiet is how long no message may come before the window begins.
	Quiet time.Duration
	// Idle is how long istiod's CPU, and that of real sidecars, is measured
	// before the first change; 0: not at all.
	Idle time.Duration
	// Aftermath is how long at most what follows a disruption is watched.
	Aftermath time.Duration
	// Security is how simulated proxies reach istiod.
	Security string
	// StreamsPerConnection is how many simulated proxies share a connection.
	StreamsPerConnection int
	// AnswerAfter is how long simulated proxies take on average to answer a
	// response; 0: they answer at once.
	AnswerAfter time.Duration
	// RealEndpoints has real pods be endpoints of a Service of the population,
	// as simulated ones are.
	RealEndpoints bool
	// BadShare is the share of proxies that misbehave where factor clients
	// is not good.
	BadShare Ratio
	// Namespace is the stem of the names by which this study calls the
	// population's namespaces: NAME-1, NAME-2 and so on.
	Namespace string
	// ScopeNamespace is where a Sidecar of scope namespace or workload
	// stands.
	ScopeNamespace string
	// DummiesNamespace is where objects are that nobody uses.
	DummiesNamespace string
	ServiceEntry     ServiceEntry
	// Objects is how many objects changes of configuration go to in turn: the
	// first changes make them, later ones update them. 0: each change makes
	// one of its own.
	Objects int
	// EndpointsBy is who writes the EndpointSlices that changes of endpoints
	// are about.
	EndpointsBy string
	// TraceFile names a file of recorded changes; see [Study.WithFiles].
	// Empty once they are in Trace.
	TraceFile string
	// Trace has recorded changes in their order, for change: trace.
	Trace []TraceChange
	// Traffic is real load beside the changes; nil for none.
	Traffic *Traffic
	// Gateway is a real gateway of the mesh that changes give routes to; nil for none.
	Gateway *Gateway
	// Soak has one istiod, and its real sidecars, live through the whole run: blocks
	// are successive windows of their life, and what grows from one to the next is
	// asked.
	Soak bool
	// ChurnOn says whose endpoints change: ChurnTraffic, ChurnPopulation, or
	// "" for those of the traffic where there is any and they can.
	ChurnOn string
}

// Who writes the EndpointSlices of changed endpoints.
const (
	EndpointsByControllers = "controllers" // the cluster's, as pods come and go
	EndpointsBySlices      = "slices"      // the driver itself, in slices of its own
)

// How simulated proxies reach istiod.
const (
	SecurityMTLS      = "mtls"
	SecurityTLS       = "tls"
	SecurityPlaintext = "plaintext"
)

// ServiceEntry is what the ServiceEntries that nobody uses look like.
type ServiceEntry struct {
	Host       string // of all of them; "": each has its own
	Port       int
	Resolution string // as Istio spells it
}

// Resolutions of a ServiceEntry.
const (
	ResolutionDNS    = "DNS"
	ResolutionStatic = "STATIC"
	ResolutionNone   = "NONE"
)

func defaultControl() *Control {
	return &Control{
		Changes: 10, Settle: 30 * time.Second, Quiet: time.Second, Idle: 2 * time.Second, Aftermath: time.Minute,
		Security: SecurityMTLS, StreamsPerConnection: 1, BadShare: 0.1,
		Namespace: "sim", DummiesNamespace: "default", EndpointsBy: EndpointsByControllers,
		ServiceEntry: ServiceEntry{Port: 80, Resolution: ResolutionDNS},
	}
}

func controlSection(c *Control) Object {
	return Object{Name: "control", Fields: []Field{
		{Name: "changes", Doc: "Changes per trial; 10 if neither this nor duration is given.", Value: changesValue{c}},
		{Name: "duration", Doc: "In place of changes: how long a trial makes changes at the cell's change_rate.",
			Value: DurationValue{To: &c.Duration, Low: time.Second, High: time.Hour, OmitZero: true}},
		{Name: "settle", Doc: "Maximum wait after the last change until every proxy has all changes.",
			Value: DurationValue{To: &c.Settle, Low: time.Second, High: 10 * time.Minute}},
		{Name: "quiet", Doc: "How long all proxies must be quiet before a trial's window begins.",
			Value: DurationValue{To: &c.Quiet, Low: 100 * time.Millisecond, High: time.Minute}},
		{Name: "idle", Doc: "How long istiod's CPU, and with measure sidecars that of the real ones, is measured before the first change, with all proxies connected; 0 for not at all.",
			Value: DurationValue{To: &c.Idle, High: 10 * time.Minute}},
		{Name: "aftermath", Doc: "How long at most the factor disruption is watched: until all proxies have their configuration again or, where istiod is scaled, the whole time.",
			Value: DurationValue{To: &c.Aftermath, Low: time.Second, High: time.Hour}},
		{Name: "security", Doc: "How simulated proxies reach istiod: mutual TLS with certificates that istiod signs for the pods' service accounts, as agents do; TLS with a token; or plain text.",
			Value: TextValue{To: &c.Security, OneOf: []string{SecurityMTLS, SecurityTLS, SecurityPlaintext}}},
		{Name: "streams_per_connection", Doc: "Simulated proxies per connection to istiod; 1 for one each, as real ones have. With more the simulated proxies take less memory, and istiod less memory and CPU than with real ones. With several istiods fewer share one, so that each gets its share.", Value: IntValue{&c.StreamsPerConnection, 1, 1000}},
		{Name: "answer_after", Doc: "Mean time a simulated proxy takes to answer a response, as Envoy takes some; part of convergence. 0: it answers at once, which costs istiod less CPU time.",
			Value: DurationValue{To: &c.AnswerAfter, High: time.Second}},
		{Name: "real_endpoints", Doc: "Whether real pods, like simulated ones, are endpoints of a Service: the first one of their namespace. For a pod of no Service istiod searches all EndpointSlices of its namespace at every push.",
			Value: BoolValue{&c.RealEndpoints}},
		{Name: "bad_share", Doc: "Share of the proxies that misbehave where factor clients is not good: the same of sidecars, gateways and ztunnels, rounded to whole proxies.", Value: shareValue{&c.BadShare}},
		{Name: "namespace", Doc: "Prefix of the population's namespaces: with test they are test-1, test-2 and so on, also in sidecar_hosts.",
			Value: TextValue{To: &c.Namespace, Pattern: reNamespaceStem, Noun: "namespace", Hint: NameHint + ", as test"}},
		{Name: "scope_namespace", Doc: "Namespace that a Sidecar of scope namespace or workload applies to; the first of the population if left out.",
			Value: TextValue{To: &c.ScopeNamespace, Pattern: LabelPattern, Noun: "namespace", Hint: NamespaceHint}},
		{Name: "dummies_namespace", Doc: "Namespace of unused objects: one of the population, or an existing one.",
			Value: TextValue{To: &c.DummiesNamespace, Pattern: LabelPattern, Noun: "namespace", Hint: NamespaceHint}},
		{Name: "service_entry", Doc: "Shape of the unused ServiceEntries.", Value: Object{Name: "service_entry", Flow: true, Fields: []Field{
			{Name: "host", Doc: "Their common host; each has its own if left out.",
				Value: TextValue{To: &c.ServiceEntry.Host, Pattern: reEntryHost, Noun: "host", Hint: "use a DNS name, as httpbin.org"}},
			{Name: "port", Doc: "Their port (HTTP).", Value: IntValue{&c.ServiceEntry.Port, 1, 65535}},
			{Name: "resolution", Doc: "How their addresses are resolved.", Value: TextValue{To: &c.ServiceEntry.Resolution,
				OneOf: []string{ResolutionDNS, ResolutionStatic, ResolutionNone}}},
		}}},
		{Name: "soak", Doc: "Whether one istiod and the real sidecars live through the whole run, which has one cell: blocks are successive windows of their life, in each of which the simulated proxies connect anew, and findings say how memory and convergence grow per hour (docs/method.md). The run takes blocks.limit, within blocks.max; margin is the growth per hour that does not matter.",
			Value: BoolValue{&c.Soak}},
		{Name: "traffic", Doc: "Real load through every trial, from a pod with a sidecar to a Service of real pods with sidecars; {} takes every default. Requests that go to a stale endpoint are counted.",
			Value: trafficValue{c}},
		{Name: "gateway", Doc: "A real ingress gateway of the mesh, one pod, with a pod behind it: changes of kind gateway-route and httproute give it routes, and requests ask for each, from when it is due until the first good answer; {} takes every default.",
			Value: gatewayValue{c}},
		{Name: "churn_on", Doc: "Whose endpoints change (endpoints-scale, endpoints-replace, rolling-restart): traffic, those of the pods that serve the traffic, the default where there is traffic; or population, those of simulated Services.",
			Value: TextValue{To: &c.ChurnOn, OneOf: []string{ChurnTraffic, ChurnPopulation}}},
		{Name: "objects", Doc: "Objects that configuration changes (service, virtualservice, destinationrule, gateway, serviceentry, authorizationpolicy, gateway-route, httproute) go to in turn: the first changes make them, later ones update them. 0: each change makes one of its own.",
			Value: IntValue{&c.Objects, 0, 10_000}},
		{Name: "endpoints_by", Doc: "Who writes the EndpointSlices where endpoints change: the cluster's controllers, as pods come and go, or the driver itself (slices), which is faster and has exact commit times.",
			Value: TextValue{To: &c.EndpointsBy, OneOf: []string{EndpointsByControllers, EndpointsBySlices}}},
		{Name: "trace_file", Doc: "File of recorded changes beside the study: a line each with the time and the kind of change, as `1.5s endpoints-scale` (change: trace).", Value: TextValue{To: &c.TraceFile}},
		{Name: "trace", Doc: "Recorded changes, each as in such a file (change: trace).",
			Value: ListValue[TraceChange]{To: &c.Trace, Least: 1, Element: func(t *TraceChange) Value { return traceValue{t} }}},
	}}
}

// changesValue is the count of changes; 0 stands for a duration instead.
type changesValue struct{ c *Control }

func (v changesValue) inner() IntValue { return IntValue{&v.c.Changes, 1, 40_000} }

func (v changesValue) Decode(d *Decoder, n *Node) { v.inner().Decode(d, n) }

func (v changesValue) Encode() *Node {
	if v.c.Changes == 0 {
		return nil
	}
	return v.inner().Encode()
}

func (v changesValue) Schema() *jsonschema.Schema { return v.inner().Schema() }

// shareValue is a percentage from above 0 to 100.
type shareValue struct{ To *Ratio }

func (v shareValue) Decode(d *Decoder, n *Node) {
	before := len(d.Errs)
	RatioValue(v).Decode(d, n)
	if len(d.Errs) == before && *v.To > 1 {
		d.Fail(n.Pos, CodeRange, "", "%s is more than all", v.To)
	}
}

func (v shareValue) Encode() *Node { return RatioValue(v).Encode() }

func (v shareValue) Schema() *jsonschema.Schema { return RatioValue(v).Schema() }

// controlValue is the section control; a study without it has none.
type controlValue struct{ s *Study }

func (v controlValue) section() Object {
	c := v.s.Control
	if c == nil {
		c = defaultControl()
	}
	return controlSection(c)
}

func (v controlValue) Decode(d *Decoder, n *Node) {
	v.s.Control = defaultControl()
	v.section().Decode(d, n)
	if n.Kind == Mapping && n.Get("duration") != nil && n.Get("changes") == nil {
		v.s.Control.Changes = 0
	}
}

func (v controlValue) Encode() *Node {
	if v.s.Control == nil {
		return nil
	}
	return v.section().Encode()
}

func (v controlValue) Schema() *jsonschema.Schema { return v.section().Schema() }

// checkControl finds what is wrong within the section and between it and the
// factors.
func (d *Decoder) checkControl(s *Study) {
	c := s.Control
	at := func(f string) Pos { return d.Pos("control", f) }
	traced := has(s.Levels(FactorChange), ChangeTrace)
	switch {
	case c.Changes > 0 && c.Duration > 0:
		d.Fail(at("duration"), CodeConflict, "leave one of them out", "both changes and duration say how many changes a trial makes")
	case c.TraceFile != "" && len(c.Trace) > 0:
		d.Fail(at("trace_file"), CodeConflict, "leave one of them out", "recorded changes are both in trace and in trace_file")
	case traced && c.TraceFile == "" && len(c.Trace) == 0:
		d.Fail(d.Pos("control"), CodeConflict, "as trace_file: changes.txt", "change: trace needs recorded changes")
	case !has(s.Written(FactorChange), ChangeTrace) && (c.TraceFile != "" || len(c.Trace) > 0):
		d.Fail(at("trace"), CodeConflict, "set change: trace, or leave them out", "recorded changes are not used by this study")
	case len(c.Trace) > maxTrace:
		d.Fail(at("trace"), CodeLimit, "", "more than %d recorded changes", maxTrace)
	}
	for i := 1; i < len(c.Trace); i++ {
		if c.Trace[i].At < c.Trace[i-1].At {
			d.Fail(d.Pos("control", "trace", i), CodeConflict, "put them in the order of time", "this change comes before the last one")
		}
	}
	d.checkTraffic(s)
	d.checkGateway(s)
	d.checkSidecars(s)
	d.checkSoak(s)
	if s.Mesh != MeshIstio {
		d.Fail(d.Pos("mesh"), CodeConflict, "leave it out: istio", "mesh %s has no control plane to study", s.Mesh)
	}
}

// checkSidecars finds what a study of real sidecars could not measure.
func (d *Decoder) checkSidecars(s *Study) {
	switch at := d.Pos("measures"); {
	case !s.Measured(MeasureSidecars):
	case s.Measured(MeasureConvergence):
		d.Fail(at, CodeConflict, "leave convergence out", "measure convergence asks real sidecars all the time what they have in force, which would be most of what measure sidecars finds")
	case s.Control.Idle == 0:
		d.Fail(d.Pos("control", "idle"), CodeConflict, "set control.idle: 15s, as long as the kubelet's probes of a sidecar are apart", "measure sidecars needs a time in which nothing changes")
	case !slices.ContainsFunc(s.Written(FactorRealPods), func(n string) bool { return n != "0" }):
		d.Fail(at, CodeNoCell, "settings: {real_pods: 10}", "measure sidecars: no cell has real_pods")
	}
}

// checkPopulation finds cells without any proxy, and more changes than a
// trial may have.
func (d *Decoder) checkPopulation(p *Plan) {
	if p.Study.Control.Soak && len(p.Cells) > 1 {
		d.Fail(d.Pos("control", "soak"), CodeConflict, "give each factor one level, and compare runs with meshtrial compare", "one istiod cannot live through trials of %d cells: a soak has one", len(p.Cells))
		return
	}
	if !d.checkDisruption(p) {
		return
	}
	for _, cell := range p.Cells {
		l, err := ControlOf(cell)
		switch {
		case err != nil:
			d.Fail(d.Pos("factors"), CodeConflict, "", "%v", err)
			return
		case l.Connected()+l.RealPods == 0:
			d.Fail(d.Pos("factors"), CodeConflict, "give it proxies, gateways or real_pods", "cell %s has no proxy to configure", p.Label(cell))
			return
		case l.SidecarScope != SidecarScopeNone && l.SidecarScope != SidecarScopeMesh && !p.Study.hasNamespace(l):
			d.Fail(d.Pos("control", "scope_namespace"), CodeConflict, fmt.Sprintf("from %s-1 to %s-%d is possible", p.Study.Control.Namespace, p.Study.Control.Namespace, l.Namespaces),
				"no proxy of cell %s is in namespace %s", p.Label(cell), p.Study.Control.ScopeNamespace)
			return
		case !d.Stored && l.SliceNamespaces > l.EndpointSlices: // 0 where there are no slices
			d.Fail(p.Study.Place(FactorSliceNamespaces, FactorEndpointSlices), CodeConflict, "as many namespaces as slices at the most", "cell %s: %d EndpointSlices do not fill %d namespaces", p.Label(cell), l.EndpointSlices, l.SliceNamespaces)
			return
		case !d.checkRoutes(p, cell, l):
			return
		case p.Study.ChangeTime(cell) < 0:
			d.Fail(d.Pos("control"), CodeConflict, "let the rate end above 0, or ask for fewer changes", "cell %s never comes to %d changes: its rate falls to 0 before", p.Label(cell), p.Study.ChangesIn(cell))
			return
		case !d.checkLevers(p, cell, l):
			return
		case p.Study.ChangesIn(cell) > 40_000:
			d.Fail(d.Pos("control"), CodeConflict, "at most 40000 are possible", "cell %s makes %d changes per trial", p.Label(cell), p.Study.ChangesIn(cell))
			return
		}
	}
}

// hasNamespace says whether the scope's namespace is one of the population's.
func (s *Study) hasNamespace(l ControlLevels) bool {
	text, ok := strings.CutPrefix(s.Control.ScopeNamespace, s.Control.Namespace+"-")
	n, err := strconv.Atoi(text)
	return ok && err == nil && n >= 1 && n <= l.Namespaces && strconv.Itoa(n) == text
}

// What parts of a control-plane trial take, seen on two cores.
const (
	restartTime = 8 * time.Second       // istiod with other levers, until it is ready
	electedTime = 6 * time.Second       // until it has won its election, which goes on while proxies connect
	connectTime = 40 * time.Millisecond // a proxy, as fast as istiod admits them
	deliverTime = time.Second           // the last change, until every proxy has it
	renewTime   = 13 * time.Second      // real pods, made anew
	sliceTime   = 3 * time.Millisecond  // an EndpointSlice and its Service, made and taken away
	gatewayTime = 2 * time.Second       // a real gateway, until it serves its first route
)

// controlTrial is how long a trial of a cell takes, at least and at most.
func (s *Study) controlTrial(cell record.Cell) (shortest, longest time.Duration) {
	l, err := ControlOf(cell)
	if err != nil {
		return 0, 0
	}
	c := s.Control
	base := time.Duration(l.Connected()+l.RealPods)*connectTime + c.Quiet + c.Idle + s.ChangeTime(cell) + SwitchTime
	if !c.Soak {
		base += restartTime + electedTime
	}
	base += time.Duration(l.EndpointSlices) * sliceTime
	if s.Measured(MeasureSidecars) && l.RealPods > 0 {
		base += renewTime
	}
	least, most := s.aftermath(l)
	if c.Gateway != nil {
		base += gatewayTime
	}
	if l.Change == ChangeHTTPRoute { // the status follows, and once more when they are deleted
		least, most = least+deliverTime, most+2*c.Settle
	}
	return base + least + min(deliverTime+l.DebounceAfter, c.Settle), base + most + c.Settle
}

func controlSpec() Spec {
	return Spec{
		About: "the control plane", Section: "control", ByDefault: "{}",
		Example:  FactorSidecarScope + ": " + SidecarScopeNone,
		Factors:  controlFactors,
		Measures: []string{MeasureConvergence, MeasureCost, MeasureConfig, MeasureAmplification, MeasureStaleness, MeasureSignals, MeasureSidecars, MeasureRecovery},
		// Signals are scraped within the window, at istiod's cost, sidecars are made anew in each
		// trial, and what a disruption does is watched after it.
		Unasked:   []string{MeasureSignals, MeasureSidecars, MeasureRecovery},
		Findings:  controlFindings,
		Reference: referenceControl,
		Sample:    "{control: {traffic: {}, gateway: {}}, tune: {}}",
		Begin: func(s *Study) {
			s.Control = defaultControl()
			s.Workload, s.Load, s.Warmup, s.Window, s.Interval = Workload{}, Load{}, Warmup{}, 0, 0
		},
		Resolve: func(_ *Decoder, s *Study) {
			if s.Control.ScopeNamespace == "" {
				s.Control.ScopeNamespace = s.Control.Namespace + "-1"
			}
		},
		Check:     (*Decoder).checkControl,
		CheckPlan: (*Decoder).checkPopulation,
		Files:     traceFile,
		Trial:     (*Study).controlTrial,
		Warnings:  (*Plan).resonances,
	}
}

// traceFile puts in recorded changes.
func traceFile(s *Study, read func(name string) ([]byte, error)) error {
	if s.Control.TraceFile != "" {
		control := *s.Control
		changes, err := ReadLines(read, "control.trace_file", control.TraceFile, maxTrace, "recorded changes", "a change a line, as 1.5s endpoints-scale", parseTraceChange)
		if err != nil {
			return err
		}
		for i := 1; i < len(changes); i++ {
			if changes[i].At < changes[i-1].At {
				return Pos{File: control.TraceFile}.Fault(CodeConflict, "put the lines in the order of time", "change %d comes before the one above it", i+1)
			}
		}
		control.TraceFile, control.Trace = "", changes
		s.Control = &control
	}
	return nil
}

// checkLevers finds what Kubernetes or istiod would refuse of a cell, or take
// as something else than it says.
func (d *Decoder) checkLevers(p *Plan, cell record.Cell, l ControlLevels) bool {
	fail := func(hint, text, factor, with string) bool {
		d.Fail(p.Study.Place(factor, with), CodeConflict, hint, "cell %s: "+text, p.Label(cell), factor, usualIn(cell, factor), with, usualIn(cell, with))
		return false
	}
	for _, pair := range [][2]string{{FactorIstiodCPURequest, FactorIstiodCPU}, {FactorIstiodMemRequest, FactorIstiodMemory}} {
		if request, limit, ok := bothValues(cell, pair[0], pair[1]); ok && request > limit {
			return fail("Kubernetes refuses a request above its limit: lower the one or raise the other", "%s %s is more than the limit, %s %s", pair[0], pair[1])
		}
	}
	if l.DebounceAfter > l.DebounceMax {
		return fail("istiod never waits longer than debounce_max: raise it too", "%s %s is longer than %s %s", FactorDebounceAfter, FactorDebounceMax)
	}
	if kind, n := l.Arrival(); kind == ArrivalBurst && n > p.Study.ChangesIn(cell) {
		d.Fail(p.Study.Place(FactorChangeArrival), CodeConflict, fmt.Sprintf("burst is all at once; or make at least %d changes", n),
			"cell %s: bursts of %d changes, but a trial makes %d", p.Label(cell), n, p.Study.ChangesIn(cell))
		return false
	}
	return true
}

// usualIn is a cell's level of a lever; of one that is as installed the usual one.
func usualIn(cell record.Cell, factor string) string {
	f, _ := FactorByName(factor)
	if level := cell[factor]; level != LevelInstalled {
		return level
	}
	return f.Usual
}

// bothValues are the levels of two factors as numbers, false unless both are.
func bothValues(cell record.Cell, a, b string) (x, y float64, ok bool) {
	value := func(name string) (float64, bool) {
		f, _ := FactorByName(name)
		return f.Value(cell[name])
	}
	x, ok = value(a)
	if !ok {
		return 0, 0, false
	}
	y, ok = value(b)
	return x, y, ok
}
