package sections

import (
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// ztunnelTable has a row per cell: when its ztunnels had changes, and what they received.
func ztunnelTable(f record.Findings) report.Table {
	return valueTable(f, "Ztunnels by cell: from commit to ACK, and what they receive (95% interval)", []valueColumn{
		{"p50", "ztunnel_convergence_p50", 9, nil}, {"p99", "ztunnel_convergence_p99", 8, nil}, {"max", "ztunnel_convergence_max", 4, nil},
		{"pushes per change", "ztunnel_pushes_per_change", 6, nil}, {"received per change", "ztunnel_bytes_per_change", 7, nil},
		{"held by one", "ztunnel_config_bytes", 5, nil},
	})
}
