package jsonl

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/meshtrial/meshtrial/bench/internal/labs"
)

// Log stores the results so far of a bench that takes hours, one line per run.
type Log[L any] struct {
	Lines []L
	// JSON is a file that also receives the table; "" for none.
	JSON string

	path      string
	limit     time.Duration
	printOnly bool
}

// Flags adds the flags that all such benches share.
func (l *Log[L]) Flags(f *flag.FlagSet, path string, limit time.Duration) {
	f.StringVar(&l.path, "log", path, "file of lines, one a run; what it has is not run again")
	f.DurationVar(&l.limit, "limit", limit, "begin no run that would end later than this; 0 for no limit")
	f.BoolVar(&l.printOnly, "table", false, "run nothing, print what the log says")
	f.StringVar(&l.JSON, "json", "", "also write the table to this file, as JSON")
}

// Folder returns the log's folder, which also holds studies and kept runs.
func (l *Log[L]) Folder() string { return filepath.Dir(l.path) }

// Open reads the existing lines.
func (l *Log[L]) Open() error {
	err := os.MkdirAll(l.Folder(), 0o755)
	if err == nil {
		l.Lines, err = Read[L](l.path)
	}
	return err
}

// Run is a run that is missing from the log.
type Run[L any] struct {
	Name  string
	Takes time.Duration // usual duration; 0: unknown
	// Do executes the run. An error means that continuing is pointless.
	Do func(context.Context) (L, error)
}

// Fill executes runs in the running lab, or in one that it starts, and adds their lines.
// With -table it does nothing.
func (l *Log[L]) Fill(ctx context.Context, runs iter.Seq[Run[L]]) (err error) {
	if l.printOnly {
		return nil
	}
	begin := time.Now()
	var lab *labs.Lab
	defer func() {
		if lab != nil {
			err = errors.Join(err, lab.End(ctx))
		}
	}()
	for run := range runs {
		if l.limit > 0 && time.Since(begin)+run.Takes > l.limit {
			fmt.Fprintf(os.Stderr, "%s: not run, it wants about %v and the limit is %v\n", run.Name, run.Takes.Round(time.Second), l.limit)
			continue
		}
		if lab == nil {
			if lab, err = labs.Take(ctx); err != nil {
				return err
			}
		}
		fmt.Fprintf(os.Stderr, "%s: %s\n", time.Now().Format("15:04:05"), run.Name)
		line, err := run.Do(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", run.Name, err)
		}
		if err := Append(l.path, line); err != nil {
			return err
		}
		l.Lines = append(l.Lines, line)
	}
	return nil
}
