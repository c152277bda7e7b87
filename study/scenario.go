package study

import (
	"maps"
	"slices"
	"time"

	"github.com/invopop/jsonschema"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/drive/graph"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// Scenario is what makes a study one of resilience: the services, and what
// happens to them in every trial.
type Scenario struct {
	Graph graph.Graph
	// Generate and Isotope are other ways to say the graph; both are zero once
	// they are in Graph.
	Generate *graph.Spec
	Isotope  string // a file; see [Study.WithFiles]
	// Entry is the service that the clients call, Clients how many load
	// generators there are, each a pod with a sidecar.
	Entry   string
	Clients int
	// Timeline is what happens in a trial.
	Timeline fault.Timeline
	// Expect says which variants are expected to fail an assertion; the others
	// are expected to pass all of them.
	Expect map[string]string
}

// Verdicts that a study can expect.
const (
	ExpectPass = "pass"
	ExpectFail = "fail"
)

// ScenarioIn is the scenario of a study of resilience, nil for others.
func ScenarioIn(s *Study) *Scenario {
	c, _ := s.Section.(*Scenario)
	return c
}

// Expected is the verdict that the study expects of a cell.
func (s *Study) Expected(cell record.Cell) string {
	if c := ScenarioIn(s); c != nil && c.Expect[cell[FactorVariant]] == ExpectFail {
		return ExpectFail
	}
	return ExpectPass
}

// scenarioFields are the fields of a file that a scenario has.
func scenarioFields(c *Scenario) []placed {
	return []placed{
		{after: "control", field: field{name: "graph", doc: "The services of a study of resilience, and who calls whom.", value: graphValue{c}}},
		{after: "graph", field: field{name: "timeline", doc: "Makes this a study of resilience, with its own factors: what happens in a trial, and when.", value: timelineSection(&c.Timeline)}},
		{after: "timeline", field: field{name: "expect", doc: "Variants that are expected to fail an assertion, as {no-retries: fail}.", value: expectValue{&c.Expect}}},
		{in: "load", field: field{name: "to", doc: "The service that the clients call; the one that no other calls if left out.",
			value: textValue{to: &c.Entry, pattern: reLabel, noun: "service", hint: "use the name of a service of the graph"}}},
		{in: "load", after: "to", field: field{name: "clients", doc: "Load generators, each a pod with a sidecar; they share the rate.", value: intValue{&c.Clients, 1, 100}}},
	}
}

// graphValue is the section graph.
type graphValue struct{ s *Scenario }

func (v graphValue) section() object {
	g := &v.s.Graph
	return object{name: "graph", fields: []field{
		{name: "services", doc: "The services by their names.", value: servicesValue{&g.Services}},
		{name: "generate", doc: "In place of services: a graph of this size.", value: optional(&v.s.Generate, generation)},
		{name: "isotope", doc: "In place of services: a file with a service graph of istio/tools' isotope, beside the study.", value: textValue{to: &v.s.Isotope}},
	}}
}

func (v graphValue) decode(d *decoder, n *node) { v.section().decode(d, n) }

func (v graphValue) encode() *node { return v.section().encode() }

func (v graphValue) schema() *jsonschema.Schema { return v.section().schema() }

func generation(g *graph.Spec) object {
	return object{name: "generate", flow: true, fields: []field{
		{name: "services", required: true, doc: "How many services.", value: intValue{&g.Services, 1, graph.MaxServices}},
		{name: "depth", required: true, doc: "Services on the longest path, including the entry.", value: intValue{&g.Depth, 1, 100}},
		{name: "fan_out", required: true, doc: "Approximate number of services that each calls.", value: intValue{&g.FanOut, 1, graph.MaxCalls}},
		{name: "seed", doc: "Chooses one of the graphs of this size.", value: seedValue{&g.Seed}},
	}}
}

// servicesValue is the mapping of names to services.
type servicesValue struct{ to *[]graph.Service }

func (v servicesValue) decode(d *decoder, n *node) {
	if n.kind != mapping {
		d.fail(n.pos, CodeType, "as {bar: {replicas: 2}}", "services maps names to services; this is %s", n.what())
		return
	}
	for i, k := range n.keys {
		s := graph.Service{Name: k.name, Sidecar: true}
		if n.values[i].kind != null {
			service(&s).decode(d, n.values[i])
		}
		*v.to = append(*v.to, s)
	}
}

func (v servicesValue) encode() *node {
	if len(*v.to) == 0 {
		return nil
	}
	out := &node{kind: mapping}
	for i := range *v.to {
		n := service(&(*v.to)[i]).encode()
		if n == nil {
			n = &node{kind: mapping, style: styleFlow}
		}
		out.set((*v.to)[i].Name, Pos{}, n)
	}
	return out
}

func (v servicesValue) schema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", AdditionalProperties: service(&graph.Service{}).schema()}
}

