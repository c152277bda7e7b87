package table

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// Main runs a bench program with the process's arguments until it is done or
// interrupted, and returns its exit code. What is wrong goes to standard error
// behind the program's name.
func Main(name string, run func(ctx context.Context, args []string, stdout, stderr io.Writer) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return 1
	}
	return 0
}

// Part is a part of a bench program that can be run alone.
type Part struct {
	Name string
	Run  func(context.Context) ([]Row, error)
}

// Run runs the parts that only names, with commas between them, in that order.
// If one fails, the rows there are come back with the error.
func Run(ctx context.Context, only string, parts []Part) ([]Row, error) {
	var rows []Row
	var names []string
	byName := map[string]Part{}
	for _, p := range parts {
		names = append(names, p.Name)
		byName[p.Name] = p
	}
	for name := range strings.SplitSeq(only, ",") {
		p, ok := byName[name]
		if !ok {
			return rows, fmt.Errorf("-only %q: want some of %s", name, strings.Join(names, ","))
		}
		more, err := p.Run(ctx)
		rows = append(rows, more...)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", name, err)
		}
	}
	return rows, nil
}

// Report prints rows under a title, of a program that ended with failed;
// without a failure it also writes document to file (see [WriteJSON]) and
// returns [ErrMissed] if a target was missed.
func Report(out io.Writer, title string, rows []Row, failed error, file string, document any) error {
	if err := errors.Join(failed, Print(out, title, rows)); err != nil {
		return err
	}
	if err := WriteJSON(file, document); err != nil {
		return err
	}
	return Judge(rows)
}
