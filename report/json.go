package report

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/meshtrial/meshtrial/record"
)

// renderJSON writes the findings, and the tables of the sections with the texts of their
// cells. It fails for findings that JSON cannot represent (a NaN).
func renderJSON(w io.Writer, k Kind, f record.Findings, _ Options) error {
	type table struct {
		Title   string     `json:"title"`
		Columns []Column   `json:"columns"`
		Rows    [][]string `json:"rows"`
		Notes   []string   `json:"notes,omitempty"`
		Texts   []Listing  `json:"texts,omitempty"`
	}
	type section struct {
		Name   string  `json:"name"`
		Tables []table `json:"tables"`
	}
	var sections []section
	for _, s := range k.page(f).Sections {
		one := section{Name: s.Name}
		for _, t := range s.Tables {
			rows := make([][]string, len(t.Rows))
			for i, row := range t.Rows {
				for _, cell := range row {
					rows[i] = append(rows[i], cell.S)
				}
			}
			one.Tables = append(one.Tables, table{t.Title, t.Columns, rows, t.Notes, t.Texts})
		}
		if len(one.Tables) > 0 {
			sections = append(sections, one)
		}
	}
	out, err := json.MarshalIndent(struct {
		record.Findings
		Sections []section `json:"sections"`
	}{f, sections}, "", "  ")
	if err != nil {
		return fmt.Errorf("findings as JSON: %w", err)
	}
	_, err = w.Write(append(out, '\n'))
	return err
}
