package runner

import (
	"slices"
	"strconv"
	"time"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/protocol"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/worker/control"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Names of roles: container names, and prefixes of Deployment names.
const (
	roleLoad    = "load"
	roleWorker  = "worker"
	roleObserve = "observe"
	roleXDS     = "xds"
	roleReal    = "real"
)

// Ports of the roles' control servers, on their pods' loopback.
const (
	loadControlPort    = 15991
	workerControlPort  = control.ControlPort
	observeControlPort = observe.ControlPort
	xdsControlPort     = 15993
)

// readyTimeout bounds the wait for pods: an image may have to be pulled.
const readyTimeout = 3 * time.Minute

// stopTimeout bounds how long a role may take to end what it does when a trial
// is given up.
const stopTimeout = 5 * time.Second

// runLabel marks everything a run makes in the cluster.
const runLabel = "meshtrial.dev/run"

// allPorts are all of the worker's ports, each once, in order.
func allPorts() []protocol.Endpoint {
	out := protocol.Endpoints()
	slices.SortFunc(out, func(a, b protocol.Endpoint) int { return a.Port - b.Port })
	return out
}

// endpointOf is where a cell's requests go to at the worker.
func endpointOf(cell record.Cell, load study.Load) protocol.Endpoint {
	return protocol.Of(cell[study.FactorProtocol]).Endpoint(load.TLS)
}

func labels(run, name string) map[string]string {
	return map[string]string{runLabel: run, mesh.AppLabel: name, "app.kubernetes.io/part-of": "meshtrial"}
}

// rolePod is what the pods of all roles share: nothing of the host, no
// credentials, a quick end.
func rolePod(name, run string, container corev1.Container, images lab.Images) corev1.PodTemplateSpec {
	container.Image = images.Meshtrial
	container.ImagePullPolicy = images.PullPolicy
	container.SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr(false),
		ReadOnlyRootFilesystem:   ptr(true),
		RunAsNonRoot:             ptr(true),
		RunAsUser:                ptr(int64(65532)),
		RunAsGroup:               ptr(int64(65532)),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	container.Resources = corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi"),
	}}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels(run, name)},
		Spec: corev1.PodSpec{
			Containers:                    []corev1.Container{container},
			AutomountServiceAccountToken:  ptr(false),
			EnableServiceLinks:            ptr(false),
			TerminationGracePeriodSeconds: ptr(int64(1)),
		},
	}
}

func workerPod(w mesh.Workload, images lab.Images, run string) corev1.PodTemplateSpec {
	c := corev1.Container{
		Name: roleWorker,
		Args: []string{"worker", "--control", "127.0.0.1:" + strconv.Itoa(w.ControlPort)},
		// A startup probe ends with its first success: nothing probes the
		// worker while it is measured.
		StartupProbe: &corev1.Probe{
			ProbeHandler:     corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt(control.HealthPort)}},
			PeriodSeconds:    1,
			FailureThreshold: 60,
		},
	}
	for _, e := range protocol.Endpoints() {
		if e.TLS { // not served unless it is asked for
			c.Args = append(c.Args, "--"+e.Flag, ":"+strconv.Itoa(e.Port))
		}
	}
	for _, p := range allPorts() {
		c.Ports = append(c.Ports, corev1.ContainerPort{Name: p.PortName, ContainerPort: int32(p.Port)})
	}
	return rolePod(w.Name, run, c, images)
}

func loadPod(w mesh.Workload, images lab.Images, run string) corev1.PodTemplateSpec {
	return rolePod(w.Name, run, corev1.Container{
		Name: roleLoad,
		Args: []string{"load", "--control", "127.0.0.1:" + strconv.Itoa(w.ControlPort)},
	}, images)
}

// hostCgroups is where the observe role finds its node's cgroups.
const hostCgroups = "/host/cgroup"

// observeSet is the DaemonSet of the observe role. It sees its node's
// processes and cgroups, which is what it is for, and may read other users'
// memory maps (proportional set size), which needs root and one capability.
func observeSet(namespace string, images lab.Images, run string) *appsv1.DaemonSet {
	pod := rolePod(roleObserve, run, corev1.Container{
		Name: roleObserve,
		Args: []string{"observe", "--control", "127.0.0.1:" + strconv.Itoa(observeControlPort), "--cgroup-root", hostCgroups},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "cgroup", MountPath: hostCgroups, ReadOnly: true, MountPropagation: ptr(corev1.MountPropagationHostToContainer)},
		},
	}, images)
	c := &pod.Spec.Containers[0]
	c.SecurityContext.RunAsNonRoot = ptr(false)
	c.SecurityContext.RunAsUser = ptr(int64(0))
	c.SecurityContext.RunAsGroup = ptr(int64(0))
	c.SecurityContext.Capabilities.Add = []corev1.Capability{"SYS_PTRACE"}
	pod.Labels["sidecar.istio.io/inject"] = "false"
	pod.Spec.HostPID = true
	pod.Spec.Volumes = []corev1.Volume{{Name: "cgroup", VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: "/sys/fs/cgroup", Type: ptr(corev1.HostPathDirectory)},
	}}}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: roleObserve, Namespace: namespace, Labels: labels(run, roleObserve)},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{mesh.AppLabel: roleObserve}},
			Template: pod,
		},
	}
}

// url is where the generator sends a cell's requests.
func url(server mesh.Workload, cell record.Cell, load study.Load) string {
	path := ""
	if protocol.Of(cell[study.FactorProtocol]).Methods {
		path = load.Path
	}
	return endpointOf(cell, load).URL(hostOf(server), path)
}

func ptr[T any](v T) *T { return &v }