func service(s *graph.Service) object {
	return object{name: "a service", fields: []field{
		{name: "replicas", doc: "Pods; 1 if left out.", value: wholeValue{to: &s.Replicas, low: 1, high: graph.MaxReplicas}},
		{name: "sidecar", doc: "Whether its pods have a sidecar, where the mesh has any.", value: boolValue{&s.Sidecar}},
		{name: "protocol", doc: "What it serves; http1 if left out.", value: textValue{to: &s.Protocol, oneOf: protocol.Names(protocol.Calls)}},
		{name: "response", doc: "Response body size.", value: sizeValue{&s.ResponseBytes}},
		{name: "service_time", doc: "Service time.", value: graphTime(&s.ServiceTime)},
		{name: "concurrency", doc: "Concurrent requests per pod; unbounded if left out.", value: wholeValue{to: &s.Concurrency, low: 1, high: graph.MaxConcurrency}},
		{name: "queue", doc: "Queue length; requests beyond it are refused with 503.", value: wholeValue{to: &s.Queue, low: 1, high: graph.MaxQueue}},
		{name: "cpu", doc: "CPU time spent on each request.", value: durationValue{to: &s.CPU, high: graph.MaxTime, omitZero: true}},
		{name: "failures", doc: "Shares of requests that fail.", value: listValue[graph.Failure]{to: &s.Failures, element: failure}},
		{name: "calls", doc: "Services that it calls for each request, before it answers.", value: listValue[graph.Call]{to: &s.Calls, element: call}},
		{name: "mode", doc: "Whether calls are sequential or parallel; sequence if left out.", value: textValue{to: &s.Mode, oneOf: []string{graph.Sequence, graph.Parallel}}},
	}}
}

func call(c *graph.Call) value {
	return object{name: "a call", flow: true, fields: []field{
		{name: "to", required: true, doc: "The service called.", value: textValue{to: &c.To, pattern: reLabel, noun: "service", hint: "use the name of a service of the graph"}},
		{name: "request", doc: "Request body size.", value: sizeValue{&c.RequestBytes}},
		{name: "timeout", doc: "Of each attempt; 30s if left out.", value: durationValue{to: &c.Timeout, high: graph.MaxTimeout, omitZero: true}},
		{name: "retries", doc: "The caller's own, in addition to the mesh's.", value: wholeValue{to: &c.Retries, low: 1, high: graph.MaxRetries}},
		{name: "probability", doc: "Share of the requests for which the call is made; 100% if left out.", value: portionValue{to: &c.Probability}},
		{name: "times", doc: "Requests that it makes; 1 if left out.", value: wholeValue{to: &c.Times, low: 1, high: graph.MaxTimes}},
	}}
}

func failure(f *graph.Failure) value {
	return object{name: "a failure", flow: true, fields: []field{
		{name: "share", required: true, doc: "Of all requests.", value: portionValue{to: &f.Share}},
		{name: "how", doc: "status if left out.", value: textValue{to: &f.How, oneOf: []string{graph.FailStatus, graph.FailReset, graph.FailHang, graph.FailSlowBody, graph.FailCrash}}},
		{name: "status", doc: "The answer's status (how: status).", value: wholeValue{to: &f.Status, low: 400, high: 599}},
	}}
}

func graphTime(t *graph.ServiceTime) object {
	return timeObject(&t.Distribution, &t.Mean, &t.Sigma, &t.Values)
}

// behaviour is what a step changes of a worker.
func behaviour(b *fault.Behaviour) object {
	return object{name: "set", fields: []field{
		{name: "service_time", doc: "Service time.", value: optional(&b.ServiceTime, graphTime)},
		{name: "response", doc: "Response body size.", value: orNone[int64]{to: &b.ResponseBytes, value: func(n *int64) value { return sizeValue{n} }}},
		{name: "concurrency", doc: "Requests served at once; 0 for no bound.", value: orNone[int]{to: &b.Concurrency, value: func(n *int) value { return intValue{n, 0, graph.MaxConcurrency} }}},
		{name: "queue", doc: "Requests that wait for that.", value: orNone[int]{to: &b.Queue, value: func(n *int) value { return intValue{n, 0, graph.MaxQueue} }}},
		{name: "cpu", doc: "CPU time spent on each request.", value: orNone[time.Duration]{to: &b.CPU, value: func(t *time.Duration) value { return durationValue{to: t, high: graph.MaxTime} }}},
		{name: "memory", doc: "Memory held.", value: orNone[int64]{to: &b.Memory, value: func(n *int64) value { return memoryValue{n} }}},
		{name: "failures", doc: "Shares of requests that fail, in place of those before; [] for none.", value: failuresValue{&b.Failures}},
		{name: "ready", doc: "What the readiness probe is told.", value: orNone[bool]{to: &b.Ready, value: func(r *bool) value { return boolValue{r} }}},
	}}
}

