// Package resilience defines the resilience kind's part of study files: its section (the graph and
// the timeline), factors, findings and checks. It depends on no lab and no mesh. The packages below
// it run, judge, analyze and report its trials.
package resilience

import (
	"maps"
	"slices"
	"time"

	"github.com/invopop/jsonschema"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/drive/graph"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// Kind is resilience: requests under faults and changes.
const Kind study.Kind = record.KindResilience

// Scenario is the section of resilience studies: the services, and what happens to them in every
// trial.
type Scenario struct {
	Graph graph.Graph
	// Generate is another way to define the graph; nil once resolved into Graph.
	Generate *graph.Spec
	// Entry is the service that the clients call. Clients is the number of load generators, each a
	// pod with a sidecar.
	Entry   string
	Clients int
	// Timeline is what happens in a trial.
	Timeline fault.Timeline
	// Expect names the variants that are expected to fail an assertion. The others are expected to
	// pass all of them.
	Expect map[string]string
}

// Verdicts that a study can expect.
const (
	ExpectPass = "pass"
	ExpectFail = "fail"
)

// Of returns the scenario of a resilience study, nil for others.
func Of(s *study.Study) *Scenario {
	c, _ := s.Section.(*Scenario)
	return c
}

// Names returns the names of the services.
func (c *Scenario) Names() []string {
	out := make([]string, len(c.Graph.Services))
	for i, one := range c.Graph.Services {
		out[i] = one.Name
	}
	return out
}

// Expected returns the verdict that the study expects of a cell.
func Expected(s *study.Study, cell record.Cell) string {
	if c := Of(s); c != nil && c.Expect[cell[study.FactorVariant]] == ExpectFail {
		return ExpectFail
	}
	return ExpectPass
}

// scenarioFields returns a scenario's fields in a file.
func scenarioFields(c *Scenario) []study.Placed {
	return []study.Placed{
		{After: "control", Field: study.Field{Name: "graph", Doc: "The services of a resilience study, and their calls.", Value: graphSection(c)}},
		{After: "graph", Field: study.Field{Name: "timeline", Doc: "Makes this a resilience study, with its own factors: what happens in a trial, and when.", Value: timelineSection(&c.Timeline)}},
		{After: "timeline", Field: study.Field{Name: "expect", Doc: "Variants that are expected to fail an assertion, such as {no-retries: fail}.", Value: expectValue{&c.Expect}}},
		{In: "load", Field: study.Field{Name: "to", Doc: "The service that clients call; the one that no other calls if left out.",
			Value: study.Named(&c.Entry, study.NamePattern, "service", "use the name of a service of the graph")}},
		{In: "load", After: "to", Field: study.Field{Name: "clients", Doc: "Load generators, each a pod with a sidecar, except in front of a gateway; they share the rate.", Value: study.Int(&c.Clients, 1, 100)}},
	}
}

func graphSection(c *Scenario) study.Object {
	return study.Object{Name: "graph", Fields: []study.Field{
		{Name: "services", Doc: "The services by their names.", Value: servicesValue{&c.Graph.Services}},
		{Name: "generate", Doc: "Instead of services: a generated graph of this size.", Value: study.Optional(&c.Generate, generation)},
	}}
}

func generation(g *graph.Spec) study.Object {
	return study.Object{Name: "generate", Flow: true, Fields: []study.Field{
		{Name: "services", Required: true, Doc: "Number of services.", Value: study.Int(&g.Services, 1, graph.MaxServices)},
		{Name: "depth", Required: true, Doc: "Services on the longest path, including the entry.", Value: study.Int(&g.Depth, 1, 100)},
		{Name: "fan_out", Required: true, Doc: "Approximate number of calls per service.", Value: study.Int(&g.FanOut, 1, graph.MaxCalls)},
		{Name: "seed", Doc: "Chooses one of the graphs of this size.", Value: study.Seed(&g.Seed)},
	}}
}

// servicesValue maps names to services.
type servicesValue struct{ to *[]graph.Service }

func (v servicesValue) Decode(d *study.Decoder, n *study.Node) {
	if n.Kind != study.Mapping {
		d.Fail(n.Pos, study.CodeType, "as {bar: {replicas: 2}}", "services must map names to services, not be %s", n.What())
		return
	}
	for i, k := range n.Keys {
		s := graph.Service{Name: k.Name, Sidecar: true}
		if n.Values[i].Kind != study.Null {
			service(&s).Decode(d, n.Values[i])
		}
		*v.to = append(*v.to, s)
	}
}

func (v servicesValue) Encode() *study.Node {
	if len(*v.to) == 0 {
		return nil
	}
	out := &study.Node{Kind: study.Mapping}
	for i := range *v.to {
		n := service(&(*v.to)[i]).Encode()
		if n == nil {
			n = &study.Node{Kind: study.Mapping, Style: study.StyleFlow}
		}
		out.Set((*v.to)[i].Name, study.Pos{}, n)
	}
	return out
}

func (v servicesValue) Schema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", AdditionalProperties: service(&graph.Service{}).Schema()}
}

