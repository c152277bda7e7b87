package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
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

// hierarchy is one mounted cgroup hierarchy.
type hierarchy struct {
	mount       string   // mount point
	v2          bool     // the unified hierarchy
	controllers []string // its controllers
}

// cgroups lists the mounted hierarchies of a machine.
type cgroups []hierarchy

// systemGroup holds the lab's own processes, next to the pods' groups.
const systemGroup = "system"

// findCgroups reads a mountinfo file and, for the unified hierarchy, its controllers.
func findCgroups(mountinfo io.Reader) (cgroups, error) {
	var all cgroups
	seen := map[string]bool{} // by device: a hierarchy may be mounted twice
	lines := bufio.NewScanner(mountinfo)
	for lines.Scan() {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		// Fields are separated by one space; other blanks belong to names.
		fields, options := strings.Split(before, " "), strings.Split(after, " ")
		if !ok || len(fields) < 6 || len(options) < 3 {
			continue
		}
		device, mount, kind := fields[2], procfs.Unescape(fields[4]), options[0]
		if (kind != "cgroup" && kind != "cgroup2") || seen[device] {
			continue
		}
		seen[device] = true
		h := hierarchy{mount: mount, v2: kind == "cgroup2"}
		if h.v2 {
			data, _ := os.ReadFile(filepath.Join(mount, "cgroup.controllers"))
			h.controllers = strings.Fields(string(data))
		} else {
			for _, option := range strings.Split(options[2], ",") {
				if option != "rw" && option != "ro" {
					h.controllers = append(h.controllers, option)
				}
			}
		}
		all = append(all, h)
	}
	return all, lines.Err()
}

func machineCgroups() (cgroups, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return findCgroups(f)
}

// unified reports whether the machine has only the unified hierarchy.
func (c cgroups) unified() bool {
	return len(c) > 0 && !slices.ContainsFunc(c, func(h hierarchy) bool { return !h.v2 })
}

// neededControllers are the controllers that a kubelet requires to start; with separate
// hierarchies it requires cpuacct too.
var neededControllers = []string{"cpu", "cpuset", "memory", "pids"}

// lacking lists the controllers that a kubelet needs and no hierarchy has.
func (c cgroups) lacking() []string {
	need := neededControllers
	if !c.unified() {
		need = append([]string{"cpuacct"}, need...)
	}
	var lacks []string
	for _, controller := range need {
		if !slices.ContainsFunc(c, func(h hierarchy) bool { return slices.Contains(h.controllers, controller) }) {
			lacks = append(lacks, controller)
		}
	}
	return lacks
}

// create makes the group name with its share of the CPU, and systemGroup inside it, in
// each hierarchy.
func (c cgroups) create(name string, share int) error {
	for _, h := range c {
		if h.v2 && len(h.controllers) > 0 {
			if err := h.vacate(moveProcess); err != nil {
				return err
			}
			if err := h.delegate(h.mount); err != nil {
				return err
			}
		}
		for _, dir := range []string{filepath.Join(h.mount, name), filepath.Join(h.mount, name, systemGroup)} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return fmt.Errorf("create a cgroup: %w", err)
			}
			// A new cpuset is empty and accepts no process until it is filled.
			if slices.Contains(h.controllers, "cpuset") && !h.v2 {
				for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
					if err := inherit(dir, file); err != nil {
						return err
					}
				}
			}
		}
		if h.v2 && len(h.controllers) > 0 {
			if err := h.delegate(filepath.Join(h.mount, name)); err != nil {
				return err
			}
		}
		for group, share := range map[string]int{name: share, filepath.Join(name, systemGroup): systemShare} {
			if err := h.setShare(filepath.Join(h.mount, group), share); err != nil {
				return err
			}
		}
	}
	return nil
}

// Shares of the CPU, relative to an ordinary group. A group competes like one of the
// host's processes, but a lab is more than that; inside it, the node's own programs must
// not starve when many pods start. Each of several nodes has the control plane's share.
const (
	labShare    = 20
	systemShare = 4
	nodeShare   = 4
)