// memoryValue is a number of bytes as Kubernetes writes them.
type memoryValue struct{ to *int64 }

func (v memoryValue) decode(d *decoder, n *node) {
	text, ok := d.text(n)
	if !ok {
		return
	}
	b, c := parseBytes(text)
	switch {
	case c != nil:
		d.complain(n.pos, c)
	case b > 64<<30:
		d.fail(n.pos, CodeRange, "up to 64GiB is possible", "%s is too much", text)
	default:
		*v.to = int64(b)
	}
}

func (v memoryValue) encode() *node { return plainNode(Bytes(*v.to).String()) }

func (v memoryValue) schema() *jsonschema.Schema { return sizeValue{}.schema() }

// failuresValue is a list of failures, where an empty one means something.
type failuresValue struct{ to *[]graph.Failure }

func (v failuresValue) list() listValue[graph.Failure] {
	return listValue[graph.Failure]{to: v.to, element: failure}
}

func (v failuresValue) decode(d *decoder, n *node) {
	if v.list().decode(d, n); *v.to == nil {
		*v.to = []graph.Failure{}
	}
}

func (v failuresValue) encode() *node {
	if *v.to == nil {
		return nil
	}
	if n := v.list().encode(); n != nil {
		return n
	}
	return &node{kind: sequence, style: styleFlow}
}

func (v failuresValue) schema() *jsonschema.Schema { return v.list().schema() }

// expectValue says what a study expects of its variants.
type expectValue struct{ to *map[string]string }

func (v expectValue) decode(d *decoder, n *node) {
	if n.kind != mapping {
		d.fail(n.pos, CodeType, "as {no-retries: fail}", "expect maps variants to %s or %s; this is %s", ExpectPass, ExpectFail, n.what())
		return
	}
	out := map[string]string{}
	for i, k := range n.keys {
		verdict := ""
		textValue{to: &verdict, oneOf: []string{ExpectPass, ExpectFail}}.decode(d, n.values[i])
		if d.knowsVariant(k.name, k.pos) { // it need not be measured
			out[k.name] = verdict
		}
	}
	*v.to = out
}

func (v expectValue) encode() *node {
	if len(*v.to) == 0 {
		return nil
	}
	out := &node{kind: mapping, style: styleFlow}
	for _, name := range slices.Sorted(maps.Keys(*v.to)) {
		out.set(name, Pos{}, plainNode((*v.to)[name]))
	}
	return out
}

func (v expectValue) schema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", AdditionalProperties: textValue{oneOf: []string{ExpectPass, ExpectFail}}.schema()}
}

// What parts of a trial of resilience take, seen on two cores.
const (
	deployTime  = 12 * time.Second // pods with sidecars, until all are ready
	collectTime = 3 * time.Second  // logs of all proxies and workers
)

// spec is what studies of resilience are to package study.
func scenarioSpec() Spec {
	return Spec{
		About: "resilience", section: "timeline",
		Example:    FactorRetries + ": " + LevelOff,
		Factors:    scenarioFactors,
		Measures:   []string{MeasureLedger, MeasureLatency, MeasureCPU, MeasureMemory},
		Findings:   scenarioFindings,
		Uses:       []string{"load", "warmup", "sizing"},
		Moments:    true,
		OneVariant: true,
		Reference:  reference,
		Sample:     "{timeline: {}}",
		newSection: func() any { return &Scenario{Clients: 1} },
		fields:     func(section any) []placed { return scenarioFields(section.(*Scenario)) },
		Begin: func(s *Study) {
			s.Workload, s.Window, s.Interval = Workload{}, 0, 0
			s.Blocks = Blocks{Min: 1, Max: 1, Limit: 30 * time.Minute}
		},
		resolve:   (*decoder).resolveScenario,
		check:     (*decoder).checkScenario,
		checkPlan: (*decoder).checkCarried,
		files: func(s *Study, read func(name string) ([]byte, error)) error {
			c := ScenarioIn(s)
			if c.Isotope == "" {
				return nil
			}
			var err error
			c, err = c.withIsotope(read)
			s.Section = c
			return err
		},
		Trial: func(s *Study, _ record.Cell) (shortest, longest time.Duration) {
			base := deployTime + ScenarioIn(s).Timeline.Duration + collectTime
			return base + s.Warmup.Min, base + s.Warmup.Max
		},
		Notes: (*Plan).uneven,
		Nodes: func(p *Plan) int {
			if Drains(p) {
				return 2
			}
			return 1
		},
	}
}
