package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/observe/procfs"
)

// errNotFound is wrapped when the node has nothing that a request names.
var errNotFound = errors.New("not on this node")

// kinds of processes by the base name of their program.
var kinds = map[string]string{
	"envoy":                     KindEnvoy,
	"linkerd2-proxy":            KindEnvoy,
	"ztunnel":                   KindNode,
	"pilot-agent":               KindAgent,
	"linkerd2-proxy-identity":   KindAgent,
	"meshtrial":                 KindWorker,
	"pilot-discovery":           KindIstiod,
	"controller":                KindIstiod, // Linkerd's
	"linkerd-policy-controller": KindIstiod,
}

// processes is the node's process table.
type processes struct{ root string } // /proc, with the node's PIDs

func (p processes) path(pid int, file string) string {
	return filepath.Join(p.root, strconv.Itoa(pid), file)
}

// in lists the PIDs of the processes in a cgroup whose name matches, ascending.
func (p processes) in(match func(string) bool) ([]int, error) {
	all, err := procfs.PIDs(os.DirFS(p.root))
	if err != nil {
		return nil, err
	}
	var out []int
	for _, pid := range all {
		if p.inCgroup(pid, match) {
			out = append(out, pid)
		}
	}
	slices.Sort(out)
	return out, nil
}

// stat reads a process. The error wraps fs.ErrNotExist or ESRCH if there is
// none.
func (p processes) stat(pid int) (procfs.Process, error) {
	data, err := os.ReadFile(p.path(pid, "stat"))
	if err != nil {
		return procfs.Process{}, err
	}
	return procfs.ParseProcess(data)
}

// container lists the processes of a container, or of a pod, by PID.
func (p processes) container(c Container) ([]Process, error) {
	pod, err := procfs.PodCgroup(c.PodUID)
	if err != nil {
		return nil, err
	}
	match := pod
	if c.ID != "" {
		if match, err = procfs.ContainerCgroup(c.ID); err != nil {
			return nil, err
		}
	}
	pids, err := p.in(match)
	if err != nil {
		return nil, err
	}
	var out []Process
	for _, pid := range pids {
		process, err := p.stat(pid)
		if err != nil || !p.inCgroup(pid, pod) {
			continue
		}
		kind := p.kind(pid, process.Command)
		if kind == KindOther && !slices.Contains(pids, process.Parent) {
			kind = KindInit
		}
		out = append(out, Process{PID: pid, StartTicks: process.StartTime, Comm: process.Command, Kind: kind, State: string(process.State)})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("container %.80s of pod %s has no processes: %w", c.ID, c.PodUID, errNotFound)
	}
	return out, nil
}

// kind returns the kind of a process by its program: the first word of its command line,
// or if that is empty its command.
func (p processes) kind(pid int, comm string) string {
	if data, err := os.ReadFile(p.path(pid, "cmdline")); err == nil {
		if first, _, _ := bytes.Cut(data, []byte{0}); len(first) > 0 {
			comm = path.Base(string(first))
		}
	}
	if kind, ok := kinds[comm]; ok {
		return kind
	}
	return KindOther
}

// look returns the current state of processes.
func (p processes) look(all []Process) []Process {
	out := slices.Clone(all)
	for i := range out {
		now, err := p.stat(out[i].PID)
		if err != nil || now.StartTime != out[i].StartTicks || now.State == 'X' {
			out[i].State = Gone
		} else {
			out[i].State = string(now.State)
		}
	}
	return out
}

// signal sends a signal to the processes that still exist, and returns them.
func (p processes) signal(all []Process, signal unix.Signal) ([]Process, error) {
	var reached []Process
	var failed []error
	for _, one := range all {
		err := p.signalOne(one, signal)
		switch {
		case err == nil:
			reached = append(reached, one)
		case !ended(err):
			failed = append(failed, fmt.Errorf("signal %s to process %d (%s): %w", unix.SignalName(signal), one.PID, one.Comm, err))
		}
	}
	return reached, errors.Join(failed...)
}

func ended(err error) bool { return errors.Is(err, unix.ESRCH) || errors.Is(err, fs.ErrNotExist) }

func (p processes) signalOne(one Process, signal unix.Signal) error {
	// The descriptor refers to the process that has the PID now, and never to another.
	fd, err := unix.PidfdOpen(one.PID, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if now, err := p.stat(one.PID); err != nil {
		return err
	} else if now.StartTime != one.StartTicks {
		return unix.ESRCH
	}
	return unix.PidfdSendSignal(fd, signal, nil, 0)
}

// stopTime limits how long a process takes to stop: it first finishes a system call.
const stopTime = 10 * time.Second

// stopped waits until all processes have stopped or ended.
func (p processes) stopped(ctx context.Context, all []Process) error {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	for {
		running := slices.IndexFunc(p.look(all), func(one Process) bool { return one.State != "T" && one.State != Gone && one.State != "Z" })
		if running < 0 {
			return nil
		}
		if wake.Pause(ctx, time.Millisecond) != nil {
			return fmt.Errorf("process %d (%s) does not stop: it is in state %s", all[running].PID, all[running].Comm, p.look(all)[running].State)
		}
	}
}