// setShare sets a group's share of the CPU, if this hierarchy controls it.
func (h hierarchy) setShare(dir string, share int) error {
	if !slices.Contains(h.controllers, "cpu") {
		return nil
	}
	file, value := "cpu.shares", 1024*share
	if h.v2 {
		file, value = "cpu.weight", 100*share
	}
	if err := os.WriteFile(filepath.Join(dir, file), []byte(strconv.Itoa(value)), 0); err != nil {
		return fmt.Errorf("set the lab's share of the CPU: %w", err)
	}
	return nil
}

// hostGroup receives the processes of a container that has its own group.
const hostGroup = "meshtrial-host"

// vacate moves the processes of the group at the mount into a group below it, which stays,
// unless the group is the machine's root: any other group can delegate controllers only
// while it has no processes. The moved processes may start others in the meantime.
func (h hierarchy) vacate(move func(pid, group string) error) error {
	if _, err := os.Stat(filepath.Join(h.mount, "cgroup.type")); errors.Is(err, fs.ErrNotExist) {
		return nil // only the root has no type
	}
	group := filepath.Join(h.mount, hostGroup)
	for range 10 {
		pids, err := os.ReadFile(filepath.Join(h.mount, "cgroup.procs"))
		if err != nil || len(pids) == 0 {
			return err
		}
		if err := os.MkdirAll(group, 0o755); err != nil {
			return fmt.Errorf("create a cgroup: %w", err)
		}
		for _, pid := range strings.Fields(string(pids)) {
			if pid == "0" {
				return errs.WithHint(fmt.Errorf("cgroup %s contains processes from outside this container", h.mount),
					"start the container with --cgroupns=private")
			}
			if err := move(pid, group); err != nil && !errors.Is(err, unix.ESRCH) { // ESRCH: it has ended
				return fmt.Errorf("move process %s into the cgroup %s: %w", pid, hostGroup, err)
			}
		}
	}
	return fmt.Errorf("move all processes into the cgroup %s: new ones keep appearing in %s", hostGroup, h.mount)
}

func moveProcess(pid, group string) error {
	return os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(pid), 0)
}

// delegate enables the controllers of a unified group for its children: those that a
// kubelet needs, and others if the kernel allows it.
func (h hierarchy) delegate(dir string) error {
	for _, controller := range h.controllers {
		err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller), 0)
		if err != nil && slices.Contains(neededControllers, controller) {
			return fmt.Errorf("delegate controller %s to the groups below %s: %w", controller, dir, err)
		}
	}
	return nil
}

func inherit(dir, file string) error {
	data, err := os.ReadFile(filepath.Join(filepath.Dir(dir), file))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, file), data, 0)
	}
	if err != nil {
		return fmt.Errorf("set up a cpuset: %w", err)
	}
	return nil
}

// join moves a process into the group's systemGroup in each hierarchy.
func (c cgroups) join(name string, pid int) error {
	for _, h := range c {
		file := filepath.Join(h.mount, name, systemGroup, "cgroup.procs")
		if err := os.WriteFile(file, []byte(strconv.Itoa(pid)), 0); err != nil {
			return fmt.Errorf("move the lab into its cgroup: %w", err)
		}
	}
	return nil
}

// remove kills the processes in the group and removes it with all groups below it from
// each hierarchy. It retries until ctx ends: a group can be removed only after its last
// process is gone.
func (c cgroups) remove(ctx context.Context, name string) error {
	for {
		var last error
		for _, h := range c {
			if err := removeGroup(filepath.Join(h.mount, name)); err != nil {
				last = err
			}
		}
		if last == nil {
			return nil
		}
		if err := wake.Pause(ctx, 10*time.Millisecond); err != nil {
			return fmt.Errorf("remove the lab's cgroup: %w", last)
		}
	}
}

// removeGroup removes a group and those below it. It kills the remaining processes, after
// which a retry can remove the group.
func removeGroup(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeGroup(filepath.Join(dir, entry.Name())); err != nil {
				return err
			}
		}
	}
	data, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	for _, field := range strings.Fields(string(data)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 1 {
			unix.Kill(pid, unix.SIGKILL)
		}
	}
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) { // os.Remove would try to delete a file first
		return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}
