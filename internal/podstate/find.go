package podstate

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// View is the information about the pods of a wait.
type View struct {
	// Pods lists all pods; those that are ready or about to end have no problem.
	Pods []corev1.Pod
	// Events are the warnings in their namespace; empty if they may not be read.
	Events []corev1.Event
	// Missing is the number of pods that should exist but do not.
	Missing int
	// Since is when the pods were found missing; earlier failures of controllers do not
	// count.
	Since time.Time
	// Maker is the Deployment that makes the pods, if there is one, and Refusal its message
	// about pods that it could not make, or "".
	Maker   Object
	Refusal string
	// Within lists the namespaces of the missing pods; empty means any.
	Within []string
}

// Find returns the problem of each pod that has one, and that of the controller whose pods
// are missing.
func Find(v View) []Problem {
	var out []Problem
	if v.Missing > 0 {
		if p, ok := refusal(v); ok {
			out = append(out, p)
		}
	}
	warnings := latest(v.Events)
	for i := range v.Pods {
		pod := &v.Pods[i]
		if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || Ready(pod) {
			continue
		}
		p := problemOf(pod, warnings[subject{string(pod.UID), pod.Namespace, pod.Name}])
		p.Object, p.Node = Object{"pod", pod.Namespace, pod.Name}, pod.Spec.NodeName
		p.id = strings.Join([]string{string(p.Code), string(pod.UID), p.Object.String(), p.Container}, "|")
		out = append(out, p)
	}
	return out
}

// subject identifies the pod of an event.
type subject struct{ uid, namespace, name string }

// latest returns the latest warning of each pod, preferring those that explain what keeps it
// from starting: kubelets also warn of things that do not matter here.
func latest(events []corev1.Event) map[subject]*corev1.Event {
	out := map[subject]*corev1.Event{}
	for i := range events {
		e := &events[i]
		if e.InvolvedObject.Kind != "Pod" || e.Type == corev1.EventTypeNormal {
			continue
		}
		of := subject{string(e.InvolvedObject.UID), e.InvolvedObject.Namespace, e.InvolvedObject.Name}
		last := out[of]
		if last == nil || stops(e) && !stops(last) || stops(e) == stops(last) && said(e).After(said(last)) {
			out[of] = e
		}
	}
	return out
}

// Reasons of the events that explain what keeps a pod from starting.
var (
	sandboxReasons = []string{"FailedCreatePodSandBox", "FailedPodSandBoxStatus", "NetworkNotReady"}
	volumeReasons  = []string{"FailedMount", "FailedAttachVolume", "FailedMapVolume"}
)

func stops(e *corev1.Event) bool {
	return slices.Contains(sandboxReasons, e.Reason) || slices.Contains(volumeReasons, e.Reason)
}

// said returns when an event was last reported.
func said(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	}
	return e.EventTime.Time
}

// Ready reports whether a pod has the condition Ready.
func Ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// passingRefusals are texts of temporary errors in creating a pod.
var passingRefusals = []string{"failed calling webhook", "connection refused", "timeout", "deadline exceeded", "etcdserver", "Internal error", "try again"}

// refusal says why pods are not created: from the Deployment's own condition, or else from
// the latest event of a controller.
func refusal(v View) (Problem, bool) {
	p := Problem{Code: Refused, Object: v.Maker, Reason: failedCreate, Message: v.Refusal}
	if v.Refusal == "" {
		last := (*corev1.Event)(nil)
		for i := range v.Events {
			if e := &v.Events[i]; e.Reason == failedCreate && v.concerns(e) && (last == nil || said(e).After(said(last))) {
				last = e
			}
		}
		if last == nil || said(last).Before(v.Since.Add(-time.Second)) { // events have a resolution of seconds
			return p, false
		}
		p.Object, p.Message = Object{last.InvolvedObject.Kind, last.Namespace, last.InvolvedObject.Name}, last.Message
	}
	if slices.ContainsFunc(passingRefusals, func(words string) bool { return strings.Contains(p.Message, words) }) {
		p.Code = NotCreated
	}
	p.id = string(p.Code) // the same whichever controller reports it: a rollout has several
	return p, true
}

// concerns reports whether a controller's event may be about the missing pods: other
// controllers of the cluster fail for unrelated reasons.
func (v *View) concerns(e *corev1.Event) bool {
	if len(v.Within) > 0 && !slices.Contains(v.Within, e.Namespace) {
		return false
	}
	return v.Maker == Object{} || e.Namespace == v.Maker.Namespace &&
		(e.InvolvedObject.Name == v.Maker.Name || strings.HasPrefix(e.InvolvedObject.Name, v.Maker.Name+"-")) // its ReplicaSets
}

// failedCreate is the reason of controllers' events about pods that they could not create.
const failedCreate = "FailedCreate"

