package sections

import (
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// ztunnelTable has a row per cell: when its ztunnels had changes, and what they received.
func ztunnelTable(f record.Findings) report.Table {
	return figureTable(f, "Ztunnels by cell: from commit to ACK, and what they receive (95% interval)", report.FigureColumns{
		{"p50", "ztunnel_convergence_p50", 9}, {"p99", "ztunnel_convergence_p99", 8}, {"max", "ztunnel_convergence_max", 4},
		{"pushes per change", "ztunnel_pushes_per_change", 6}, {"received per change", "ztunnel_bytes_per_change", 7},
		{"held by one", "ztunnel_config_bytes", 5},
	})
}
