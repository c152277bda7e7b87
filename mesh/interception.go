package mesh

import (
	"github.com/meshtrial/meshtrial/kinds/dataplane"
)

// InterceptionNone is the level of the factor interception at which nothing
// redirects connections to sidecars.
const InterceptionNone = "none"

// ownPorts is how far the ports that a server's sidecar listens on by itself
// lie beyond the worker's.
const ownPorts = 10_000

// OwnPort is the port of a server's sidecar for one of its worker's, where
// nothing redirects connections: Services lead to it.
func OwnPort(worker int) int { return worker + ownPorts }

// Uncaptured says that nothing redirects connections to a workload's sidecar.
func (w Workload) Uncaptured() bool {
	return w.Proxy != nil && w.Proxy.Level(dataplane.FactorInterception) == InterceptionNone
}
