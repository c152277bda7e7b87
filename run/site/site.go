// Package site manages what a run has in the cluster: its namespace, which identifies its
// owner; the pods of its roles and the connections to their control servers; an observer on
// each node; and the leftovers of dead runs.
//
// It knows nothing of studies. The trials of every kind build on it.
package site

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/observe/procfs"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Site is what every kind of study has in the cluster: a namespace that identifies its
// owner, an observer on each node, and connections to pods.
type Site struct {
	lab       lab.Lab
	mesh      mesh.Mesh // nil: no mesh
	Run       string
	Namespace string
	// Observers by node name.
	Observers map[string]observe.Client
	// Loads has the load pods of a data-plane study by name. With Kubelets, only they report the
	// version of the program in the roles' image.
	Loads   map[string]Versioned
	Control []Pod // istiod's pods on observed nodes, whose CPU is also measured
	// unseen has istiod's pods on other nodes, each with its node.
	unseen []string
	// missed has the nodes whose observer was given up.
	missed map[string]bool
	// Kubelets means that CPU and memory come from the nodes' kubelets, without observers.
	Kubelets bool
	// Note is called with what the user should know. It may be nil.
	Note func(text string)

	Kube   kubernetes.Interface
	Dialer *lab.Dialer
	beats  *heartbeat
	uid    types.UID // of the namespace, once created
}

// New returns a Site without creating anything in the cluster.
func New(l lab.Lab, m mesh.Mesh, run string) (*Site, error) {
	config := l.RESTConfig()
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	dialer := lab.NewDialer(config)
	return &Site{
		lab: l, mesh: m, Run: run, Namespace: NamespacePrefix + run,
		Observers: map[string]observe.Client{},
		Kube:      kube, Dialer: dialer, beats: newHeartbeat(dialer),
	}, nil
}

// Redial closes all connections and forgets all pods, after something broke.
func (s *Site) Redial() {
	s.Dialer.Close()
	s.Dialer = lab.NewDialer(s.lab.RESTConfig())
	s.beats.redial(s.Dialer)
	s.Observers, s.Control, s.unseen = map[string]observe.Client{}, nil, nil
}

// CreateNamespace creates the run's namespace with its owner, waits for the mesh to add
// what sidecars need, and creates a keeper that deletes the namespace if the runner dies.
// kind is the kind of study; "" without a study.
func (s *Site) CreateNamespace(ctx context.Context, kind string) error {
	name := s.Namespace
	me, err := procfs.Self()
	if err != nil {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Annotations: map[string]string{KindAnnotation: kind, leaseAnnotation: "true"},
		Labels: map[string]string{
			RunLabel: s.Run, "app.kubernetes.io/part-of": "meshtrial",
			// The observe role accesses its node.
			"pod-security.kubernetes.io/enforce": "privileged",
		},
	}}
	maps.Copy(namespace.Labels, mesh.NamespaceLabels(s.mesh))
	if err := annotate(namespace, me); err != nil {
		return err
	}
	made, err := s.Kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	s.uid = made.UID
	// Create the pull Secret first; the keeper's pod needs it too.
	if err := s.GivePullSecret(ctx, name); err != nil {
		return err
	}
	if err := s.createKeeper(ctx); err != nil {
		return err
	}
	return awaitRoot(ctx, s.Kube, s.mesh, name)
}

// Observed reports whether CPU and memory of a node's containers can be read.
func (s *Site) Observed(node string) bool { return s.Kubelets || s.Observers[node].HTTPClient != nil }

// CreateObservers creates the DaemonSet of the observe role, unless kubelets replace it.
func (s *Site) CreateObservers(ctx context.Context) error {
	if s.Kubelets {
		return nil
	}
	set := ObserveSet(s.Namespace, s.lab.Images(), s.Run)
	if _, err := s.Kube.AppsV1().DaemonSets(s.Namespace).Create(ctx, set, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create DaemonSet %s: %w", set.Name, err)
	}
	s.KeepAlive(RoleObserve, observeControlPort, "")
	return nil
}

// Versioned is a role that reports the version of its program.
type Versioned interface {
	Version(ctx context.Context) (string, error)
}

// Pod is a running pod, by the names used in measurements.
type Pod struct {
	Name, Namespace string
	UID, Node       string
	Address         string            // its IP
	NodeAddress     string            // its node's
	Containers      map[string]string // name to container ID, of containers that have not ended
	Proxy           mesh.Admin        // nil: it has no proxy
	State           *mesh.ProxyState
	// Redirected means that the mesh's agent on the node redirects its requests to its
	// sidecar.
	Redirected bool
}

// ReadyPods returns the namespace's ready pods by app, and opens a connection to each
// observer among them.
func (s *Site) ReadyPods(ctx context.Context) (map[string]*corev1.Pod, error) {
	pods, err := s.Kube.CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list pods of namespace %s: %w", s.Namespace, err)
	}
	byApp := map[string]*corev1.Pod{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !lab.PodReady(pod) {
			continue
		}
		app := pod.Labels[mesh.AppLabel]
		byApp[app] = pod
		if app == RoleObserve {
			s.Observers[pod.Spec.NodeName] = observe.Client{HTTPClient: s.HTTP(pod, observeControlPort), BaseURL: lab.InPod}
		}
	}
	return byApp, nil
}

// ReadyOf returns want ready pods of an app in the namespace, ordered by name.
func (s *Site) ReadyOf(ctx context.Context, app string, want int) ([]*corev1.Pod, error) {
	all, err := s.Kube.CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: mesh.AppLabel + "=" + app})
	if err != nil {
		return nil, fmt.Errorf("pods of %s: %w", app, err)
	}
	var out []*corev1.Pod
	for i := range all.Items {
		if pod := &all.Items[i]; lab.PodReady(pod) && pod.DeletionTimestamp == nil {
			out = append(out, pod)
		}
	}
	if len(out) < want {
		return nil, fmt.Errorf("workload %s has %d of its %d pods ready in namespace %s", app, len(out), want, s.Namespace)
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return out[:want], nil
}

