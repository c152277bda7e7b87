package node

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/internal/thread"
	"github.com/meshtrial/meshtrial/observe/procfs"
)

// offers tries this node's abilities.
func (s *Server) offers() []Offer {
	var out []Offer
	for _, t := range []struct {
		what, done string
		try        func() error
	}{
		{fault.NeedProcess, "processes of other users can be signalled, and marks are found", s.tryProcess},
		{fault.NeedMemory, "a cgroup's memory can be limited, and the kernel counts OOM kills", s.tryMemory},
		{fault.NeedCut, "the kernel accepts the rules", s.tryNetwork(NetworkRequest{Cut: true})},
		{fault.NeedLose, "the kernel accepts the rules", s.tryNetwork(NetworkRequest{Lose: 0.5})},
		{fault.NeedDelay, "the kernel accepts the rules and the queue", s.tryNetwork(NetworkRequest{DelayNS: int64(time.Millisecond)})},
		{fault.NeedRate, "the kernel accepts the rules and the queue", s.tryNetwork(NetworkRequest{RateBits: MaxRateBits})},
	} {
		o := Offer{What: t.what, OK: true, Detail: t.done}
		if err := t.try(); err != nil {
			o.OK, o.Detail = false, err.Error()
		}
		out = append(out, o)
	}
	return out
}

// tryProcess tries what signals need: process descriptors, permission to signal processes of
// other users, and a mark.
func (s *Server) tryProcess() error {
	pids, err := procfs.PIDs(os.DirFS(s.processes.root))
	if err != nil {
		return err
	}
	for _, pid := range pids {
		info, err := os.Stat(s.processes.path(pid, "."))
		if err != nil || info.Sys().(*syscall.Stat_t).Uid == uint32(os.Geteuid()) {
			continue
		}
		now, err := s.processes.stat(pid)
		if err != nil {
			continue
		}
		if _, err := s.processes.signal([]Process{{PID: pid, StartTicks: now.StartTime}}, 0); err != nil { // 0: only asks
			return err
		}
	}
	ns, err := scratch()
	if err != nil {
		return err
	}
	defer ns.Close()
	m := mark{Owner: s.self, Stopped: s.self}
	if err := addMark(ns, m.String()); err != nil {
		return err
	}
	found, err := marks(ns)
	if err == nil && !slices.Contains(found, m) {
		err = errors.New("a mark is not found")
	}
	return err
}

// tryNetwork returns a try of a disturbance in a scratch namespace.
func (s *Server) tryNetwork(request NetworkRequest) func() error {
	return func() error {
		ns, err := scratch()
		if err != nil {
			return err
		}
		defer ns.Close()
		request.Direction = Both
		d, err := disturb(ns, mark{Owner: s.self}.String(), []netip.Addr{netip.MustParseAddr("192.0.2.1")}, request) // RFC 5737
		if err != nil {
			return err
		}
		_, err = d.count()
		return errors.Join(err, d.end())
	}
}

// tryMemory tries to limit the memory of a scratch cgroup and to read its kills.
func (s *Server) tryMemory() error {
	root, err := memoryRoot(s.options.Cgroups)
	if err != nil {
		return err
	}
	g, err := root.scratch()
	if err != nil {
		return err
	}
	if err = g.bound("0"); err == nil {
		_, err = g.kills()
	}
	return errors.Join(err, os.Remove(g.dir))
}

// scratch makes a network namespace that is gone once it is closed.
func scratch() (*namespace, error) {
	var made *namespace
	err := thread.Apart(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("create a network namespace: %w", err)
		}
		made, err = openNamespace("/proc/thread-self/ns/net")
		return err
	})
	return made, err
}
