package verdict

import "github.com/meshtrial/meshtrial/internal/note"

// Warnings about resilience trials.
var (
	noteUnreconciled = note.Define("ledger_unreconciled", "%d of %d requests are not reconciled, %d orphans")
	noteLateClients  = note.Define("clients_late", "the clients themselves sent 1%% of the requests more than %.1f ms late: the machine was busy")
	noteLateStep     = note.Define("step_late", "step %s began %.1f ms late")
	noteClocksApart  = note.Define("pods_clocks_apart", "times recorded by pods are known only to %.1f ms: synchronize the nodes' clocks by NTP, or run closer to the cluster")
)
