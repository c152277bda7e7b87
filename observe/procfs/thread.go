package procfs

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// Schedstat is the content of /proc/PID/task/TID/schedstat; see the kernel's
// Documentation/scheduler/sched-stats.rst.
type Schedstat struct {
	RunNS  uint64 // on a CPU
	WaitNS uint64 // runnable, waiting for a CPU
	Slices uint64 // times it got one
}

// ParseSchedstat parses a schedstat file. It contains zeros if the kernel lacks
// scheduler accounting (CONFIG_SCHED_INFO).
func ParseSchedstat(data []byte) (Schedstat, error) {
	fields := strings.Fields(string(data))
	if len(fields) != 3 {
		return Schedstat{}, fmt.Errorf("schedstat: %d numbers, want 3", len(fields))
	}
	var s Schedstat
	for i, into := range []*uint64{&s.RunNS, &s.WaitNS, &s.Slices} {
		var err error
		if *into, err = strconv.ParseUint(fields[i], 10, 64); err != nil {
			return Schedstat{}, fmt.Errorf("schedstat: %w", err)
		}
	}
	return s, nil
}

// Switches counts how often a thread yielded its CPU to wait, and how often it
// was preempted.
type Switches struct{ Voluntary, Involuntary uint64 }

// ParseSwitches finds the switches in /proc/PID/task/TID/status. It returns an
// error if they are missing.
func ParseSwitches(data []byte) (Switches, error) {
	var s Switches
	found := 0
	for line := range bytes.Lines(data) {
		key, value, ok := strings.Cut(string(line), ":")
		into := map[string]*uint64{"voluntary_ctxt_switches": &s.Voluntary, "nonvoluntary_ctxt_switches": &s.Involuntary}[key]
		if !ok || into == nil {
			continue
		}
		var err error
		if *into, err = strconv.ParseUint(strings.TrimSpace(value), 10, 64); err != nil {
			return Switches{}, fmt.Errorf("process status: %s: %w", key, err)
		}
		found++
	}
	if found != 2 {
		return Switches{}, fmt.Errorf("process status: no numbers of context switches")
	}
	return s, nil
}
