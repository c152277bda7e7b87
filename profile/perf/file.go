package perf

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/meshmark/meshmark/errs"
	"github.com/meshmark/meshmark/profile"
)

type exitError = exec.ExitError

// interrupted reports whether perf ended as it does when it is interrupted, or
// when the processes have ended and it ends its own workload: it writes its
// file, and then sends itself the signal, again or that of the workload.
func interrupted(e *exitError) bool {
	status, ok := e.Sys().(syscall.WaitStatus)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		if ok && (status.Signaled() && status.Signal() == s || status.ExitStatus() == 128+int(s)) {
			return true
		}
	}
	return false
}

// fields are what perf script is asked for.
const fields = "comm,pid,tid,time,period,event,ip,sym,symoff,dso"

// ReadFile reads a perf.data file, with the binaries of this machine for
// names. The file must be one that perf finds by its name.
func (t Tool) ReadFile(ctx context.Context, file string) (*profile.Profile, map[string]profile.ELF, error) {
	path, err := t.find()
	if err != nil {
		return nil, nil, errs.WithHint(fmt.Errorf("%s: %w", file, err), "install perf, or print the file where it was taken: perf script -i %s > profile.txt", file)
	}
	absolute, err := filepath.Abs(file)
	if err != nil {
		return nil, nil, err
	}
	p, err := t.script(ctx, path, absolute)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	root, err := os.OpenRoot(t.root())
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	return p, roots{root}.lookAt(p), nil
}

// drainTime is how long perf may go on with a text that is refused.
const drainTime = time.Second

// script reads a file by perf script, and its build ids by perf buildid-list.
func (t Tool) script(ctx context.Context, path, file string) (*profile.Profile, error) {
	// An argument that begins with a dash is no file: it is absolute here.
	run, err := t.start(ctx, path, nil, "script", "--input", file, "--force", "--no-inline", "--show-lost-events", "--fields", fields)
	if err != nil {
		return nil, err
	}
	p, readErr := profile.ReadPerfScript(run.stdout)
	stopped := false
	if readErr != nil {
		// perf may already have said what is wrong; it is not waited for long.
		timer := time.AfterFunc(drainTime, func() { _ = run.signal(syscall.SIGKILL) })
		_, _ = io.Copy(io.Discard, run.stdout)
		stopped = !timer.Stop()
	}
	waitErr := run.wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	said := run.stderr.b.String()
	switch {
	case readErr != nil && waitErr != nil && !stopped:
		return nil, fmt.Errorf("%w: %w", profile.ErrFormat, run.failed(waitErr))
	case readErr != nil:
		if text := firstLine(said); text != "" {
			return nil, fmt.Errorf("%w (perf says: %s)", readErr, text)
		}
		return nil, readErr
	case waitErr != nil:
		p.Notes = append(p.Notes, "the file is damaged or truncated, and was read as far as perf could: "+firstLine(said))
	case strings.Contains(said, "truncated") || strings.Contains(said, "data size field is 0"):
		p.Notes = append(p.Notes, "the file is truncated, and was read as far as perf could: "+firstLine(said))
	}
	return p, t.buildIDs(ctx, path, file, p)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// buildIDs notes the build ids that the file has; a file without any is none
// the worse.
func (t Tool) buildIDs(ctx context.Context, path, file string, p *profile.Profile) error {
	run, err := t.start(ctx, path, nil, "buildid-list", "--force", "--input", file)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(run.stdout, 16<<20))
	if waitErr := run.wait(); err != nil || waitErr != nil {
		return ctx.Err()
	}
	ids, err := profile.ParseBuildIDs(text)
	if err != nil {
		return nil // another version prints it otherwise
	}
	p.SetBuildIDs(ids)
	return nil
}
