package fault

import (
	"cmp"
	"fmt"

	"github.com/meshtrial/meshtrial/study"
)

// Restart replaces every pod of a service, or of proxies that services share, a few at
// a time, as `kubectl rollout restart` does.
type Restart struct {
	usual
	Service string
	Of      string // OfZtunnel or OfWaypoint, in place of a service
	// Proxy is the Envoy version of the new pods' sidecars; "" keeps the current
	// version.
	Proxy string
}

var restartKind = Kind{Name: "restart", Doc: "Replaces every pod of a service, or the shared proxies of an ambient mesh, a few at a time, as kubectl rollout restart does.", New: func() Action { return &Restart{} }}

func (*Restart) Kind() string { return restartKind.Name }

func (a *Restart) Fields() []study.Field {
	return []study.Field{
		{Name: "service", Doc: "A service of the graph.", Value: service(&a.Service, false)},
		{Name: "of", Doc: "Instead of a service: ztunnel, on all nodes of the cluster, or the waypoint.", Value: study.OneOf(&a.Of, OfZtunnel, OfWaypoint)},
		{Name: "proxy", Doc: "Version of Envoy in the new pods' sidecars; as before if left out.", Value: study.Named(&a.Proxy, study.VersionPattern, "version", "use a full version, such as 1.39.0")},
	}
}

func (a *Restart) Check(step, service string) []Problem {
	switch {
	case (a.Service == "") == (a.Of == ""):
		return []Problem{{Field: "of", Hint: "as service: " + service + ", or of: " + OfZtunnel, Text: fmt.Sprintf("step %q must restart either a service or shared proxies", step)}}
	case a.Of != "" && a.Proxy != "":
		return []Problem{{Field: "proxy", Hint: "leave it out", Text: fmt.Sprintf("step %q restarts no sidecar whose version could change", step)}}
	}
	return nil
}

func (a *Restart) Target() string { return cmp.Or(a.Of, a.Service) }

func (a *Restart) Holds() string {
	if a.Of != "" {
		return a.Of
	}
	return "replicas of " + a.Service
}

func (*Restart) Reversible() bool { return false }

func (a *Restart) Perform(p Performer) error { return p.Restart(a) }
