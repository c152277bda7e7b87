package verdict

import "github.com/meshtrial/meshtrial/internal/note"

// Warnings about resilience trials.
var (
	noteUnreconciled = note.Define("ledger_unreconciled", "%d of %d requests are not reconciled, %d orphans")
	noteLateClients  = note.Define("clients_late", "1%% of the requests left more than %.1f ms after their time, by the clients' own fault: the machine was busy")
	noteLateStep     = note.Define("step_late", "step %s began %.1f ms late")
	noteClocksApart  = note.Define("pods_clocks_apart", "times that pods wrote are known to %.1f ms only: set the clocks of nodes by NTP, or run closer to the cluster")
)
