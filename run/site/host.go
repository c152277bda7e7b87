package site

import (
	"os"

	"github.com/meshtrial/meshtrial/internal/wallclock"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
)

// hosted is a lab whose nodes are processes of this machine.
type hosted interface {
	Process() int
	Size() int
}

// here returns the lab if its nodes are processes of this machine.
func (s *Site) here() (hosted, bool) {
	l, ok := s.lab.(hosted)
	return l, ok && l.Process() > 0
}

// Host reads this machine's processes at the beginning of a window; nil if the lab's
// nodes are not among them.
func (s *Site) Host() *observe.Host {
	l, ok := s.here()
	if !ok {
		return nil
	}
	return &observe.Host{Node: l.Process(), Nodes: l.Size(), Self: os.Getpid(), BeforeNS: wallclock.Now().SteadyNS, Before: observe.Processes("/proc", nil)}
}

// HostAfter completes what [Site.Host] began, at the window's end.
func (s *Site) HostAfter(h *observe.Host) *observe.Host {
	if h == nil {
		return nil
	}
	out := *h
	out.AfterNS, out.After = wallclock.Now().SteadyNS, observe.Processes("/proc", nil)
	if l, ok := s.here(); ok && l.Size() > 1 {
		out.Between = observe.SameSpace("/proc", out.After, out.Node)
	}
	return &out
}

// WithNodesHere adds the nodes that share this machine to the targets, because all of
// them account for the machine's CPU.
func (s *Site) WithNodesHere(targets map[string][]observe.Target) {
	if l, ok := s.here(); !ok || l.Size() == 1 {
		return
	}
	for node := range s.Observers {
		if _, ok := targets[node]; !ok {
			targets[node] = nil
		}
	}
}

// Unattributed returns the machine's use in a window apart from the study's parts, and
// adds the unattributed CPU to the parts. It is nil if unknown: the processes of the
// machine or of one of its nodes were not read, or the nodes are several machines.
func Unattributed(cpu map[string]record.CPU, seconds float64, nodes []Shots, beside *observe.Host) *record.Others {
	machine, ok := cpu[record.PartMachine]
	if !ok || seconds <= 0 || len(nodes) == 0 || beside != nil && len(nodes) < beside.Nodes {
		return nil
	}
	var all []observe.Host
	boot, cpus := nodes[0].After.Machine.BootID, nodes[0].After.Machine.CPUs
	for _, n := range nodes {
		if n.Before.Processes == nil || n.After.Processes == nil || len(nodes) > 1 && (boot == "" || n.After.Machine.BootID != boot) {
			return nil
		}
		all = append(all, observe.Host{Before: n.Before.Processes, After: n.After.Processes,
			BeforeNS: n.Before.ProcessesNS - n.Before.SteppedNS, AfterNS: n.After.ProcessesNS - n.After.SteppedNS})
	}
	beyond := machine.TotalS()
	for part, c := range cpu {
		if part != record.PartMachine {
			beyond -= c.TotalS()
		}
	}
	others := observe.Others(beyond, seconds, cpus, all, beside)
	cpu[record.PartUnattributed] = record.CPU{UserS: others.UnattributedS}
	return &others
}
