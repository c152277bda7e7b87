// Package labs provides the benches in this folder with a local lab, and runs
// the program that `make build` left in the working directory:
//
//	Take -> the lab that runs, or one of our own -> Run ... -> End
package labs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/meshtrial/meshtrial/lab/local"
)

// Program is the program to measure.
const Program = "bin/meshtrial"

// ending is how long the program may take, once interrupted, to revert
// everything.
const ending = 2 * time.Minute

// Run runs the program. Its standard output goes to out, if given, and its
// standard error to ours. An exit code other than 0 is returned with an error.
// When ctx ends, Run interrupts the program and waits for it.
func Run(ctx context.Context, out io.Writer, args ...string) (code int, err error) {
	cmd := exec.CommandContext(ctx, Program, args...)
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = ending
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	}
	if err != nil {
		err = fmt.Errorf("%s %v: %w", Program, args, err)
	}
	return code, err
}

// Lab is a lab to measure in.
type Lab struct {
	*local.Lab
	own bool
}

// Take takes the running lab, or starts one with these arguments.
func Take(ctx context.Context, args ...string) (*Lab, error) {
	running, err := local.Open("")
	if err == nil {
		return &Lab{Lab: running}, nil
	}
	if !errors.Is(err, local.ErrNotRunning) {
		return nil, err
	}
	// A lab that fails to start cleans up after itself; what exists then may
	// belong to someone else.
	if _, err := Run(ctx, os.Stderr, append([]string{"lab", "up"}, args...)...); err != nil {
		return nil, err
	}
	l := &Lab{own: true}
	if l.Lab, err = local.Open(""); err != nil {
		return nil, errors.Join(err, l.End(ctx))
	}
	return l, nil
}

// End ends the lab if it was started here, even if ctx has ended.
func (l *Lab) End(ctx context.Context) error {
	if !l.own {
		return nil
	}
	_, err := Run(context.WithoutCancel(ctx), os.Stderr, "lab", "down")
	return err
}
