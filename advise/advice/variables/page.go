package variables

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"html"
	"strings"
)

// parsePage parses the reference page of an istiod (pkg/collateral/control.go of Istio):
// a table of variables with one cell per line, and a table of metrics with one row per
// line.
func parsePage(page []byte) (*Known, error) {
	known := &Known{}
	table := ""
	var cells []string
	lines := bufio.NewScanner(bytes.NewReader(page))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "<h2"):
			_, table, _ = strings.Cut(line, `id="`)
			table, _, _ = strings.Cut(table, `"`)
		case table == "metrics" && strings.HasPrefix(line, "<tr><td>"):
			name, _, _ := strings.Cut(strings.TrimPrefix(line, "<tr><td>"), "</td>")
			known.Metrics = append(known.Metrics, text(name))
		case table != "envvars":
		case strings.HasPrefix(line, "<tr id="):
			cells = []string{}
		case cells != nil && strings.HasPrefix(line, "<td>"):
			cells = append(cells, text(line))
		case cells != nil && strings.HasPrefix(line, "</tr>"): // cells are name, type, default and help
			if len(cells) != 4 || cells[0] == "" {
				return nil, fmt.Errorf("a row of the table of variables has %d cells, not 4: %.80q", len(cells), cells)
			}
			known.Variables = append(known.Variables, Variable{Name: cells[0], Default: cells[2]})
			cells = nil
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(known.Variables) == 0 {
		return nil, errors.New("its reference has no table of variables")
	}
	return known, nil
}

// text strips a cell of its tags.
func text(cell string) string {
	var b strings.Builder
	for i, part := range strings.Split(cell, "<") {
		if i > 0 {
			_, part, _ = strings.Cut(part, ">")
		}
		b.WriteString(part)
	}
	return html.UnescapeString(b.String())
}
