package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/meshtrial/meshtrial/observe/profile"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/ui"
)

// Page is the document that the HTML page of a run draws. It has values and what
// readers see of them; which sections there are, and what they are about, the page
// does not know. The types of ui/web/src/documents.ts are made from it:
// make documents.
type Page struct {
	Title    string `json:"title"`
	Question string `json:"question"`
	Story    string `json:"story"` // paragraphs, with empty lines between
	// Answers are the findings in words; the first is the headline.
	Answers []string `json:"answers"`
	// Facts are the run, the machine and the components.
	Facts []PageFact `json:"facts"`
	// Warnings has each warning once, with the number of findings it stands at.
	Warnings []string `json:"warnings"`
	// Failed says which of the study's assertions failed; "" for none.
	Failed string `json:"failed,omitempty"`
	// Factors vary, and Cells are combinations of their levels: readers choose
	// which of them charts and tables show.
	Factors  []PageFactor  `json:"factors"`
	Cells    []record.Cell `json:"cells"`
	Sections []PageSection `json:"sections"`
	// Study is the study file with all defaults, as YAML.
	Study  string `json:"study"`
	Footer string `json:"footer"`
}

// PageFact is an entry of a page's head.
type PageFact struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// PageFactor is a factor that varies.
type PageFactor struct {
	Factor string   `json:"factor"` // as cells have it
	Name   string   `json:"name"`
	Levels []string `json:"levels"`
}

// PageSection is a section with its values.
type PageSection struct {
	Name   string      `json:"name"`
	Title  string      `json:"title"`
	Lead   string      `json:"lead,omitempty"`
	Charts []Chart     `json:"charts,omitempty"`
	Tables []PageTable `json:"tables,omitempty"`
}

// PageTable is a table with the styles of its cells.
type PageTable struct {
	Title   string       `json:"title"`
	Columns []PageColumn `json:"columns"`
	Rows    [][]PageText `json:"rows"`
	Notes   []string     `json:"notes,omitempty"`
	Texts   []Listing    `json:"texts,omitempty"`
}

// PageColumn is a column of a page's table; with a factor it has that one's levels.
type PageColumn struct {
	Head   string `json:"head"`
	Right  bool   `json:"right,omitempty"`
	Factor string `json:"factor,omitempty"`
}

// PageText is a cell of a table. Style is "", "good", "bad", "dim" or "strong".
type PageText struct {
	Text  string `json:"text"`
	Style string `json:"style,omitempty"`
}

// styleNames are the styles of texts as the page has them.
var styleNames = map[Style]string{StyleGood: "good", StyleBad: "bad", StyleDim: "dim", StyleStrong: "strong"}

// ProfilePage is the document that the page of `meshtrial profile` draws.
type ProfilePage struct {
	Profiles []profile.View `json:"profiles"`
}

// Page makes the page's document from findings as a run has them.
func (kinds Kinds) Page(f record.Findings) (Page, error) {
	k, err := kinds.of(f)
	if err != nil {
		return Page{}, err
	}
	return k.page(f), nil
}

func (k Kind) page(f record.Findings) Page {
	d := k.document(f)
	f = inMicroseconds(f)
	out := Page{Title: d.Title, Question: d.Question, Story: d.Story, Answers: d.Answers, Warnings: d.Warnings,
		Study: d.Study,
		Footer: fmt.Sprintf("Made by meshtrial %s from run %s. Self-contained: this file makes no network requests.",
			f.Meshtrial, f.Run)}
	for _, one := range d.Facts {
		out.Facts = append(out.Facts, PageFact(one))
	}
	failed := 0
	for _, a := range f.Assertions {
		if !a.Passed {
			failed++
		}
	}
	if failed > 0 {
		out.Failed = fmt.Sprintf("%d of %d assertions failed.", failed, len(f.Assertions))
	}
	for _, factor := range f.Factors {
		out.Factors = append(out.Factors, PageFactor{factor.Factor, FactorName(factor.Factor), factor.Levels})
	}
	for _, c := range f.Cells {
		out.Cells = append(out.Cells, c.Cell)
	}
	for _, s := range append(k.Sections, drift(), components()) {
		drawn := PageSection{Name: s.Name, Title: s.Title, Lead: s.Lead}
		if s.Title == "" {
			drawn.Title = UpperFirst(s.Name)
		}
		if s.Charts != nil {
			drawn.Charts = s.Charts(f)
		}
		if s.Tables != nil {
			for _, t := range s.Tables(f) {
				if len(t.Rows) > 0 {
					drawn.Tables = append(drawn.Tables, tableOf(t))
				}
			}
		}
		if len(drawn.Charts)+len(drawn.Tables) > 0 {
			out.Sections = append(out.Sections, drawn)
		}
	}
	return out
}

func tableOf(t Table) PageTable {
	out := PageTable{Title: t.Title, Notes: t.Notes, Texts: t.Texts}
	for _, c := range t.Columns {
		out.Columns = append(out.Columns, PageColumn{c.Head, c.Right, c.Factor})
	}
	for _, row := range t.Rows {
		var texts []PageText
		for _, text := range row {
			texts = append(texts, PageText{text.S, styleNames[text.Style]})
		}
		out.Rows = append(out.Rows, texts)
	}
	return out
}

// drift is a section of the page alone: how the machine drifted.
func drift() Section {
	return Charted("drift", "",
		"The median of every cell in every block. Machines drift: differences are taken within a block, where drift affects both sides alike.", driftCharts)
}

// components is a section of the page alone: what was measured, by digest.
func components() Section {
	return One("components", func(f record.Findings) Table {
		t := Table{Title: "Components measured", Columns: []Column{{Head: "component"}, {Head: "version"},
			{Head: "lacks"}, {Head: "from"}, {Head: "digest"}}}
		for _, c := range f.Parts {
			lacks := Text{"–", StyleDim}
			if len(c.Lacks) > 0 {
				lacks = Text{strings.Join(c.Lacks, ", "), StyleBad}
			}
			t.Rows = append(t.Rows, []Text{{S: c.Name}, {S: c.Version}, lacks, {S: c.Source}, {S: c.Digest}})
		}
		return t
	})
}

// renderHTML writes one file with the page and its data in it.
func (k Kind) renderHTML(w io.Writer, f record.Findings) error {
	return writePage(w, k.page(f))
}

// WriteProfilePage writes one HTML file with flame graphs.
func WriteProfilePage(w io.Writer, views []profile.View) error {
	return writePage(w, ProfilePage{views})
}

func writePage(w io.Writer, document any) error {
	data, err := json.Marshal(document)
	if err != nil {
		return fmt.Errorf("the page's document as JSON: %w", err)
	}
	return ui.WritePage(w, data)
}
