// Machines runs the program on machines like those of users: Debian root file systems, made by
// mmdebstrap and booted by qemu, with the distribution's own kernel and systemd. Each has the
// program and a filled cache, but no Go and no network.
//
//	machines [--limit 90m] [--keep DIR] [NAME...]
//
// Each machine runs doctor, lab up, a small run of each kind and lab down in turn. Then its
// links, mounts, rules, processes and cgroups are compared with those before. The command
// prints a line per step, leaves the transcripts in bin/machines, and exits with 1 if a step
// failed. An emulated CPU is about 15 times slower than a real one: a
// run that completes passes, even if none of its trials is valid.
//
// It needs root, mmdebstrap, qemu-system-x86_64 and mke2fs, and takes packages from the
// repositories configured for this machine's apt.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/meshtrial/meshtrial/lab/components"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := run(ctx, os.Args[1:], os.Stdout)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "machines:", err)
		os.Exit(1)
	case !ok:
		os.Exit(1)
	}
}

// options are the command-line options.
type options struct {
	program, cache string        // files that every machine gets
	out            string        // for transcripts
	keep           string        // where disks stay, about 4 GB each
	work           string        // for disks
	limit          time.Duration // per machine
}

func run(ctx context.Context, args []string, out io.Writer) (ok bool, err error) {
	cache, err := components.CacheDir("")
	if err != nil {
		return false, err
	}
	o := options{cache: filepath.Join(cache, "entries")}
	flags := flag.NewFlagSet("machines", flag.ContinueOnError)
	flags.StringVar(&o.program, "program", "bin/meshtrial", "the program")
	flags.StringVar(&o.out, "out", "bin/machines", "folder for transcripts")
	flags.StringVar(&o.keep, "keep", "", "folder in which disks stay (default: a temporary one)")
	flags.DurationVar(&o.limit, "limit", 90*time.Minute, "time for one machine")
	if err := flags.Parse(args); err != nil {
		return false, err
	}
	chosen, err := choose(flags.Args())
	if err != nil {
		return false, err
	}
	if err := wanted(); err != nil {
		return false, err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return false, err
	}
	if o.work = o.keep; o.work == "" {
		if o.work, err = os.MkdirTemp("", "machines"); err != nil {
			return false, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.work)) }()
	}
	ok = true
	for _, m := range chosen {
		steps, err := o.try(ctx, m, out)
		if err != nil {
			return false, fmt.Errorf("%s: %w", m.name, err)
		}
		ok = ok && passed(steps)
	}
	return ok, nil
}

// choose returns the machines of these names, or all of them.
func choose(names []string) ([]machine, error) {
	if len(names) == 0 {
		return machines, nil
	}
	var out []machine
	for _, name := range names {
		i := slices.IndexFunc(machines, func(m machine) bool { return m.name == name })
		if i < 0 {
			var known []string
			for _, m := range machines {
				known = append(known, m.name)
			}
			return nil, fmt.Errorf("no machine %q; there are %s", name, strings.Join(known, ", "))
		}
		out = append(out, machines[i])
	}
	return out, nil
}

// wanted reports requirements that this machine lacks.
func wanted() error {
	if os.Geteuid() != 0 {
		return errors.New("making root file systems takes root")
	}
	for program, pkg := range map[string]string{"mmdebstrap": "mmdebstrap", "qemu-system-x86_64": "qemu-system-x86", "mke2fs": "e2fsprogs"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%s is missing: apt-get install %s", program, pkg)
		}
	}
	return nil
}

// try makes a machine, boots it and reads the results of its steps.
func (o options) try(ctx context.Context, m machine, out io.Writer) ([]step, error) {
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	began := time.Now()
	disk, err := o.disk(ctx, m)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "%-12s disk made in %.0f s\n", m.name, time.Since(began).Seconds())
	transcript := filepath.Join(o.out, m.name+".txt")
	err = o.boot(ctx, m, disk, transcript)
	if err != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, err
	}
	if o.keep == "" {
		if err := errors.Join(os.Remove(disk), os.RemoveAll(filepath.Join(o.work, m.name))); err != nil {
			return nil, err
		}
	}
	text, err := os.ReadFile(transcript)
	if err != nil {
		return nil, err
	}
	console, err := os.ReadFile(consoleOf(transcript))
	if err != nil {
		return nil, err
	}
	if bytes.Contains(console, []byte("Kernel panic")) {
		fmt.Fprintf(out, "%-12s its kernel panicked, which code that changes itself can cause under emulation: run it again\n", m.name)
	}
	steps := parse(string(text))
	for _, s := range steps {
		fmt.Fprintf(out, "%-12s %s\n", m.name, s)
	}
	return steps, nil
}
