package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// writeFixed says what a plan's cells have beside what their labels tell: what each
// variant sets, and the levels that are the same in all of them.
func writeFixed(w io.Writer, p *study.Plan) error {
	for _, v := range p.VariedVariants() {
		sets := levelWords(v.Levels)
		if sets == "" {
			sets = "the settings as they are"
		}
		fmt.Fprintf(w, "variant %s: %s\n", v.Name, sets)
	}
	for _, f := range p.Unlike() {
		fmt.Fprintf(w, "not the same in all cells: %s=%s\n", f.Factor, strings.Join(f.Levels, " or "))
	}
	fixed, installed := p.Fixed(), []string{}
	for factor, level := range fixed {
		if level == study.LevelInstalled {
			installed = append(installed, factor)
			delete(fixed, factor)
		}
	}
	_, err := fmt.Fprintf(w, "fixed: %s\n", levelWords(fixed))
	if len(installed) > 0 && err == nil {
		slices.Sort(installed)
		_, err = fmt.Fprintf(w, "as installed: %s\n", strings.Join(installed, " "))
	}
	return err
}

// levelWords lists levels as --set takes them, by their factors' names.
func levelWords(levels record.Cell) string {
	var out []string
	for factor, level := range levels {
		out = append(out, factor+"="+level)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}
