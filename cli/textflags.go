package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/meshtrial/meshtrial/report"
)

// textFlags say how text is drawn.
type textFlags struct {
	color string
	width uint
}

func (f *textFlags) register(flags *pflag.FlagSet) {
	addChoice(flags, &f.color, "color", "colour text: auto (on a terminal, unless NO_COLOR is set), always, never", "auto", "always", "never")
	flags.UintVar(&f.width, "width", 0, "maximum table width in columns (default: the terminal's, otherwise 100)")
}

// on returns how to draw text on w.
func (f *textFlags) on(w io.Writer) report.Options {
	return report.Options{Width: cmp.Or(int(f.width), terminalWidth(w)),
		Color: f.color == "always" || f.color != "never" && escapes(w) && os.Getenv("NO_COLOR") == ""}
}

// choice is the value of a flag that takes one of some words.
type choice struct {
	to *string
	of []string
}

// addChoice adds a flag that takes one of some words, the first by default.
func addChoice(flags *pflag.FlagSet, to *string, name, usage string, of ...string) {
	*to = of[0]
	flags.Var(choice{to, of}, name, usage)
}

// String implements [pflag.Value].
func (c choice) String() string { return *c.to }

// Type implements [pflag.Value].
func (c choice) Type() string { return "string" }

// Set implements [pflag.Value].
func (c choice) Set(word string) error {
	if !slices.Contains(c.of, word) {
		return fmt.Errorf("must be one of %s", strings.Join(c.of, ", "))
	}
	*c.to = word
	return nil
}

// printFlags say how a document is printed: as text, or as JSON.
type printFlags struct {
	textFlags
	json bool
}

func (f *printFlags) register(flags *pflag.FlagSet) {
	flags.BoolVar(&f.json, "json", false, "print JSON")
	f.textFlags.register(flags)
}

// show prints a document.
func (f *printFlags) show(env *Env, document any, text func(io.Writer, report.Options) error) error {
	return env.show(f.json, document, func(w io.Writer) error { return text(w, f.on(w)) })
}
