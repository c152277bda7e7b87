package sections

import (
	"slices"

	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/study"
)

// sectionMemory appears only on the page: memory of all parts, stacked.
const sectionMemory = "memory"

// Kind returns the report of control-plane studies.
func Kind() report.Kind {
	findings := study.ControlPlane.Findings()
	return report.Kind{
		Name:     record.KindControlPlane,
		Findings: findings,
		Sections: slices.Concat([]report.Section{
			report.Section{Name: controlplane.SectionTuning, Tables: tuningTables}.Drawn("",
				"Each mark is a setting that the search tried. A filled one is on the front: "+
					"no other setting tried is as good in every measure and better in one. The square is in use, the diamond is recommended. Less is better.", frontCharts),
			{Name: controlplane.SectionSidecars, Tables: sidecarTables},
			{Name: controlplane.SectionRecovery, Tables: recoveryTables},
			report.One(controlplane.SectionSoak, soakTable),
			report.One(controlplane.SectionConvergence, convergenceTable).Drawn("",
				"From the API server's commit of a change to the proxy's ACK; one sample per change and proxy that needed it.", convergenceCharts),
			report.One(controlplane.SectionEdges, edgesTable),
			figures(controlplane.SectionZtunnels, "Ztunnels by cell: from commit to ACK, and what they receive (95% interval)", report.FigureColumns{
				{"p50", "ztunnel_convergence_p50", 9}, {"p99", "ztunnel_convergence_p99", 8}, {"max", "ztunnel_convergence_max", 4},
				{"pushes per change", "ztunnel_pushes_per_change", 6}, {"received per change", "ztunnel_bytes_per_change", 7},
				{"held by one", "ztunnel_config_bytes", 5},
			}),
			report.One(controlplane.SectionLevers, leversTable).Drawn("Against the baseline", report.DifferenceLead,
				func(f record.Findings) []report.Chart {
					return report.DifferenceCharts(findings, f, func(d finding.Def, x record.Finding) bool {
						return x.Verdict != record.VerdictInvalid &&
							(d.Section == controlplane.SectionLevers || report.LatencyDifference(d, x))
					})
				}),
			report.One(controlplane.SectionWaterfall, waterfallTable).Drawn("Where the time goes",
				"The average path of a change, stage by stage. What the stages do not account for is shown as unexplained.", waterfallCharts),
			report.One(controlplane.SectionHidden, hiddenTable),
			figures(controlplane.SectionAmplification, "Push amplification (95% interval)", report.FigureColumns{
				{"pushes", "pushes", 7}, {"pushes per change", "pushes_per_change", 9}, {"received per change", "push_bytes_per_change", 8}, {"identical", "identical_share", 6},
			}),
			figures(controlplane.SectionStale, "How long proxies kept stale endpoints, summed over proxies (95% interval)", report.FigureColumns{
				{"for each change", "stale_proxy_seconds_per_change", 9},
			}),
			figures(controlplane.SectionRoutes, "From a route's commit until the real gateway serves it (95% interval)", report.FigureColumns{
				{"first good request", "route_served", 9}, {"p90", "route_served_p90", 4}, {"slowest", "route_served_max", 5},
				{"ACK", "route_acked", 8}, {"served after ACK", "route_served_after_ack", 7}, {"known to within", "route_resolution", 6},
				{"never served", "routes_unserved", 3}, {"failed requests", "route_errors", 2},
			}, "First good request: when its answer came, median over changes; each route has its own schedule of requests, which starts before it is due. "+
				"ACK: of the last simulated gateway, which holds the same routes. Known to within: from the last request that was not served to the first good answer."),
			figures(controlplane.SectionAttached, "How a Gateway's status follows its routes (95% interval)", report.FigureColumns{
				{"all attached", "attached_all", 9}, {"since the first", "attached_all_since_first", 5},
				{"none left", "attached_none", 8}, {"since the first deletion", "attached_none_since_first", 4},
				{"status writes up", "gateway_status_writes", 7}, {"down", "gateway_status_writes_down", 6}, {"in all", "gateway_status_writes_total", 3},
			}, "All attached: from the last route's commit until status.listeners[].attachedRoutes has all. None left: from the answer to the last deletion. Writes: different statuses, by a watch."),
			figures(controlplane.SectionTraffic, "Requests to stale endpoints per trial (95% interval)", report.FigureColumns{
				{"hit one", "phantom_requests", 9}, {"of all", "phantom_share", 6}, {"failed", "phantom_failures", 8}, {"of all", "phantom_failure_share", 7},
				{"hidden by a retry", "phantom_hidden", 5}, {"last one after", "phantom_last", 4}, {"all failures", "traffic_failures", 3},
				{"p99", "traffic_latency_p99", 2}, {"unexplained", "traffic_residual", 1},
			}, "Stale: no EndpointSlice lists the endpoint any more. Last one after: time from then to the last attempt to it. "+
				"p99: latency of answered requests from intended send time; not reached where more than 1% failed or never ended. Unexplained: failures the generator saw and the caller's sidecar did not.").Drawn("Requests to stale endpoints",
				"An endpoint is stale once no EndpointSlice lists it. A proxy that has not been told keeps sending requests there.", trafficCharts),
			report.One(controlplane.SectionWire, wireTable),
			report.One(controlplane.SectionConfig, sizesTable(configOf, "Configuration of a proxy (median), %s by type")).
				Drawn("Configuration that a proxy holds", "", sizeCharts(configOf, "Configuration that a proxy holds")),
			report.One(controlplane.SectionScopeConfig, sizesTable(scopeConfigOf, "Configuration of a proxy in the scope's namespace (median), %s by type")).
				Drawn("Configuration in the scope's namespace", "", sizeCharts(scopeConfigOf, "Configuration that a proxy holds in the namespace of the Sidecar")),
			figures(controlplane.SectionJoin, "A new proxy joins in the scope's namespace (95% interval)", report.FigureColumns{
				{"first request to last response", "join_time", 9}, {"received", "join_bytes", 8},
				{"cds", "join_bytes_cds", 7}, {"eds", "join_bytes_eds", 6}, {"lds", "join_bytes_lds", 5}, {"rds", "join_bytes_rds", 4}, {"nds", "join_bytes_nds", 3},
			}),
			report.One(controlplane.SectionHoldings, holdingTable),
			report.One(controlplane.SectionCost, controlCostTable),
			report.One(controlplane.SectionMachine, machineTable),
			report.Charted(sectionMemory, "", report.MemoryLead, report.MemoryCharts),
			figures(controlplane.SectionRuntime, "istiod's Go runtime (95% interval)", report.FigureColumns{
				{"heap in use", "istiod_heap", 8}, {"allocated per change", "alloc_bytes_per_change", 7}, {"allocated", "alloc_bytes_per_second", 6}, {"goroutines", "istiod_goroutines", 5},
			}),
			report.One(controlplane.SectionMetrics, metricsTable),
			report.One(controlplane.SectionInstalled, installedTable),
			{Name: study.SectionProfiles, Tables: profileTables},
			report.Conditions().Unless(machineTable),
		}, report.Common(findings, true, false)),
		Answers: controlAnswers,
		Told:    unreached, // in tables
	}
}
