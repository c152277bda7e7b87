package site

import (
	"os"

	"github.com/meshtrial/meshtrial/internal/wallclock"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
)

// hosted is a lab whose nodes are processes of this machine; where they are several,
// each has descendants of its own.
type hosted interface {
	Process() int
	Size() int
}

// here is the lab as processes of this machine, if it is that.
func (s *Site) here() (hosted, bool) {
	l, ok := s.lab.(hosted)
	return l, ok && l.Process() > 0
}

// Host reads the processes of the machine that the lab's nodes are processes of,
// at the beginning of a window; nil where the lab is no process of this machine.
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

// WithNodesHere adds the nodes that share this machine to targets by node: whoever
// accounts for the machine must look at all of them.
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

// Shots are a node's snapshots at the edges of a window.
type Shots struct{ Before, After observe.Snapshot }

// Unattributed is what the machine of a lab's nodes did in a window beside the
// study's parts, and adds the part of it that nobody of the study used to them; nil
// where that is not known: where nobody read the machine's processes, or those of one of
// its nodes, or where the nodes, which have all parts, are several machines.
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
