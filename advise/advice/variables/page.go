package variables

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"html"
	"strings"
)

// parsePage reads the reference page of an istiod (pkg/collateral/control.go of Istio): a
// table of variables with a cell per line, and one of metrics with a row per line.
func parsePage(page []byte) (*Known, error) {
	known := &Known{Variables: []Variable{}, Metrics: []Metric{}}
	const (
		elsewhere = iota
		inVariables
		inMetrics
	)
	where := elsewhere
	var cells []string
	deprecated := false
	lines := bufio.NewScanner(bytes.NewReader(page))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, `<h2 id="envvars">`):
			where = inVariables
		case strings.HasPrefix(line, `<h2 id="metrics">`):
			where = inMetrics
		case strings.HasPrefix(line, "<h2"):
			where = elsewhere
		case where == inMetrics && strings.HasPrefix(line, "<tr><td>"):
			row := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "<tr><td>"), "</td></tr>"), "</td><td>")
			if len(row) != 3 {
				return nil, fmt.Errorf("a row of the table of metrics has %d cells, not 3: %.80q", len(row), line)
			}
			known.Metrics = append(known.Metrics, Metric{Name: text(row[0]), Type: text(row[1]), Help: text(row[2])})
		case where == inVariables && strings.HasPrefix(line, "<tr id="):
			cells, deprecated = []string{}, strings.Contains(line, "class='deprecated'")
		case where == inVariables && cells != nil && strings.HasPrefix(line, "<td>"):
			cells = append(cells, text(line))
		case where == inVariables && cells != nil && strings.HasPrefix(line, "</tr>"):
			if len(cells) != 4 || cells[0] == "" {
				return nil, fmt.Errorf("a row of the table of variables has %d cells, not 4: %.80q", len(cells),
					cells)
			}
			known.Variables = append(known.Variables,
				Variable{Name: cells[0], Type: cells[1], Default: cells[2], Help: cells[3], Deprecated: deprecated})
			cells = nil
		case where == inVariables && len(cells) > 0: // help of several lines
			cells[len(cells)-1] += "\n" + text(line)
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

// text is a cell without its tags.
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
