// Testrun runs the tests of this repository, as `make test` and `make verify` do, and
// reports the results: a line per package while it runs, then the minutes of packages
// and labs, the slowest tests, every skipped test with its reason, the full output of
// failures, and a final line "N passed, N failed, N skipped". It exits with 1 if
// anything failed or nothing ran. bin/test-times.json and bin/verify-times.json record
// where the time went.
//
//	testrun test     each behaviour once
//	testrun verify   the rest: what takes long, -race, fuzz targets, staticcheck;
//	                 with SHARD=k/n one of n parts, with RUN=pattern only
//	                 the tests on labs whose names match
//
// Tests that mostly wait for a cluster run in parallel lanes, each on one lab that its
// packages share in turn. Computations run in parallel with them in "test", and after
// them in "verify". Tests that measure times run afterwards, alone.
//
// Failed tests on labs are rerun once, alone and with the same seed: other users of
// the machine may have disturbed them. A test that needs that twice in ten runs has
// failed.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// module is the prefix of all packages.
const module = "github.com/meshtrial/meshtrial/"

// interrupted is the exit code after an interrupt.
const interrupted = 130

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := run(ctx, os.Args[1:], os.Stdout)
	switch {
	case ctx.Err() != nil:
		os.Exit(interrupted)
	case err != nil:
		fmt.Fprintln(os.Stderr, "testrun:", err)
		os.Exit(1)
	case !ok:
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (ok bool, err error) {
	if len(args) != 1 || args[0] != modeTest && args[0] != modeVerify {
		return false, errors.New("usage: testrun test | verify")
	}
	began := time.Now()
	packages, err := listPackages(ctx)
	if err != nil {
		return false, err
	}
	part, err := shareOf(os.Getenv)
	if err != nil {
		return false, err
	}
	plan, err := makePlan(args[0], packages, part, os.Geteuid() == 0)
	if err != nil {
		return false, err
	}
	program, err := filepath.Abs(filepath.Join("bin", "meshtrial"))
	if err != nil {
		return false, err
	}
	labs, err := os.MkdirTemp("/tmp", "mm") // short because of sockets
	if err != nil {
		return false, err
	}
	defer os.Remove(labs) // remains with the leftovers of a lab that did not end
	seed := os.Getenv("MESHTRIAL_SEED")
	if seed == "" {
		seed = strconv.FormatInt(began.UnixNano(), 10)
	}
	fmt.Fprintf(out, "MESHTRIAL_SEED=%s repeats what these tests leave to chance\n", seed)
	r := &runner{out: &lines{out: out}, program: program, labs: labs, env: append(os.Environ(),
		"MESHTRIAL_SEED="+seed, "MESHTRIAL_PROGRAM="+program)}
	all := newTally(r.out)
	for _, stage := range plan {
		for _, t := range r.stage(ctx, stage) {
			all.add(t)
		}
	}
	if ctx.Err() != nil {
		all.report(time.Since(began)) // whatever there was time for
		return false, ctx.Err()
	}
	past := openHistory(r.out)
	if err := all.again(maxAgain, func(pkg string, names []string) (*tally, error) {
		return r.alone(ctx, args[0], pkg, names), ctx.Err()
	}); err != nil {
		return false, err
	}
	past.judge(all)
	took := time.Since(began)
	if err := all.times(args[0], took).write(filepath.Join(filepath.Dir(program), args[0]+"-times.json")); err != nil {
		return false, err
	}
	return all.report(took), nil
}

// short returns a package's path in the repository.
func short(pkg string) string { return strings.TrimPrefix(pkg, module) }
