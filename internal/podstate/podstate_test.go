package podstate

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

var begin = time.Date(2026, 11, 29, 6, 0, 0, 0, time.UTC)

// pod returns a pod whose only container has a status.
func pod(edit ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "load-1", UID: "uid-1"},
		Spec:   corev1.PodSpec{NodeName: "node1", Containers: []corev1.Container{{Name: "load", Image: "registry.example/meshtrial:1"}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{Name: "load", Image: "sha256:1"}}}}
	for _, e := range edit {
		e(&p)
	}
	return p
}

func waiting(reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: reason, Message: message}
	}
}

func ended(code int32, reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}
		p.Status.ContainerStatuses[0].RestartCount = 3
	}
}

func condition(kind corev1.PodConditionType, status corev1.ConditionStatus, reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: status, Reason: reason, Message: message})
	}
}

// warning returns an event of the pod, reported at a time after the beginning.
func warning(at time.Duration, reason, message string) corev1.Event {
	return corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", UID: types.UID(reason + at.String())}, Type: corev1.EventTypeWarning, Reason: reason, Message: message,
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "ns", Name: "load-1", UID: "uid-1"}, LastTimestamp: metav1.NewTime(begin.Add(at))}
}

// ofController returns an event of the ReplicaSet.
func ofController(at time.Duration, message string) corev1.Event {
	e := warning(at, failedCreate, message)
	e.InvolvedObject = corev1.ObjectReference{Kind: "ReplicaSet", Name: "load-1"}
	return e
}

func TestFind(t *testing.T) {
	creating := waiting("ContainerCreating", "")
	for name, c := range map[string]struct {
		pod     corev1.Pod
		events  []corev1.Event
		code    Code // "" for no problem
		message string
	}{
		"ready":       {pod: pod(condition(corev1.PodReady, corev1.ConditionTrue, "", ""))},
		"told to end": {pod: pod(creating, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: begin} })},
		"ended well":  {pod: pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })},
		"evicted": {pod: pod(func(p *corev1.Pod) {
			p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "low on memory"}
		}), code: Failed, message: "low on memory"},
		"no node":        {pod: pod(condition(corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable", "0/3 nodes are available: 3 Insufficient cpu.")), code: Unschedulable, message: "Insufficient cpu"},
		"no claim":       {pod: pod(condition(corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable", `persistentvolumeclaim "data" not found`)), code: ObjectMissing, message: "data"},
		"bad name":       {pod: pod(waiting("InvalidImageName", "couldn't parse")), code: ImageName, message: "couldn't parse"},
		"never pulled":   {pod: pod(waiting("ErrImageNeverPull", "x")), code: ImageAbsent},
		"not pulled":     {pod: pod(waiting("ErrImagePull", "denied")), code: ImagePull, message: "denied"},
		"backing off":    {pod: pod(waiting("ImagePullBackOff", "")), code: ImagePull},
		"no Secret":      {pod: pod(waiting("CreateContainerConfigError", `secret "word" not found`)), code: ContainerConfig, message: "word"},
		"no container":   {pod: pod(waiting("CreateContainerError", "context deadline exceeded")), code: ContainerCreate, message: "deadline"},
		"no program":     {pod: pod(waiting("RunContainerError", "no such file")), code: ContainerStart, message: "no such file"},
		"no program yet": {pod: pod(waiting("CrashLoopBackOff", "back-off"), ended(128, "StartError", "exec format error")), code: ContainerStart, message: "exec format error"},
		"crashing":       {pod: pod(waiting("CrashLoopBackOff", "back-off"), ended(2, "Error", "flag provided but not defined")), code: Crash, message: "exit code 2, 3 restarts: flag"},
		"first crash": {pod: pod(func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1}
		}), code: Crash, message: "exit code 1"},
		"no sandbox": {pod: pod(creating), events: []corev1.Event{warning(1, "FailedCreatePodSandBox", "failed to generate sandbox hosts file"), warning(2, "DNSConfigForming", "limits exceeded")},
			code: Sandbox, message: "sandbox hosts file"},
		"the last try": {pod: pod(creating), events: []corev1.Event{warning(time.Minute, "FailedCreatePodSandBox", "new"), warning(time.Second, "FailedCreatePodSandBox", "old")}, code: Sandbox, message: "new"},
		"a sandbox since": {pod: pod(creating, condition(corev1.PodReadyToStartContainers, corev1.ConditionTrue, "", "")),
			events: []corev1.Event{warning(1, "FailedCreatePodSandBox", "no network")}, code: NotReady},
		"runs since": {pod: pod(func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{} }),
			events: []corev1.Event{warning(1, "FailedMount", `configmap "c" not found`), warning(2, "Unhealthy", "HTTP probe failed: 503")}, code: NotReady},
		"no ConfigMap":  {pod: pod(creating), events: []corev1.Event{warning(1, "FailedMount", `MountVolume.SetUp failed for volume "v" : configmap "istio-ca-root-cert" not found`)}, code: ObjectMissing, message: "istio-ca-root-cert"},
		"a slow disk":   {pod: pod(creating), events: []corev1.Event{warning(1, "FailedAttachVolume", "Multi-Attach error")}, code: Volume, message: "Multi-Attach"},
		"another's":     {pod: pod(creating), events: []corev1.Event{func() corev1.Event { e := warning(1, "FailedMount", "x"); e.InvolvedObject.UID = "other"; return e }()}, code: NotReady},
		"being created": {pod: pod(creating), code: NotReady},
		"unready probe": {pod: pod(condition(corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady", "containers with unready status: [load]")), code: NotReady, message: "unready status"},
		"init container": {pod: pod(creating, func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "istio-init", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "init"}}}}
		}), code: ImagePull, message: "init"},
	} {
		t.Run(name, func(t *testing.T) {
			found := Find(View{Pods: []corev1.Pod{c.pod}, Events: c.events})
			if c.code == "" {
				if len(found) > 0 {
					t.Fatalf("%+v", found)
				}
				return
			}
			if len(found) != 1 || found[0].Code != c.code || !strings.Contains(found[0].Message, c.message) {
				t.Fatalf("%+v, want %s %q", found, c.code, c.message)
			}
			if p := found[0]; p.Object != (Object{"pod", "ns", "load-1"}) || !strings.Contains(p.String(), "pod ns/load-1") || !strings.Contains(p.String(), c.message) {
				t.Errorf("%+v is said as %q", p, p)
			}
		})
	}
}

