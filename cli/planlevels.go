package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// writeFixed says what a plan's cells have beside what their labels tell: what each
// variant sets, what there is where it sets nothing, and the levels that are the same in
// all of them.
func writeFixed(w io.Writer, p *study.Plan) error {
	for _, v := range p.VariedVariants() {
		sets := levelWords(v.Levels)
		if sets == "" {
			sets = "the settings as they are"
		}
		fmt.Fprintf(w, "variant %s: %s\n", v.Name, sets)
	}
	if others := p.Otherwise(); len(others) > 0 {
		slices.SortFunc(others, func(a, b record.FactorLevels) int { return strings.Compare(a.Factor, b.Factor) })
		words := make([]string, len(others))
		for i, f := range others {
			words[i] = f.Factor + "=" + strings.Join(f.Levels, " or ")
			if len(f.Levels) == 1 {
				words[i] = study.FlagText(f.Factor, f.Levels[0])
			}
		}
		fmt.Fprintf(w, "unless a variant says otherwise: %s\n", strings.Join(words, " "))
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
	for _, factor := range slices.Sorted(maps.Keys(levels)) {
		out = append(out, study.FlagText(factor, levels[factor]))
	}
	return strings.Join(out, " ")
}
