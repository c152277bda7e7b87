package controlplane

import (
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/study"
)

// Traffic is real load throughout every trial of a control-plane study, from a pod with a sidecar
// to a Service of real pods with sidecars. Its fields mean the same as in data-plane studies.
type Traffic struct {
	Rate        float64 // requests per second
	Connections int
	Arrival     string
	// Timeout is the time after which an unanswered request fails.
	Timeout time.Duration
	// Endpoints is the number of serving pods.
	Endpoints int
}

func defaultTraffic() Traffic {
	return Traffic{Rate: 500, Connections: 16, Arrival: study.ArrivalPoisson, Timeout: 15 * time.Second, Endpoints: 2}
}

// trafficChanges are the changes that can be made to real pods. Only the kubelet decides that a pod
// is not ready, and several kinds of change at once would interfere with each other on one Service.
var trafficChanges = []string{ChangeEndpointsScale, ChangeEndpointsReplace, ChangeRollingRestart}

// ChurnsTraffic reports whether changes of a kind act on the pods that serve the traffic.
func (c *Control) ChurnsTraffic(change string) bool {
	return c.Traffic != nil && slices.Contains(trafficChanges, change)
}

// trafficFields returns the fields of section traffic.
func trafficFields(t *Traffic) study.Object {
	return study.Object{Name: "traffic", Flow: true, Fields: []study.Field{
		{Name: "rate", Doc: "Requests scheduled per second over all connections (open loop).", Value: study.Float(&t.Rate, 100_000)},
		{Name: "connections", Doc: "Connections from the generator to its sidecar; a hanging request occupies one.", Value: study.Int(&t.Connections, 1, 10_000)},
		{Name: "arrival", Doc: "Arrival process of the requests.", Value: study.OneOf(&t.Arrival, study.ArrivalPoisson, study.ArrivalUniform, study.ArrivalBurst)},
		{Name: "timeout", Doc: "Request timeout. If longer than the sidecar's 10 s connection timeout, retries can still succeed.",
			Value: study.Duration(&t.Timeout, 100*time.Millisecond, time.Minute)},
		{Name: "endpoints", Doc: "Pods that serve the requests.", Value: study.Int(&t.Endpoints, 1, 100)},
	}}
}
