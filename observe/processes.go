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

// Processes reads the processes under a /proc with their CPU time so far, except those
// in without. It omits processes that end in the meantime.
func Processes(procRoot string, without map[int]bool) []ProcessSample {
	pids, _ := procfs.PIDs(os.DirFS(procRoot))
	var out []ProcessSample
	for _, pid := range pids {
		if without[pid] {
			continue
		}
		data, err := os.ReadFile(filepath.Join(procRoot, strconv.Itoa(pid), "stat"))
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

// Used returns the CPU time that processes used between two readings, indexed as in the
// later one. A process that started in between counts in full.
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

// Outside reports which of a host's processes are neither root nor its descendants,
// indexed as in all.
func Outside(all []ProcessSample, root int) []bool {
	parents := map[int]int{}
	for _, p := range all {
		parents[p.PID] = p.Parent
	}
	out := make([]bool, len(all))
	for i, p := range all {
		at := p.PID
		for range len(all) { // a tree that changed while it was read may contain a cycle
			if at == root || at == 0 {
				break
			}
			at = parents[at]
		}
		out[i] = at != root
	}
	return out
}

// SameSpace returns the processes in the PID namespace of process of, by PID.
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

// clusterCommands lists the programs of Kubernetes itself, with names truncated as by
// the kernel. They are part of any study in a cluster.
var clusterCommands = []string{
	"kubelet", "containerd", "containerd-shim", "runc", "etcd", "kube-apiserver", "kube-controller", "kube-scheduler", "kube-proxy",
	"coredns", "metrics-server", "kwok", "pause", "crio", "conmon", "meshtrial",
}

// OfCluster reports whether a process belongs to Kubernetes itself, or to this program's
// roles.
func (p ProcessSample) OfCluster() bool {
	return slices.ContainsFunc(clusterCommands, func(c string) bool { return strings.HasPrefix(p.Command, c) })
}

// A Host has the other processes on a machine, read at both edges of a window.
type Host struct {
	Before, After     []ProcessSample
	BeforeNS, AfterNS int64 // when they were read, by one monotonic clock: shortly before the window and shortly after it
	// Node is the process from which the lab's node descends, if this was read on the
	// node's host; 0 if this is the node itself. Self is this process. Nodes is the
	// number of nodes of the lab.
	Node, Self, Nodes int
	// Between has the processes, by PID, that descend from Node but run on none of its
	// several nodes: those of the control plane.
	Between map[int]bool
}

// used returns what the processes used in a window of that many seconds, scaled down
// from their use between the readings, which span a longer time.
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

// Others splits a machine's use beyond the study's parts during seconds, in CPU seconds,
// into the use of the cluster's own processes and that of processes outside the study.
// It names those that used a hundredth of a CPU or more. nodes has the processes of each
// node on the machine at both edges, without those of the parts. beside is the host
// around them; nil if there is none or it cannot be read.
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
			case !outside[i]: // it runs on a node
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

// mostOthers is the maximum number of names in Who.
const mostOthers = 5
