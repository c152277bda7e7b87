package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Layout says how to distinguish the cells of a run: by the factors in which they
// differ from their baselines, and by other factors that vary.
type Layout struct {
	Findings record.Findings
	Factors  []record.FactorLevels // that vary
	Compared []string              // factors in which cells differ from their baselines
	// Numeric is the first other factor with numeric levels, such as connections;
	// nil if there is none.
	Numeric     *record.FactorLevels
	color, dash *record.FactorLevels
}

// LayoutOf derives the layout from the findings.
func LayoutOf(f record.Findings) Layout {
	l := Layout{Findings: f}
	compared := map[string]bool{}
	for _, x := range f.Findings {
		if x.Against == nil || x.Probe == study.ProbeVersus { // neither of two levels side by side is a baseline
			continue
		}
		for factor, level := range x.Cell {
			if x.Against[factor] != level {
				compared[factor] = true
			}
		}
	}
	var first *record.FactorLevels
	for i := range f.Factors {
		factor := &f.Factors[i]
		if compared[factor.Factor] {
			l.Compared = append(l.Compared, factor.Factor)
		}
		if len(factor.Levels) < 2 {
			continue
		}
		l.Factors = append(l.Factors, *factor)
		switch {
		case compared[factor.Factor]:
			if first == nil {
				first = factor
			}
		case l.Numeric == nil && Numbers(factor.Levels):
			l.Numeric = factor
		default:
			l.color = factor
		}
	}
	switch {
	case l.color != nil:
		l.dash = first
	case first != nil:
		l.color = first
	default:
		l.color = l.Numeric
	}
	return l
}

// colors is the number of series colours.
const colors = 9

// Look returns a cell's look in all charts: a colour for each level of one factor,
// dashes for those of another. The baseline's colour is grey.
func (l Layout) Look(cell record.Cell) Look {
	i, dash := -1, 0
	if l.color != nil {
		i = slices.Index(l.color.Levels, cell[l.color.Factor])
	}
	if l.color == nil || !slices.Contains(l.Compared, l.color.Factor) {
		i++
	}
	if l.dash != nil {
		dash = len(l.dash.Levels) - 1 - max(0, slices.Index(l.dash.Levels, cell[l.dash.Factor]))
	}
	return Look{Color: fmt.Sprintf("series-%d", (i+colors)%colors), Dash: dash}
}

// Label names a cell by the levels in which the shown cells differ.
func (l Layout) Label(cell record.Cell, shown []record.CellSummary) string {
	var parts []string
	for _, factor := range l.Findings.Factors {
		differs := len(l.Findings.Factors) == 1 || slices.ContainsFunc(shown, func(c record.CellSummary) bool {
			return c.Cell[factor.Factor] != shown[0].Cell[factor.Factor]
		})
		if differs {
			parts = append(parts, factorOf(factor.Factor).Label(cell[factor.Factor]))
		}
	}
	if len(parts) == 0 {
		return "all"
	}
	return strings.Join(parts, " · ")
}

// Slice is the set of cells in a chart without an axis for the numeric factor.
type Slice struct {
	Options []Option
	Initial bool
	Cells   []record.CellSummary
}

// Slices returns the sets of cells that a chart can show at once: one for each
// level of the numeric factor, if there are several, the middle one first. keep
// reports which cells have figures.
func (l Layout) Slices(keep func(c record.CellSummary) bool) []Slice {
	cells := having(l.Findings.Cells, keep)
	if len(cells) == 0 {
		return nil
	}
	if l.Numeric == nil {
		return []Slice{{Cells: cells}}
	}
	var out []Slice
	for _, level := range l.Numeric.Levels {
		of := having(cells, func(c record.CellSummary) bool { return c.Cell[l.Numeric.Factor] == level })
		if len(of) > 0 {
			out = append(out, Slice{Options: []Option{{FactorName(l.Numeric.Factor), level}}, Cells: of})
		}
	}
	if len(out) > 0 {
		out[len(out)/2].Initial = true
	}
	return out
}

// having returns the cells to keep.
func having(cells []record.CellSummary, keep func(c record.CellSummary) bool) []record.CellSummary {
	return slices.DeleteFunc(slices.Clone(cells), func(c record.CellSummary) bool { return !keep(c) })
}

// Group is a set of cells that differ only in the numeric factor.
type Group struct {
	Cell  record.Cell // without that factor
	Label string
	Cells []record.CellSummary
}

// Along groups cells that differ only in a factor and are in its order. Labels
// omit that factor and those stated elsewhere.
func (l Layout) Along(factor string, cells []record.CellSummary, said ...string) []Group {
	var out []Group
	for _, c := range cells {
		rest := c.Cell.With(nil)
		delete(rest, factor)
		i := slices.IndexFunc(out, func(g Group) bool { return g.Cell.Key() == rest.Key() })
		if i < 0 {
			i = len(out)
			var parts []string
			for _, other := range l.Factors {
				if other.Factor != factor && !slices.Contains(said, other.Factor) {
					parts = append(parts, factorOf(other.Factor).Label(c.Cell[other.Factor]))
				}
			}
			out = append(out, Group{Cell: rest, Label: strings.Join(parts, " · ")})
		}
		out[i].Cells = append(out[i].Cells, c)
	}
	for _, g := range out {
		slices.SortStableFunc(g.Cells, func(a, b record.CellSummary) int {
			return int(math.Copysign(1, Number(a.Cell[factor])-Number(b.Cell[factor])))
		})
	}
	return out
}

// LevelAxis returns an axis for the numeric levels of a factor.
func LevelAxis(factor record.FactorLevels) Axis {
	a := Axis{Title: ScaleFor(factor.Unit, 0).Unit, Scale: AxisLog}
	a.Title = cmp.Or(a.Title, FactorName(factor.Factor))
	for _, level := range factor.Levels {
		v := Number(level)
		if v <= 0 {
			a.Scale = AxisLinear
		}
		a.Ticks = append(a.Ticks, Tick{v, Amount(v)})
	}
	return a
}

// FactorName returns a factor's name for people.
func FactorName(factor string) string { return strings.ReplaceAll(factor, "_", " ") }

// scaleOfAxis returns a logarithmic scale if positive values have a wide range.
func scaleOfAxis(values []float64) string {
	low, high := math.Inf(1), 0.0
	for _, v := range values {
		if v > 0 {
			low, high = math.Min(low, v), math.Max(high, v)
		}
	}
	if high > 20*low {
		return AxisLog
	}
	return AxisLinear
}

// partColors lists the parts of trials in the order of their colours.
var partColors = []string{record.PartClientProxy, record.PartServerProxy, record.PartWorker, record.PartGenerator,
	record.PartControl,
	record.PartMachine, record.PartNode, record.PartWaypoint, record.PartGateway}

// PartColor returns a part's colour in every chart.
func PartColor(part string) string {
	if p, ok := record.ProxyOf(part); ok && p.Place == record.PlaceNode {
		part = record.PartNode
	}
	i := slices.Index(partColors, part)
	if i < 0 {
		i = slices.Index(partColors, record.PartMachine)
	}
	return fmt.Sprintf("part-%d", i)
}

// StackColor returns the colour of the i-th piece of a stack. Series 6 resembles
// series 1, and comes last.
func StackColor(i int) string {
	order := []int{0, 1, 2, 3, 4, 5, 7, 8, 6}
	return fmt.Sprintf("series-%d", order[i%len(order)])
}
