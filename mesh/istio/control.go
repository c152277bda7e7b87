package istio

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/mesh"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Names and ports of istiod's own contract, as its chart sets them.
const (
	istiodLabel     = "app=istiod"
	istiodContainer = "discovery"
	meshConfigMap   = "istio" // of revision default; istio-REVISION for others
	meshConfigKey   = "mesh"
	rootCAConfigMap = "istio-ca-root-cert"
	rootCAKey       = "root-cert.pem"
	monitoringPort  = 15014 // metrics, and /debug on the loopback
	controlZPort    = 9876  // ControlZ, on the loopback
	plaintextPort   = 15010
	tlsPort         = 15012
	tokenAudience   = "istio-ca"
	injectorLabel   = "app=sidecar-injector"
	revisionLabel   = "istio.io/rev"
	injectLabel     = "sidecar.istio.io/inject"
)

// ControlPlane is istiod as the system under test. Close ends its connections to
// istiod's pods.
type ControlPlane struct {
	kube     kubernetes.Interface
	sidecars dynamic.NamespaceableResourceInterface
	leases   dynamic.NamespaceableResourceInterface
	changes  *journal.Journal // nil: read-only
	dialer   *lab.Dialer
	// name is that of istiod's Deployment, config that of the ConfigMap with its
	// MeshConfig, and revision that of its label.
	name, config, revision string
	root                   string // see [ControlPlane.Root]
	// unelected has the pod templates of istiod for which the Lease of its election did
	// not appear.
	unelected map[string]bool
}

var _ mesh.ControlPlane = (*ControlPlane)(nil)

// NewControlPlane returns the istiod of a revision or a revision tag, or the only one
// for "". Without changes no levers can be set.
func NewControlPlane(ctx context.Context, config *rest.Config, revision string, changes *journal.Journal) (
	*ControlPlane, error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("istio: %w", err)
	}
	d, err := findIstiod(ctx, kube, revision)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("istio: %w", err)
	}
	return &ControlPlane{kube: kube, sidecars: objects.Resource(sidecarResource), leases: objects.Resource(leaseResource), changes: changes,
		dialer: lab.NewDialer(config), name: d.Name, config: configMapOf(d), revision: revisionOf(d.Labels)}, nil
}

// Control returns istiod; see [NewControlPlane].
func (*Mesh) Control(ctx context.Context, config *rest.Config, revision string, j *journal.Journal) (mesh.Tested, error) {
	return NewControlPlane(ctx, config, revision, j)
}

// configMapOf returns the name of the ConfigMap that a revision of istiod reads.
func configMapOf(d *appsv1.Deployment) string { return configMapNamed(revisionOf(d.Labels)) }

// configMapNamed returns the name that Istio's charts give to the ConfigMap with the
// MeshConfig of a revision.
func configMapNamed(revision string) string {
	if revision == "" || revision == defaultRevision {
		return meshConfigMap
	}
	return meshConfigMap + "-" + revision
}

// Close ends the connections to istiod's pods.
func (c *ControlPlane) Close() error { return c.dialer.Close() }

// Pods lists istiod's ready replicas.
func (c *ControlPlane) Pods(ctx context.Context) ([]mesh.ControlPod, error) {
	return c.podsWith(ctx, lab.PodReady)
}

// Started lists istiod's replicas whose container is running.
func (c *ControlPlane) Started(ctx context.Context) ([]mesh.ControlPod, error) {
	return c.podsWith(ctx, func(pod *corev1.Pod) bool {
		return slices.ContainsFunc(pod.Status.ContainerStatuses, func(status corev1.ContainerStatus) bool {
			return status.Name == istiodContainer && status.State.Running != nil
		})
	})
}

func (c *ControlPlane) podsWith(ctx context.Context, property func(*corev1.Pod) bool) ([]mesh.ControlPod, error) {
	pods, err := c.pods(ctx)
	if err != nil {
		return nil, err
	}
	return controlPods(pods, property), nil
}

// controlPods returns the pods with a property.
func controlPods(pods []corev1.Pod, property func(*corev1.Pod) bool) (out []mesh.ControlPod) {
	for i := range pods {
		if property(&pods[i]) {
			out = append(out, controlPod(&pods[i]))
		}
	}
	return out
}

