package procfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// Identity names a process for good: process IDs are used again, their start
// times are not, and both mean something only in one PID namespace of one boot
// of one machine. The zero value names none.
type Identity struct {
	Host         string `json:"host"` // for people
	Boot         string `json:"boot_id"`
	PIDNamespace string `json:"pid_namespace"`
	PID          int    `json:"pid"`
	StartTicks   uint64 `json:"start_ticks"` // since boot
}

// Self is the identity of the process that asks.
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

// String names the process for people.
func (i Identity) String() string { return fmt.Sprintf("process %d on %s", i.PID, i.Host) }

// Life is what can be told of a process from here.
type Life int

// What can be told of a process.
const (
	Unknown Life = iota // another machine, boot or PID namespace
	Alive
	Dead
)

// LifeOf tells whether the process i still runs, as far as the process me can
// see. One that has ended and that its parent has not waited for is dead.
func LifeOf(i, me Identity) Life {
	if i.PID <= 0 || i.Boot == "" || i.Boot != me.Boot || i.PIDNamespace != me.PIDNamespace {
		return Unknown
	}
	process, err := ReadProcess(i.PID)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// Or hidden: /proc may show a user's own processes alone (hidepid).
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

// BootID names the machine's boot, a random number that is new at each.
func BootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data)), err
}

// ReadProcess reads /proc/PID/stat; its error is [fs.ErrNotExist] where there
// is no such process.
func ReadProcess(pid int) (Process, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Process{}, err
	}
	return ParseProcess(data)
}

// Ended says that a process is over and only waits to be waited for.
func (p Process) Ended() bool { return p.State == 'Z' || p.State == 'X' }
