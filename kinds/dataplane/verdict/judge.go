package verdict

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/rate"
	"github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// Limits for a valid trial.
var (
	served = verdict.Limit{Name: "served", Default: 0.001, Unit: "ratio",
		Doc: "share of the window's requests that may fail or not finish: they count as infinitely late"}
	backlog = verdict.Limit{Name: "backlog", Default: 0.01, Unit: "ratio",
		Doc: "maximum growth of the backlog of unanswered requests over the window, beyond chance, as a share of those answered: beyond it the target does not sustain the rate"}
	// SendTime is also package findings' allowance for bursts.
	SendTime = verdict.Limit{Name: "send-time", Default: 10, Unit: "us",
		Doc: "maximum time for the generator to send one of many requests that are due at once"}
	generatorCPU = verdict.Limit{Name: "generator-cpu", Default: 0.9, Unit: "ratio",
		Doc: "CPU utilization of the generator (of one CPU per event loop) above which it may not keep its schedule"}
	cpuEdges = verdict.Limit{Name: "cpu-edges", Default: 0.01, Unit: "ratio",
		Doc: "maximum distance of CPU counter readings from the window's edges, as a share of the window"}
	cpuGaps = verdict.Limit{Name: "cpu-gaps", Default: 0.25, Unit: "ratio",
		Doc: "maximum interval between a kubelet's samples of CPU counters, as a share of the window"}
	threads = verdict.Limit{Name: "threads", Default: 0.01, Unit: "ratio",
		Doc: "maximum difference between the CPU time of threads and of their cgroup"}
	// ThreadsUnsure: if the cgroup's counter rose by more than this while threads were read, the
	// threads' times may differ by that much, and so slow a reading proves nothing. Tests on labs
	// use it too, as well as ThreadsLeast.
	ThreadsUnsure = verdict.Limit{Name: "threads-unsure", Default: 0.03, Unit: "ratio",
		Doc: "the same if the cgroup's counter rose while the threads were read"}
	// ThreadsLeast is allowed however little a part uses.
	ThreadsLeast = verdict.Limit{Name: "threads-least", Default: 1e-3, Unit: "s",
		Doc: "allowed in any case: one context switch at the wrong moment costs that much"}
)

// Limits lists all limits of the kind.
var Limits = []verdict.Limit{served, backlog, ScheduleLag, scheduleFit, scheduleEven, scheduleOdd, scheduleEvenOdd, scheduleRate, handsApart, SendTime, Steady, SteadyCommon, generatorCPU, cpuEdges, cpuGaps, threads, ThreadsUnsure, ThreadsLeast, verdict.Steal, verdict.Unattributed, verdict.UnattributedBusy}

// Judge implements [verdict.Judge].
func Judge(c verdict.Case) (record.Trial, []record.Event, error) {
	var e Evidence
	if err := c.Read(&e, func() error { return e.check(c.Trial) }); err != nil {
		return c.Trial, nil, err
	}
	c.Trial.Validity = Of(c.Trial, e, c.Limits, c.Verify)
	return c.Trial, c.Events, nil
}

// Of decides whether a trial is valid. verify is the mesh's proof of mode.
func Of(t record.Trial, e Evidence, l verdict.Limits, verify func(mesh.Evidence) []record.Check) record.Validity {
	var s verdict.Sheet
	if len(e.Refused) > 0 {
		s.Add(e.Refused...)
		return s.Validity()
	}
	s.Add(e.Unread...)
	s.CheckControlPlane(e.Control)
	s.Add(checkThreads(t.Threads, l)...)
	checkLoad(&s, t, e, l)
	checkPlacement(&s, t)
	checkHands(&s, t, e, l)
	if e.Source == record.ObservedKubelet {
		checkGaps(&s, t, l)
	} else {
		checkEdges(&s, t.Window, e.Edges, l)
	}
	m := e.mesh()
	// For echo protocols a worker counts what each read returned.
	if m.Worker != nil && !protocol.Of(t.Cell[study.FactorProtocol]).Echo {
		s.Add(mesh.Expect("worker-requests", m.Worker["requests"],
			float64(m.Requests)+float64(m.Unknown)/2, float64(m.Unknown)/2, "requests the worker served"))
	}
	s.Add(verify(m)...)
	s.WarnEach(verdict.NoteRepeated, e.Repeated)
	s.WarnEach(verdict.NoteUnmeasured, e.Unmeasured)
	if !t.Warmup.Steady {
		s.Warn(noteUnsteady, t.Warmup.Why)
	}
	s.CheckUnattributed(t, l)
	s.WarnSteal(t.Pressure, l)
	s.WarnEach(verdict.NoteUnprofiled, e.Unprofiled)
	return s.Validity()
}

// checkLoad checks the account, and whether the generator kept its schedule, as far as the trial
// alone shows. Package findings judges what depends on the latency of other trials.
func checkLoad(s *verdict.Sheet, t record.Trial, e Evidence, l verdict.Limits) {
	load := t.Load
	failed := int64(0)
	for _, n := range load.Failed {
		failed += n
	}
	s.Check("account", load.Scheduled == load.Completed+failed+load.Unfinished, "scheduled %d = completed %d + failed %d + unfinished %d",
		load.Scheduled, load.Completed, failed, load.Unfinished)
	lost := failed + load.Unfinished
	s.Check("served", load.Completed > 0 && float64(lost) <= l.Of(served)*float64(load.Scheduled),
		"%d of %d requests failed or stayed unfinished%s", lost, load.Scheduled, KindsOf(load.Failed))
	if t.Cell[study.FactorRate] == rate.Word {
		return
	}
	checkBacklog(s, t, e, l)
	checkSchedule(s, t, e, l)
	share, who := busiest(t, e)
	of := "a CPU"
	if e.CPUs > 1 {
		of = "the CPUs that it can use"
	}
	s.Check("generator-cpu", share <= l.Of(generatorCPU), "%s used %.0f%% of %s", who, share*100, of)
}

