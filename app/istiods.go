package app

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe/signals"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Istiod says which istiod of a lab: the only one of a namespace, or that of a revision.
type Istiod struct {
	Where
	Namespace string // of istiod
	Revision  string // "": the only one
}

// Config returns how to reach the cluster, for a feature in a namespace that
// the user names.
func (f *Istiod) Config(ctx context.Context, namespace string, features ...string) (*rest.Config, error) {
	at := Places(nil, namespace)
	at.Meshes[study.MeshIstio] = f.Namespace
	return f.Where.Config(ctx, Rights(at, append([]string{rights.Reach}, features...)...))
}

// istiodPort is where istiod serves its metrics.
const istiodPort = 15014

// kubeletEvery is how often kubelets are asked for the CPU of istiod's
// containers: they look themselves no more often than that.
const kubeletEvery = 10 * time.Second

// Istiods finds the metrics pages of a cluster's istiods through its API
// alone: each pod's own, and what the kubelets know of their containers.
type Istiods struct {
	Istiod
	of      string // the revision that was found
	config  *rest.Config
	kube    kubernetes.Interface
	dialer  *lab.Dialer
	clients map[string]*http.Client
}

// Open reaches the istiods, for some features in a namespace that the user names.
func (f Istiod) Open(ctx context.Context, namespace string, features ...string) (*Istiods, error) {
	config, err := f.Config(ctx, namespace, features...)
	if err != nil {
		return nil, err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, errs.Usage("kubeconfig: %v", err)
	}
	return &Istiods{Istiod: f, config: config, kube: kube, dialer: lab.NewDialer(config), clients: map[string]*http.Client{}}, nil
}

func (i *Istiods) Close() {
	for _, c := range i.clients {
		c.CloseIdleConnections()
	}
	i.dialer.Close()
}

// Targets lists the pages as they are now. No running istiod is an error.
func (i *Istiods) Targets(ctx context.Context) ([]signals.Target, error) {
	all, nodes, err := i.find(ctx)
	for node, names := range nodes {
		all = append(all,
			i.kubelet(node, "/metrics/cadvisor", keepCAdvisor(names)),
			i.kubelet(node, "/metrics/resource", keepOfPods(names, "container_cpu_usage_seconds_total")))
	}
	return all, err
}

// Pods lists istiod's own pages alone.
func (i *Istiods) Pods(ctx context.Context) ([]signals.Target, error) {
	all, _, err := i.find(ctx)
	return all, err
}

// find lists the running istiods, and their names by node.
func (i *Istiods) find(ctx context.Context) (all []signals.Target, nodes map[string][]string, err error) {
	pods, err := i.kube.CoreV1().Pods(i.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=istiod"})
	if err != nil {
		return nil, nil, fmt.Errorf("look for istiod in namespace %s: %w", i.Namespace, err)
	}
	running, err := ofRevision(pods.Items, i.Revision)
	if err != nil {
		return nil, nil, err
	}
	nodes = map[string][]string{}
	for _, pod := range running {
		if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
			continue
		}
		all, i.of = append(all, i.istiod(pod)), Istio().RevisionOf(pod.Labels)
		nodes[pod.Spec.NodeName] = append(nodes[pod.Spec.NodeName], pod.Name)
	}
	if len(all) == 0 {
		return nil, nil, errs.WithHint(fmt.Errorf("no istiod runs in namespace %s", i.Namespace),
			"kubectl get pods -A -l app=istiod finds it; name its namespace with --istio-namespace")
	}
	return all, nodes, nil
}

// Istio is the adapter of the mesh whose control plane commands read.
func Istio() istioMesh { return Mesh(study.MeshIstio, lab.Images{}).(istioMesh) }

type istioMesh interface {
	mesh.Chooser
	mesh.Controlled
	FoundInObjects(pods []corev1.Pod, config []byte) (record.Cell, error)
}

// ofRevision are the pods of istiod of a revision; for "" of the only one there is.
func ofRevision(pods []corev1.Pod, revision string) ([]corev1.Pod, error) {
	of := map[string][]corev1.Pod{}
	for _, pod := range pods {
		name := Istio().RevisionOf(pod.Labels)
		of[name] = append(of[name], pod)
	}
	names := strings.Join(slices.Sorted(maps.Keys(of)), ", ")
	switch {
	case revision == "" && len(of) > 1:
		return nil, errs.WithHint(errs.Usage("there are istiods of several revisions: %s", names), "say which with --revision")
	case revision == "":
		return pods, nil
	case len(pods) > 0 && len(of[revision]) == 0:
		return nil, errs.WithHint(errs.Usage("there is no istiod of revision %s", revision), "--revision takes one of %s", names)
	}
	return of[revision], nil
}

func (i *Istiods) istiod(pod corev1.Pod) signals.Target {
	client, ok := i.clients[pod.Name]
	if !ok {
		client = i.dialer.Client(pod.Namespace, pod.Name, istiodPort)
		i.clients[pod.Name] = client
	}
	return signals.Target{
		Labels: map[string]string{"job": "istiod", "app": "istiod", "namespace": pod.Namespace, "pod": pod.Name,
			"instance": fmt.Sprintf("%s:%d", pod.Status.PodIP, istiodPort)},
		Fetch: func(ctx context.Context) (io.ReadCloser, error) { return get(ctx, client, "http://istiod/metrics") },
	}
}

func get(ctx context.Context, client *http.Client, url string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
		return nil, fmt.Errorf("%s: %s: %s", req.URL.Path, resp.Status, words.Clean(string(bytes.TrimSpace(text))))
	}
	return resp.Body, nil
}

func (i *Istiods) kubelet(node, path string, keep func([]byte) bool) signals.Target {
	return signals.Target{
		Labels: map[string]string{"job": "kubelet", "instance": node, "metrics_path": path},
		Every:  kubeletEvery, Keep: keep,
		Fetch: func(ctx context.Context) (io.ReadCloser, error) {
			body, err := i.kube.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes", node, "proxy"+path).Stream(ctx)
			if apierrors.IsForbidden(err) {
				err = fmt.Errorf("%w (the CPU of istiod's container needs the right to get nodes/proxy)", err)
			}
			return body, err
		},
	}
}

// keepCAdvisor keeps what a node's cAdvisor says of its machine and its CPU use, and of
// the limits of the pods, how much they held back, and the network.
func keepCAdvisor(pods []string) func([]byte) bool {
	ofPods := keepOfPods(pods, "container_spec_cpu_quota", "container_spec_cpu_period", "container_cpu_cfs_throttled_seconds_total", "container_network_transmit_bytes_total")
	return func(line []byte) bool {
		return bytes.HasPrefix(line, []byte("machine_cpu_cores")) || ofPods(line) ||
			bytes.HasPrefix(line, []byte("container_cpu_usage_seconds_total")) && bytes.Contains(line, []byte(`id="/"`))
	}
}

// keepOfPods keeps metrics of the pods.
func keepOfPods(pods []string, metrics ...string) func([]byte) bool {
	return func(line []byte) bool {
		return slices.ContainsFunc(metrics, func(metric string) bool { return bytes.HasPrefix(line, []byte(metric)) }) &&
			slices.ContainsFunc(pods, func(pod string) bool { return bytes.Contains(line, []byte(`pod="`+pod+`"`)) })
	}
}
