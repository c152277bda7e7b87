package study

import (
	"fmt"
	"strconv"
	"time"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/rate"
)

// Reading reads the levels of a cell as typed values. Each kind fills the struct that its trials
// act on from one. An installed lever counts as its usual level.
type Reading struct {
	table []Factor
	cell  record.Cell
	err   error
}

// ReadCell begins to read a cell of a kind with these factors. Err is set if the cell did not come
// from a plan of such a study.
func ReadCell(table []Factor, cell record.Cell) *Reading {
	r := &Reading{table: table, cell: cell}
	for _, f := range table {
		level := cell[f.Name]
		if level == "" && f.Implied || level == NotApplicable {
			continue
		}
		if _, err := f.Canonical(level); err != nil {
			r.fail(f.Name, err)
			break
		}
	}
	return r
}

// Err returns an error about the first level that is not valid for its factor.
func (r *Reading) Err() error { return r.err }

func (r *Reading) fail(factor string, err error) {
	if r.err == nil {
		r.err = fmt.Errorf("cell %s: %s: %w", r.cell.Key(), factor, err)
	}
}

func (r *Reading) level(name string) (Factor, string) {
	for _, f := range r.table {
		if f.Name != name {
			continue
		}
		level := r.cell[name]
		if level == "" && f.Implied {
			level = f.Default
		}
		if canonical, err := f.Canonical(level); err == nil {
			level = canonical
		}
		if level == LevelInstalled {
			level = f.Usual
		}
		return f, level
	}
	panic("study: there is no factor " + name)
}

// Text returns a level as it is, [NotApplicable] where the factor means nothing.
func (r *Reading) Text(factor string) string {
	_, level := r.level(factor)
	return level
}

// Set returns a level, "" if it sets nothing.
func (r *Reading) Set(factor string) string {
	switch level := r.Text(factor); level {
	case NotApplicable, LevelNone, LevelDefault:
		return ""
	default:
		return level
	}
}

// Number returns a level in the factor's unit, 0 for words.
func (r *Reading) Number(factor string) float64 {
	f, level := r.level(factor)
	v, _ := f.Value(level)
	return v
}

// Int returns a whole-number level.
func (r *Reading) Int(factor string) int { return int(r.Number(factor)) }

// Bool reports whether a level is true.
func (r *Reading) Bool(factor string) bool { return r.Text(factor) == "true" }

// Duration returns a level that is a time, 0 for words.
func (r *Reading) Duration(factor string) time.Duration {
	d, _ := ParseDuration(r.Text(factor))
	return d
}

// Rate returns a level that is a request rate.
func (r *Reading) Rate(factor string) rate.Rate {
	out, err := rate.Parse(r.Text(factor))
	if err != nil {
		r.fail(factor, err)
	}
	return out
}

// CountIn returns the level of a counting factor, 1 if the cell has none.
func CountIn(cell record.Cell, factor string) int {
	n, _ := strconv.Atoi(cell[factor])
	return max(1, n)
}
