package advice

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/meshtrial/meshtrial/analysis/words"
)

// WriteText writes a report for people; all also lists each rule that was ruled out.
func WriteText(w io.Writer, r Report, all bool) error {
	var b strings.Builder
	b.WriteString(r.heading())
	if r.Doubt != "" {
		fmt.Fprintf(&b, "%s\n", wrapped("  doubt     ", r.Doubt))
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "%s\n", wrapped("  note      ", n))
	}
	for i, j := range r.Advice {
		fmt.Fprintf(&b, "\n%d. %s  (%s, confidence %s)\n", i+1, j.Title, j.Rule, j.Sure())
		j.write(&b)
	}
	if len(r.Advice) == 0 {
		silence := "Nothing found that limits this mesh"
		if len(r.Undecided) > len(r.RuledOut) {
			silence = "Not enough evidence to say what limits this mesh"
		}
		fmt.Fprintf(&b, "\n%s. %s.\n", silence, r.counts())
	}
	r.writeUndecided(&b)
	if len(r.Advice) > 0 {
		fmt.Fprintf(&b, "\n%s.\n", r.counts())
	}
	if all {
		for _, j := range r.RuledOut {
			fmt.Fprintf(&b, "  %-16s %s%s\n", j.Rule, j.reasons(), values(j.Evidence))
		}
	}
	b.WriteString("Nothing was applied.\n")
	return writeClean(w, b.String())
}

// writeClean writes text that quotes pods, objects and files, without letting their control
// characters reach the terminal.
func writeClean(w io.Writer, text string) error {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = words.Clean(line)
	}
	_, err := io.WriteString(w, strings.Join(lines, "\n"))
	return err
}

func (r Report) heading() string {
	text := "Advice for " + r.Source
	if len(r.Cell) > 0 {
		text += ", cell " + strings.ReplaceAll(strings.ReplaceAll(r.Cell.Key(), "=", " "), ",", ", ")
	}
	if r.WindowS > 0 {
		text += fmt.Sprintf(", %s of istiod's metrics", spell(r.WindowS, "s"))
	}
	if r.Istiod != "" {
		text += ", istiod " + r.Istiod
	}
	return text + "\n"
}

// counts returns the number of rules for each outcome.
func (r Report) counts() string {
	return fmt.Sprintf("%s: %d hold, %d ruled out, %d undecided",
		words.Plural(len(r.Advice)+len(r.RuledOut)+len(r.Undecided), "rule"), len(r.Advice), len(r.RuledOut), len(r.Undecided))
}

// Sure is the confidence in a word.
func (j Judgement) Sure() string {
	switch c := j.Confidence; {
	case c >= 0.9:
		return "high"
	case c >= 0.6:
		return "medium"
	}
	return "low"
}

func (j Judgement) write(b *strings.Builder) {
	fmt.Fprintf(b, "%s\n", wrapped("   finding  ", j.Says))
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for i, v := range j.Evidence {
		label := ""
		if i == 0 {
			label = "evidence"
		}
		fmt.Fprintf(t, "   %-8s %s\t%s\t%s\n", label, spell(v.Value, v.Unit), v.Words, v.Source)
	}
	t.Flush()
	for _, w := range j.Why {
		fmt.Fprintf(b, "%s\n", wrapped("   because  ", w.words()))
	}
	for _, s := range j.Try {
		s.write(b)
	}
	if e := j.Expect; e != nil {
		fmt.Fprintf(b, "%s\n", wrapped("   expect   ", e.Text()))
	}
	fmt.Fprintf(b, "%s\n%s\n%s\n", wrapped("   risk     ", j.Risk), wrapped("   back     ", j.Back),
		wrapped("   source   ", strings.Join(j.Sources, "; ")))
}

// words describes a reason for people.
func (r Reason) words() string {
	text := map[string]string{ConditionFalse: "not so: ", OtherCause: "other cause: ", NoOtherCause: "ruled out: ",
		Supported: "supported: ", Contradicted: "contradicted: expected, but not seen: ", NotObserved: "not observed: ",
		EffectUnknown: "its effect cannot be predicted without "}[r.Code] + r.Text
	if r.Code == EffectUnknown && r.Text == "" {
		text = "its effect cannot be predicted: the bounds are no finite numbers"
	}
	return text + values(r.Values)
}

