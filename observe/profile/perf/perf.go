// Package perf runs the program perf to profile processes and to read perf.data
// files.
//
// [Tool.Record] samples processes with perf by their CPU clock, which is
// available on every machine. [Tool.ReadFile] prints a file with perf script,
// whose output package profile reads as a stream. perf resolves the names, in
// the mount namespaces of the processes. This package also reads the binaries,
// because perf neither reports which names are guesses
// ([profile.Profile.Judge]), nor reads the function table of Go's runtime, the
// only source of names for stripped Go programs such as istiod.
//
// No command goes through a shell. perf gets no user configuration and no
// standard input, and ends with the context.
package perf

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/thread"
)

// Errors of [Tool]. Errors that wrap them have hints.
var (
	ErrMissing   = errors.New("perf is not installed")
	ErrForbidden = errors.New("perf may not look at these processes")
	ErrGone      = errors.New("no such process")
)

// Tool is perf on this machine, or, if this process runs in a pod, on its
// node's machine.
type Tool struct {
	// Path of the program; "" searches the usual locations of distributions.
	Path string
	// Root is where the machine's files are: "/", or /proc/1/root in a pod that
	// sees its node's processes. If it is not "/", perf is started in the mount
	// namespace of process 1.
	Root string
	// Temp is the directory for perf's files, seen from Root; default /tmp.
	Temp string
	// MaxBytes limits perf's file; default [DefaultMaxBytes].
	MaxBytes int64
}

// places lists where Linux distributions install perf.
var places = []string{"/usr/bin/perf", "/usr/local/bin/perf", "/usr/sbin/perf", "/bin/perf",
	"/usr/lib/linux-tools/*/perf", "/usr/lib/linux-tools-*/perf"}

func (t Tool) root() string { return cmp.Or(t.Root, "/") }

func (t Tool) maxBytes() int64 { return cmp.Or(t.MaxBytes, DefaultMaxBytes) }

// away reports whether perf runs in another mount namespace than this process.
func (t Tool) away() bool { return filepath.Clean(t.root()) != "/" }

// find returns perf's path, seen from Root.
func (t Tool) find() (path string, err error) {
	candidates := places
	if t.Path != "" {
		candidates = []string{t.Path}
	}
	err = t.inside(func() error {
		for _, pattern := range candidates {
			matches, _ := filepath.Glob(pattern)
			for _, match := range matches {
				if info, err := os.Stat(match); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
					path = match
					return nil
				}
			}
		}
		return nil
	})
	if path != "" || err != nil {
		return path, err
	}
	where := "this machine"
	if t.away() {
		where = "the node"
	}
	if t.Path != "" {
		return "", errs.WithHint(fmt.Errorf("%s: %w on %s", t.Path, ErrMissing, where), "name the program with --perf PATH")
	}
	return "", errs.WithHint(fmt.Errorf("%w on %s", ErrMissing, where),
		"install it there (Debian: linux-perf, Ubuntu: linux-tools-generic, Fedora: perf), "+
			"or name the program with --perf PATH")
}

// maxStderr limits how much of perf's messages is kept, in bytes.
const maxStderr = 16 << 10

// process is a running perf.
type process struct {
	cmd    *exec.Cmd
	stderr tail
	stdout io.ReadCloser
}

// tail keeps the beginning of what several goroutines write to it.
type tail struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if room := maxStderr - t.b.Len(); room > 0 {
		t.b.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// start starts perf. It inherits files as descriptors 3 and up.
func (t Tool) start(ctx context.Context, path string, files []*os.File, args ...string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, path, args...)}
	// Without a home directory there is no user configuration and no cache.
	p.cmd.Env = []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "HOME=/nonexistent", "LC_ALL=C", "PERF_CONFIG=/dev/null",
		"DEBUGINFOD_URLS=", "PAGER=cat"}
	p.cmd.Dir = "/"
	p.cmd.Stderr = &p.stderr
	p.cmd.ExtraFiles = files
	p.cmd.WaitDelay = 5 * time.Second
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Cancel = func() error { return p.signal(syscall.SIGKILL) }
	var err error
	if p.stdout, err = p.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := t.inside(p.cmd.Start); err != nil {
		return nil, fmt.Errorf("start perf: %w", err)
	}
	return p, nil
}

// signal sends a signal to perf and its children.
func (p *process) signal(s syscall.Signal) error { return syscall.Kill(-p.cmd.Process.Pid, s) }

// inside calls f in the mount namespace of the machine.
func (t Tool) inside(f func() error) error {
	if !t.away() {
		return f()
	}
	return thread.Apart(func() error {
		ns, err := os.Open(filepath.Join(filepath.Dir(filepath.Clean(t.root())), "ns/mnt"))
		if err != nil {
			return err
		}
		defer ns.Close()
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return fmt.Errorf("unshare: %w", err)
		}
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("enter the node's mount namespace: %w", err)
		}
		return f()
	})
}

// failed explains why perf exited with an error.
func (p *process) failed(err error) error {
	if err == nil {
		err = errors.New("it ended too soon")
	}
	stderr := strings.TrimSpace(p.stderr.b.String())
	first := stderr
	for line := range strings.Lines(stderr) {
		line = strings.TrimSpace(line)
		if line != "" && line != "Error:" && !strings.HasPrefix(line, "WARNING") && !strings.HasPrefix(line, "Warning") {
			first = line
			break
		}
	}
	has := func(text string) bool { return strings.Contains(stderr, text) }
	switch { // perf's exit code does not identify the reason
	case has("perf_event_paranoid"), has("Permission denied"), has("Operation not permitted"):
		return errs.WithHint(fmt.Errorf("%w: %s", ErrForbidden, first),
			"run as root, or with CAP_PERFMON, or let users look at their own processes: sysctl kernel.perf_event_paranoid=1")
	case has("No such process"), has("thread map"):
		return errs.WithHint(fmt.Errorf("%w: %s", ErrGone, first), "is it running, and on this machine?")
	case first != "":
		return fmt.Errorf("perf: %s (%w)", first, err)
	}
	return fmt.Errorf("perf: %w", err)
}

// tempName is the name prefix of directories for perf's files.
const tempName = "meshtrial-profile-"

// staleTime is the maximum age of a directory that is still in use: longer than
// any recording and the perf script after it.
const staleTime = 2 * MaxSeconds * time.Second

// temp creates a directory for perf's files, and removes those left by killed
// programs. It returns its path as seen from this process, and as seen from
// perf.
func (t Tool) temp() (here, there string, err error) {
	dir := filepath.Join(t.root(), cmp.Or(t.Temp, "/tmp"))
	if _, statErr := os.Stat(dir); errors.Is(statErr, fs.ErrNotExist) && t.Temp == "" {
		dir = filepath.Join(t.root(), "/var/tmp")
	}
	sweep(dir, time.Now().Add(-staleTime))
	if here, err = os.MkdirTemp(dir, tempName); err != nil {
		return "", "", err
	}
	rest, err := filepath.Rel(t.root(), here)
	return here, "/" + rest, err
}

// sweep removes this user's directories for perf's files that were not written
// to since a time.
func sweep(dir string, since time.Time) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), tempName) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() || info.ModTime().After(since) {
			continue
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != os.Geteuid() {
			continue
		}
		if data, err := os.Lstat(filepath.Join(path, "perf.data")); err == nil && data.ModTime().After(since) {
			continue
		}
		_ = os.RemoveAll(path)
	}
}
