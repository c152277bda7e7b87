package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/study"
)

// writeLevers prints a line for each lever that varies.
func writeLevers(t io.Writer, p *study.Plan) {
	fmt.Fprintln(t, "lever\tlevels")
	for _, f := range p.Varying {
		fmt.Fprintf(t, "%s\t%s\n", f.Factor, strings.Join(f.Levels, ", "))
	}
}

// writeTune says what a tuning looks for, and how.
func writeTune(w io.Writer, p *study.Plan) {
	t := p.Study.Tune
	if t == nil {
		return
	}
	var goals, bounds, expected []string
	for _, g := range t.Objectives {
		goals = append(goals, g.String())
	}
	for _, b := range t.Constraints {
		text := b.String()
		if !b.Relative {
			text = b.Finding + "<=" + words.Quantity(b.Limit, b.Unit)
		}
		bounds = append(bounds, text)
	}
	for _, e := range t.Expected {
		expected = append(expected, e.Finding)
	}
	fmt.Fprintf(w, "search: the lowest %s of %s", strings.Join(goals, ", "), words.Plural(len(p.Cells), "cell"))
	if len(bounds) > 0 {
		fmt.Fprintf(w, ", with %s", strings.Join(bounds, " and "))
	}
	fmt.Fprintf(w, ": at most %s, each block with the setting in use; then %s compare it with the best\n", words.Plural(p.TuneTrials(), "trial"), words.Plural(t.Confirm, "block"))
	if len(expected) > 0 {
		fmt.Fprintf(w, "it begins with what a model expects of %s\n", strings.Join(expected, ", "))
	}
}
