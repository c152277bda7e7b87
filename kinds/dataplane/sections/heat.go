package sections

import (
	"fmt"
	"math"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// sectionHeat appears only on the page: heatmaps have no table.
const sectionHeat = "latency over the run"

// heatCharts draws each cell's latency over the blocks of the run, with a switch per cell. They
// show what percentiles hide, such as two modes, or blocks unlike the others.
func heatCharts(f record.Findings) []report.Chart {
	var out []report.Chart
	for _, c := range f.Cells {
		if c.Heat == nil {
			continue
		}
		edges := c.Heat.EdgesUS
		s := report.ScaleFor("us", edges[len(edges)-1]/4)
		heat := report.Heatmap{X: report.Axis{Title: "block", Scale: report.AxisLinear},
			Y: report.Axis{Title: "latency, " + s.Unit, Scale: report.AxisLog}, What: "requests"}
		heat.Counts = make([][]int64, len(edges)-1)
		for i, us := range edges {
			heat.YEdges = append(heat.YEdges, us/s.Div)
			if i > 0 {
				heat.YTexts = append(heat.YTexts, s.Plain(edges[i-1])+" to "+s.Value(us))
			}
		}
		heat.XEdges = []float64{0.5}
		next := 0
		for block := range c.Heat.Blocks[len(c.Heat.Blocks)-1] + 1 { // blocks without a valid trial stay empty
			heat.XEdges, heat.XTexts = append(heat.XEdges, float64(block)+1.5), append(heat.XTexts,
				fmt.Sprintf("block %d", block+1))
			if every := math.Ceil(float64(len(c.Heat.Blocks)) / 20); math.Mod(float64(block), every) == 0 {
				heat.X.Ticks = append(heat.X.Ticks, report.Tick{Value: float64(block + 1),
					Text: report.Count(block + 1)})
			}
			has := c.Heat.Blocks[next] == block
			for i := range heat.Counts {
				n := int64(0)
				if has {
					n = c.Heat.Counts[next][i]
				}
				heat.Counts[i] = append(heat.Counts[i], n)
			}
			if has {
				next++
			}
		}
		out = append(out, report.Chart{Name: "Requests by block and latency, " + c.Label,
			Options: []report.Option{{Switch: "cell", Choice: c.Label}}, Heatmap: &heat})
	}
	return out
}
