package table

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// Program is a bench program. It has either Parts, whose rows it prints, or Run.
type Program struct {
	Name string
	// Roles are what the program does when it starts itself again as another process, by
	// the only argument in that case.
	Roles map[string]Role
	// Flags adds flags besides -json and, if there are several parts, -only.
	Flags func(*flag.FlagSet)
	// Setup checks the flags and prepares the parts; done, if not nil, is called at the
	// end.
	Setup func(context.Context) (done func() error, err error)
	Title func() string
	Parts []Part
	Run   func(context.Context) error
}

// Role is a process that reads its input from in and answers on out.
type Role func(ctx context.Context, in io.Reader, out io.Writer) error

// Part is a part of a bench program that can run alone.
type Part struct {
	Name string
	Run  func(context.Context) ([]Row, error)
}

// Main runs the program with the process's arguments until it is done or interrupted, and
// exits.
func (p Program) Main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := p.main(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "bench %s: %v\n", p.Name, err)
		os.Exit(1)
	}
}

func (p Program) main(ctx context.Context, args []string) error {
	if len(args) == 1 && p.Roles[args[0]] != nil {
		return p.Roles[args[0]](ctx, os.Stdin, os.Stdout)
	}
	flags := flag.NewFlagSet(p.Name, flag.ContinueOnError)
	if p.Flags != nil {
		p.Flags(flags)
	}
	only, file := p.names(), ""
	if p.Run == nil {
		flags.StringVar(&file, "json", "", "also write the results to this file")
	}
	if len(p.Parts) > 1 {
		flags.StringVar(&only, "only", only, "which of these parts to run")
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if p.Run != nil {
		return p.Run(ctx)
	}
	return p.measure(ctx, only, file)
}

func (p Program) names() string {
	var names []string
	for _, part := range p.Parts {
		names = append(names, part.Name)
	}
	return strings.Join(names, ",")
}

// measure runs parts and prints their rows; if one fails, it prints the rows so far. It
// returns [ErrMissed] if a target was missed.
func (p Program) measure(ctx context.Context, only, file string) (err error) {
	if p.Setup != nil {
		done, failed := p.Setup(ctx)
		if failed != nil {
			return failed
		}
		if done != nil {
			defer func() { err = errors.Join(err, done()) }()
		}
	}
	rows, failed := p.rows(ctx, only)
	title := p.Title()
	if err := errors.Join(failed, Print(os.Stdout, title, rows)); err != nil {
		return err
	}
	if err := WriteJSON(file, struct {
		Schema  int    `json:"schema"`
		Title   string `json:"title"`
		Results []Row  `json:"results"`
	}{1, title, rows}); err != nil {
		return err
	}
	return Judge(rows)
}

// rows runs the comma-separated parts in only, in that order.
func (p Program) rows(ctx context.Context, only string) (rows []Row, err error) {
	for name := range strings.SplitSeq(only, ",") {
		found := false
		for _, part := range p.Parts {
			if part.Name != name {
				continue
			}
			more, err := part.Run(ctx)
			rows, found = append(rows, more...), true
			if err != nil {
				return rows, fmt.Errorf("%s: %w", name, err)
			}
		}
		if !found {
			return rows, fmt.Errorf("-only %q: want some of %s", name, p.names())
		}
	}
	return rows, nil
}

// Rounds runs all of n contenders once per round, in an order that rotates, and returns
// the results by contender and round.
func Rounds[T any](what string, rounds, n int, run func(contender int) (T, error)) ([][]T, error) {
	out := make([][]T, n)
	for round := range rounds {
		fmt.Fprintf(os.Stderr, "%s: round %d of %d\n", what, round+1, rounds)
		for i := range n {
			k := (i + round) % n
			one, err := run(k)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", what, err)
			}
			out[k] = append(out[k], one)
		}
	}
	return out, nil
}

// Each returns a figure for each round.
func Each[T any](rounds []T, of func(T) float64) []float64 {
	out := make([]float64, len(rounds))
	for i, one := range rounds {
		out[i] = of(one)
	}
	return out
}

// Ratios returns the ratio of a figure to that of another contender, round by round.
func Ratios[T any](a, b []T, of func(T) float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = of(a[i]) / of(b[i])
	}
	return out
}
