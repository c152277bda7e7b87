// Command advice plants limits in a mesh and checks the output of `meshtrial assess limits`:
//
//	make build && go run ./bench/advice
//
// Twelve worlds have one limit each, and three have none. The program runs a world's study of
// one cell and asks for advice: for a world with a limit, the first advice must name it; a
// healthy world must get none. Then it applies the first advice. A study of two cells, as
// planted and with the advised lever, runs both side by side, and the program compares what the
// advice promised for the first cell with what the second measured. If the advice is a manual
// action, the world defines what that is in a lab, and the table says so.
//
// It uses the running lab, or starts one (which requires root), and takes less than an hour on
// two cores. Each world's result is a line in the log (-log), from which the bench resumes;
// with -table it only prints the log. The exit code is 1 if fewer than 11 of 12 limits are
// named, if a healthy world gets advice, or if fewer than 10 of 12 effects lie within their
// interval.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/meshtrial/meshtrial/bench/internal/jsonl"
	"github.com/meshtrial/meshtrial/bench/internal/table"

	// The kinds register themselves for study files.
	_ "github.com/meshtrial/meshtrial/kinds/controlplane"
	_ "github.com/meshtrial/meshtrial/kinds/dataplane"
	_ "github.com/meshtrial/meshtrial/kinds/resilience"
)

func main() {
	var log jsonl.Log[line]
	var only string
	table.Program{
		Name: "advice",
		Flags: func(f *flag.FlagSet) {
			log.Flags(f, "runs/advice.jsonl", 55*time.Minute)
			f.StringVar(&only, "only", "", "run only these worlds, separated by commas (default all)")
		},
		Run: func(ctx context.Context) error {
			chosen, err := choose(only)
			if err == nil {
				err = log.Open()
			}
			if err != nil {
				return err
			}
			todo := slices.DeleteFunc(slices.Clone(chosen), func(w world) bool { _, ok := last(log.Lines, w.name); return ok })
			err = log.Fill(ctx, func(yield func(jsonl.Run[line]) bool) {
				for i, w := range todo {
					if !yield(jsonl.Run[line]{Name: fmt.Sprintf("world %s, %d of %d", w.name, i+1, len(todo)),
						Do: func(ctx context.Context) (line, error) { return w.try(ctx, log.Folder()) }}) {
						return
					}
				}
			})
			sum := summary{Schema: 1}
			for _, w := range chosen {
				if l, ok := last(log.Lines, w.name); ok {
					sum.Worlds = append(sum.Worlds, l)
				} else {
					sum.Missing = append(sum.Missing, w.name)
				}
			}
			sum.count()
			err = errors.Join(err, sum.print(os.Stdout), table.WriteJSON(log.JSON, sum))
			return errors.Join(err, sum.judge(only == ""))
		},
	}.Main()
}

// Targets over all worlds.
const (
	namedTarget  = 11
	effectTarget = 10
)

// choose selects worlds by name.
func choose(only string) ([]world, error) {
	if only == "" {
		return worlds, nil
	}
	var out []world
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(worlds, func(w world) bool { return w.name == name })
		if i < 0 {
			var names []string
			for _, w := range worlds {
				names = append(names, w.name)
			}
			return nil, fmt.Errorf("-only %q: choose from %s", name, strings.Join(names, ","))
		}
		out = append(out, worlds[i])
	}
	return out, nil
}

// last returns the last line of a world.
func last(lines []line, name string) (line, bool) {
	for i := len(lines) - 1; i >= 0; i-- {
		if lines[i].World == name {
			return lines[i], true
		}
	}
	return line{}, false
}

// summary is the result table.
type summary struct {
	Schema int    `json:"schema"`
	Worlds []line `json:"worlds"`
	// Missing lists worlds that were not run.
	Missing []string `json:"missing,omitempty"`
	Planted int      `json:"planted"` // worlds with a limit
	Named   int      `json:"named"`   // of these, those whose first advice names it
	Healthy int      `json:"healthy"` // worlds without a limit
	Silent  int      `json:"silent"`  // of these, those without advice
	Within  int      `json:"within"`  // worlds with the promised effect
}

func (s *summary) count() {
	for _, l := range s.Worlds {
		if l.Planted == "" {
			s.Healthy++
			if l.First == "" && l.Failed == "" {
				s.Silent++
			}
			continue
		}
		s.Planted++
		if l.First == l.Planted {
			s.Named++
		}
		if l.Effect != nil && l.Effect.Within {
			s.Within++
		}
	}
}

func (s *summary) print(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "planted\tfirst advice\tconfidence\tapplied\tpromised quantity\tbefore\tpromised\tafter\twithin\t")
	for _, l := range s.Worlds {
		planted, first := l.Planted, l.First
		if planted == "" {
			planted = "nothing (" + l.World + ")"
		}
		if first == "" {
			first = "none"
		}
		if l.Failed != "" {
			first = "FAILED: " + l.Failed
		}
		e := l.Effect
		if e == nil {
			fmt.Fprintf(t, "%s\t%s\t%s\t\t\t\t\t\t\t\n", planted, first, table.Number(l.Confidence))
			continue
		}
		applied := e.Applied
		if e.ByHand {
			applied += " (by hand)"
		}
		after := e.Failed
		if e.Failed == "" {
			after = table.Number(e.After)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s to %s\t%s\t%s\t\n", planted, first, table.Number(l.Confidence),
			applied, e.Quantity, table.Number(e.Before),
			table.Number(e.Low), table.Number(e.High), after, map[bool]string{true: "yes", false: "NO"}[e.Within])
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nnamed %d of %d (target %d of 12), silent %d of %d (target all), effects as promised %d of %d"+
		" (target %d of 12)\n",
		s.Named, s.Planted, namedTarget, s.Silent, s.Healthy, s.Within, s.Planted, effectTarget)
	if len(s.Missing) > 0 {
		fmt.Fprintf(out, "not run: %s\n", strings.Join(s.Missing, ", "))
	}
	return nil
}

// judge compares the results with the targets; complete requires that all worlds have run. A
// subset of worlds may miss no more than all may.
func (s *summary) judge(complete bool) error {
	if complete && len(s.Missing) > 0 {
		return fmt.Errorf("%d worlds were not run", len(s.Missing))
	}
	misses, off := 12-namedTarget, 12-effectTarget
	if s.Planted-s.Named > misses || s.Silent < s.Healthy || s.Planted-s.Within > off {
		return table.ErrMissed
	}
	return nil
}
