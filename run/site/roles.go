package site

import (
	"slices"
	"strconv"
	"time"

	"github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/study/protocol"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Names of roles: container names, and prefixes of Deployment names.
const (
	RoleLoad    = "load"
	RoleWorker  = "worker"
	RoleObserve = "observe"
	RoleXDS     = "xds"
	RoleReal    = "real"
)

// Ports of the roles' control servers, on their pods' loopback.
const (
	LoadControlPort    = 15991
	WorkerControlPort  = control.ControlPort
	observeControlPort = observe.ControlPort
	XDSControlPort     = 15993
)

// ReadyTimeout limits the wait for pods, which may include pulling an image.
const ReadyTimeout = 3 * time.Minute

// StopTimeout limits how long a role may take to end its work when a trial is given up.
const StopTimeout = 5 * time.Second

// RunLabel marks every object that a run creates in the cluster.
const RunLabel = "meshtrial.dev/run"

// AllPorts returns the worker's distinct ports in order.
func AllPorts() []protocol.Endpoint {
	out := protocol.Endpoints()
	slices.SortFunc(out, func(a, b protocol.Endpoint) int { return a.Port - b.Port })
	return out
}

func Labels(run, name string) map[string]string {
	return map[string]string{RunLabel: run, mesh.AppLabel: name, "app.kubernetes.io/part-of": "meshtrial"}
}

// RolePod returns the template shared by all roles' pods: no access to the host, no
// credentials, a short termination, and no sidecar unless a mesh's adapter requests one,
// even where Istio injects every pod.
func RolePod(name, run string, container corev1.Container, images lab.Images) corev1.PodTemplateSpec {
	container.Image = images.Meshtrial
	container.ImagePullPolicy = images.PullPolicy
	container.SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: Ptr(false),
		ReadOnlyRootFilesystem:   Ptr(true),
		RunAsNonRoot:             Ptr(true),
		RunAsUser:                Ptr(int64(lab.RolesUser)),
		RunAsGroup:               Ptr(int64(lab.RolesUser)),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	container.Resources = Requests("10m", "32Mi")
	var secrets []corev1.LocalObjectReference
	if images.PullSecret != "" {
		secrets = []corev1.LocalObjectReference{{Name: pullSecret}}
	}
	labels := Labels(run, name)
	labels["sidecar.istio.io/inject"] = "false"
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{
			Containers:                    []corev1.Container{container},
			ImagePullSecrets:              secrets,
			AutomountServiceAccountToken:  Ptr(false),
			EnableServiceLinks:            Ptr(false),
			TerminationGracePeriodSeconds: Ptr(int64(1)),
		},
	}
}

// Spread distributes the pods that a selector matches over as many nodes as possible.
func Spread(pod *corev1.PodTemplateSpec, these *metav1.LabelSelector) {
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelHostname,
		WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: these}}
}

func WorkerPod(w mesh.Workload, images lab.Images, run string) corev1.PodTemplateSpec {
	c := corev1.Container{
		Name: RoleWorker,
		Args: []string{"worker", "--control", "127.0.0.1:" + strconv.Itoa(w.ControlPort)},
		// A startup probe ends with its first success, so the worker is not probed while
		// it is measured.
		StartupProbe: &corev1.Probe{
			ProbeHandler:     corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt(control.HealthPort)}},
			PeriodSeconds:    1,
			FailureThreshold: 60,
		},
	}
	for _, e := range protocol.Endpoints() {
		if e.TLS { // not served by default
			c.Args = append(c.Args, "--"+e.Flag, ":"+strconv.Itoa(e.Port))
		}
	}
	for _, p := range AllPorts() {
		c.Ports = append(c.Ports, corev1.ContainerPort{Name: p.PortName, ContainerPort: int32(p.Port)})
	}
	return RolePod(w.Name, run, c, images)
}

func LoadPod(w mesh.Workload, images lab.Images, run string) corev1.PodTemplateSpec {
	return RolePod(w.Name, run, corev1.Container{
		Name: RoleLoad,
		Args: []string{"load", "--control", "127.0.0.1:" + strconv.Itoa(w.ControlPort)},
	}, images)
}

// hostCgroups is where the observe role finds its node's cgroups.
const hostCgroups = "/host/cgroup"

// ObserveSet returns the DaemonSet of the observe role. It sees its node's processes and
// cgroups, which is its purpose, and may read other users' memory maps (proportional set
// size), which requires root and one capability.
func ObserveSet(namespace string, images lab.Images, run string) *appsv1.DaemonSet {
	pod := RolePod(RoleObserve, run, corev1.Container{
		Name: RoleObserve,
		Args: []string{"observe", "--control", "127.0.0.1:" + strconv.Itoa(observeControlPort), "--cgroup-root", hostCgroups, "--alone", Alone.String()},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "cgroup", MountPath: hostCgroups, ReadOnly: true, MountPropagation: Ptr(corev1.MountPropagationHostToContainer)},
		},
	}, images)
	c := &pod.Spec.Containers[0]
	c.SecurityContext.RunAsNonRoot = Ptr(false)
	c.SecurityContext.RunAsUser = Ptr(int64(0))
	c.SecurityContext.RunAsGroup = Ptr(int64(0))
	c.SecurityContext.Capabilities.Add = []corev1.Capability{"SYS_PTRACE"}
	pod.Spec.HostPID = true
	pod.Spec.Volumes = []corev1.Volume{{Name: "cgroup", VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: "/sys/fs/cgroup", Type: Ptr(corev1.HostPathDirectory)},
	}}}
	return roleSet(RoleObserve, namespace, run, pod)
}

// Requests returns a container's resource requests.
func Requests(cpu, memory string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
	}}
}

func Ptr[T any](v T) *T { return &v }
