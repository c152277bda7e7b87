package cli

import (
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/observe/kubelet"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/probe"
	"github.com/meshtrial/meshtrial/study"
	"github.com/spf13/pflag"
)

// sources of CPU and memory that a run may have.
var sources = []string{record.ObservedCgroup, record.ObservedKubelet}

func addObserveFlag(flags *pflag.FlagSet, to *string) {
	flags.StringVar(to, "observe", record.ObservedCgroup,
		"where CPU and memory are read: cgroup (exact; needs a privileged pod on each node) or kubelet (interpolated between its samples, through the API server)")
}

// What takes more than a kubelet tells, in words.
const (
	observersRight = "that needs observers, and so the right to create daemonsets.apps in the run's namespace, with pods that have hostPID and SYS_PTRACE"
	kubeletsTell   = "kubelets report only the CPU and memory of containers; threads, their waits, sockets, pressure, probes and what others used of the machine are not measured: " + observersRight
	kubeletsWait   = "each trial waits until every container was sampled under its load, before its window and after it: up to 20 s each where cAdvisor samples by itself, beyond the time above"
)

// leftOut are measures that a study of the data plane goes without where kubelets
// are asked: nothing else rests on them.
var leftOut = []string{study.MeasureConnections, study.MeasurePressure, study.MeasureThreads}

// observable is a study as it is measured by a source of CPU and memory: one that a
// kubelet cannot tell enough for is refused, with what to do.
func observable(s *study.Study, source string) (*study.Study, error) {
	switch {
	case !slices.Contains(sources, source):
		return nil, errs.WithHint(errs.Usage("--observe %s is no source of CPU and memory", source), "it takes %s", strings.Join(sources, " or "))
	case source == record.ObservedCgroup:
		return s, nil
	}
	const without = "leave --observe kubelet out: "
	refuse := func(hint, format string, args ...any) (*study.Study, error) {
		return nil, errs.WithHint(errs.Usage("--observe kubelet: "+format, args...), "%s", hint)
	}
	if s.Kind != study.DataPlane {
		return refuse(without+observersRight, "study %s is not one of the data plane, and reads counters at moments when no kubelet samples", s.Name)
	}
	if len(s.Search) > 0 {
		return refuse(without+observersRight, "study %s searches for a limit, and only threads tell whether a proxy or the machine is at its limit", s.Name)
	}
	var kept []string
	for _, m := range s.Measures {
		_, probed := probe.Of(m)
		if m == study.MeasureProfile || probed {
			return refuse("leave it out: --set measures=[latency, cpu, memory, envoy]; otherwise "+observersRight, "measure %s is of a node's processes, which kubelets do not report", m)
		}
		if !slices.Contains(leftOut, m) {
			kept = append(kept, m)
		}
	}
	if s.Window < kubelet.Least {
		return refuse("--set window=84s suits every kubelet (each samples a container every 10 to 20 s), --set window=5s one that samples when it is asked, as the local lab's",
			"a window of %v is too short for any kubelet's samples", s.Window)
	}
	observed := *s
	observed.Measures = kept
	// What the study stops at or asserts may rest on what is left out.
	if _, err := study.ParseAgain(observed.Marshal(), s.Name+" with --observe kubelet", nil); err != nil {
		return nil, err
	}
	return &observed, nil
}

// unobserved says what is not measured by a source, as a remark on the machine.
func unobserved(p *progress, source string) []string {
	if source != record.ObservedKubelet {
		return nil
	}
	p.Note("note: %s", kubeletsTell)
	return []string{kubeletsTell}
}

// observeNotes are what a plan says of a source.
func observeNotes(source string) []planNote {
	if source != record.ObservedKubelet {
		return nil
	}
	return []planNote{{Text: kubeletsTell}, {Text: kubeletsWait}}
}

// rightsOf are what a plan needs where a source of CPU and memory is used.
func rightsOf(plan *study.Plan, source string) []rights.Feature {
	if source == record.ObservedKubelet {
		return rights.OfKubelets(plan)
	}
	return rights.Of(plan)
}