// pods lists all of the Deployment's pods by name, including terminating ones.
func (c *ControlPlane) pods(ctx context.Context) ([]corev1.Pod, error) {
	d, err := c.deployment(ctx)
	if err != nil {
		return nil, err
	}
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("istio: selector of Deployment %s/%s: %w", Namespace, c.name, err)
	}
	pods, err := c.kube.CoreV1().Pods(Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return nil, fmt.Errorf("istio: list istiod's pods: %w", err)
	}
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods.Items, nil
}

func (c *ControlPlane) deployment(ctx context.Context) (*appsv1.Deployment, error) {
	d, err := c.kube.AppsV1().Deployments(Namespace).Get(ctx, c.name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("istio: read Deployment %s/%s: %w", Namespace, c.name, err)
	}
	return d, nil
}

func controlPod(pod *corev1.Pod) mesh.ControlPod {
	out := mesh.ControlPod{
		Ready:     lab.PodReady(pod),
		Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Node: pod.Spec.NodeName, IP: pod.Status.PodIP,
		Container: istiodContainer, Containers: map[string]string{}, AdminPort: monitoringPort,
	}
	for _, status := range pod.Status.ContainerStatuses {
		out.Containers[status.Name] = status.ContainerID
		if status.Name == istiodContainer {
			out.Restarts = status.RestartCount
		}
	}
	return out
}

// Discovery returns where proxies connect to istiod. watched is a namespace that istiod
// watches. It may not watch its own, and its root certificate exists only in watched
// namespaces.
func (c *ControlPlane) Discovery(ctx context.Context, watched string) (mesh.Discovery, error) {
	d, err := c.deployment(ctx)
	if err != nil {
		return mesh.Discovery{}, err
	}
	// The chart gives Service and Deployment the same name.
	if _, err := c.kube.CoreV1().Services(Namespace).Get(ctx, c.name, metav1.GetOptions{}); err != nil {
		return mesh.Discovery{}, fmt.Errorf("istio: read Service %s/%s: %w", Namespace, c.name, err)
	}
	root, err := c.kube.CoreV1().ConfigMaps(Namespace).Get(ctx, rootCAConfigMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		root, err = c.kube.CoreV1().ConfigMaps(watched).Get(ctx, rootCAConfigMap, metav1.GetOptions{})
	}
	if err != nil {
		return mesh.Discovery{}, errs.WithHint(fmt.Errorf("istio: istiod's root certificate: %w", err),
			"istiod writes ConfigMap %s to each namespace that it watches: check that istiod is running", rootCAConfigMap)
	}
	out := mesh.Discovery{
		ServerName: c.name + "." + Namespace + ".svc",
		RootCA:     []byte(root.Data[rootCAKey]),
		Audience:   tokenAudience, ClusterID: "Kubernetes",
	}
	out.Plaintext = fmt.Sprintf("%s:%d", out.ServerName, plaintextPort)
	out.TLS = fmt.Sprintf("%s:%d", out.ServerName, tlsPort)
	if container := containerOf(&d.Spec.Template.Spec); container != nil {
		out.Version = mesh.Version(container.Image)
		out.Ambient = ambientOn(container.Env)
		for _, env := range container.Env {
			if env.Name == "CLUSTER_ID" && env.Value != "" {
				out.ClusterID = env.Value
			}
		}
	}
	return out, nil
}

// containerOf returns istiod's own container; nil if there is none.
func containerOf(spec *corev1.PodSpec) *corev1.Container {
	for i := range spec.Containers {
		if spec.Containers[i].Name == istiodContainer {
			return &spec.Containers[i]
		}
	}
	return nil
}

// Logs follows the log of a replica from an instant until the context ends or the
// container does.
func (c *ControlPlane) Logs(ctx context.Context, pod mesh.ControlPod, since time.Time) (io.ReadCloser, error) {
	from := metav1.NewTime(since)
	stream, err := c.kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
		Container: pod.Container, Follow: true, SinceTime: &from,
	}).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("istio: follow the log of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return stream, nil
}
