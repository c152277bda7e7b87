package findings

import "github.com/meshtrial/meshtrial/internal/note"

// Warnings of resilience findings.
var (
	noteUnreconciled = note.Define("requests_unreconciled", "%d requests in %d trials do not reconcile[, as %v]")
	noteDropping     = note.Define("gateway_drops_connections", "gateway pod %s dropped connections in trial %v: it closed %d of %d although it was not being stopped, and received %d requests")
	noteNoPrice      = note.Define("shared_memory_unpriced", "memory of shared proxies has no price: the number of shared proxies is not given")
	notePodUnknown   = note.Define("pod_unknown", "the cost of each additional pod is unknown for %s: pods were on one node in some trials and on several in others; "+onOneNode)
	notePodsShare    = note.Define("pods_share_proxies", "pods share the proxies of their nodes, whose idle use does not depend on the number of pods")
)
