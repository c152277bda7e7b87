package detached

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/podwait"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab"
)

// lookEvery is the polling interval for a run without a pod to read from.
const lookEvery = time.Second

// watchEvery is the interval, while a log is read, between checks that its node is alive. The
// run's roles cause as much traffic anyway.
const watchEvery = 10 * time.Second

// follower reads the logs of a run's pods one after the other.
type follower struct {
	out   io.Writer
	tell  func(text string)
	pod   types.UID // whose log is read
	last  time.Time // of its lines read so far
	whole bool      // the log was read to its end
	told  string
}

// Follow writes the output of a run's pods to out until the run has ended, and returns its
// final state. It calls tell with other news. It may start at any time, and more than once;
// cancelling ctx ends only the following.
func (c *Cluster) Follow(ctx context.Context, of Run, out io.Writer, tell func(text string)) (Run, error) {
	if err := c.begun(of); err != nil {
		return of, err
	}
	f := &follower{out: out, tell: tell}
	begin := func() *podwait.Watch { return podwait.New(c.kube, of.Namespace, "the pod of run "+of.Name) }
	watch := begin()
	for ; ; _ = wake.Pause(ctx, lookEvery) {
		if ctx.Err() != nil {
			return of, context.Cause(ctx)
		}
		found, err := c.look(ctx, of.Namespace, of.Name)
		switch {
		case ctx.Err() != nil:
			continue
		case denied(err):
			return of, err
		case err != nil:
			f.say("the cluster does not answer: " + err.Error())
			continue
		case len(found) == 0:
			return of, errs.WithHint(fmt.Errorf("run %s is gone: it was deleted", of.Name), "meshtrial runs list%s", c.words)
		}
		s := found[0]
		of = s.Run
		quiet := silent(s.pod)
		held := cmp.Or(quiet, stuck(s.pod, time.Now()))
		if held != "" {
			f.say(held)
		}
		if s.pod != nil && quiet == "" && f.wants(s.pod) { // reading a silent node's log would block
			if err := f.read(ctx, c, s.pod); err != nil {
				return of, err
			}
			watch = begin() // the pod ran: start a new wait
			if !f.whole {
				continue // it is still running, or has ended with more output
			}
		}
		if of.Ended() {
			return of, nil
		}
		switch {
		case held != "":
		case of.State == Moving:
			f.say("the run's pod was lost" + lostFor(s.pod) + ": waiting for the next one")
		case of.State == Stopped:
			f.say("the run was stopped: waiting until it has reverted what it changed")
		case of.State == Waiting:
			f.say("waiting for the run's pod" + why(s.pod))
		}
		missing := 0
		if s.pod == nil {
			missing = 1
		}
		if err := watch.Look(ctx, podwait.Seen{Pods: s.pods, Missing: missing}); err != nil && ctx.Err() == nil {
			return of, err
		}
	}
}

// denied reports whether an API server responds but rejects the caller.
func denied(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }

// silent explains that a pod's node no longer responds; "" if it does.
func silent(pod *corev1.Pod) string {
	if pod == nil {
		return ""
	}
	since, silent := lab.PodSilent(pod)
	if !silent {
		return ""
	}
	return fmt.Sprintf("no report since %s from node %s, which runs pod %s: if the node comes back, the run's output continues; no replacement starts before this pod is known to have ended\n  once you are certain that the node is off: kubectl -n %s delete pod %s --force --grace-period=0",
		since.Local().Format(time.TimeOnly), pod.Spec.NodeName, pod.Name, pod.Namespace, pod.Name)
}

// overdue is how long after its termination deadline a pod counts as being on a dead node.
// Clocks may differ.
const overdue = time.Minute

