package app

import (
	"slices"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/observe/kubelet"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/probe"
	"github.com/meshtrial/meshtrial/study"
)

// Notes on what only observers measure, and on what kubelets measure instead.
const (
	observersRight = "that requires observers: permission to create daemonsets.apps in the run's namespace, with pods that have hostPID and SYS_PTRACE"
	kubeletsTell   = "kubelets report only the CPU and memory of containers; threads, their waits, sockets, pressure, probes and other users of the machine are not measured: " + observersRight
	kubeletsWait   = "each trial waits for a sample of every container under load, before and after its window: up to 20 s each if cAdvisor samples on its own schedule, on top of the time above"
)

// leftOut lists the measures that a data-plane study drops if kubelets are the source. No other
// measure depends on them.
var leftOut = []string{study.MeasureConnections, study.MeasurePressure, study.MeasureThreads}

// Observable returns the study with only those measures that the source of CPU and memory
// supports. It returns an error for a study that needs more than a kubelet reports.
func Observable(s *study.Study, source string) (*study.Study, error) {
	switch {
	case source == record.ObservedCgroup:
		return s, nil
	case source != record.ObservedKubelet:
		return nil, errs.WithHint(errs.Usage("unknown --observe %q", source), "--observe takes %s or %s", record.ObservedCgroup, record.ObservedKubelet)
	}
	const without = "omit --observe kubelet: "
	refuse := func(hint, format string, args ...any) (*study.Study, error) {
		return nil, errs.WithHint(errs.Usage("--observe kubelet: "+format, args...), "%s", hint)
	}
	if s.Kind != study.DataPlane {
		return refuse(without+observersRight, "study %s is not a data-plane study, and reads counters at times when no kubelet samples", s.Name)
	}
	if len(s.Search) > 0 {
		return refuse(without+observersRight, "study %s searches for a limit, and only threads tell whether a proxy or the machine is at its limit", s.Name)
	}
	var kept []string
	for _, m := range s.Measures {
		_, probed := probe.Of(m)
		if m == study.MeasureProfile || probed {
			return refuse("omit it: --set measures=[latency, cpu, memory, envoy]; otherwise "+observersRight, "measure %s concerns a node's processes, which kubelets do not report", m)
		}
		if !slices.Contains(leftOut, m) {
			kept = append(kept, m)
		}
	}
	if window := dataplane.Of(s).Window; window < kubelet.Least {
		return refuse("--set window=84s suits every kubelet (each samples a container every 10 to 20 s), --set window=5s one that samples on request, like the local lab's",
			"a window of %v is too short for kubelet samples", window)
	}
	observed := *s
	observed.Measures = kept
	// The study may stop at, or assert on, a measure that was dropped.
	if _, err := study.ParseAgain(observed.Marshal(), s.Name+" with --observe kubelet", nil); err != nil {
		return nil, err
	}
	return &observed, nil
}

// sourceRemarks prints a note on what the run's source of CPU and memory does not measure, and
// returns it for the report.
func (o *RunOptions) sourceRemarks() []string {
	if o.Observe != record.ObservedKubelet {
		return nil
	}
	o.Progress.Note("note: %s", kubeletsTell)
	return []string{kubeletsTell}
}

// ObserveNotes returns a plan's notes on a source of CPU and memory.
func ObserveNotes(source string) []PlanNote {
	if source != record.ObservedKubelet {
		return nil
	}
	return []PlanNote{{Text: kubeletsTell}, {Text: kubeletsWait}}
}
