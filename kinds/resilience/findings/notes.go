package findings

import "github.com/meshtrial/meshtrial/internal/note"

// Warnings of resilience findings.
var (
	noteUnreconciled = note.Define("requests_unreconciled", "%d requests in %d trials do not reconcile[, as %v]")
	noteNoPrice      = note.Define("shared_memory_unpriced", "memory of proxies that pods share has no price: the mesh does not say how many there are")
	notePodUnknown   = note.Define("pod_unknown", "what each pod adds is unknown for %s: pods were on one node in some trials and on several in others; "+onOneNode)
	notePodsShare    = note.Define("pods_share_proxies", "pods share the proxies of their nodes, whose fixed use does not depend on how many pods there are")
)