// stuck explains what delays the end of a pod, and thus the start of the next: only its node
// can confirm that it has ended. "" if nothing does.
func stuck(pod *corev1.Pod, now time.Time) string {
	if pod == nil || over(pod) || pod.DeletionTimestamp == nil || now.Before(pod.DeletionTimestamp.Add(overdue)) {
		return ""
	}
	return fmt.Sprintf("pod %s on node %s should have ended by %s: its node may be dead, and no replacement starts before the pod is known to have ended\n  once you are certain that the node is off: kubectl -n %s delete pod %s --force --grace-period=0",
		pod.Name, pod.Spec.NodeName, pod.DeletionTimestamp.Local().Format(time.TimeOnly), pod.Namespace, pod.Name)
}

// say reports news.
func (f *follower) say(text string) {
	if text != f.told {
		f.told = text
		f.tell(text)
	}
}

// why returns what a pod is waiting for, if it reports that.
func why(pod *corev1.Pod) string {
	if pod == nil {
		return ""
	}
	for _, s := range pod.Status.ContainerStatuses {
		if w := s.State.Waiting; w != nil && w.Message != "" {
			return fmt.Sprintf(": %s: %s", w.Reason, w.Message)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Status == corev1.ConditionFalse && c.Type == corev1.PodScheduled && c.Message != "" {
			return ": " + c.Message
		}
	}
	return ""
}

// lostFor returns why a pod was ended, if its node has reported that.
func lostFor(pod *corev1.Pod) string {
	if pod == nil || pod.Status.Reason == "" {
		return ""
	}
	return fmt.Sprintf(" (%s: %s)", pod.Status.Reason, pod.Status.Message)
}

// wants reports whether a pod has a log that was not read to its end.
func (f *follower) wants(pod *corev1.Pod) bool {
	if pod.UID == f.pod && f.whole {
		return false
	}
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Running != nil || s.State.Terminated != nil {
			return true
		}
	}
	return false
}

// read continues reading the log of a pod. A broken connection is not an error: the next call
// continues from there. It returns an error if writing fails, or if the caller may not read
// logs.
func (f *follower) read(ctx context.Context, c *Cluster, pod *corev1.Pod) error {
	if pod.UID != f.pod {
		f.pod, f.last, f.whole = pod.UID, time.Time{}, false
	}
	options := &corev1.PodLogOptions{Container: partRun, Follow: true, Timestamps: true}
	if !f.last.IsZero() {
		options.SinceTime = &metav1.Time{Time: f.last}
	}
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer func() { cancel(); watch.Wait() }()
	watch.Go(func() { // a connection to a dead node would last until TCP gives up
		for wake.Pause(ctx, watchEvery) == nil {
			now, err := c.kube.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
			if err == nil && silent(now) != "" {
				cancel()
			}
		}
	})
	stream, err := c.kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).Stream(ctx)
	if denied(err) {
		return fmt.Errorf("read the log of pod %s: %w", pod.Name, err)
	}
	if err != nil {
		if over(pod) { // and its log with its node
			f.whole = true
			f.say(fmt.Sprintf("the log of pod %s is lost: %v", pod.Name, err))
		}
		return nil
	}
	defer stream.Close()
	ended, err := f.lines(stream)
	f.whole = ended && over(pod)
	return err
}

// lines writes the new lines of a log. ended reports whether the log is complete.
func (f *follower) lines(log io.Reader) (ended bool, err error) {
	for in := bufio.NewReader(log); ; {
		line, failed := in.ReadString('\n')
		at, text := parseLine(line)
		if failed == nil && (at.IsZero() || at.After(f.last)) { // an incomplete line is sent again
			if !at.IsZero() {
				f.last = at
			}
			f.told = "" // earlier news is outdated
			if _, err := io.WriteString(f.out, text); err != nil {
				return false, err
			}
		}
		if failed != nil {
			return errors.Is(failed, io.EOF), nil
		}
	}
}

// parseLine separates the time from a log line.
func parseLine(line string) (time.Time, string) {
	stamp, text, ok := strings.Cut(line, " ")
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if !ok || err != nil {
		return time.Time{}, line
	}
	return at, text
}
