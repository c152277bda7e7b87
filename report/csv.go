package report

import (
	"encoding/csv"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
)

// renderCSV writes tidy rows: one value per row, with the cell it belongs to. Column
// "kind" is finding, cell, verdict or noise_floor. Factors have a column each, and
// the baseline of a finding has columns against_FACTOR. An unknown end of an interval
// is empty, and column "open" says which it is. Numbers have at most six significant
// digits; JSON has all.
func renderCSV(w io.Writer, k Kind, f record.Findings, _ Options) error {
	out := csv.NewWriter(w)
	factors := make([]string, len(f.Factors))
	for i, factor := range f.Factors {
		factors[i] = factor.Factor
	}
	head := []string{"study", "run", "kind", "name"}
	for _, factor := range factors {
		head = append(head, csvText(factor))
	}
	for _, factor := range factors {
		head = append(head, csvText("against_"+factor))
	}
	head = append(head, "value", "low", "high", "unit", "blocks", "trials_valid", "verdict", "warnings", "open")
	_ = out.Write(head) // its Error tells at the end
	row := func(kind, name string, cell, against record.Cell, value, low, high, unit, blocks, valid, verdict, warnings, open string) {
		r := []string{csvText(f.Study), csvText(f.Run), kind, csvText(name)}
		for _, factor := range factors {
			r = append(r, csvText(cell[factor]))
		}
		for _, factor := range factors {
			r = append(r, csvText(against[factor]))
		}
		_ = out.Write(append(r, value, low, high, csvText(unit), blocks, valid, csvText(verdict), csvText(warnings), open))
	}
	alone := map[string]map[string]float64{}
	for _, c := range f.Cells {
		alone[c.Cell.Key()] = c.Values
	}
	for _, x := range f.Findings {
		value, low, high := csvNumber(x.Estimate), csvNumber(x.Low), csvNumber(x.High)
		if x.Verdict == record.VerdictInvalid { // it has no figures, and a 0 would enter averages
			value, low, high = "", "", ""
			if v, ok := alone[x.Cell.Key()][x.Name]; ok && x.Against == nil && x.Reason == "" {
				value = csvNumber(v)
			}
		}
		if x.OpenAbove() {
			high = ""
		}
		if x.Open == record.OpenLow || x.Open == record.OpenBoth {
			if low = ""; x.Estimate == 0 { // it represents the unknown end
				value = ""
			}
		}
		if x.Trials != nil { // the minimum and maximum of trials are not an interval
			low, high = "", ""
		}
		row("finding", x.Name, x.Cell, x.Against, value, low, high, x.Unit,
			strconv.Itoa(x.Blocks), "", x.Verdict, note.Words(x.Warnings), x.Open)
	}
	for _, c := range f.Cells {
		if k.Values == nil {
			break
		}
		for _, v := range k.Values(c) {
			row("cell", v.Name, c.Cell, nil, csvNumber(v.Value), csvNumber(v.Low), csvNumber(v.High), v.Unit, "", strconv.Itoa(c.Valid), "", "", "")
		}
	}
	for _, c := range f.Cells {
		if k.Verdict == nil {
			break
		}
		if found, expected := k.Verdict(c); found != "" {
			row("verdict", "verdict", c.Cell, nil, "", "", "", "", "", strconv.Itoa(c.Valid), found, "expected "+expected, "")
		}
	}
	for _, n := range f.NoiseFloor {
		row("noise_floor", n.Measure, n.Cell, nil, csvNumber(n.Floor), "", "", n.Unit, strconv.Itoa(n.Blocks), "", "", "", "")
	}
	out.Flush()
	return out.Error()
}

// csvNumber formats a number with at most six significant digits, and without an
// exponent for common sizes, which a spreadsheet would misread.
func csvNumber(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return ""
	}
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	if m := Magnitude(v); m < 15 && m > -6 {
		s := strconv.FormatFloat(v, 'f', max(0, 5-m), 64)
		if strings.Contains(s, ".") {
			s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
		}
		return s
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}
