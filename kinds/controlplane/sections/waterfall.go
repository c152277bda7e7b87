package sections

import (
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// stageNames are the stages' names in tables.
var stageNames = map[string]string{
	record.StageWatch: "watch", record.StageDebounce: "debounce", record.StagePushContext: "context", record.StageQueue: "queue",
	record.StageGenerate: "generate", record.StageWire: "wire", record.StageAck: "ack",
}

// waterfallTable has a row per cell: how the mean time from commit to acknowledgement divides.
// Narrow tables omit no stage, only the total, since the stages add up to it.
func waterfallTable(f record.Findings) report.Table {
	t := report.Table{Columns: report.FactorColumns(f)}
	largest, least := 0.0, math.Inf(1)
	present := map[string]bool{}
	for _, c := range f.Cells {
		if mean := c.Control.MeanUS; mean > 0 {
			largest, least = math.Max(largest, mean), math.Min(least, mean)
		}
		for _, s := range c.Control.Stages {
			present[s.Name] = true
		}
	}
	if len(present) == 0 {
		return t
	}
	s := report.ScaleFor("us", math.Min(largest, 9e6))            // keep short stages readable in ms
	digits := report.Clamp(3-report.Magnitude(least/s.Div), 1, 3) // a thousandth of the total
	t.Title = "Where the time goes, mean " + s.Unit + " from commit to ACK"
	for _, c := range f.Cells {
		for _, name := range c.Control.MissingStages {
			present[name] = true
		}
	}
	for _, name := range record.Stages() {
		if present[name] {
			t.Columns = append(t.Columns, report.Column{Head: stageNames[name], Right: true})
		}
	}
	t.Columns = append(t.Columns, report.Column{Head: "unexplained", Right: true}, report.Column{Head: "whole", Right: true, Keep: 1})
	bad, lacking, early := false, false, false
	for _, c := range f.Cells {
		row := report.FactorTexts(f, c.Cell)
		k := c.Control
		if len(k.Stages) == 0 {
			continue
		}
		for _, name := range record.Stages() {
			if !present[name] {
				continue
			}
			i := slices.IndexFunc(k.Stages, func(s record.Stage) bool { return s.Name == name })
			if i < 0 {
				row, lacking = append(row, report.Dash), true
				continue
			}
			row = append(row, report.Text{S: report.Fixed(k.Stages[i].MeanUS/s.Div, digits)})
			early = early || name == record.StageWatch && k.Stages[i].MeanUS < 0
		}
		rest := report.Text{S: report.Fixed(k.ResidualUS/s.Div, digits), Style: report.StyleDim}
		if math.Abs(k.ResidualUS) > record.MaxResidualUS(k.MeanUS) {
			rest.Style, bad = report.StyleBad, true
		}
		t.Rows = append(t.Rows, append(row, rest, report.Text{S: report.Fixed(k.MeanUS/s.Div, digits)}))
	}
	if present[record.StageAck] {
		t.Notes = append(t.Notes, "ACK: like Envoy, a proxy acknowledges a new cluster only once it has its endpoints, so istiod's time to send those is included.")
	}
	if bad {
		t.Notes = append(t.Notes, "Where more than "+record.ResidualRule("")+" is unexplained, the stages are incomplete.")
	}
	if early {
		t.Notes = append(t.Notes, "Negative watch: istiod learnt of the change before the API server's response and our own watch event arrived here.")
	}
	if lacking {
		t.Notes = append(t.Notes, "–: not measured; included in unexplained.")
	}
	return t
}
