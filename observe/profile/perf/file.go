package perf

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/lazyregexp"
	"github.com/meshtrial/meshtrial/observe/profile"
)

// interrupted reports whether perf exited as it does when interrupted, or when
// the processes have ended: it writes its file, and then sends itself the
// signal, or that of its own workload.
func interrupted(e *exec.ExitError) bool {
	status, ok := e.Sys().(syscall.WaitStatus)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		if ok && (status.Signaled() && status.Signal() == s || status.ExitStatus() == 128+int(s)) {
			return true
		}
	}
	return false
}

// fields are what perf script prints.
const fields = "comm,pid,tid,time,period,event,ip,sym,symoff,dso"

// ReadFile reads a perf.data file and takes names from the binaries of this
// machine.
func (t Tool) ReadFile(ctx context.Context, file string) (*profile.Profile, map[string]profile.ELF, error) {
	path, err := t.find()
	if err != nil {
		return nil, nil, errs.WithHint(fmt.Errorf("%s: %w", file, err),
			"install perf, or print the file where it was taken: perf script -i %s > profile.txt", file)
	}
	absolute, err := filepath.Abs(file)
	if err != nil {
		return nil, nil, err
	}
	root, err := os.Open(t.root())
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	p, files, err := t.script(ctx, path, absolute, nil, roots{root})
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	return p, files, nil
}

// drainTime is how long perf may continue after printing invalid text.
const drainTime = time.Second

// script reads a file with perf script, and the build IDs of what ran with perf
// buildid-list. It returns the profile with its trustworthy names, and the
// available binaries by their path in it. With pids, the profile covers only
// those processes.
func (t Tool) script(ctx context.Context, path, file string, pids []int, at roots) (
	*profile.Profile, map[string]profile.ELF, error,
) {
	all, err := t.buildIDs(ctx, path, file)
	if err != nil {
		return nil, nil, err
	}
	files := at.readELFs(slices.Sorted(maps.Keys(all)))
	ids := theirIDs(all, files)
	p, err := t.text(ctx, path, file, pids, func(module string) bool { return files[module].Type != profile.TypeFull })
	if err != nil {
		return nil, nil, err
	}
	if len(pids) > 0 {
		modules := p.Modules()
		maps.DeleteFunc(ids, func(module, _ string) bool { return !slices.Contains(modules, module) })
	}
	p.SetBuildIDs(ids)
	missing := slices.DeleteFunc(p.Modules(), func(module string) bool { _, ok := files[module]; return ok })
	maps.Copy(files, at.readELFs(missing))
	at.name(p, files)
	return p, files, nil
}

// theirIDs selects one build ID per path. A path has several if containers have
// different programs there; theirIDs then selects that of the available binary,
// or none.
func theirIDs(all map[string][]string, files map[string]profile.ELF) map[string]string {
	out := map[string]string{}
	for module, ids := range all {
		switch own := files[module].BuildID; {
		case len(ids) == 1:
			out[module] = ids[0]
		case slices.Contains(ids, own):
			out[module] = own
		}
	}
	return out
}

// text prints a file with perf script, or only what belongs to pids. It keeps
// the offsets of frames in modules for which keep returns true. The path of the
// file must be absolute, or perf might parse it as an option.
func (t Tool) text(ctx context.Context, path, file string, pids []int, keep func(module string) bool) (
	*profile.Profile, error,
) {
	args := []string{"script", "--input", file, "--force", "--no-inline", "--show-lost-events", "--fields", fields}
	if len(pids) > 0 {
		args = append(args, "--pid", pidList(pids))
	}
	run, err := t.start(ctx, path, nil, args...)
	if err != nil {
		return nil, err
	}
	p, readErr := profile.ReadPerfScriptOffsets(run.stdout, keep)
	stopped := false
	if readErr != nil {
		// perf may already have printed the reason.
		timer := time.AfterFunc(drainTime, func() { _ = run.signal(syscall.SIGKILL) })
		_, _ = io.Copy(io.Discard, run.stdout)
		stopped = !timer.Stop()
	}
	waitErr := run.cmd.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	stderr := run.stderr.b.String()
	switch {
	case readErr != nil && waitErr != nil && !stopped:
		return nil, fmt.Errorf("%w: %w", profile.ErrFormat, run.failed(waitErr))
	case readErr != nil:
		if text := firstLine(stderr); text != "" {
			return nil, fmt.Errorf("%w (perf says: %s)", readErr, text)
		}
		return nil, readErr
	case waitErr != nil:
		p.Notes = append(p.Notes, "the file is damaged or truncated, and was read as far as perf could: "+firstLine(stderr))
	case strings.Contains(stderr, "truncated") || strings.Contains(stderr, "data size field is 0"):
		p.Notes = append(p.Notes, "the file is truncated, and was read as far as perf could: "+firstLine(stderr))
	}
	return p, nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// buildIDs returns the distinct build IDs in the file, by path. There may be
// none.
func (t Tool) buildIDs(ctx context.Context, path, file string) (map[string][]string, error) {
	run, err := t.start(ctx, path, nil, "buildid-list", "--force", "--input", file)
	if err != nil {
		return nil, err
	}
	ids, err := readBuildIDs(run.stdout)
	// The list may be longer than what was read.
	_ = run.stdout.Close()
	_ = run.signal(syscall.SIGKILL)
	_ = run.cmd.Wait()
	if err != nil {
		ids = nil // another version of perf prints a different format
	}
	return ids, ctx.Err() // perf script reports what is wrong with the file
}

// maxIDs limits the build IDs read per file, maxBuilds those per path.
const (
	maxIDs    = 1 << 14
	maxBuilds = 64
)

// reBuildID matches a line of perf buildid-list.
var reBuildID = lazyregexp.New(`^([0-9a-f]{8,80}) +(.*\S)\s*$`)

// readBuildIDs reads perf's list of build ids. The error wraps
// [profile.ErrFormat].
func readBuildIDs(list io.Reader) (map[string][]string, error) {
	ids := map[string][]string{}
	lines := bufio.NewScanner(list)
	for read := 0; read < maxIDs && lines.Scan(); read++ {
		m := reBuildID.FindStringSubmatch(lines.Text())
		if m == nil {
			return nil, fmt.Errorf("perf buildid-list: line %.80q: %w", lines.Text(), profile.ErrFormat)
		}
		if known := ids[m[2]]; len(known) < maxBuilds && !slices.Contains(known, m[1]) {
			ids[m[2]] = append(known, m[1])
		}
	}
	return ids, lines.Err()
}