// reasons lists all reasons of a judgement.
func (j Judgement) reasons() string {
	var out []string
	for _, w := range j.Why {
		out = append(out, w.words())
	}
	return strings.Join(out, "; ")
}

// Text writes what is expected.
func (e *Expected) Text() string {
	return fmt.Sprintf("%s: %s now, %s to %s then (%s)", e.Of, spell(e.Now, e.Unit), spell(e.Low, e.Unit),
		spell(e.High, e.Unit), e.From)
}

func (s Step) write(b *strings.Builder) {
	text := s.Do
	switch {
	case len(s.Unknown) > 0:
		text += " The level is unknown without " + words.List(s.Unknown) + "."
	case len(s.Lacks) > 0:
		text += " NOT HERE: this istiod has no " + words.List(s.Lacks) + "."
	case !s.Checked:
		text += " Not checked: this istiod was not asked whether it has this setting (--istiod FILE)."
	}
	if s.Now != "" {
		text += " Now: " + s.Now + "."
	}
	fmt.Fprintf(b, "%s\n", wrapped("   try      ", text))
	for _, line := range strings.Split(strings.TrimRight(s.YAML, "\n"), "\n") {
		if line != "" {
			fmt.Fprintf(b, "              %s\n", line)
		}
	}
	if s.Expect != nil {
		fmt.Fprintf(b, "%s\n", wrapped("            expect: ", s.Expect.Text()))
	}
	if s.Back != "" {
		fmt.Fprintf(b, "%s\n", wrapped("            back: ", s.Back))
	}
	for _, m := range s.Measured {
		fmt.Fprintf(b, "%s\n", wrapped("            measured: ", m.text()))
	}
}

func (m Measured) text() string {
	f := m.Finding
	return fmt.Sprintf("%s at %s, in this run: %s %s (%s to %s), %s", m.Lever, m.Level, f.Name,
		words.Quantity(f.Estimate, f.Unit),
		words.Quantity(f.Low, f.Unit), words.Quantity(f.High, f.Unit), strings.ReplaceAll(f.Verdict, "_", " "))
}

// writeUndecided writes the rules with missing evidence, grouped by what to measure.
func (r Report) writeUndecided(b *strings.Builder) {
	if len(r.Undecided) == 0 {
		return
	}
	b.WriteString("\nNot enough evidence, and what to measure:\n")
	order, rules := []string{}, map[string][]string{}
	add := func(what, rule string) {
		if rules[what] == nil {
			order = append(order, what)
		}
		if !slices.Contains(rules[what], rule) {
			rules[what] = append(rules[what], rule)
		}
	}
	for _, j := range r.Undecided {
		for _, g := range j.Missing {
			what := g.Measure
			if len(g.Never) > 0 {
				what = "this version of istiod does not export " + words.List(g.Never)
			}
			if what != "" {
				add(what, j.Rule)
			}
		}
		if len(j.Missing) == 0 {
			add("evidence contradicts itself: "+j.reasons(), j.Rule)
		}
	}
	for _, what := range order {
		fmt.Fprintf(b, "%s\n", wrapped("  - ", strings.Join(rules[what], ", ")+": "+what))
	}
}

// Seen are the quantities that it rests on.
func (j Judgement) Seen() string {
	return strings.TrimSuffix(strings.TrimPrefix(values(j.Evidence), " ("), ")")
}

// values writes quantities in brackets behind a sentence; "" for none.
func values(all []Value) string {
	var parts []string
	for _, v := range all {
		parts = append(parts, v.Name+" "+spell(v.Value, v.Unit))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// width is the line width of text, in columns.
const width = 100

// wrapped wraps a text into lines after a label.
func wrapped(label, text string) string {
	indent := utf8.RuneCountInString(label)
	return label + strings.Join(words.Lines(text, width-indent), "\n"+strings.Repeat(" ", indent))
}
