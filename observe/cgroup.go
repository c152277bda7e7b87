package observe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/meshtrial/meshtrial/observe/procfs"
)

// maxCgroups and maxCgroupDepth bound the search for a target. Kubernetes nests
// five levels deep; a kubelet may have its own root above that.
const (
	maxCgroups     = 50_000
	maxCgroupDepth = 16
)

// errNotFound is wrapped if no cgroup belongs to a target.
var errNotFound = errors.New("no cgroup found")

// finder finds the cgroups of targets in the mounted hierarchies.
type finder struct {
	version int    // 1 or 2
	cpuacct string // root directory of the hierarchy for CPU time
	cpu     string // of the one for CPU limits
	memory  string

	mu    sync.Mutex
	known map[string]string // target key -> path relative to the hierarchies' roots
}

// newFinder detects the hierarchies mounted at root: /sys/fs/cgroup, or the
// path where a pod mounts it. It ignores a version 2 hierarchy next to version
// 1 controllers (hybrid), because runtimes put containers under the
// controllers.
func newFinder(root string) (*finder, error) {
	f := &finder{known: map[string]string{}}
	if exists(filepath.Join(root, "cgroup.controllers")) {
		f.version, f.cpuacct, f.cpu, f.memory = 2, root, root, root
		return f, nil
	}
	first := func(file string, names ...string) string {
		for _, name := range names {
			if dir := filepath.Join(root, name); exists(filepath.Join(dir, file)) {
				return dir
			}
		}
		return ""
	}
	f.version = 1
	f.cpuacct = first("cpuacct.usage", "cpuacct", "cpu,cpuacct", "cpuacct,cpu")
	f.cpu = first("cgroup.procs", "cpu", "cpu,cpuacct", "cpuacct,cpu")
	f.memory = first("memory.usage_in_bytes", "memory")
	if f.cpuacct == "" {
		return nil, fmt.Errorf("observe: %s holds neither a cgroup v2 hierarchy (cgroup.controllers) nor cpuacct of v1", root)
	}
	return f, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// matcher returns a predicate for the names of directories that belong to t,
// and the cache key for the matching one.
func matcher(t Target) (key string, match func(name string) bool, err error) {
	switch {
	case t.ContainerID != "":
		key = "c" + t.ContainerID
		match, err = procfs.ContainerCgroup(t.ContainerID)
	case t.PodUID != "":
		key = "p" + t.PodUID
		match, err = procfs.PodCgroup(t.PodUID)
	default:
		return "", nil, fmt.Errorf("target %q has neither a container id nor a pod UID", t.Name)
	}
	if err != nil {
		err = fmt.Errorf("target %q: %w", t.Name, err)
	}
	return key, match, err
}

// find returns t's cgroup as a path relative to each hierarchy's root. The
// error wraps errNotFound if there is none.
func (f *finder) find(t Target) (string, error) {
	key, match, err := matcher(t)
	if err != nil {
		return "", err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if path, ok := f.known[key]; ok {
		if exists(filepath.Join(f.cpuacct, path)) {
			return path, nil
		}
		delete(f.known, key)
	}
	path, err := f.search(match)
	if err != nil {
		return "", fmt.Errorf("target %q: %w", t.Name, err)
	}
	if len(f.known) >= 10*MaxTargets {
		clear(f.known) // drop ended pods
	}
	f.known[key] = path
	return path, nil
}

// search walks the hierarchy breadth-first.
func (f *finder) search(match func(string) bool) (string, error) {
	seen := 0
	level := []string{"."}
	for range maxCgroupDepth {
		var next []string
		for _, dir := range level {
			entries, err := os.ReadDir(filepath.Join(f.cpuacct, dir))
			if err != nil {
				continue // it disappeared in the meantime
			}
			for _, entry := range entries {
				if !entry.IsDir() {
					continue
				}
				path := filepath.Join(dir, entry.Name())
				if match(entry.Name()) {
					return path, nil
				}
				if seen++; seen > maxCgroups {
					return "", fmt.Errorf("%w among %d", errNotFound, maxCgroups)
				}
				next = append(next, path)
			}
		}
		if len(next) == 0 {
			break
		}
		level = next
	}
	return "", fmt.Errorf("%w among %d under %s", errNotFound, seen, f.cpuacct)
}

// processes returns the PIDs in a cgroup and its descendants, as seen from this
// process's PID namespace.
func (f *finder) processes(path string) ([]int, error) {
	var pids []int
	err := filepath.WalkDir(filepath.Join(f.cpuacct, path), func(dir string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return nil
		}
		data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			return nil // it disappeared, or is a threaded cgroup, whose parent lists the processes
		}
		for field := range strings.FieldsSeq(string(data)) {
			// 0 stands for a process in a PID namespace that is invisible from
			// here.
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	return pids, err
}
