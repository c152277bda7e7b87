package runner

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/study"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// site is what every kind of study has in the cluster: a namespace that says
// whose it is, an observer on each node, and lines to pods.
type site struct {
	lab       lab.Lab
	mesh      mesh.Mesh // nil: nothing is deployed into it
	run       string
	namespace string
	// observers by node name.
	observers map[string]observe.Client
	control   []podRef // istiod's pods, whose CPU is measured too

	kube   kubernetes.Interface
	dialer *lab.Dialer
}

// newSite makes nothing in the cluster yet.
func newSite(l lab.Lab, m mesh.Mesh, run string) (*site, error) {
	config := l.RESTConfig()
	config.QPS, config.Burst = -1, -1
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &site{
		lab: l, mesh: m, run: run, namespace: namespacePrefix + run,
		observers: map[string]observe.Client{},
		kube:      kube, dialer: lab.NewDialer(config),
	}, nil
}

// redial forgets all lines and pods, after something broke.
func (s *site) redial() {
	s.dialer.Close()
	config := s.lab.RESTConfig()
	config.QPS, config.Burst = -1, -1
	s.dialer = lab.NewDialer(config)
	s.observers, s.control = map[string]observe.Client{}, nil
}

// createNamespace makes the run's namespace, with a note of who runs it.
// kind says which kind of study that is.
func (s *site) createNamespace(ctx context.Context, kind string) error {
	return s.ownNamespace(ctx, s.namespace, map[string]string{kindAnnotation: kind})
}

// ownNamespace makes a namespace of the run's own, into which the mesh then
// puts what sidecars need.
func (s *site) ownNamespace(ctx context.Context, name string, annotations map[string]string) error {
	me, err := thisProcess()
	if err != nil {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Annotations: annotations,
		Labels: map[string]string{
			runLabel: s.run, "app.kubernetes.io/part-of": "meshtrial",
			// The observe role looks at its node.
			"pod-security.kubernetes.io/enforce": "privileged",
		},
	}}
	if err := annotate(namespace, me); err != nil {
		return err
	}
	if _, err := s.kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	return awaitRoot(ctx, s.kube, s.mesh, name)
}

func (s *site) createObservers(ctx context.Context) error {
	set := observeSet(s.namespace, s.lab.Images(), s.run)
	if _, err := s.kube.AppsV1().DaemonSets(s.namespace).Create(ctx, set, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create DaemonSet %s: %w", set.Name, err)
	}
	return nil
}

// podRef is a running pod, by the names that measurements use.
type podRef struct {
	name, namespace string
	uid, node       string
	containers      map[string]string // name to container ID
	proxy           mesh.Admin        // nil: it has no sidecar
	proxyState      *mesh.ProxyState
}

// awaitObservers waits until an observer is ready on every node that has one
// of the workloads' pods. Other nodes do not matter.
func (s *site) awaitObservers(ctx context.Context) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		pods, err := s.kube.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("wait for the observers: %w", err)
		}
		lacking := unobserved(pods.Items)
		if len(lacking) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for an observer on node %s: %w", strings.Join(lacking, ", "), ctx.Err())
		case <-ticker.C:
		}
	}
}

// unobserved lists the nodes that have pods of workloads, but no observer
// that is ready.
func unobserved(pods []corev1.Pod) []string {
	var out []string
	for i := range pods {
		node := pods[i].Spec.NodeName
		if pods[i].Labels[mesh.AppLabel] == roleObserve || slices.Contains(out, node) {
			continue
		}
		if !slices.ContainsFunc(pods, func(p corev1.Pod) bool {
			return p.Labels[mesh.AppLabel] == roleObserve && p.Spec.NodeName == node && lab.PodReady(&p)
		}) {
			out = append(out, node)
		}
	}
	sort.Strings(out)
	return out
}

// readyPods lists the namespace's ready pods by app, and opens a line to each
// observer among them.
func (s *site) readyPods(ctx context.Context) (map[string]*corev1.Pod, error) {
	pods, err := s.kube.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list pods of namespace %s: %w", s.namespace, err)
	}
	byApp := map[string]*corev1.Pod{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !lab.PodReady(pod) {
			continue
		}
		app := pod.Labels[mesh.AppLabel]
		byApp[app] = pod
		if app == roleObserve {
			s.observers[pod.Spec.NodeName] = observe.Client{HTTPClient: s.http(pod, observeControlPort), BaseURL: "http://observe"}
		}
	}
	return byApp, nil
}

// findControlPlane notes the pods of a mesh's control plane that run on an
// observed node, in place of those noted before.
func (s *site) findControlPlane(ctx context.Context, m mesh.Mesh) error {
	s.control = nil
	namespace, selector := m.ControlPlane()
	if selector == "" {
		return nil
	}
	pods, err := s.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return fmt.Errorf("list the pods of mesh %s's control plane: %w", m.Name(), err)
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; lab.PodReady(pod) && s.observers[pod.Spec.NodeName].HTTPClient != nil {
			s.control = append(s.control, refOf(pod))
		}
	}
	return nil
}

func (s *site) http(pod *corev1.Pod, port int) *http.Client {
	return s.dialer.Role(pod.Namespace, pod.Name, port)
}

func refOf(pod *corev1.Pod) podRef {
	ref := podRef{name: pod.Name, namespace: pod.Namespace, uid: string(pod.UID), node: pod.Spec.NodeName, containers: map[string]string{}}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, status := range statuses {
			ref.containers[status.Name] = status.ContainerID
		}
	}
	return ref
}

func (s *site) newPodRef(ctx context.Context, pod *corev1.Pod, m mesh.Mesh) (podRef, error) {
	ref := refOf(pod)
	for _, name := range m.ProxyContainers() {
		if ref.containers[name] == "" {
			continue
		}
		ref.proxy = m.Admin(s.http(pod, m.AdminPort()))
		version, err := ref.proxy.Version(ctx)
		if err != nil {
			return ref, fmt.Errorf("sidecar of pod %s: %w", pod.Name, err)
		}
		ref.proxyState = &mesh.ProxyState{Version: version, CPULimit: cpuLimit(pod, name)}
	}
	return ref, nil
}

// cpuLimit is a container's CPU limit as Kubernetes writes it, "none"
// without one.
func cpuLimit(pod *corev1.Pod, container string) string {
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range containers {
			if limit, ok := c.Resources.Limits[corev1.ResourceCPU]; ok && c.Name == container {
				return limit.String()
			}
		}
	}
	return study.CPULimitNone
}

// removeTimeout bounds the clean-up, which runs also when the run's own
// context has ended.
const removeTimeout = 30 * time.Second

// remove deletes the namespace, and with it everything the run made.
func (s *site) remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	s.dialer.Close()
	return removeNamespace(ctx, s.kube, s.namespace)
}
