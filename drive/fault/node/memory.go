package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/observe/procfs"
)

const (
	// starveTime limits how long an OOM kill takes: a process that allocates nothing
	// survives.
	starveTime = 20 * time.Second
	// starveEvery is how often the limit is lowered to what is in use.
	starveEvery = 20 * time.Millisecond
	// killsEvery is how often the count of kills is read: the cgroup disappears soon
	// after its process.
	killsEvery = time.Millisecond
)

// memoryGroup is a cgroup of the memory controller.
type memoryGroup struct {
	dir string
	v2  bool
}

// memoryRoot returns the root of its hierarchy, where the node's cgroups are mounted.
func memoryRoot(root string) (memoryGroup, error) {
	controllers, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err == nil && slices.Contains(strings.Fields(string(controllers)), "memory") {
		return memoryGroup{root, true}, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return memoryGroup{}, fmt.Errorf("the node's cgroups: %w", err)
	}
	g := memoryGroup{filepath.Join(root, "memory"), false}
	if _, err := os.Stat(g.path(memoryLimit)); err != nil {
		return memoryGroup{}, fmt.Errorf("the node's cgroups cannot limit memory: %w", err)
	}
	return g, nil
}

// findMemoryGroup finds the cgroup of a container.
func findMemoryGroup(root string, c Container) (memoryGroup, error) {
	match, err := procfs.ContainerCgroup(c.ID)
	if err != nil {
		return memoryGroup{}, err
	}
	g, err := memoryRoot(root)
	if err != nil {
		return memoryGroup{}, err
	}
	found := ""
	err = filepath.WalkDir(g.dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case vanished(err): // just now
			return nil
		case err != nil:
			return err
		case entry.IsDir() && match(entry.Name()):
			found = path
			return fs.SkipAll
		}
		return nil
	})
	if err == nil && found == "" {
		err = fmt.Errorf("container %.80s has no cgroup in %s: %w", c.ID, g.dir, errNotFound)
	}
	return memoryGroup{found, g.v2}, err
}

// Files of a cgroup, in version 2 and 1.
var (
	memoryLimit = [2]string{"memory.max", "memory.limit_in_bytes"}
	memoryUsed  = [2]string{"memory.current", "memory.usage_in_bytes"}
	memoryKills = [2]string{"memory.events", "memory.oom_control"}
)

func (g memoryGroup) path(file [2]string) string {
	if g.v2 {
		return filepath.Join(g.dir, file[0])
	}
	return filepath.Join(g.dir, file[1])
}

// kills returns the number of the group's OOM kills.
func (g memoryGroup) kills() (int64, error) {
	data, err := os.ReadFile(g.path(memoryKills))
	if err != nil {
		return 0, err
	}
	n, ok := procfs.ParseKeys(data)["oom_kill"]
	if !ok {
		return 0, fmt.Errorf("%s has no oom_kill counter: the node's kernel is too old", g.path(memoryKills))
	}
	return int64(n), nil
}

func (g memoryGroup) used() (int64, error) {
	data, err := os.ReadFile(g.path(memoryUsed))
	if err != nil {
		return 0, err
	}
	n, err := procfs.ParseUint(data)
	return int64(n), err
}

// bound sets the limit. It writes to a file opened in blocking mode: otherwise version 2 kills
// nothing before the next allocation.
func (g memoryGroup) bound(limit string) error {
	path := g.path(memoryLimit)
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	for {
		if _, err = unix.Write(fd, []byte(limit)); err == nil {
			return nil
		}
		if !errors.Is(err, unix.EINTR) {
			return &fs.PathError{Op: "write", Path: path, Err: err}
		}
	}
}

