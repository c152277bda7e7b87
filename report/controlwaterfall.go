package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
)

// stageNames are what tables call the stages.
var stageNames = map[string]string{
	record.StageWatch: "watch", record.StageDebounce: "debounce", record.StagePushContext: "push context", record.StageQueue: "queue",
	record.StageGenerate: "generate", record.StageWire: "wire", record.StageAck: "ack",
}

// ackNote says what else is in an acknowledgement's time.
const ackNote = "Ack: a proxy acknowledges a new cluster only when it has its endpoints, as Envoy does, so that istiod's time to send those is in it."

// waterfallTable has a row a cell: where the mean time from commit to
// acknowledgement goes. No stage is left out where there is little room, since
// all of them add up: only the whole is.
func waterfallTable(f record.Findings) table {
	t := table{Columns: factorColumns(f)}
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
	s := scaleFor("us", math.Min(largest, 9e6))     // short stages stay readable in ms
	digits := clamp(3-magnitude(least/s.Div), 1, 3) // a thousandth of the whole
	t.Title = "Where the time goes, mean " + s.Unit + " from commit to acknowledgement"
	for _, c := range f.Cells {
		if c.Control != nil {
			for _, name := range c.Control.MissingStages {
				present[name] = true
			}
		}
	}
	for _, name := range record.Stages() {
		if present[name] {
			t.Columns = append(t.Columns, column{Head: strings.TrimPrefix(stageNames[name], "push "), Right: true})
		}
	}
	t.Columns = append(t.Columns, column{Head: "unexplained", Right: true}, column{"whole", true, 1})
	bad, lacking, early := false, false, false
	for _, c := range f.Cells {
		row := factorTexts(f, c.Cell)
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
				row, lacking = append(row, text{"–", styleDim}), true
				continue
			}
			row = append(row, text{S: fixed(k.Stages[i].MeanUS/s.Div, digits)})
			early = early || name == record.StageWatch && k.Stages[i].MeanUS < 0
		}
		rest := text{S: fixed(k.ResidualUS/s.Div, digits), Style: styleDim}
		if math.Abs(k.ResidualUS) > record.MaxResidualUS(k.MeanUS) {
			rest.Style, bad = styleBad, true
		}
		t.Rows = append(t.Rows, append(row, rest, text{S: fixed(k.MeanUS/s.Div, digits)}))
	}
	if present[record.StageAck] {
		t.Notes = append(t.Notes, ackNote)
	}
	if bad {
		t.Notes = append(t.Notes, "Where more than "+record.ResidualRule("")+" is unexplained, the stages do not tell the whole story.")
	}
	if note := pairsOffNote(f); note != "" {
		t.Notes = append(t.Notes, note)
	}
	if early {
		t.Notes = append(t.Notes, "A watch below zero: istiod had been told of the change before the API server's answer, and our own watch, came through here.")
	}
	if lacking {
		t.Notes = append(t.Notes, "–: nobody measured this stage; its time is in the unexplained part.")
	}
	return t
}

// pairsOffNote says how many single pairs of a change and a proxy their own
// stages miss, which means may hide; "" if nobody counted them.
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
			where = append(where, fmt.Sprintf("%s of %s with %s", count(u.Beyond), count(u.Pairs), c.Label))
		}
	}
	own := func(verb string) string {
		return "of a change and a proxy " + verb + " their own stages by more than " + record.ResidualRule("their time")
	}
	switch {
	case pairs == 0:
		return ""
	case beyond == 0:
		return fmt.Sprintf("None of the %s %s.", plural(pairs, "pair"), own("misses"))
	case len(where) <= maxNamedCells && len(f.Cells) > 1:
		return fmt.Sprintf("Single pairs %s: %s.", own("miss"), sequence(where))
	}
	return fmt.Sprintf("%s of %s %s.", count(beyond), plural(pairs, "pair"), own("miss"))
}

// secondSources has a row a stage that two sources tell of: what each says, in
// the described cell, and in how many cells they differ by more than a
// waterfall may leave unexplained.
func secondSources(f record.Findings) table {
	t := table{}
	described, ok := describedCell(f)
	if !ok {
		return t
	}
	k := described.Control
	s := scaleFor("us", math.Min(k.MeanUS, 9e6))
	t.Title = "Stages by a second source, mean " + s.Unit
	if len(f.Cells) > 1 {
		t.Title += " (" + described.Label + ")"
	}
	t.Columns = []column{{Head: "part of the way"}, {"shown", true, 9}, {"from", false, 4}, {"second source", true, 8}, {"from", false, 3}, {"cells apart", true, 6}}
	digits := clamp(3-magnitude(k.MeanUS/s.Div), 1, 3)
	for _, stage := range k.Stages {
		if stage.CheckUS == nil {
			continue
		}
		apart, of := stagesApart(f, stage.Name)
		cells := text{S: "none of " + count(of)}
		if apart > 0 {
			cells = text{count(apart) + " of " + count(of), styleBad}
		}
		t.Rows = append(t.Rows, []text{{S: stageNames[stage.Name]}, {S: fixed(stage.MeanUS/s.Div, digits)}, {S: brief(stage.Source)},
			{S: fixed(*stage.CheckUS/s.Div, digits)}, {S: brief(stage.CheckSource)}, cells})
	}
	if len(t.Rows) > 0 {
		t.Notes = append(t.Notes, "Apart: by more than "+record.ResidualRule("the whole")+", whichever is larger.")
	}
	return t
}

// stagesApart counts the cells where a stage's two sources differ by more
// than that, of those that have two.
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

// brief is the first of several sources.
func brief(source string) string {
	first, _, _ := strings.Cut(source, ";")
	first, _, _ = strings.Cut(first, " (")
	return first
}
