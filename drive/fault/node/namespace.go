package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/thread"
	"github.com/meshtrial/meshtrial/observe/procfs"
)

// namespace is a network namespace, held open.
type namespace struct {
	*os.File
	inode uint64
}

func openNamespace(path string) (*namespace, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &namespace{file, stat.Ino}, nil
}

// do runs f on a thread in the namespace. The thread ends with f.
func (n *namespace) do(f func() error) error {
	return thread.Apart(func() error {
		if err := unix.Setns(int(n.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network namespace: %w", err)
		}
		return f()
	})
}

// pod opens the network namespace of a pod, and returns the process by which it was found. A
// namespace that others share, such as the node's own, is rejected.
func (p processes) pod(uid string) (*namespace, int, error) {
	match, err := procfs.PodCgroup(uid)
	if err != nil {
		return nil, 0, err
	}
	pids, err := p.in(match)
	if err != nil {
		return nil, 0, err
	}
	for _, pid := range pids {
		ns, err := openNamespace(p.path(pid, "ns/net"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			return nil, 0, fmt.Errorf("network namespace of pod %s: %w", uid, err)
		}
		// It is the pod's only if the process is still in the pod.
		if !p.inCgroup(pid, match) {
			ns.Close()
			continue
		}
		if other, err := p.sharer(ns, match); other != 0 || err != nil {
			ns.Close()
			if err == nil {
				err = fmt.Errorf("pod %s shares its network with process %d, which is not its own, so a fault would affect that too", uid, other)
			}
			return nil, 0, err
		}
		return ns, pid, nil
	}
	return nil, 0, fmt.Errorf("pod %s has no processes: %w", uid, errNotFound)
}

// podCache remembers the process by which a pod's network namespace was found, so that a
// fault need not examine every process of the node when it begins.
type podCache struct {
	processes
	mu    sync.Mutex
	known map[string]int // PID by pod UID
}

// maxKnown limits the cache.
const maxKnown = 10_000

func (c *podCache) open(uid string) (*namespace, error) {
	match, err := procfs.PodCgroup(uid)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if pid := c.known[uid]; pid != 0 {
		// A process in the pod is in its namespace.
		if ns, err := openNamespace(c.path(pid, "ns/net")); err == nil {
			if c.inCgroup(pid, match) {
				return ns, nil
			}
			ns.Close()
		}
		delete(c.known, uid)
	}
	ns, pid, err := c.pod(uid)
	if err != nil {
		return nil, err
	}
	if c.known == nil || len(c.known) >= maxKnown {
		c.known = map[string]int{}
	}
	c.known[uid] = pid
	return ns, nil
}

func (p processes) inCgroup(pid int, match func(string) bool) bool {
	data, err := os.ReadFile(p.path(pid, "cgroup"))
	return err == nil && procfs.InCgroup(data, match)
}

// sharer finds a process in a network namespace that is in no matching cgroup; 0: none.
func (p processes) sharer(ns *namespace, match func(string) bool) (int, error) {
	all, err := procfs.PIDs(os.DirFS(p.root))
	if err != nil {
		return 0, err
	}
	link := fmt.Sprintf("net:[%d]", ns.inode)
	for _, pid := range all {
		if got, err := os.Readlink(p.path(pid, "ns/net")); err != nil || got != link || p.inCgroup(pid, match) {
			continue // or it has ended
		}
		if got, err := os.Readlink(p.path(pid, "ns/net")); err == nil && got == link { // did not end in between
			return pid, nil
		}
	}
	return 0, nil
}

// namespaces opens the network namespaces of all processes of the node. The caller closes
// them.
func (p processes) namespaces() ([]*namespace, error) {
	pids, err := procfs.PIDs(os.DirFS(p.root))
	if err != nil {
		return nil, err
	}
	seen := map[uint64]bool{}
	var out []*namespace
	for _, pid := range pids {
		ns, err := openNamespace(p.path(pid, "ns/net"))
		if err != nil {
			continue // ended meanwhile, or a zombie
		}
		if seen[ns.inode] {
			ns.Close()
			continue
		}
		seen[ns.inode] = true
		out = append(out, ns)
	}
	return out, nil
}
