package report

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/ui"
)

// pageData is what the HTML page is given.
type pageData struct {
	Findings record.Findings   `json:"findings"`
	Answers  []string          `json:"answers"`
	Warnings []string          `json:"warnings"` // each once, with the number of findings
	Profiles []json.RawMessage `json:"profiles,omitempty"`
}

// renderHTML writes one file with the page and its data in it.
func renderHTML(w io.Writer, f record.Findings) error {
	views, answers := f.Profiles, Answers(f)
	f.Profiles = nil // once is enough
	data, err := json.Marshal(pageData{inMicroseconds(f), answers, warnings(f), views})
	if err != nil {
		return fmt.Errorf("findings as JSON: %w", err)
	}
	return ui.WritePage(w, data)
}
