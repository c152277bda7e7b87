package sections

import (
	"fmt"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// Limits on the holdings in a report; meshtrial assess config has the rest.
const (
	shownHoldings = 2 // proxies per cell
	shownOwners   = 4 // per proxy
)

// holdingTable attributes configuration to its owners: single proxies of each cell, and the owners
// of most of what they held.
func holdingTable(f record.Findings) report.Table {
	var dumps, wires []int64
	more := 0
	for _, c := range f.Cells {
		for _, h := range c.Control.Holdings {
			dumps, wires = append(dumps, h.DumpBytes), append(wires, h.WireBytes)
		}
		more += max(0, len(c.Control.Holdings)-shownHoldings)
	}
	if len(dumps) == 0 {
		return report.Table{}
	}
	// Use one unit for all, so that an owner of a few kB is visible next to a MB.
	dump, wire := report.ScaleFor("bytes", math.Min(1e5, largestOf(dumps))), report.ScaleFor("bytes", math.Min(1e5, largestOf(wires)))
	t := report.Table{Title: "Proxy configuration by owner", Columns: append(report.FactorColumns(f), report.Column{Head: "proxy", Keep: 8}, report.Column{Head: "owner", Keep: 9},
		report.Column{Head: "JSON, " + dump.Unit, Right: true, Keep: 9}, report.Column{Head: "share", Right: true, Keep: 7}, report.Column{Head: "wire, " + wire.Unit, Right: true, Keep: 6}, report.Column{Head: "resources", Right: true, Keep: 2})}
	for _, c := range f.Cells {
		for i, h := range c.Control.Holdings {
			if i == shownHoldings {
				break
			}
			row := func(first bool, owner string, bytes record.OwnerBytes, st report.Style) {
				cells, proxy := report.FactorTexts(f, c.Cell), report.Text{S: proxyWords(h)}
				if !first {
					proxy = report.Text{}
					for k := range cells {
						cells[k] = report.Text{}
					}
				}
				onWire := report.Dash
				if h.WireBytes > 0 {
					onWire = wire.Kilo(bytes.WireBytes)
				}
				t.Rows = append(t.Rows, append(cells, proxy, report.Text{S: owner, Style: st}, dump.Kilo(bytes.DumpBytes), report.Share(bytes.DumpBytes, h.DumpBytes), onWire, report.Text{S: report.Count(bytes.Resources)}))
			}
			row(true, "all", record.OwnerBytes{DumpBytes: h.DumpBytes, WireBytes: h.WireBytes, Resources: h.Resources}, report.StyleStrong)
			rest, others := h.Others, h.OtherOwners
			for k, o := range h.Owners {
				if k < shownOwners {
					row(false, o.Owner, o, report.StyleNone)
					continue
				}
				others++
				rest.DumpBytes, rest.WireBytes, rest.Resources = rest.DumpBytes+o.DumpBytes, rest.WireBytes+o.WireBytes, rest.Resources+o.Resources
			}
			if others > 0 {
				row(false, words.Plural(others, "more owner"), rest, report.StyleDim)
			}
		}
	}
	t.Notes = append(t.Notes, "JSON: for a simulated proxy, what Envoy would print for the same resources; for a real one, its config dump with endpoints and bootstrap, which does not show the size on the wire.")
	if more > 0 {
		t.Notes = append(t.Notes, "More proxies ("+report.Count(more)+") and all owners: meshtrial assess config DIR.")
	} else {
		t.Notes = append(t.Notes, "All owners: meshtrial assess config DIR.")
	}
	return t
}

func largestOf(values []int64) float64 {
	return float64(slices.Max(values))
}

// proxyWords names a proxy and the number of proxies that it represents.
func proxyWords(h record.Holding) string {
	kind := h.Type
	if kind == "router" {
		kind = "gateway"
	}
	if h.Real {
		return "real " + kind + " in " + h.Namespace
	}
	if h.Proxies == 1 {
		return kind + " in " + h.Namespace
	}
	return fmt.Sprintf("one of %s %ss, in %s", report.Count(h.Proxies), kind, h.Namespace)
}