// checkBacklog checks whether the target sustained the rate during the window. Otherwise proxies
// hold requests whose cost spans the end of the window, and latency depends on the length of the
// window.
func checkBacklog(s *verdict.Sheet, t record.Trial, e Evidence, l verdict.Limits) {
	w := t.Load.Within
	grown, chance := w.BacklogGrowth()
	if t.Cell[study.FactorArrival] == study.ArrivalBurst {
		chance += float64(e.Connections) // a burst just before the end of the window
	}
	s.Check(backlog.Name, float64(grown) <= l.Of(backlog)*float64(w.Answered)+chance,
		"%d requests were due and unanswered at the window's start, %d at its end; %d were answered within it; chance explains %.0f more", w.BacklogStart, w.BacklogEnd, w.Answered, chance)
}

// KindsOf lists failures by kind: ", status 3"; "" if there are none.
func KindsOf(failed map[string]int64) string {
	out := ""
	for _, kind := range slices.Sorted(maps.Keys(failed)) {
		out += fmt.Sprintf(", %s %d", kind, failed[kind])
	}
	return out
}

// checkEdges compares the times of the counter readings with the start and end of the window.
func checkEdges(s *verdict.Sheet, w record.Window, edges []Edge, l verdict.Limits) {
	worst := time.Duration(0)
	for _, e := range edges {
		worst = max(worst, e.Before.Abs(), e.After.Abs())
	}
	limit := time.Duration(l.Of(cpuEdges) * w.Seconds * float64(time.Second))
	s.Check("cpu-edges", worst <= limit, "CPU counters were read within %v of the window's edges, limit %v", worst.Round(time.Microsecond), limit)
}

// Gap returns the maximum gap between a kubelet's samples in a window, in seconds.
func Gap(w record.Window, l verdict.Limits) float64 { return l.Of(cpuGaps) * w.Seconds }

// checkGaps compares a kubelet's samples with the window that they enclose.
func checkGaps(s *verdict.Sheet, t record.Trial, l verdict.Limits) {
	worst, of := 0.0, "anything"
	for _, part := range slices.Sorted(maps.Keys(t.Sampled)) {
		if gap := t.Sampled[part].GapS; gap > worst {
			worst, of = gap, "the "+strings.ReplaceAll(part, "_", " ")
		}
	}
	limit := Gap(t.Window, l)
	s.Check(cpuGaps.Name, worst <= limit, "the kubelet sampled the CPU counters of %s %.1f s apart, limit %.1f s in a window of %.0f s", of, worst, limit, t.Window.Seconds)
}

// checkThreads checks for each part whether its threads' times add up to the CPU that the kernel
// charged to its cgroup.
func checkThreads(parts map[string]record.Threads, l verdict.Limits) []record.Check {
	var out []record.Check
	for _, part := range slices.Sorted(maps.Keys(parts)) {
		th := parts[part]
		slack := max(l.Of(threads)*th.CPUS, l.Of(ThreadsLeast), min(th.UnsureS, l.Of(ThreadsUnsure)*th.CPUS))
		out = append(out, record.Check{
			Name: "threads-" + part, OK: math.Abs(th.UnaccountedS) <= slack,
			Detail: fmt.Sprintf("threads used %.2f ms, the cgroup %.2f ms of CPU time (±%.2f)",
				(th.CPUS-th.UnaccountedS)*1e3, th.CPUS*1e3, slack*1e3),
		})
	}
	return out
}

// checkPlacement compares the pods' nodes with the cell's placement.
func checkPlacement(s *verdict.Sheet, t record.Trial) {
	client, server := t.Nodes[record.PartGenerator], t.Nodes[record.PartWorker]
	ok := false
	switch t.Cell[dataplane.FactorPlacement] {
	case dataplane.PlacementSameNode:
		ok = server.Name == client.Name
	case dataplane.PlacementOtherNode:
		ok = server.Name != client.Name
	case dataplane.PlacementOtherZone:
		ok = server.Zone != client.Zone && server.Zone != "" && client.Zone != ""
	default:
		return
	}
	others := ""
	for _, h := range t.Hands {
		if h.Node != client.Name {
			ok, others = false, fmt.Sprintf(", and the generator of pod %s on node %s", h.Pod, h.Node)
		}
	}
	s.Check(dataplane.FactorPlacement, ok && client.Name != "" && server.Name != "", "the client ran on %s, the server on %s%s", nodeWords(client), nodeWords(server), others)
}

func nodeWords(n record.NodeAt) string {
	switch {
	case n.Name == "":
		return "an unknown node"
	case n.Zone == "":
		return fmt.Sprintf("node %s in no zone", n.Name)
	}
	return fmt.Sprintf("node %s in zone %s", n.Name, n.Zone)
}
