package observe

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/observe/procfs"
	"github.com/meshtrial/meshtrial/record"
)

// Processes reads the processes under a /proc with the CPU time that each has
// had, but for those to be left out. Those that end meanwhile are not there.
func Processes(procRoot string, without map[int]bool) []ProcessSample {
	entries, err := os.ReadDir(procRoot)
	if err != nil {
		return nil
	}
	var out []ProcessSample
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || without[pid] {
			continue
		}
		data, err := os.ReadFile(filepath.Join(procRoot, entry.Name(), "stat"))
		if err != nil {
			continue
		}
		p, err := procfs.ParseProcess(data)
		if err != nil {
			continue
		}
		total := processClock(procRoot, pid)
		total = cmp.Or(total, (p.User+p.System)*procfs.TickNS)
		out = append(out, ProcessSample{PID: pid, Parent: p.Parent, Command: p.Command, Start: p.StartTime, TotalNS: total})
	}
	return out
}

// Used is the CPU time that processes used between two readings, by their
// place in the later one. One that began meanwhile counts whole.
func Used(before, after []ProcessSample) []float64 {
	was := map[threadKey]uint64{}
	for _, p := range before {
		was[threadKey{pid: p.PID, start: p.Start}] = p.TotalNS
	}
	out := make([]float64, len(after))
	for i, p := range after {
		out[i] = rise(was[threadKey{pid: p.PID, start: p.Start}], p.TotalNS) / 1e9
	}
	return out
}

// Outside are the processes of a host that are neither a process nor
// descend from it, by their place.
func Outside(all []ProcessSample, root int) []bool {
	parents := map[int]int{}
	for _, p := range all {
		parents[p.PID] = p.Parent
	}
	out := make([]bool, len(all))
	for i, p := range all {
		at := p.PID
		for range len(all) { // a tree that changed while it was read may have a circle
			if at == root || at == 0 {
				break
			}
			at = parents[at]
		}
		out[i] = at != root
	}
	return out
}

// SameSpace are the processes that are in the PID namespace of one of them, by
// number.
func SameSpace(procRoot string, all []ProcessSample, of int) map[int]bool {
	space := func(pid int) string {
		link, err := os.Readlink(filepath.Join(procRoot, strconv.Itoa(pid), "ns", "pid"))
		if err != nil {
			return "" // it ended
		}
		return link
	}
	out, own := map[int]bool{}, space(of)
	for _, p := range all {
		if own != "" && space(p.PID) == own {
			out[p.PID] = true
		}
	}
	return out
}

// clusterCommands are the programs of Kubernetes' own, as the kernel shortens
// their names: they are part of any study in a cluster.
var clusterCommands = []string{
	"kubelet", "containerd", "containerd-shim", "runc", "etcd", "kube-apiserver", "kube-controller", "kube-scheduler", "kube-proxy",
	"coredns", "metrics-server", "kwok", "pause", "crio", "conmon", "meshtrial",
}

// OfCluster says that a process is one of Kubernetes' own, or of this program's
// roles.
func (p ProcessSample) OfCluster() bool {
	return slices.ContainsFunc(clusterCommands, func(c string) bool { return strings.HasPrefix(p.Command, c) })
}

// A Host is who else is on a machine, read at both edges of a window.
type Host struct {
	Before, After     []ProcessSample
	BeforeNS, AfterNS int64 // when they were read, by one clock that never steps: a little before the window and after it
	// Node is the process that the lab's node descends from, on whose host this
	// was read; 0 where this is the node itself. Self is this process. Nodes is how many
	// nodes the lab has.
	Node, Self, Nodes int
	// Between are the processes that descend from it and are on none of its several
	// nodes, by number: the control plane's.
	Between map[int]bool
}

// used is what the processes used in a window of so many seconds: their share of
// what they used between the readings, which lie further apart.
func (h Host) used(seconds float64) []float64 {
	out := Used(h.Before, h.After)
	between := float64(h.AfterNS-h.BeforeNS) / 1e9
	if between <= seconds {
		return out
	}
	for i := range out {
		out[i] *= seconds / between
	}
	return out
}

// Others divides what a machine of so many CPUs used beyond the study's parts
// in a time, both in seconds: what the cluster's own processes used, and what
// nobody of the study did, with the names of those who used a hundredth of a CPU
// or more. nodes have the processes of each node on the machine at both edges,
// without the parts'. A host beside them is nil where there is none, or none that
// can be read.
func Others(beyond, seconds float64, cpus int, nodes []Host, beside *Host) record.Others {
	out := record.Others{}
	who := map[string]float64{}
	for _, node := range nodes {
		used := node.used(seconds)
		for i, p := range node.After {
			switch {
			case beside != nil || p.OfCluster():
				out.ClusterS += used[i]
			default:
				who[p.Command] += used[i]
			}
		}
	}
	if beside != nil {
		used, outside := beside.used(seconds), Outside(beside.After, beside.Node)
		for i, p := range beside.After {
			switch {
			case p.PID == beside.Self || beside.Between[p.PID]:
				out.ClusterS += used[i]
			case !outside[i]: // it is on a node
			default:
				who[p.Command] += used[i]
			}
		}
	}
	out.UnattributedS = beyond - out.ClusterS
	if cpus > 0 && seconds > 0 {
		out.UnattributedRatio = out.UnattributedS / (float64(cpus) * seconds)
	}
	commands := slices.SortedFunc(maps.Keys(who), func(a, b string) int { return cmp.Or(cmp.Compare(who[b], who[a]), cmp.Compare(a, b)) })
	for _, command := range commands[:min(len(commands), mostOthers)] {
		if who[command] >= 0.01*seconds {
			out.Who = append(out.Who, record.ProcessUse{Command: command, CPUS: who[command]})
		}
	}
	return out
}

// mostOthers is how many names of others are kept.
const mostOthers = 5
