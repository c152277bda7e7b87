package trial

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
)

// weighsSidecars reports whether the trial measures what its real sidecars use.
func (t *controlTrial) weighsSidecars() bool {
	return t.c.study.Measured(controlplane.MeasureSidecars) && t.levels.RealPods > 0
}

// fresh returns a value that makes a trial recreate the real pods whose use it measures, else "":
// an Envoy keeps memory that another cell's larger configuration once took.
func (t *controlTrial) fresh() string {
	if !t.weighsSidecars() {
		return ""
	}
	return fmt.Sprintf("%s-%d", t.job.ID, t.out.Started.UnixNano())
}

// sidecars returns what the real sidecars used.
func (t *controlTrial) sidecars() *record.Sidecars {
	out := &record.Sidecars{}
	for _, w := range []struct {
		to            **record.SidecarUse
		name          string
		before, after map[string]observe.Snapshot
	}{{&out.Idle, "idle", t.idleStart, t.idleEnd}, {&out.Changing, "changing", t.windowStart, t.windowEnd}} {
		use, problems, err := sidecarsBetween(t.targets, w.before, w.after)
		if err != nil {
			t.seen.Unread = append(t.seen.Unread, record.Check{Name: "sidecars-" + w.name, Detail: err.Error()})
			continue
		}
		for _, problem := range problems {
			t.warn(noteSidecar, w.name, problem)
		}
		*w.to = use
	}
	return out
}

// sidecarsBetween returns what the real sidecars among some targets used between two snapshots, by
// node. problems names what is missing.
func sidecarsBetween(targets map[string][]observe.Target, before, after map[string]observe.Snapshot) (use *record.SidecarUse, problems []string, err error) {
	use = &record.SidecarUse{Processes: map[string]record.PartUse{}}
	var unsplit, unweighed string
	for _, node := range slices.Sorted(maps.Keys(targets)) {
		for _, target := range targets[node] {
			if partIn(target.Name) != record.PartServerProxy {
				continue
			}
			a, b := before[node].Targets[target.Name], after[node].Targets[target.Name]
			cpu, err := b.Since(a)
			if err != nil {
				return nil, nil, fmt.Errorf("CPU of real sidecar %s: %w", target.Name, err)
			}
			use.Sidecars++
			use.SidecarSeconds += time.Duration(b.AtUnixNS - a.AtUnixNS - (after[node].SteppedNS - before[node].SteppedNS)).Seconds()
			use.CPU = use.CPU.Plus(cpu)
			if err := split(use.Processes, cpu, a.Threads, b.Threads); err != nil {
				unsplit = err.Error()
			}
			switch m := b.Memory; {
			case m == nil:
				unweighed = "the observer did not read it"
			case m.PSSBytes == 0 || m.Missing != "":
				unweighed = m.Missing
			default:
				use.PSSBytes += m.PSSBytes
				for command, bytes := range m.PSSByCommand {
					p := use.Processes[command]
					p.PSSBytes += bytes
					use.Processes[command] = p
				}
			}
		}
	}
	if use.Sidecars == 0 || use.SidecarSeconds <= 0 {
		return nil, nil, fmt.Errorf("no real sidecar was observed")
	}
	if unsplit != "" {
		use.Processes = nil
		problems = append(problems, "Envoy's and its agent's use was not measured separately: "+unsplit)
	}
	if unweighed != "" {
		use.PSSBytes = 0
		for command, p := range use.Processes {
			p.PSSBytes = 0
			use.Processes[command] = p
		}
		problems = append(problems, "the real sidecars' memory was not measured: "+unweighed)
	}
	return use, problems, nil
}

// split assigns each process its share of a sidecar's CPU time. Threads are read around the window,
// together with the container's own counter, which their times are shares of.
func split(processes map[string]record.PartUse, cpu record.CPU, before, after *observe.ThreadsSample) error {
	if before == nil || after == nil {
		return fmt.Errorf("the observer did not read its threads")
	}
	threads, err := after.Since(*before)
	if err != nil {
		return err
	}
	if threads.CPUS <= 0 {
		return nil // it used no CPU
	}
	for _, thread := range threads.Threads {
		p := processes[thread.Process]
		p.CPUS += cpu.TotalS() * thread.CPU.TotalS() / threads.CPUS
		processes[thread.Process] = p
	}
	return nil
}
