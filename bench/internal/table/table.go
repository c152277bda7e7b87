// Package table reports the measurements of the benches in this folder: one
// [Row] per figure, with its target if it has one, printed for people by
// [Print], written as JSON by [WriteJSON] and judged as a whole by [Judge]. A
// bench is a [Program] of parts.
package table

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
)

// Row is one figure: the values of all rounds, in Unit.
type Row struct {
	Name   string    `json:"name"`
	Unit   string    `json:"unit"`
	Median float64   `json:"median"`
	Low    float64   `json:"low"`
	High   float64   `json:"high"`
	Values []float64 `json:"values"`
	Target string    `json:"target,omitempty"` // in words; "" for none
	Pass   bool      `json:"pass"`             // true without a target
}

// ErrMissed reports that a target was missed.
var ErrMissed = errors.New("a target was missed")

// Of returns a row without a target, with the values of all rounds.
func Of(name, unit string, values ...float64) Row {
	sorted := slices.Sorted(slices.Values(values))
	r := Row{Name: name, Unit: unit, Values: values, Pass: true}
	if n := len(sorted); n > 0 {
		r.Low, r.High = sorted[0], sorted[n-1]
		r.Median = (sorted[(n-1)/2] + sorted[n/2]) / 2
	}
	return r
}

// AtLeast sets a minimum for the median. Without values it is missed.
func (r Row) AtLeast(target float64) Row {
	r.Target, r.Pass = fmt.Sprintf(">= %g", target), len(r.Values) > 0 && r.Median >= target
	return r
}

// AtMost sets a maximum for the median. Without values it is missed.
func (r Row) AtMost(target float64) Row {
	r.Target, r.Pass = fmt.Sprintf("<= %g", target), len(r.Values) > 0 && r.Median <= target
	return r
}

// Print writes the rows under a title.
func Print(out io.Writer, title string, rows []Row) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%s\n\n\tmedian\tlow\thigh\tunit\ttarget\t\t\n", title)
	for _, r := range rows {
		verdict := ""
		if r.Target != "" {
			verdict = map[bool]string{true: "reached", false: "MISSED"}[r.Pass]
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", r.Name, Number(r.Median), Number(r.Low), Number(r.High), r.Unit, r.Target, verdict)
	}
	return w.Flush()
}

// Number formats a figure with three digits, or with all before the point.
func Number(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// WriteJSON writes document, indented, to file. If file is "" it does nothing.
func WriteJSON(file string, document any) error {
	if file == "" {
		return nil
	}
	data, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}

// Judge returns [ErrMissed] if a row misses its target.
func Judge(rows []Row) error {
	if slices.ContainsFunc(rows, func(r Row) bool { return !r.Pass }) {
		return ErrMissed
	}
	return nil
}
