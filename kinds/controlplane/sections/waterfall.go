package sections

import (
	"fmt"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// stageNames are the stages' names in tables.
var stageNames = map[string]string{
	record.StageWatch: "watch", record.StageDebounce: "debounce", record.StagePushContext: "context", record.StageQueue: "queue",
	record.StageGenerate: "generate", record.StageWire: "wire", record.StageAck: "ack",
}

// ackNote states what else an acknowledgement's time includes.
const ackNote = "ACK: like Envoy, a proxy acknowledges a new cluster only once it has its endpoints, so istiod's time to send those is included."

// waterfallTable has a row per cell: how the mean time from commit to acknowledgement divides.
// Narrow tables omit no stage, only the total, since the stages add up to it.
func waterfallTable(f record.Findings) report.Table {
	t := report.Table{Columns: report.FactorColumns(f)}
	largest, least := 0.0, math.Inf(1)
	present := map[string]bool{}
	for _, c := range f.Cells {
		if c.Control == nil {
			continue
		}
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
		if c.Control != nil {
			for _, name := range c.Control.MissingStages {
				present[name] = true
			}
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
		if k == nil || len(k.Stages) == 0 {
			continue
		}
		for _, name := range record.Stages() {
			if !present[name] {
				continue
			}
			i := slices.IndexFunc(k.Stages, func(s record.Stage) bool { return s.Name == name })
			if i < 0 {
				row, lacking = append(row, report.Text{S: "–", Style: report.StyleDim}), true
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
		t.Notes = append(t.Notes, ackNote)
	}
	if bad {
		t.Notes = append(t.Notes, "Where more than "+record.ResidualRule("")+" is unexplained, the stages are incomplete.")
	}
	if note := pairsOffNote(f); note != "" {
		t.Notes = append(t.Notes, note)
	}
	if early {
		t.Notes = append(t.Notes, "Negative watch: istiod learnt of the change before the API server's response and our own watch event arrived here.")
	}
	if lacking {
		t.Notes = append(t.Notes, "–: not measured; included in unexplained.")
	}
	return t
}

// pairsOffNote states how many single change-proxy pairs differ from the sum of their own stages,
// which means may hide; "" if not counted.
func pairsOffNote(f record.Findings) string {
	pairs, beyond := 0, 0
	var where []string
	for _, c := range f.Cells {
		if c.Control == nil || c.Control.Unexplained == nil {
			continue
		}
		u := c.Control.Unexplained
		pairs, beyond = pairs+u.Pairs, beyond+u.Beyond
		if u.Beyond > 0 {
			where = append(where, fmt.Sprintf("%s of %s with %s", report.Count(u.Beyond), report.Count(u.Pairs), c.Label))
		}
	}
	own := func(verb string) string {
		return verb + " from the sum of their stages by more than " + record.ResidualRule("their time")
	}
	switch {
	case pairs == 0:
		return ""
	case beyond == 0:
		return fmt.Sprintf("None of the %s %s.", words.Plural(pairs, "change-proxy pair"), own("differ"))
	case len(where) <= report.MaxNamedCells && len(f.Cells) > 1:
		return fmt.Sprintf("Single change-proxy pairs %s: %s.", own("differ"), words.List(where))
	}
	return fmt.Sprintf("%s of %s %s.", report.Count(beyond), words.Plural(pairs, "change-proxy pair"), own("differ"))
}

// secondSources has a row per stage with two sources: the value from each in the described cell,
// and the number of cells in which they differ by more than a waterfall may leave unexplained.
func secondSources(f record.Findings) report.Table {
	t := report.Table{}
	described, ok := describedCell(f)
	if !ok {
		return t
	}
	k := described.Control
	s := report.ScaleFor("us", math.Min(k.MeanUS, 9e6))
	t.Title = "Stages cross-checked against a second source, mean " + s.Unit
	if len(f.Cells) > 1 {
		t.Title += " (" + described.Label + ")"
	}
	t.Columns = []report.Column{{Head: "stage"}, {Head: "shown", Right: true, Keep: 9}, {Head: "from", Keep: 4}, {Head: "second source", Right: true, Keep: 8}, {Head: "from", Keep: 3}, {Head: "cells apart", Right: true, Keep: 6}}
	digits := report.Clamp(3-report.Magnitude(k.MeanUS/s.Div), 1, 3)
	for _, stage := range k.Stages {
		if stage.CheckUS == nil {
			continue
		}
		apart, of := stagesApart(f, stage.Name)
		cells := report.Text{S: "none of " + report.Count(of)}
		if apart > 0 {
			cells = report.Text{S: report.Count(apart) + " of " + report.Count(of), Style: report.StyleBad}
		}
		t.Rows = append(t.Rows, []report.Text{{S: stageNames[stage.Name]}, {S: report.Fixed(stage.MeanUS/s.Div, digits)}, {S: stage.Source},
			{S: report.Fixed(*stage.CheckUS/s.Div, digits)}, {S: stage.CheckSource}, cells})
	}
	if len(t.Rows) > 0 {
		t.Notes = append(t.Notes, "Apart: by more than "+record.ResidualRule("the whole")+", whichever is larger.")
	}
	return t
}

// stagesApart counts the cells where a stage's two sources differ by more than that, and the cells
// that have both.
func stagesApart(f record.Findings, name string) (apart, of int) {
	for _, c := range f.Cells {
		if c.Control == nil {
			continue
		}
		for _, s := range c.Control.Stages {
			if s.Name != name || s.CheckUS == nil {
				continue
			}
			of++
			if math.Abs(*s.CheckUS-s.MeanUS) > record.MaxResidualUS(c.Control.MeanUS) {
				apart++
			}
		}
	}
	return apart, of
}