// missingObject matches messages of kubelet and scheduler that an object mounted by a pod is
// missing.
var missingObject = regexp.MustCompile(`(?i)\b(configmap|secret|persistentvolumeclaim)s? "[^"]*" not found|non-existent (config key|secret key)`)

// problemOf returns the problem of a pod that is not ready. warning is its latest warning
// event, or nil.
func problemOf(pod *corev1.Pod, warning *corev1.Event) Problem {
	if pod.Status.Phase == corev1.PodFailed {
		return Problem{Code: Failed, Reason: pod.Status.Reason, Message: pod.Status.Message}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			p := Problem{Code: Unschedulable, Reason: c.Reason, Message: c.Message}
			if missingObject.MatchString(c.Message) {
				p.Code, p.mark = ObjectMissing, markOf(warning)
			}
			return p
		}
	}
	began := false
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if p, ok := containerProblem(pod, &statuses[i]); ok {
				return p
			}
			s := &statuses[i]
			began = began || s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil
		}
	}
	if warning != nil && !began {
		p := Problem{Reason: warning.Reason, Message: warning.Message, mark: markOf(warning)}
		switch {
		case slices.Contains(sandboxReasons, warning.Reason) && !sandboxed(pod):
			p.Code = Sandbox
			return p
		case slices.Contains(volumeReasons, warning.Reason) && !sandboxed(pod):
			if p.Code = Volume; missingObject.MatchString(warning.Message) {
				p.Code = ObjectMissing
			}
			return p
		}
	}
	return notReady(pod, warning)
}

// markOf returns a value that changes whenever an event is reported again.
func markOf(e *corev1.Event) string {
	if e == nil {
		return ""
	}
	return fmt.Sprintf("%s %d %s", e.UID, e.Count, said(e).Format(time.RFC3339Nano))
}

// sandboxed reports whether the pod has its sandbox, if its kubelet reports that.
func sandboxed(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionTrue
	})
}

// notReady returns the problem of a pod about which nothing worse is known.
func notReady(pod *corev1.Pod, warning *corev1.Event) Problem {
	if warning != nil {
		return Problem{Code: NotReady, Reason: warning.Reason, Message: warning.Message}
	}
	for _, c := range pod.Status.Conditions {
		if c.Status == corev1.ConditionFalse && c.Message != "" {
			return Problem{Code: NotReady, Reason: c.Reason, Message: c.Message}
		}
	}
	for _, s := range pod.Status.ContainerStatuses {
		if w := s.State.Waiting; w != nil {
			return Problem{Code: NotReady, Container: s.Name, Reason: w.Reason, Message: w.Message}
		}
	}
	return Problem{Code: NotReady, Reason: cmp.Or(string(pod.Status.Phase), "Pending")}
}

// containerProblem returns what keeps a container from running, if its status shows that.
func containerProblem(pod *corev1.Pod, s *corev1.ContainerStatus) (Problem, bool) {
	p := Problem{Container: s.Name, Image: imageOf(pod, s)}
	if ended := s.State.Terminated; ended != nil && ended.ExitCode != 0 {
		return crash(p, ended, s.RestartCount), true
	}
	waiting := s.State.Waiting
	if waiting == nil {
		return p, false
	}
	p.Reason, p.Message = waiting.Reason, waiting.Message
	switch waiting.Reason {
	case "InvalidImageName":
		p.Code = ImageName
	case "ErrImageNeverPull":
		p.Code = ImageAbsent
	case "ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError":
		p.Code = ImagePull
	case "CreateContainerConfigError":
		p.Code = ContainerConfig
	case "CreateContainerError", "PreCreateHookError", "PreStartHookError", "PostStartHookError":
		p.Code = ContainerCreate
	case "RunContainerError":
		p.Code = ContainerStart
	case "CrashLoopBackOff":
		p.Code = Crash
		if last := s.LastTerminationState.Terminated; last != nil {
			p = crash(p, last, s.RestartCount)
		}
	default: // for example ContainerCreating
		return p, false
	}
	return p, true
}

// crash returns the problem of a container that has ended with an error.
func crash(p Problem, ended *corev1.ContainerStateTerminated, restarts int32) Problem {
	p.Code, p.Reason = Crash, ended.Reason
	if ended.Reason == "StartError" || ended.Reason == "ContainerCannotRun" {
		p.Code = ContainerStart
	}
	p.Message = fmt.Sprintf("exit code %d, %d restarts", ended.ExitCode, restarts)
	if text := strings.TrimSpace(ended.Message); text != "" {
		p.Message += ": " + text
	}
	return p
}

// imageOf returns the image as the pod names it, which nodes spell differently.
func imageOf(pod *corev1.Pod, s *corev1.ContainerStatus) string {
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range containers {
			if c.Name == s.Name {
				return c.Image
			}
		}
	}
	return s.Image
}
