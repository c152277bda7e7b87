package mesh

import "github.com/meshtrial/meshtrial/kinds/dataplane"

// ownPorts is the offset between the worker's ports and those that its sidecar listens on.
const ownPorts = 10_000

// OwnPort returns the sidecar's port for a worker's port, for use without redirection:
// Services target it.
func OwnPort(worker int) int { return worker + ownPorts }

// Uncaptured reports whether nothing redirects connections to a workload's sidecar.
func (w Workload) Uncaptured() bool {
	return w.Proxy != nil && w.Proxy.Level(dataplane.FactorInterception) == dataplane.InterceptionNone
}
