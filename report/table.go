package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
)

// Table is a table with a title and remarks below it.
type Table struct {
	Title   string   `json:"title"`
	Columns []Column `json:"columns"`
	Rows    [][]Text `json:"rows"`
	Notes   []string `json:"notes,omitempty"`
	// Texts are shown verbatim, line by line, after the notes.
	Texts []Listing `json:"texts,omitempty"`
}

// Listing is a text that is kept verbatim, such as a manifest.
type Listing struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Column is a table column. Keep ranks columns by importance: if a table is too
// wide, the columns with the lowest Keep above 0 are dropped first; those with
// 0 are never dropped.
type Column struct {
	Head  string `json:"head"`
	Right bool   `json:"right,omitempty"`
	Keep  int    `json:"-"`
	// Factor is the factor whose levels it shows, "" for other columns.
	Factor string `json:"factor,omitempty"`
}

// Text is a table cell and its look if colour is wanted.
type Text struct {
	S     string `json:"text"`
	Style Style  `json:"style,omitempty"`
}

// Style is the look of a text.
type Style string

const (
	StyleNone   Style = ""
	StyleGood   Style = "good"
	StyleBad    Style = "bad"
	StyleDim    Style = "dim"
	StyleStrong Style = "strong"
)

// facts returns the header of a report.
func facts(f record.Findings) []Fact {
	m := f.Machine
	var machine []string
	add := func(list *[]string, format, s string) {
		if s != "" {
			*list = append(*list, fmt.Sprintf(format, s))
		}
	}
	add(&machine, "%s", m.CPUModel)
	if m.CPUs > 0 {
		machine = append(machine, words.Plural(m.CPUs, "CPU"))
	}
	if m.MemoryBytes > 0 {
		machine = append(machine, Fixed(float64(m.MemoryBytes)/(1<<30), 0)+" GiB")
	}
	add(&machine, "%s", m.OS)
	add(&machine, "Linux %s", strings.TrimPrefix(m.Kernel, "Linux "))
	add(&machine, "on %s", m.Virtual)
	add(&machine, "clock %s", m.ClockSource)
	add(&machine, "governor %s", m.Governor)
	add(&machine, "cgroups %s", m.CgroupMode)

	lab := []string{f.Lab}
	add(&lab, "Kubernetes %s", m.Kubernetes)
	add(&lab, "%s", m.ContainerRun)
	if m.Nodes > 0 {
		lab = append(lab, words.Plural(m.Nodes, "node"))
	}
	out := []Fact{
		{"run", fmt.Sprintf("%s, started %s, seed %d, meshtrial %s", f.Run, f.Started, f.Seed, f.Meshtrial)},
		{"machine", strings.Join(machine, ", ")},
		{"lab", strings.Join(lab, ", ")},
		{"measured", componentWords(f.Parts)},
		{"validity", validityWords(f.Validity)},
	}
	if f.Stop != "" {
		out = append(out, Fact{"ended by", f.Stop})
	}
	return slices.DeleteFunc(out, func(f Fact) bool { return f.Text == "" })
}

// validityWords counts trials and says why some are not valid.
func validityWords(v record.ValiditySummary) string {
	s := fmt.Sprintf("%s of %s valid, in %s", Count(v.Valid), words.Plural(v.Trials, "trial"), words.Plural(v.Blocks, "block"))
	for _, r := range v.Reasons {
		s += fmt.Sprintf("; %s failed in %s", FactorName(r.Check), words.Plural(r.Trials, "trial"))
		if r.Example != "" {
			s += " (" + r.Example + ")"
		}
	}
	return s
}

// FactorColumns returns the columns that name a cell.
func FactorColumns(f record.Findings) []Column {
	if len(f.Factors) == 0 {
		return []Column{{Head: "cell"}}
	}
	var columns []Column
	for _, factor := range f.Factors {
		columns = append(columns, FactorColumn(factor))
	}
	return columns
}

// FactorColumn returns the column of a factor's levels.
func FactorColumn(l record.FactorLevels) Column {
	return Column{Head: FactorName(l.Factor), Right: Numbers(l.Levels), Factor: l.Factor}
}

// FactorTexts returns a cell's levels in the order of FactorColumns.
func FactorTexts(f record.Findings, cell record.Cell) []Text {
	if len(f.Factors) == 0 {
		return []Text{{S: "all"}}
	}
	var row []Text
	for _, factor := range f.Factors {
		row = append(row, Text{S: cell[factor.Factor]})
	}
	return row
}

// componentWords lists components with their versions, and what they lack.
func componentWords(components []record.Component) string {
	var out []string
	for _, c := range components {
		s := c.Name + " " + c.Version
		if len(c.Lacks) > 0 {
			s += " (lacks " + strings.Join(c.Lacks, ", ") + ")"
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}