// FindControlPlane records the pods of a mesh's control plane, replacing those recorded
// before. It returns the serving replicas, each with its name and number of container
// restarts; nil without a control plane.
func (s *Site) FindControlPlane(ctx context.Context, m mesh.Mesh) (serving []string, err error) {
	namespace, selector := m.ControlPlane()
	s.Control, s.unseen = nil, nil
	if selector == "" {
		return nil, nil
	}
	pods, err := s.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("list the pods of mesh %s's control plane: %w", m.Name(), err)
	}
	serving = []string{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !lab.PodReady(pod) || pod.DeletionTimestamp != nil {
			continue
		}
		restarts := int32(0)
		for _, status := range pod.Status.ContainerStatuses {
			restarts += status.RestartCount
		}
		serving = append(serving, fmt.Sprintf("%s (restart %d)", pod.Name, restarts))
		if s.Observed(pod.Spec.NodeName) {
			s.Control = append(s.Control, PodOf(pod))
		} else {
			s.unseen = append(s.unseen, Elsewhere(pod))
		}
	}
	slices.Sort(serving)
	return serving, nil
}

// Elsewhere describes a pod on an unobserved node.
func Elsewhere(pod *corev1.Pod) string {
	return fmt.Sprintf("%s on node %s", pod.Name, pod.Spec.NodeName)
}

// ControlUnseen explains why the control plane's usage is unknown: some of its pods cannot
// be read. It returns "" if all can.
func (s *Site) ControlUnseen() string { return Unread("the control plane", s.unseen) }

// Unread explains why usage is unknown for something with pods on unobserved nodes.
func Unread(what string, elsewhere []string) string {
	if len(elsewhere) == 0 {
		return ""
	}
	return fmt.Sprintf("CPU and memory of %s were not measured: no observer runs beside %s", what, strings.Join(elsewhere, ", "))
}

func (s *Site) HTTP(pod *corev1.Pod, port int) *http.Client {
	return s.Dialer.Role(pod.Namespace, pod.Name, port)
}

func PodOf(pod *corev1.Pod) Pod {
	ref := Pod{Name: pod.Name, Namespace: pod.Namespace, UID: string(pod.UID), Node: pod.Spec.NodeName, Address: pod.Status.PodIP, NodeAddress: pod.Status.HostIP, Containers: map[string]string{}}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, status := range statuses {
			if status.State.Terminated == nil {
				ref.Containers[status.Name] = status.ContainerID
			}
		}
	}
	return ref
}

func (s *Site) NewPod(ctx context.Context, pod *corev1.Pod, m mesh.Mesh) (Pod, error) {
	ref := PodOf(pod)
	ref.Redirected = m.Proxies(record.PlaceNode).Agents.Serve(pod)
	return ref, s.askProxy(ctx, &ref, pod, mesh.Sidecars(m))
}

// askProxy connects to a pod's proxy, if it has one, and reads what it is.
func (s *Site) askProxy(ctx context.Context, ref *Pod, pod *corev1.Pod, proxies mesh.Proxies) error {
	for _, name := range proxies.Containers {
		if ref.Containers[name] == "" {
			continue
		}
		ref.Proxy = proxies.Admin(s.HTTP(pod, proxies.AdminPort))
		version, err := ref.Proxy.Version(ctx)
		if err != nil {
			return fmt.Errorf("proxy of pod %s: %w", pod.Name, err)
		}
		ref.State = &mesh.ProxyState{Version: version, CPULimit: CPULimit(pod, name)}
	}
	return nil
}

// ErrUnobserved is returned if the usage of a node's pods cannot be read.
var ErrUnobserved = errors.New("no observer runs there")

// CPULimit returns a container's CPU limit in Kubernetes notation; "none" without one.
func CPULimit(pod *corev1.Pod, container string) string {
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range containers {
			if limit, ok := c.Resources.Limits[corev1.ResourceCPU]; ok && c.Name == container {
				return limit.String()
			}
		}
	}
	return study.CPULimitNone
}

// ErrTakenAway is returned if the run's namespace was deleted during the run.
var ErrTakenAway = errors.New("was deleted")

// TakenAway returns an error if the run's namespace was deleted; nil if that is unknown.
// The keeper deletes it if this process stood still for so long that it seemed dead.
func (s *Site) TakenAway(ctx context.Context) error {
	list, err := s.Kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: RunLabel + "=" + s.Run})
	if err != nil {
		return nil
	}
	for i := range list.Items {
		if ns := &list.Items[i]; ns.UID == s.uid && ns.DeletionTimestamp == nil {
			return nil
		}
	}
	return fmt.Errorf("namespace %s %w, as its keeper does when the runner has not renewed the cluster's Lease for %v: this process, or its machine, was suspended",
		s.Namespace, ErrTakenAway, journal.Lapse)
}

// AwaitGone waits until the run's namespace is gone.
func (s *Site) AwaitGone(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	return awaitGone(ctx, s.Kube, s.Namespace)
}

// removeTimeout limits the clean-up.
const removeTimeout = 30 * time.Second

// Remove deletes the namespace with everything the run created in it, even after ctx has
// ended.
func (s *Site) Remove(ctx context.Context) error {
	ctx, cancel := ending.Within(ctx, removeTimeout)
	defer cancel()
	s.beats.stop()
	s.Dialer.Close()
	return RemoveNamespace(ctx, s.Kube, s.Namespace)
}