func service(s *graph.Service) study.Object {
	return study.Object{Name: "a service", Fields: []study.Field{
		{Name: "replicas", Doc: "Pods; 1 if left out.", Value: study.Int(&s.Replicas, 1, graph.MaxReplicas).OmitZero()},
		{Name: "sidecar", Doc: "Whether its pods have a sidecar, if the mesh has any.", Value: study.Bool(&s.Sidecar)},
		{Name: "gateway", Doc: "Whether its pods are the mesh's ingress gateway, which sends the clients' requests to the one service that it calls. Only replicas and calls apply.", Value: study.Bool(&s.Gateway).OmitZero()},
		{Name: "protocol", Doc: "Protocol; http1 if left out.", Value: study.OneOf(&s.Protocol, protocol.Names(protocol.Calls)...)},
		{Name: "response", Doc: "Response body size.", Value: study.Size(&s.ResponseBytes, study.MaxPayload).OmitZero()},
		{Name: "service_time", Doc: "Service time.", Value: graph.TimeValue(&s.ServiceTime)},
		{Name: "concurrency", Doc: "Concurrent requests per pod; unbounded if left out.", Value: study.Int(&s.Concurrency, 1, graph.MaxConcurrency).OmitZero()},
		{Name: "queue", Doc: "Queue length; requests beyond it get 503.", Value: study.Int(&s.Queue, 1, graph.MaxQueue).OmitZero()},
		{Name: "cpu", Doc: "CPU time spent on each request.", Value: study.Duration(&s.CPU, 0, graph.MaxTime).OmitZero()},
		{Name: "failures", Doc: "Shares of requests that fail.", Value: study.ListValue[graph.Failure]{To: &s.Failures, Element: graph.FailureValue}},
		{Name: "calls", Doc: "Services that it calls per request, before it answers.", Value: study.ListValue[graph.Call]{To: &s.Calls, Element: call}},
		{Name: "mode", Doc: "Whether calls are sequential or parallel; sequence if left out.", Value: study.OneOf(&s.Mode, graph.Sequence, graph.Parallel)},
	}}
}

func call(c *graph.Call) study.Value {
	return study.Object{Name: "a call", Flow: true, Fields: []study.Field{
		{Name: "to", Required: true, Doc: "The service called.", Value: study.Named(&c.To, study.NamePattern, "service", "use the name of a service of the graph")},
		{Name: "request", Doc: "Request body size.", Value: study.Size(&c.RequestBytes, study.MaxPayload).OmitZero()},
		{Name: "timeout", Doc: "Timeout of each attempt; 30s if left out.", Value: study.Duration(&c.Timeout, 0, graph.MaxTimeout).OmitZero()},
		{Name: "retries", Doc: "The caller's own retries, in addition to the mesh's.", Value: study.Int(&c.Retries, 1, graph.MaxRetries).OmitZero()},
		{Name: "probability", Doc: "Share of the requests for which the call is made; 100% if left out.", Value: study.Portion(&c.Probability).OmitZero()},
		{Name: "times", Doc: "Requests per call; 1 if left out.", Value: study.Int(&c.Times, 1, graph.MaxTimes).OmitZero()},
	}}
}

// expectValue holds what a study expects of its variants.
type expectValue struct{ to *map[string]string }

func (v expectValue) Decode(d *study.Decoder, n *study.Node) {
	if n.Kind != study.Mapping {
		d.Fail(n.Pos, study.CodeType, "as {no-retries: fail}", "expect must map variants to %s or %s, not be %s", ExpectPass, ExpectFail, n.What())
		return
	}
	out := map[string]string{}
	for i, k := range n.Keys {
		verdict := ""
		study.OneOf(&verdict, ExpectPass, ExpectFail).Decode(d, n.Values[i])
		if d.KnowsVariant(k.Name, k.Pos) { // it need not be measured
			out[k.Name] = verdict
		}
	}
	*v.to = out
}

func (v expectValue) Encode() *study.Node {
	if len(*v.to) == 0 {
		return nil
	}
	out := &study.Node{Kind: study.Mapping, Style: study.StyleFlow}
	for _, name := range slices.Sorted(maps.Keys(*v.to)) {
		out.Set(name, study.Pos{}, study.PlainNode((*v.to)[name]))
	}
	return out
}

func (v expectValue) Schema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", AdditionalProperties: study.OneOf(nil, ExpectPass, ExpectFail).Schema()}
}

// Durations of parts of a resilience trial, measured on two cores.
const (
	deployTime  = 12 * time.Second // until all pods with sidecars are ready
	collectTime = 3 * time.Second  // reading the logs of all proxies and workers
)

func init() { study.AddKind(Kind, spec()) }

func spec() study.Spec {
	return study.Spec{
		About: "resilience", Section: "timeline",
		Example: study.FactorRetries + ": " + study.LevelOff,
		Factors: scenarioFactors,
		Lacks: func(t *record.Trial) string { // a trial that did not reach its end has none
			if t.Scenario == nil && t.Validity.Valid {
				return "scenario"
			}
			return ""
		},
		Measures:   []string{study.MeasureLedger, study.MeasureLatency, study.MeasureCPU, study.MeasureMemory},
		Findings:   scenarioFindings,
		Uses:       []string{"load", "warmup", "sizing"},
		Moments:    true,
		OneVariant: true,
		Reference:  reference,
		Sample:     "{timeline: {}}",
		NewSection: func() any { return &Scenario{Clients: 1} },
		Fields:     func(section any) []study.Placed { return scenarioFields(section.(*Scenario)) },
		Begin: func(s *study.Study) {
			s.Blocks = study.Blocks{Min: 1, Max: 1, Limit: 30 * time.Minute}
		},
		Resolve: resolveScenario,
		Check:   checkScenario,
		CheckPlan: func(d *study.Decoder, p *study.Plan) {
			checkStreamCells(d, p)
			checkCarried(d, p)
			checkCallouts(d, p)
			checkWeights(d, p)
		},
		Trial: func(s *study.Study, _ record.Cell) (shortest, longest time.Duration) {
			base := deployTime + Of(s).Timeline.Duration + collectTime
			return base + s.Warmup.Min, base + s.Warmup.Max
		},
		Notes: uneven,
		Nodes: func(p *study.Plan) (nodes, zones int) {
			switch {
			case Zoned(p):
				return ZonesNeeded, ZonesNeeded
			case Drains(p):
				return 2, 1
			}
			return 1, 1
		},
	}
}
