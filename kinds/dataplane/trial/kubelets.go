package trial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/kinds/dataplane/verdict"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/observe/kubelet"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study"
)

// overdue is the additional length of a schedule with kubelets: it continues before the window
// until each container was sampled under its load, and after it until each was sampled again.
const overdue = 2 * (kubelet.Longest + kubelet.Patience)

func (d *deployed) kubelets() kubelet.Reader { return kubelet.Through(d.Kube.CoreV1().RESTClient()) }

func sampledBy(t observe.Target) kubelet.Container {
	return kubelet.Container{Pod: t.Pod, Name: t.Container}
}

func wanted(targets map[string][]observe.Target) map[string][]kubelet.Container {
	out := map[string][]kubelet.Container{}
	for node, all := range targets {
		for _, target := range all {
			out[node] = append(out[node], sampledBy(target))
		}
	}
	return out
}

// checkPace queries the kubelets before the first trial, and rejects a study whose window is too
// short for their samples. It does not measure their interval if the window is long enough for any.
func (d *deployed) checkPace(ctx context.Context) error {
	if !d.Kubelets {
		return nil
	}
	targets := map[string][]observe.Target{}
	for _, pod := range d.Pods() {
		for _, container := range []string{site.RoleLoad, site.RoleWorker} {
			if pod.Containers[container] != "" {
				targets[pod.Node] = append(targets[pod.Node], observe.Target{Pod: pod.Namespace + "/" + pod.Name, Container: container})
			}
		}
	}
	watch := kubelet.Start(ctx, d.kubelets(), wanted(targets), kubelet.Asking)
	defer watch.Stop()
	window := dataplane.Of(d.o.Study).Window
	if window >= kubelet.LeastWindow(kubelet.Longest) {
		_, err := watch.Await(ctx, time.Time{})
		return err
	}
	gap, err := watch.Pace(ctx)
	if err != nil {
		return err
	}
	if least := kubelet.LeastWindow(gap); window < least {
		return errs.WithHint(errs.Usage("the kubelets sample containers up to %.0f s apart; a window of %v is too short for that", gap.Seconds(), window),
			"--set window=%v", least)
	}
	return nil
}

// windowAmongSamples fixes the window once each container was sampled under the load that ended the
// warm-up, and keeps the generator running until each was sampled after the end of the window: the
// kubelets' counters are interpolated between two samples, which requires the same load on both
// sides of an edge.
func (t *trialRun) windowAmongSamples(ctx context.Context, finished int) (observed, error) {
	watch := t.askKubelets(ctx, t.d.kubelets())
	defer watch.Stop()
	from, to, err := t.amongSamples(ctx, watch, finished)
	if err != nil {
		return observed{}, err
	}
	err = t.each(func(_ int, h *hand) error {
		_, err := h.api.Stop(ctx, h.started.Run)
		return err
	})
	if err != nil {
		return observed{}, fmt.Errorf("end the schedule after the window: %w", err)
	}
	return observed{from: from, to: to, kubelets: watch}, nil
}

// askKubelets starts querying the kubelets of the trial's nodes.
func (t *trialRun) askKubelets(ctx context.Context, read kubelet.Reader) *kubelet.Watch {
	watch := kubelet.Start(ctx, read, wanted(t.targets), kubelet.Every(dataplane.Of(t.o.Study).Window))
	watch.Ahead, watch.MayEnd = t.clockAhead, map[kubelet.Container]bool{}
	for _, targets := range t.targets {
		for _, target := range targets {
			if target.MayEnd {
				watch.MayEnd[sampledBy(target)] = true
			}
		}
	}
	return watch
}

// amongSamples returns the first interval of the window and the one after its end. It returns once
// the window has passed, by the generator's clock and by the nodes' samples, whose clocks may
// differ.
func (t *trialRun) amongSamples(ctx context.Context, watch *kubelet.Watch, finished int) (from, to int, err error) {
	interval, begin := dataplane.Of(t.o.Study).Interval, time.Unix(0, t.started.StartUnixNS)
	first, err := watch.Await(ctx, t.now())
	if err != nil {
		return 0, 0, fmt.Errorf("wait for samples before the window: %w", err)
	}
	now := t.now()
	if err := t.refuseAhead(watch, now.Sub(begin)); err != nil {
		return 0, 0, err
	}
	if first.After(now) { // by a clock that is ahead
		first = now
	}
	from = max(finished, int((first.Sub(begin)+interval-1)/interval)) // the first that begins then or later
	to = from + int(dataplane.Of(t.o.Study).Window/interval)
	end := begin.Add(time.Duration(to) * interval)
	// The CPU account reports a container that is gone by now.
	if _, err := watch.Await(ctx, end); err != nil && ctx.Err() != nil {
		return 0, 0, err
	}
	return from, to, wake.Pause(ctx, end.Sub(t.now()))
}

