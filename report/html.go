package report

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/meshtrial/meshtrial/profile"
	"github.com/meshtrial/meshtrial/record"
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
	// Sections are the report's as other formats have them: the page draws the
	// tables of those that it has no picture of.
	Sections []section `json:"sections"`
	// Profiles are of trials that were profiled: each a profile.View.
	Profiles []json.RawMessage `json:"profiles,omitempty"`
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
	return Page{Findings: inMicroseconds(f), Answers: d.Answers, Warnings: d.Warnings, Sections: d.Sections, Profiles: profiles}
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