// squeeze lowers the limit as far as possible, and returns it. Version 2 accepts any limit,
// reclaims what it can, and kills immediately. Version 1 reclaims too, but rejects a limit
// below what is left; a limit of exactly that makes the next allocation fail.
func (g memoryGroup) squeeze() (int64, error) {
	err := g.bound("0")
	if !errors.Is(err, unix.EBUSY) {
		return 0, err
	}
	left, err := g.used()
	if err != nil {
		return 0, err
	}
	if err = g.bound(strconv.FormatInt(left, 10)); errors.Is(err, unix.EBUSY) {
		err = nil // more is in use again; try later
	}
	return left, err
}

// vanished reports whether a cgroup disappeared with its last process.
func vanished(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) }

// starve lowers a container's memory limit until the kernel kills one of its processes. The
// restarted container has a new cgroup with the limit of its pod.
func (s *Server) starve(ctx context.Context, f Fault, c Container) (Fault, error) {
	g, err := findMemoryGroup(s.options.Cgroups, c)
	if err != nil {
		return Fault{}, err
	}
	was, err := os.ReadFile(g.path(memoryLimit))
	if err != nil {
		return Fault{}, err
	}
	before, err := g.kills()
	if err != nil {
		return Fault{}, err
	}
	m := Memory{}
	if m.UsedBytes, err = g.used(); err != nil {
		return Fault{}, err
	}
	f.BeganNS, f.Memory = time.Now().UnixNano(), &m
	err = m.until(ctx, g, before)
	if back := g.bound(strings.TrimSpace(string(was))); back != nil && !vanished(back) {
		err = errors.Join(err, fmt.Errorf("restore the memory limit: %w", back))
	}
	switch {
	case vanished(err):
		err = fmt.Errorf("%s ended, and its cgroup with it, before the kernel's count of OOM kills was read: %w", describe(f.Processes), err)
	case errors.Is(err, context.DeadlineExceeded):
		err = errs.WithHint(fmt.Errorf("%s still runs %v after its memory limit was lowered to %d bytes, of %d that it used: %w", describe(f.Processes), starveTime, m.LimitBytes, m.UsedBytes, err),
			"give it load, so that it allocates memory; a node with swap may still satisfy it")
	}
	s.options.Log.Info("memory taken", "pod", f.PodUID, "what", f.What, "kills", m.Kills, "error", err)
	return f, err
}

// until lowers a group's limit until the kernel has killed more than before.
func (m *Memory) until(ctx context.Context, g memoryGroup, before int64) error {
	ctx, cancel := context.WithTimeout(ctx, starveTime)
	defer cancel()
	var squeezed time.Time
	for {
		if time.Since(squeezed) >= starveEvery {
			limit, err := g.squeeze()
			if err != nil && !vanished(err) { // its count may still exist
				return err
			}
			if err == nil {
				m.LimitBytes = limit
			}
			squeezed = time.Now()
		}
		now, err := g.kills()
		if err != nil {
			return err
		}
		if m.Kills = now - before; m.Kills > 0 {
			return nil
		}
		if err := wake.Pause(ctx, killsEvery); err != nil {
			return err
		}
	}
}

// kubepods begins the name of the kubelet's cgroup for pods.
const kubepods = "kubepods"

// scratch makes a group to try things in: below this one, which needs a capability that the
// role lacks, or below that of the kubelet.
func (g memoryGroup) scratch() (memoryGroup, error) {
	made := memoryGroup{v2: g.v2}
	var failed error
	err := filepath.WalkDir(g.dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case vanished(err):
			return nil
		case err != nil:
			return err
		case !entry.IsDir() || path != g.dir && !strings.HasPrefix(entry.Name(), kubepods):
			return nil
		}
		if made.dir, err = os.MkdirTemp(path, prefix+"trial-"); err != nil {
			failed = err
			return nil
		}
		if _, err := os.Stat(made.path(memoryLimit)); err != nil { // version 2 bounds nothing there
			failed = errors.Join(err, os.Remove(made.dir))
			made.dir = ""
			return nil
		}
		return fs.SkipAll
	})
	if err == nil && made.dir == "" {
		err = failed
	}
	return made, err
}
