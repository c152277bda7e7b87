package mesh

import (
	"github.com/meshtrial/meshtrial/kinds/dataplane"
)

// InterceptionNone is the level of the factor interception at which nothing
// redirects connections to sidecars.
const InterceptionNone = "none"

// ownPorts is the distance between the worker's ports and those that its sidecar listens on.
const ownPorts = 10_000

// OwnPort is the sidecar's port for one of its worker's, for use without redirection: Services
// lead to it.
func OwnPort(worker int) int { return worker + ownPorts }

// Uncaptured reports that nothing redirects connections to a workload's sidecar.
func (w Workload) Uncaptured() bool {
	return w.Proxy != nil && w.Proxy.Level(dataplane.FactorInterception) == InterceptionNone
}