func TestFindRefusals(t *testing.T) {
	quota := `pods "load-1-x" is forbidden: exceeded quota: small`
	for name, c := range map[string]struct {
		view   View
		code   Code
		object string
	}{
		"by a quota":            {View{Missing: 1, Since: begin, Events: []corev1.Event{ofController(0, quota)}}, Refused, "ReplicaSet ns/load-1"},
		"long ago":              {View{Missing: 1, Since: begin, Events: []corev1.Event{ofController(-time.Minute, quota)}}, "", ""},
		"of another Deployment": {View{Missing: 1, Since: begin, Maker: Object{"Deployment", "ns", "web"}, Events: []corev1.Event{ofController(0, quota)}}, "", ""},
		"of its own":            {View{Missing: 1, Since: begin, Maker: Object{"Deployment", "ns", "load"}, Events: []corev1.Event{ofController(0, quota)}}, Refused, "ReplicaSet ns/load-1"},
		"in another namespace":  {View{Missing: 1, Since: begin, Within: []string{"other"}, Events: []corev1.Event{ofController(0, quota)}}, "", ""},
		"in one of them":        {View{Missing: 1, Since: begin, Within: []string{"ns", "other"}, Events: []corev1.Event{ofController(0, quota)}}, Refused, "ReplicaSet ns/load-1"},
		"none is missing":       {View{Since: begin, Events: []corev1.Event{ofController(0, quota)}}, "", ""},
		"in its Deployment":     {View{Missing: 1, Since: begin, Maker: Object{"Deployment", "ns", "load"}, Refusal: quota}, Refused, "Deployment ns/load"},
		"by a silent webhook":   {View{Missing: 1, Since: begin, Events: []corev1.Event{ofController(0, `Internal error occurred: failed calling webhook "injector"`)}}, NotCreated, "ReplicaSet ns/load-1"},
		"in a series": {View{Missing: 1, Since: begin, Events: []corev1.Event{func() corev1.Event {
			e := ofController(-time.Hour, quota)
			e.Series = &corev1.EventSeries{LastObservedTime: metav1.NewMicroTime(begin.Add(time.Second))}
			return e
		}()}}, Refused, "ReplicaSet ns/load-1"},
	} {
		found := Find(c.view)
		if c.code == "" && len(found) == 0 {
			continue
		}
		if len(found) != 1 || found[0].Code != c.code || found[0].Object.String() != c.object {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

// A look is what a wait observes at a time, and whether the wait ends there.
type look struct {
	at   time.Duration
	pod  corev1.Pod
	ev   []corev1.Event
	ends bool
}

func TestMemory(t *testing.T) {
	creating := pod(waiting("ContainerCreating", ""))
	sandbox := func(at time.Duration) []corev1.Event {
		return []corev1.Event{warning(at, "FailedCreatePodSandBox", "no hosts")}
	}
	for name, c := range map[string]struct {
		looks   []look
		message string // message of the problem that ends it
	}{
		"a name that is none": {[]look{{0, pod(waiting("InvalidImageName", "x")), nil, true}}, "x"},
		"not to be pulled":    {[]look{{0, pod(waiting("ErrImageNeverPull", "x")), nil, true}}, "x"},
		"refused again and again": {[]look{
			{0, creating, nil, false},
			{time.Second, pod(waiting("ErrImagePull", "manifest unknown")), nil, false},
			{2 * time.Second, pod(waiting("ImagePullBackOff", "Back-off")), nil, false},
			{11 * time.Second, pod(waiting("ErrImagePull", "denied")), nil, false},
			{20*time.Second + 999*time.Millisecond, pod(waiting("ImagePullBackOff", "Back-off")), nil, false},
			{21 * time.Second, pod(waiting("ImagePullBackOff", "Back-off")), nil, true}}, "denied"},
		"a registry that is busy": {[]look{
			{0, pod(waiting("ErrImagePull", "unexpected status: 429 Too Many Requests")), nil, false},
			{11 * time.Second, pod(waiting("ImagePullBackOff", "Back-off")), nil, false},
			{89 * time.Second, pod(waiting("ImagePullBackOff", "Back-off")), nil, false},
			{90 * time.Second, pod(waiting("ErrImagePull", "dial tcp 192.0.2.1:443: i/o timeout")), nil, true}}, "timeout"},
		"a registry that turns out to lack it": {[]look{
			{0, pod(waiting("ErrImagePull", "dial tcp 192.0.2.1:443: connect: connection refused")), nil, false},
			{30 * time.Second, pod(waiting("ErrImagePull", "manifest unknown")), nil, true}}, "unknown"},
		"pulled in the end": {[]look{
			{0, pod(waiting("ErrImagePull", "timeout")), nil, false},
			{time.Minute, creating, nil, false},
			{3 * time.Minute, pod(waiting("ErrImagePull", "timeout")), nil, false},
			{3*time.Minute + time.Second, pod(waiting("ImagePullBackOff", "")), nil, false}}, ""},
		"no sandbox": {[]look{
			{0, creating, sandbox(0), false},
			{30 * time.Second, creating, sandbox(25 * time.Second), false},
			{59 * time.Second, creating, sandbox(55 * time.Second), false},
			{61 * time.Second, creating, sandbox(61 * time.Second), true}}, "no hosts"},
		"one try without a sandbox": {[]look{{0, creating, sandbox(0), false}, {10 * time.Minute, creating, sandbox(0), false}}, ""},
		"a mount that waits for its next try": {[]look{
			{0, creating, []corev1.Event{warning(0, "FailedMount", `configmap "c" not found`)}, false},
			{35 * time.Second, creating, []corev1.Event{warning(32*time.Second, "FailedMount", `configmap "c" not found`)}, false},
			{60 * time.Second, creating, []corev1.Event{warning(32*time.Second, "FailedMount", `configmap "c" not found`)}, false},
			{65 * time.Second, creating, []corev1.Event{warning(64*time.Second, "FailedMount", `configmap "c" not found`)}, true}}, "configmap"},
		"a crash": {[]look{{0, pod(waiting("CrashLoopBackOff", "")), nil, false}, {time.Hour, pod(waiting("CrashLoopBackOff", "")), nil, false}}, ""},
		"no node": {[]look{{0, pod(condition(corev1.PodScheduled, corev1.ConditionFalse, "", "Insufficient cpu")), nil, false},
			{time.Hour, pod(condition(corev1.PodScheduled, corev1.ConditionFalse, "", "Insufficient cpu")), nil, false}}, ""},
		"a Secret that never comes": {[]look{{0, pod(waiting("CreateContainerConfigError", `secret "s" not found`)), nil, false},
			{time.Minute, pod(waiting("CreateContainerConfigError", `secret "s" not found`)), nil, true}}, "secret"},
	} {
		t.Run(name, func(t *testing.T) {
			var m Memory
			for _, l := range c.looks {
				got := m.Note(Find(View{Pods: []corev1.Pod{l.pod}, Events: l.ev}), begin.Add(l.at))
				if len(got) != 1 || got[0].Ends != l.ends {
					t.Fatalf("at %v: %+v, want an end: %v", l.at, got, l.ends)
				}
				if l.ends && !strings.Contains(got[0].Message, c.message) {
					t.Errorf("at %v: %q, want %q", l.at, got[0].Message, c.message)
				}
			}
		})
	}
}

// Ending pods free a quota that is partly used; a quota that admits nothing stays
// exhausted.
func TestMemoryOfQuotas(t *testing.T) {
	for used, ends := range map[string]time.Duration{
		"pods=0": 20 * time.Second, "pods=3": 90 * time.Second, "limits.cpu=0,pods=3": 90 * time.Second, "limits.cpu=0,pods=0": 20 * time.Second,
	} {
		var m Memory
		view := View{Missing: 1, Since: begin, Events: []corev1.Event{ofController(0, `pods "load-1" is forbidden: exceeded quota: small, requested: pods=1, used: `+used+`, limited: pods=3`)}}
		for at := time.Duration(0); at <= 90*time.Second; at += time.Second {
			got := m.Note(Find(view), begin.Add(at))
			if len(got) != 1 || got[0].Code != Refused || got[0].Ends != (at >= ends) {
				t.Fatalf("used %s: after %v: %+v", used, at, got)
			}
		}
	}
}

// Each code has a rule, and a code that ends waits has a hint.
func TestEveryCodeHasARule(t *testing.T) {
	for code, rule := range rules {
		p := Problem{Code: code, Object: Object{"pod", "ns", "x"}, Message: "words"}
		if rule.patience != never && p.Hint() == "" {
			t.Errorf("%s ends waits without a hint", code)
		}
		if !strings.Contains(p.String(), "ns/x") {
			t.Errorf("%s is said as %q", code, p)
		}
	}
	if len(rules) != 15 {
		t.Errorf("%d rules", len(rules))
	}
}

// For any pod status, nothing panics, the problem has a code with a rule, a vanished
// problem is forgotten, and problems that end the wait come first.
func TestNoteProperties(t *testing.T) {
	reasons := []string{"", "ContainerCreating", "ErrImagePull", "ImagePullBackOff", "CrashLoopBackOff", "InvalidImageName", "CreateContainerConfigError", "Odd"}
	rapid.Check(t, func(t *rapid.T) {
		var m Memory
		now := begin
		for range rapid.IntRange(1, 20).Draw(t, "looks") {
			now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
			var pods []corev1.Pod
			for i := range rapid.IntRange(0, 3).Draw(t, "pods") {
				p := pod(waiting(rapid.SampledFrom(reasons).Draw(t, "reason"), "m"))
				p.UID = types.UID(string(rune('a' + i)))
				pods = append(pods, p)
			}
			problems := Find(View{Pods: pods})
			got := m.Note(problems, now)
			if len(got) != len(pods) || len(m.seen) != len(pods) {
				t.Fatalf("%d pods, %d problems, %d remembered", len(pods), len(got), len(m.seen))
			}
			for _, l := range got {
				if _, ok := rules[l.Code]; !ok || l.For < 0 {
					t.Fatalf("%+v", l)
				}
			}
			if !slices.IsSortedFunc(got, func(a, b Lasting) int {
				switch {
				case a.Ends && !b.Ends:
					return -1
				case b.Ends && !a.Ends:
					return 1
				}
				return int(b.For - a.For)
			}) {
				t.Fatalf("order: %+v", got)
			}
		}
	})
}
