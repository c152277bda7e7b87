// Package labs gives the benches of this folder a local lab to measure in, and
// runs the program that `make build` left in the working directory:
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

// Program is what is measured.
const Program = "bin/meshtrial"

// ending is how long the program has, once interrupted, to put everything
// back.
const ending = 2 * time.Minute

// Run runs the program; what it prints goes to out, if given, what it says to
// standard error. An exit code other than 0 comes back beside an error. When
// ctx ends, the program is interrupted and waited for.
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

// Take takes the lab that runs, or starts one with these arguments.
func Take(ctx context.Context, args ...string) (*Lab, error) {
	running, err := local.Open("")
	if err == nil {
		return &Lab{Lab: running}, nil
	}
	if !errors.Is(err, local.ErrNotRunning) {
		return nil, err
	}
	// One that does not come up cleans up after itself; what is there then may
	// be somebody else's.
	if _, err := Run(ctx, os.Stderr, append([]string{"lab", "up"}, args...)...); err != nil {
		return nil, err
	}
	l := &Lab{own: true}
	if l.Lab, err = local.Open(""); err != nil {
		return nil, errors.Join(err, l.End(ctx))
	}
	return l, nil
}

// End ends the lab if it was started here, also when ctx has ended.
func (l *Lab) End(ctx context.Context) error {
	if !l.own {
		return nil
	}
	_, err := Run(context.WithoutCancel(ctx), os.Stderr, "lab", "down")
	return err
}
