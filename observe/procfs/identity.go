package procfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Identity identifies a process permanently. Process IDs are reused, but their
// start times are not, and both are meaningful only within one PID namespace of
// one boot of one machine. The zero value identifies no process.
type Identity struct {
	Host         string `json:"host"` // for display
	Boot         string `json:"boot_id"`
	PIDNamespace string `json:"pid_namespace"`
	PID          int    `json:"pid"`
	StartTicks   uint64 `json:"start_ticks"` // since boot
}

// Self returns the identity of the calling process.
func Self() (Identity, error) {
	i := Identity{PID: os.Getpid()}
	i.Host, _ = os.Hostname()
	var err error
	if i.Boot, err = BootID(); err != nil {
		return i, err
	}
	if i.PIDNamespace, err = os.Readlink("/proc/self/ns/pid"); err != nil {
		return i, err
	}
	process, err := ReadProcess(i.PID)
	i.StartTicks = process.StartTime
	return i, err
}

// String formats the process for display.
func (i Identity) String() string { return fmt.Sprintf("process %d on %s", i.PID, i.Host) }

// Life is what is known about whether a process runs.
type Life int

// States of a process.
const (
	Unknown Life = iota // another machine, boot or PID namespace
	Alive
	Dead
)

// LifeOf reports whether process i still runs, as seen by process me. A process
// that has ended but has not been reaped is dead.
func LifeOf(i, me Identity) Life {
	if i.PID <= 0 || i.Boot == "" || i.Boot != me.Boot || i.PIDNamespace != me.PIDNamespace {
		return Unknown
	}
	process, err := ReadProcess(i.PID)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// Or it is hidden: /proc may show only a user's own processes
		// (hidepid).
		if err := syscall.Kill(i.PID, 0); err != nil && !errors.Is(err, syscall.ESRCH) {
			return Unknown
		}
		return Dead
	case err != nil:
		return Unknown
	case process.StartTime != i.StartTicks || process.Ended():
		return Dead
	}
	return Alive
}

// BootID returns the random ID of the machine's current boot.
func BootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data)), err
}

// ReadProcess reads /proc/PID/stat. The error is [fs.ErrNotExist] if there is
// no such process.
func ReadProcess(pid int) (Process, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Process{}, err
	}
	return ParseProcess(data)
}

// Ended reports whether a process has ended and only waits to be reaped.
func (p Process) Ended() bool { return p.State == 'Z' || p.State == 'X' }

// PIDs returns the processes below a /proc.
func PIDs(proc fs.FS) ([]int, error) {
	entries, err := fs.ReadDir(proc, ".")
	var out []int
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			out = append(out, pid)
		}
	}
	return out, err
}
