package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/record"
)

// How much of who brought what stands in a report; meshtrial scope --run has
// the rest.
const (
	shownHoldings = 2 // proxies of each cell
	shownOwners   = 4 // of each proxy
)

// holdingTable says who pays for what: single proxies of each cell and the
// owners that brought most of what they held.
func holdingTable(f record.Findings) table {
	var dumps, wires []int64
	more := 0
	for _, c := range f.Cells {
		if c.Control == nil {
			continue
		}
		for _, h := range c.Control.Holdings {
			dumps, wires = append(dumps, h.DumpBytes), append(wires, h.WireBytes)
		}
		more += max(0, len(c.Control.Holdings)-shownHoldings)
	}
	if len(dumps) == 0 {
		return table{}
	}
	// In one unit for all, so that an owner of a few kB shows beside a MB.
	dump, wire := scaleFor("bytes", math.Min(1e5, largestOf(dumps))), scaleFor("bytes", math.Min(1e5, largestOf(wires)))
	t := table{Title: "Who brought a proxy's configuration", Columns: append(factorColumns(f), column{"proxy", false, 8}, column{"owner", false, 9},
		column{"JSON, " + dump.Unit, true, 9}, column{"share", true, 7}, column{"wire, " + wire.Unit, true, 6}, column{"resources", true, 2})}
	for _, c := range f.Cells {
		if c.Control == nil {
			continue
		}
		for i, h := range c.Control.Holdings {
			if i == shownHoldings {
				break
			}
			row := func(first bool, owner string, bytes record.OwnerBytes, st style) {
				cells, proxy := factorTexts(f, c.Cell), text{S: proxyWords(h)}
				if !first {
					proxy = text{}
					for k := range cells {
						cells[k] = text{}
					}
				}
				onWire := text{"–", styleDim}
				if h.WireBytes > 0 {
					onWire = wire.kilo(bytes.WireBytes)
				}
				t.Rows = append(t.Rows, append(cells, proxy, text{owner, st}, dump.kilo(bytes.DumpBytes), share(bytes.DumpBytes, h.DumpBytes), onWire, text{S: count(bytes.Resources)}))
			}
			row(true, "all", record.OwnerBytes{DumpBytes: h.DumpBytes, WireBytes: h.WireBytes, Resources: h.Resources}, styleStrong)
			rest, others := h.Others, h.OtherOwners
			for k, o := range h.Owners {
				if k < shownOwners {
					row(false, o.Owner, o, styleNone)
					continue
				}
				others++
				rest.DumpBytes, rest.WireBytes, rest.Resources = rest.DumpBytes+o.DumpBytes, rest.WireBytes+o.WireBytes, rest.Resources+o.Resources
			}
			if others > 0 {
				row(false, plural(others, "more owner"), rest, styleDim)
			}
		}
	}
	t.Notes = append(t.Notes, "Of a simulated proxy JSON is what Envoy would print of the same resources; of a real one it is the config dump with endpoints and bootstrap, which does not tell the size on the wire.")
	if more > 0 {
		t.Notes = append(t.Notes, "More proxies ("+count(more)+") and all owners: meshtrial scope --run DIR.")
	} else {
		t.Notes = append(t.Notes, "All owners: meshtrial scope --run DIR.")
	}
	return t
}

func largestOf(values []int64) float64 {
	return float64(slices.Max(values))
}

// proxyWords says which proxy it is and for how many it stands.
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
	return fmt.Sprintf("one of %s %ss, in %s", count(h.Proxies), kind, h.Namespace)
}