// refuseAhead names a node whose clock is so far ahead of the generator's that the window of its
// containers would begin before the load.
func (t *trialRun) refuseAhead(watch *kubelet.Watch, loaded time.Duration) error {
	for _, node := range slices.Sorted(maps.Keys(t.targets)) {
		if least, sampled := watch.AtLeastAhead(node); sampled && least-t.clockAhead > loaded {
			return errs.WithHint(fmt.Errorf("the clock of node %s is at least %v ahead of the generator's, and the load began only %v ago: the window of its containers would begin before the load",
				node, (least-t.clockAhead).Round(10*time.Millisecond), loaded.Round(10*time.Millisecond)), "synchronize the nodes' clocks by NTP")
		}
	}
	return nil
}

// compareKubelets checks how far the nodes' clocks are from the generator's, which determines the
// window. An offset shifts the window of their containers within a load that is the same before and
// after; it must not shift it to before the load.
func (t *trialRun) compareKubelets(watch *kubelet.Watch, begin time.Time) {
	loaded := begin.Sub(time.Unix(0, t.started.StartUnixNS))
	for _, node := range slices.Sorted(maps.Keys(t.targets)) {
		least, most, known := watch.NodeAhead(node)
		least, most = least-t.clockAhead, most-t.clockAhead
		switch {
		case !known:
		case least > most: // contradictory, unless it changed
			t.unread("kubelet-clocks", fmt.Errorf("the clock of node %s, or of this machine, was set by at least %.3g s between samples: the CPU of its containers covers a window of a different length", node, (least-most).Seconds()))
		case least > loaded:
			t.unread("kubelet-clocks", fmt.Errorf("the clock of node %s is %.3g s ahead of the generator's, and the load began only %.3g s before the window: the window of its containers began before the load; synchronize the nodes' clocks by NTP", node, least.Seconds(), loaded.Seconds()))
		case least > kubelet.Apart:
			t.unmeasured("the clock of node %s is at least %.3g s ahead of the generator's: the CPU of its containers covers a window earlier by that much", node, least.Seconds())
		case most < -kubelet.Apart:
			t.unmeasured("the clock of node %s is at least %.3g s behind the generator's: the CPU of its containers covers a window later by that much", node, -most.Seconds())
		}
	}
}

// usedBy returns what a target used from a to b. The rules judge whether samples are too far apart
// for that.
func usedBy(watch *kubelet.Watch, node string, target observe.Target, a, b time.Time) (kubelet.Usage, error) {
	u, err := watch.CPU(node, sampledBy(target), a, b)
	if short := (*kubelet.ShortError)(nil); errors.As(err, &short) {
		err = nil
	}
	return u, err
}

// seldomError reports that samples are too far apart for a window, in seconds.
type seldomError struct{ gap, limit, window float64 }

func (e *seldomError) Error() string {
	return fmt.Sprintf("the kubelet sampled its CPU counters %.1f s apart, limit %.1f s in a window of %.0f s", e.gap, e.limit, e.window)
}

// sampledCosts turns the kubelets' samples into the trial's CPU and memory. It records gaps: if a
// part has no CPU the trial is invalid; the CPU of the whole machine is only context.
func (t *trialRun) sampledCosts(out *record.Trial, watch *kubelet.Watch) {
	out.CPU, out.Sampled, out.Memory = map[string]record.CPU{}, map[string]record.Sampled{}, map[string]record.Memory{}
	t.seen.Source = record.ObservedKubelet
	begin := out.Window.Start
	t.compareKubelets(watch, begin)
	end := begin.Add(time.Duration(out.Window.Seconds * float64(time.Second)))
	limit := verdict.Gap(out.Window, t.o.Rules.Limits)
	t.onlyWhole(out, func(node string, target observe.Target) error {
		u, err := usedBy(watch, node, target, begin, end)
		if gap := u.Gap.Seconds(); err == nil && gap > limit {
			err = &seldomError{gap, limit, out.Window.Seconds}
		}
		return err
	})
	put := func(part string, u kubelet.Usage) {
		out.CPU[part] = out.CPU[part].Plus(record.CPU{UserS: u.Seconds})
		out.Sampled[part] = out.Sampled[part].Plus(record.Sampled{ErrorS: u.ErrorS, LowS: u.LowS, HighS: u.HighS, Samples: u.Samples, GapS: u.Gap.Seconds()})
	}
	for node, targets := range t.targets {
		for _, target := range targets {
			part, c := partOf(target.Name), sampledBy(target)
			u, err := usedBy(watch, node, target, begin, end)
			if err != nil {
				t.unread("cpu-"+part, fmt.Errorf("%s on node %s: %w", c, node, err))
				continue
			}
			put(part, u)
			if bytes := watch.Memory(node, c, end); bytes > 0 && t.o.Study.Measured(study.MeasureMemory) {
				out.Memory[part] = out.Memory[part].Plus(record.Memory{WorkingSetBytes: bytes})
			}
		}
	}
	if u, err := watch.Node(t.server.pod.Node, begin, end); err == nil {
		put(record.PartMachine, u)
	} else {
		t.unmeasured("the CPU of the machine as a whole was not measured: %v", err)
	}
}
