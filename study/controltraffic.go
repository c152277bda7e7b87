package study

import (
	"time"

	"github.com/invopop/jsonschema"
)

// Traffic is real load that runs through every trial of a control-plane
// study: from a pod with a sidecar to a Service of real pods with sidecars.
// Its words mean what they mean in studies of the data plane.
type Traffic struct {
	Rate        float64 // requests per second
	Connections int
	Arrival     string
	// Timeout is when a request without an answer has failed.
	Timeout time.Duration
	// Endpoints is how many pods serve.
	Endpoints int
}

// What endpoint changes are about.
const (
	// ChurnPopulation changes the endpoints of simulated Services.
	ChurnPopulation = "population"
	// ChurnTraffic changes the pods that serve the traffic.
	ChurnTraffic = "traffic"
)

func defaultTraffic() *Traffic {
	return &Traffic{Rate: 500, Connections: 16, Arrival: ArrivalPoisson, Timeout: 15 * time.Second, Endpoints: 2}
}

// trafficChanges are the changes that can be made to real pods: that a pod is
// not ready is for the kubelet to say, and several kinds at once would meddle
// with each other at one Service.
var trafficChanges = []string{ChangeEndpointsScale, ChangeEndpointsReplace, ChangeRollingRestart}

// ChurnsTraffic says whether changes of a kind act on the pods that serve the
// traffic.
func (c *Control) ChurnsTraffic(change string) bool {
	return c.Traffic != nil && c.ChurnOn != ChurnPopulation && has(trafficChanges, change)
}

// trafficValue is the section traffic; a study without it has none.
type trafficValue struct{ c *Control }

func (v trafficValue) section() object {
	t := v.c.Traffic
	if t == nil {
		t = defaultTraffic()
	}
	return object{name: "traffic", flow: true, fields: []field{
		{name: "rate", doc: "Requests scheduled per second over all connections (open loop).", value: floatValue{to: &t.Rate, high: 100_000}},
		{name: "connections", doc: "Connections from the generator to its sidecar. A hanging request occupies one.", value: intValue{&t.Connections, 1, 10_000}},
		{name: "arrival", doc: "Arrival process of the requests.", value: textValue{to: &t.Arrival, oneOf: []string{ArrivalPoisson, ArrivalUniform, ArrivalBurst}}},
		{name: "timeout", doc: "Request timeout. Longer than the sidecar's 10 s connection timeout, it shows what a retry saves in the end.",
			value: durationValue{to: &t.Timeout, low: 100 * time.Millisecond, high: time.Minute}},
		{name: "endpoints", doc: "Pods that serve the requests.", value: intValue{&t.Endpoints, 1, 100}},
	}}
}

func (v trafficValue) decode(d *decoder, n *node) {
	v.c.Traffic = defaultTraffic()
	v.section().decode(d, n)
}

func (v trafficValue) encode() *node {
	if v.c.Traffic == nil {
		return nil
	}
	return v.section().encode()
}

// checkTraffic finds what is wrong with the section and what is changed.
func (d *decoder) checkTraffic(s *Study) {
	c := s.Control
	if c.Traffic != nil && c.Traffic.Rate <= 0 {
		d.fail(d.pos("control", "traffic", "rate"), CodeConflict, "a number of requests per second", "there is no traffic at rate 0")
	}
	if c.ChurnOn != ChurnTraffic {
		return
	}
	if c.Traffic == nil {
		d.fail(d.pos("control", "churn_on"), CodeConflict, "as traffic: {rate: 500}", "churn_on: traffic needs traffic")
		return
	}
	for _, level := range s.levels(FactorChange) {
		if !has(trafficChanges, level) {
			d.fail(d.pos("control", "churn_on"), CodeConflict, "leave it out, or make the changes endpoints-scale, endpoints-replace or rolling-restart",
				"change %s cannot be made to the pods that serve the traffic", level)
			return
		}
	}
}

func (v trafficValue) schema() *jsonschema.Schema { return v.section().schema() }
