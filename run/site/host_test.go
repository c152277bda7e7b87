package site

import (
	"math"
	"testing"

	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
)

// Nodes that share a machine each account for all of it, but it is counted once: the
// unattributed use is counted once, after subtracting the processes of every node.
func TestUnattributedOfSeveralNodes(t *testing.T) {
	// The machine used 2 s in 1 s, the study 1.1 s of that, and each node's kubelet
	// 0.1 s.
	shots := func(boot string) Shots {
		kubelet := func(ns uint64) []observe.ProcessSample {
			return []observe.ProcessSample{{PID: 1, Command: "kubelet", TotalNS: ns}}
		}
		machine := observe.MachineSample{CPUs: 4, BootID: boot}
		return Shots{Before: observe.Snapshot{Machine: machine, Processes: kubelet(0)}, After: observe.Snapshot{Machine: machine, Processes: kubelet(1e8)}}
	}
	unread := shots("1")
	unread.After.Processes = nil
	for name, c := range map[string]struct {
		nodes []Shots
		want  float64 // unattributed seconds; -1: unknown
	}{
		"one node":              {[]Shots{shots("1")}, 0.8},
		"one of nobody knows":   {[]Shots{shots("")}, 0.8},
		"three of one machine":  {[]Shots{shots("1"), shots("1"), shots("1")}, 0.6},
		"two machines":          {[]Shots{shots("1"), shots("2")}, -1},
		"of nobody knows which": {[]Shots{shots(""), shots("")}, -1},
		"one that was not read": {[]Shots{shots("1"), unread}, -1},
		"none":                  {nil, -1},
	} {
		cpu := map[string]record.CPU{record.PartMachine: {UserS: 1.5, SystemS: 0.5}, record.PartGenerator: {UserS: 0.5}, record.PartWorker: {UserS: 0.6}}
		got := Unattributed(cpu, 1, c.nodes, nil)
		part, told := cpu[record.PartUnattributed]
		switch {
		case c.want < 0:
			if got != nil || told {
				t.Errorf("%s: %+v", name, got)
			}
		case got == nil || math.Abs(got.UnattributedS-c.want) > 1e-9 || math.Abs(got.UnattributedRatio-c.want/4) > 1e-9 || math.Abs(part.TotalS()-c.want) > 1e-9:
			t.Errorf("%s: %+v, as a part %v; want %v", name, got, part, c.want)
		}
	}
}

// If a node of the machine was not read, its processes cannot be attributed.
func TestUnattributedWithANodeUnread(t *testing.T) {
	processes := []observe.ProcessSample{{PID: 1, Command: "kubelet"}}
	machine := observe.MachineSample{CPUs: 4, BootID: "1"}
	shots := Shots{Before: observe.Snapshot{Machine: machine, Processes: processes}, After: observe.Snapshot{Machine: machine, Processes: processes}}
	for nodes, known := range map[int]bool{1: true, 2: true, 3: false} {
		cpu := map[string]record.CPU{record.PartMachine: {UserS: 2}}
		if got := Unattributed(cpu, 1, []Shots{shots, shots}, &observe.Host{Node: 1, Nodes: nodes}); (got != nil) != known {
			t.Errorf("2 of %d nodes read: %+v", nodes, got)
		}
	}
}
