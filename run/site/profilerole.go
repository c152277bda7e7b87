package site

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/podwait"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/observe/profile/node"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// roleProfile is the role that profiles processes with its node's perf.
const roleProfile = "profile"

// ProfileSet returns the DaemonSet of the profile role, restricted to one node if
// only names it. It has exactly the privileges that perf needs, each for a reason:
//
//	hostPID          finds the processes of other pods
//	root             owns the capabilities
//	SYS_ADMIN        enters the node's mount namespace, where perf is, and those
//	                 of containers, where their binaries are; before Linux 5.8
//	                 it is also what PERFMON is since
//	SYS_CHROOT       likewise
//	PERFMON          counts events of other users' processes, the kernel included
//	SYS_PTRACE       reads their maps of memory
//	SYSLOG           reads the addresses of the kernel's functions
//	DAC_READ_SEARCH  reads binaries that only their users may
//	DAC_OVERRIDE     writes perf's file where the node has its temporary files
//	IPC_LOCK         has perf's buffers beside what users may lock
//	KILL             ends perf
func ProfileSet(namespace string, images lab.Images, run, only string) *appsv1.DaemonSet {
	set := nodeRole{
		name: roleProfile,
		args: []string{"profile-role", "--control", "127.0.0.1:" + strconv.Itoa(node.ControlPort), "--control-token-file", tokenFile(roleProfile),
			"--root", "/proc/1/root", "--alone", Alone.String()},
		capabilities: []corev1.Capability{"DAC_OVERRIDE", "DAC_READ_SEARCH", "IPC_LOCK", "KILL", "PERFMON", "SYSLOG", "SYS_ADMIN", "SYS_CHROOT", "SYS_PTRACE"},
	}.daemonSet(namespace, run, images)
	pod := &set.Spec.Template.Spec
	// It runs alongside what is measured, and reads untrusted input.
	pod.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("2Gi")}
	if only != "" {
		pod.NodeSelector = map[string]string{corev1.LabelHostname: only}
		pod.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	return set
}

// ProfileRoles has clients of the profile role of each node.
type ProfileRoles struct{ NodeRoles[node.Client] }

// CreateProfileRoles creates the DaemonSet, and the Secret with a token known only
// to this run.
func (s *Site) CreateProfileRoles(ctx context.Context, only string) (*ProfileRoles, error) {
	token, err := s.createNodeRole(ctx, ProfileSet(s.Namespace, s.lab.Images(), s.Run, only), node.ControlPort)
	if err != nil {
		return nil, err
	}
	dial := func(ctx context.Context, line *http.Client) (node.Client, error) {
		client := node.Client{HTTPClient: line, BaseURL: lab.InPod, Token: token}
		return client, client.Ready(ctx)
	}
	return &ProfileRoles{NodeRoles[node.Client]{Site: s, ByNode: map[string]node.Client{}, role: roleProfile, port: node.ControlPort, dial: dial}}, nil
}

// Connect waits until the role responds on each of the nodes. Call it again after
// connections broke.
func (r *ProfileRoles) Connect(ctx context.Context, nodes []string) error {
	return r.connect(ctx, func(_ context.Context, pods int) (podwait.Seen, error) {
		missing := slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return r.ByNode[n].HTTPClient != nil })
		return podwait.Seen{Done: len(missing) == 0, State: "none answers on node " + strings.Join(missing, ", "), Missing: len(nodes) - pods}, nil
	})
}

// PodTarget identifies a pod's container to profile.
type PodTarget struct {
	Namespace, Pod string
	Container      string   // "": the pod's first container that is in Sidecars, otherwise its first
	Sidecars       []string // names of sidecars
}

// PodProfile requests a profile of a pod's container.
type PodProfile struct {
	Run     string // determines the name of the profile role's namespace
	Target  PodTarget
	Request node.Request
	// Progress is called with each step, Note with what the user should know.
	Progress, Note func(text string)
}

// ProfilePod takes a profile of a container with its node's perf. It runs the
// profile role on the node, in a separate namespace that it removes afterwards. If
// this process dies while it holds the cluster's Lease, a keeper removes the
// namespace. It returns the profile and the container's name.
func ProfilePod(ctx context.Context, l lab.Lab, p PodProfile) (answer node.Answer, name string, err error) {
	s, err := New(l, nil, p.Run)
	if err != nil {
		return answer, "", err
	}
	request := p.Request
	s.Note = p.Note
	defer s.Dialer.Close()
	pod, container, err := s.target(ctx, p.Target)
	if err != nil {
		return answer, "", err
	}
	name = pod.Namespace + "/" + pod.Name + "/" + container
	if request.ContainerID = PodOf(pod).Containers[container]; request.ContainerID == "" {
		return answer, name, errs.WithHint(fmt.Errorf("container %s does not run", name), "kubectl -n %s describe pod %s", pod.Namespace, pod.Name)
	}
	defer ending.Owe(ctx, "namespace "+s.Namespace, "kubectl delete namespace "+s.Namespace)()
	defer func() { err = errors.Join(err, s.Remove(ctx)) }()
	if err := s.CreateNamespace(ctx, ""); err != nil {
		return answer, name, err
	}
	p.Progress("starting the profile role on node " + pod.Spec.NodeName)
	host := pod.Spec.NodeName
	if n, nodeErr := s.Kube.CoreV1().Nodes().Get(ctx, host, metav1.GetOptions{}); nodeErr == nil {
		host = cmp.Or(n.Labels[corev1.LabelHostname], host)
	}
	roles, err := s.CreateProfileRoles(ctx, host)
	if err != nil {
		return answer, name, err
	}
	if err := roles.Connect(ctx, []string{pod.Spec.NodeName}); err != nil {
		return answer, name, err
	}
	p.Progress(fmt.Sprintf("profile of %s for %g s", name, request.Seconds))
	answer, err = roles.ByNode[pod.Spec.NodeName].Take(ctx, request)
	return answer, name, err
}

// PodContainer returns the name of the container that a target refers to.
func PodContainer(ctx context.Context, l lab.Lab, target PodTarget) (string, error) {
	s, err := New(l, nil, "")
	if err != nil {
		return "", err
	}
	defer s.Dialer.Close()
	_, container, err := s.target(ctx, target)
	return container, err
}

// target finds a pod and its container.
func (s *Site) target(ctx context.Context, target PodTarget) (*corev1.Pod, string, error) {
	pod, err := s.Kube.CoreV1().Pods(target.Namespace).Get(ctx, target.Pod, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, "", errs.WithHint(errs.Usage("%s is neither a file nor a pod in namespace %s", target.Pod, target.Namespace), "kubectl -n %s get pods lists the pods; -n names another namespace", target.Namespace)
	case err != nil:
		return nil, "", err
	}
	container, err := ContainerOf(pod, target)
	return pod, container, err
}

// ContainerOf selects a pod's container.
func ContainerOf(pod *corev1.Pod, target PodTarget) (string, error) {
	var names []string
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range containers {
			names = append(names, c.Name)
		}
	}
	if target.Container != "" {
		if !slices.Contains(names, target.Container) {
			return "", errs.Usage("pod %s has no container %s; it has %s", pod.Name, target.Container, strings.Join(names, ", "))
		}
		return target.Container, nil
	}
	for _, name := range target.Sidecars {
		if slices.Contains(names, name) {
			return name, nil
		}
	}
	return pod.Spec.Containers[0].Name, nil
}
