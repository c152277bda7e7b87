package site

import (
	"os"
	"time"

	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
)

// hosted is a lab whose node is a process of this machine.
type hosted interface{ Process() int }

// Host reads the processes of the machine that the lab's node is a process of,
// at the beginning of a window; nil where the lab is no process of this machine.
func (s *Site) Host() *observe.Host {
	l, ok := s.lab.(hosted)
	if !ok || l.Process() <= 0 {
		return nil
	}
	return &observe.Host{Node: l.Process(), Self: os.Getpid(), BeforeNS: time.Now().UnixNano(), Before: observe.Processes("/proc", nil)}
}

// HostAfter completes what [Site.Host] began, at the window's end.
func (s *Site) HostAfter(h *observe.Host) *observe.Host {
	if h == nil {
		return nil
	}
	out := *h
	out.AfterNS, out.After = time.Now().UnixNano(), observe.Processes("/proc", nil)
	return &out
}

// Unattributed is what the machine of a lab's one node did in a window beside
// the study's parts, and adds the part of it that nobody of the study used to
// them; nil where the machine was not read. The snapshots are of the window's
// edges.
func Unattributed(cpu map[string]record.CPU, seconds float64, before, after observe.Snapshot, beside *observe.Host) *record.Others {
	machine, ok := cpu[record.PartMachine]
	if !ok || before.Processes == nil || after.Processes == nil || seconds <= 0 {
		return nil
	}
	beyond := machine.TotalS()
	for part, c := range cpu {
		if part != record.PartMachine {
			beyond -= c.TotalS()
		}
	}
	others := observe.Others(beyond, seconds, after.Machine.CPUs, observe.Host{Before: before.Processes, After: after.Processes, BeforeNS: before.ProcessesNS, AfterNS: after.ProcessesNS}, beside)
	cpu[record.PartUnattributed] = record.CPU{UserS: others.UnattributedS}
	return &others
}
