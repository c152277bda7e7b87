package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/observe/profile"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/finding"
	"github.com/meshtrial/meshtrial/ui"
)

// Page is the document that the HTML page of a run draws. The types of
// ui/web/src/documents.ts are made from it: make documents.
type Page struct {
	// Findings has all times in microseconds.
	Findings record.Findings `json:"findings"`
	// Answers are the findings in words; the first is the headline.
	Answers []string `json:"answers"`
	// Warnings has each warning once, with the number of findings it stands at.
	Warnings []string `json:"warnings"`
	// Names are of the findings that it has, in the order of reports.
	Names []FindingName `json:"names"`
	// Proxies name the parts of trials that are proxies, in the order of reports.
	Proxies []PartName `json:"proxies"`
	// Sections are the report's as other formats have them: the page draws the
	// tables of those that it has no picture of.
	Sections []section `json:"sections"`
	// Profiles are of trials that were profiled: each a profile.View.
	Profiles []json.RawMessage `json:"profiles,omitempty"`
}

// FindingName is what a finding is called, and the section of a report that shows it.
type FindingName struct {
	Name    string `json:"name"`              // as findings have it
	Words   string `json:"words"`             // in tables and warnings
	Phrase  string `json:"phrase"`            // what a difference adds to: "to the median latency"
	Section string `json:"section,omitempty"` // "" if only documents for programs have it
}

// PartName is what a part of a trial is called.
type PartName struct {
	Part  string `json:"part"` // as documents have it
	Words string `json:"words"`
}

func proxyNames() []PartName {
	var out []PartName
	for _, part := range record.ProxyParts() {
		out = append(out, PartName{part, PartWords(part)})
	}
	return out
}

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
	d, profiles := k.document(f), f.Profiles
	f.Profiles = nil // once is enough
	return Page{Findings: inMicroseconds(f), Answers: d.Answers, Warnings: d.Warnings, Names: k.named(f), Proxies: proxyNames(), Sections: d.Sections, Profiles: profiles}
}

// named names all that the page may show of findings.
func (k Kind) named(f record.Findings) []FindingName {
	place, last := map[string]int{}, len(k.Findings.All())
	for i, d := range k.Findings.All() {
		place[d.Name] = i
	}
	var names []string
	for _, x := range f.Findings {
		names = append(names, x.Name, strings.TrimSuffix(x.Name, finding.Overhead))
	}
	for _, x := range f.NoiseFloor {
		names = append(names, x.Measure)
	}
	for _, x := range f.Published {
		names = append(names, x.Finding)
	}
	slices.Sort(names)
	var out []FindingName
	at := map[string]int{}
	for _, name := range slices.Compact(names) {
		d, ok := k.Findings.Find(name)
		if at[name] = last; ok {
			at[name] = place[d.Name]
		}
		out = append(out, FindingName{Name: name, Words: k.words(name), Phrase: k.MeasureWords(name), Section: d.Section})
	}
	slices.SortStableFunc(out, func(a, b FindingName) int { return cmp.Compare(at[a.Name], at[b.Name]) })
	return out
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
