package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/ui"
)

// Page is a report as values: the input of the HTML page, and what text and Markdown draw.
// Its strings are raw, and formats escape them. No format knows which sections there are
// or what they are about. `make documents` generates the types in ui/web/src/documents.ts
// from it.
type Page struct {
	Title    string `json:"title"`
	Question string `json:"question"`
	Story    string `json:"story"` // paragraphs separated by empty lines
	// Answers are the findings in words; the first is the headline.
	Answers []string `json:"answers"`
	// Facts describe the run, the machine and the components.
	Facts []Fact `json:"facts"`
	// Warnings lists each warning once, with the number of findings it applies to.
	Warnings []string `json:"warnings"`
	// Failed says which of the study's assertions failed; "" if none did.
	Failed string `json:"failed,omitempty"`
	// Factors are the factors that vary, and Cells the combinations of their levels:
	// readers choose which of them charts and tables show.
	Factors  []PageFactor  `json:"factors"`
	Cells    []record.Cell `json:"cells"`
	Sections []PageSection `json:"sections"`
	// Study is the study file with all defaults, as YAML.
	Study  string `json:"study"`
	Footer string `json:"footer"`
	// Provisional says that estimates can still change; "" if they cannot.
	Provisional string `json:"provisional,omitempty"`
	// Live is what served pages have; nil in a file.
	Live *Live `json:"live,omitempty"`
}

// Fact is an entry in the head of a page.
type Fact struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// PageFactor is a factor that varies.
type PageFactor struct {
	Factor string   `json:"factor"` // as cells name it
	Name   string   `json:"name"`
	Levels []string `json:"levels"`
}

// PageSection is a section with its values.
type PageSection struct {
	Name   string  `json:"name"`
	Title  string  `json:"title"`
	Lead   string  `json:"lead,omitempty"`
	Charts []Chart `json:"charts,omitempty"`
	Tables []Table `json:"tables,omitempty"`
}

// Page returns the document of the HTML page for a run's findings.
func (kinds Kinds) Page(f record.Findings) (Page, error) {
	k, err := kinds.of(f)
	if err != nil {
		return Page{}, err
	}
	return k.page(f, drift(), components()), nil
}

// page draws the sections of a kind and some additional ones.
func (k Kind) page(f record.Findings, beside ...Section) Page {
	f = inMicroseconds(f)
	out := Page{Title: f.Study, Question: f.Question, Story: f.Story, Answers: k.answers(f), Facts: facts(f),
		Warnings: k.warnings(f), Study: f.StudyYAML,
		Footer: fmt.Sprintf("Made by meshtrial %s from run %s. %s", f.Meshtrial, f.Run, selfContained)}
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
	for _, s := range append(k.Sections, beside...) {
		drawn := PageSection{Name: s.Name, Title: s.Title, Lead: s.Lead}
		if s.Title == "" {
			drawn.Title = UpperFirst(s.Name)
		}
		if s.Charts != nil {
			drawn.Charts = s.Charts(f)
		}
		if s.Tables != nil {
			drawn.Tables = withRows(s.Tables(f)...)
		}
		if len(drawn.Charts)+len(drawn.Tables) > 0 {
			out.Sections = append(out.Sections, drawn)
		}
	}
	return out
}

// Served returns a page as delivered by a server.
func (p Page) Served(live Live) Page {
	p.Live, p.Footer = &live, strings.TrimSuffix(p.Footer, selfContained)+servedFrom
	return p
}

const selfContained = "Self-contained: this file makes no network requests."

// withRows omits tables without rows.
func withRows(tables ...Table) (out []Table) {
	for _, t := range tables {
		if len(t.Rows) > 0 {
			out = append(out, t)
		}
	}
	return out
}

// drift returns a section that only the page has: how the machine drifted.
func drift() Section {
	return Charted("drift", "",
		"The median of every cell in every block. Machines drift: differences are taken within a block, where drift affects both sides alike.", driftCharts)
}

// components returns a section that only the page has: what was measured, by digest.
func components() Section {
	return One("components", func(f record.Findings) Table {
		t := Table{Title: "Components measured", Columns: []Column{{Head: "component"}, {Head: "version"},
			{Head: "lacks"}, {Head: "from"}, {Head: "digest"}}}
		for _, c := range f.Parts {
			lacks := Dash
			if len(c.Lacks) > 0 {
				lacks = Text{strings.Join(c.Lacks, ", "), StyleBad}
			}
			t.Rows = append(t.Rows, []Text{{S: c.Name}, {S: c.Version}, lacks, {S: c.Source}, {S: c.Digest}})
		}
		return t
	})
}

// renderHTML writes a single file with the page and its data.
func renderHTML(w io.Writer, k Kind, f record.Findings, _ Options) error {
	return writePage(w, k.page(f, drift(), components()))
}

func writePage(w io.Writer, document any) error {
	data, err := json.Marshal(document)
	if err != nil {
		return fmt.Errorf("the page's document as JSON: %w", err)
	}
	return ui.WritePage(w, data)
}
