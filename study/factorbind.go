package study

import (
	"fmt"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/rate"
)

// bind fills the struct of levels that trials of a kind act on. It fails only
// for a cell that did not come from a plan.
func bind(table []Factor, cell record.Cell, to any) error {
	for _, f := range table {
		level := cell[f.Name]
		if level == "" && f.Implied {
			level = f.Default
		}
		if level != NotApplicable {
			var err error
			if level, err = f.Canonical(level); err != nil {
				return fmt.Errorf("cell %s: %s: %w", cell.Key(), f.Name, err)
			}
		}
		if f.bind == nil {
			continue
		}
		if level == LevelInstalled {
			level = f.Usual
		}
		if err := f.bind(to, f, level); err != nil {
			return fmt.Errorf("cell %s: %s: %w", cell.Key(), f.Name, err)
		}
	}
	return nil
}

// into binds a level to a field. Numbers are in the factor's unit, and 0 for
// levels that are words; texts are the level itself.
func into[L any](field func(*L) any) func(any, Factor, string) error {
	return func(to any, f Factor, level string) error {
		l, ok := to.(*L)
		if !ok {
			return fmt.Errorf("levels of %T have no such field", to)
		}
		v, _ := f.Value(level)
		switch field := field(l).(type) {
		case *string:
			*field = level
		case *bool:
			*field = level == "true"
		case *int:
			*field = int(v)
		case *int64:
			*field = int64(v)
		case *float64:
			*field = v
		case *rate.Rate:
			r, err := rate.Parse(level)
			if err != nil {
				return err
			}
			*field = r
		case *time.Duration:
			d, c := parseDuration(level)
			if c == nil {
				*field = d
			}
		default:
			return fmt.Errorf("no level can be a %T", field)
		}
		return nil
	}
}

// asSet binds a level to a text, which is empty where the level leaves things
// as they are.
func asSet[L any](field func(*L) *string) func(any, Factor, string) error {
	return read(field, func(level string) string { return level })
}

// read binds what a level says, and leaves the field alone where it leaves
// things as they are.
func read[L, T any](field func(*L) *T, say func(string) T) func(any, Factor, string) error {
	return func(to any, _ Factor, level string) error {
		l, ok := to.(*L)
		if !ok {
			return fmt.Errorf("levels of %T have no such field", to)
		}
		switch level {
		case NotApplicable, LevelNone, LevelDefault:
		default:
			*field(l) = say(level)
		}
		return nil
	}
}

func parseSelector(level string) *Selector {
	key, value, _ := strings.Cut(level, "=")
	key, not := strings.CutSuffix(key, "!")
	return &Selector{Key: key, Value: value, Not: not}
}
