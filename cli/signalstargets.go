package cli

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

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/cluster"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe/signals"
	"github.com/meshtrial/meshtrial/study"
)

// istiodFlags say which istiod: that of a lab.
type istiodFlags struct {
	lab        string
	kubeconfig string
	context    string
	namespace  string // of istiod
	revision   string // "": the only one
}

func (f *istiodFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.lab, "lab", lab.KindLocal, "where istiod runs: local (the lab on this machine) or cluster (a kubeconfig's)")
	addKubeconfigFlags(flags, &f.kubeconfig, &f.context, ofLabCluster)
	addRevisionFlag(flags, &f.revision)
	flags.StringVar(&f.namespace, "istio-namespace", "istio-system", "where istiod is installed")
}

func addRevisionFlag(flags *pflag.FlagSet, to *string) {
	flags.StringVar(to, "revision", "", "`name` of Istio's revision, where several are installed")
}

// check finds flags that do not go together.
func (f *istiodFlags) check() error {
	switch f.lab {
	case lab.KindCluster:
		return nil
	case lab.KindLocal:
		for _, flag := range [][2]string{{"--kubeconfig", f.kubeconfig}, {"--context", f.context}} {
			if flag[1] != "" {
				return errs.WithHint(errs.Usage("%s requires --lab cluster", flag[0]), "add --lab cluster")
			}
		}
		return nil
	}
	return errs.WithHint(errs.Usage("unknown lab %q", f.lab), "--lab takes local or cluster")
}

// config returns how to reach the cluster, for a feature in a namespace that
// the user names.
func (f *istiodFlags) config(ctx context.Context, namespace string, features ...string) (*rest.Config, error) {
	at := app.Places(nil, namespace)
	at.Meshes[study.MeshIstio] = f.namespace
	return readConfig(ctx, f.lab, f.kubeconfig, f.context, app.Rights(at, append([]string{rights.Reach}, features...)...))
}

// readConfig returns how to reach a lab, if its user has the rights that are
// needed there. What is lost without others is said where it is lost.
func readConfig(ctx context.Context, kind, kubeconfig, kubecontext string, needs []rights.Feature) (*rest.Config, error) {
	if kind == lab.KindLocal {
		l, err := local.Open("")
		if err != nil {
			return nil, err
		}
		return l.RESTConfig(), nil
	}
	return cluster.Reach(ctx, cluster.Options{Kubeconfig: kubeconfig, Context: kubecontext, Needs: needs})
}

// istiodPort is where istiod serves its metrics.
const istiodPort = 15014

// kubeletEvery is how often kubelets are asked for the CPU of istiod's
// containers: they look themselves no more often than that.
const kubeletEvery = 10 * time.Second

// istiods finds the metrics pages of a cluster's istiods through its API
// alone: each pod's own, and what the kubelets know of their containers.
type istiods struct {
	namespace string
	revision  string
	of        string // the revision that was found
	config    *rest.Config
	kube      kubernetes.Interface
	dialer    *lab.Dialer
	clients   map[string]*http.Client
}

func newIstiods(ctx context.Context, f *istiodFlags, feature string) (*istiods, error) {
	config, err := f.config(ctx, "", feature)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = -1, -1 // the server decides how fast
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, errs.Usage("kubeconfig: %v", err)
	}
	return &istiods{namespace: f.namespace, revision: f.revision, config: config, kube: kube, dialer: lab.NewDialer(config), clients: map[string]*http.Client{}}, nil
}

func (i *istiods) close() {
	for _, c := range i.clients {
		c.CloseIdleConnections()
	}
	i.dialer.Close()
}

// targets lists the pages as they are now. No running istiod is an error.
func (i *istiods) targets(ctx context.Context) ([]signals.Target, error) {
	all, nodes, err := i.find(ctx)
	for node, names := range nodes {
		all = append(all,
			i.kubelet(node, "/metrics/cadvisor", keepCAdvisor(names)),
			i.kubelet(node, "/metrics/resource", keepContainers(names)))
	}
	return all, err
}

// pods lists istiod's own pages alone.
func (i *istiods) pods(ctx context.Context) ([]signals.Target, error) {
	all, _, err := i.find(ctx)
	return all, err
}

// find lists the running istiods, and their names by node.
func (i *istiods) find(ctx context.Context) (all []signals.Target, nodes map[string][]string, err error) {
	pods, err := i.kube.CoreV1().Pods(i.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=istiod"})
	if err != nil {
		return nil, nil, fmt.Errorf("look for istiod in namespace %s: %w", i.namespace, err)
	}
	running, err := ofRevision(pods.Items, i.revision)
	if err != nil {
		return nil, nil, err
	}
	nodes = map[string][]string{}
	for _, pod := range running {
		if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
			continue
		}
		all, i.of = append(all, i.istiod(pod)), istioAdapter().RevisionOf(pod.Labels)
		nodes[pod.Spec.NodeName] = append(nodes[pod.Spec.NodeName], pod.Name)
	}
	if len(all) == 0 {
		return nil, nil, errs.WithHint(fmt.Errorf("no istiod runs in namespace %s", i.namespace),
			"kubectl get pods -A -l app=istiod finds it; name its namespace with --istio-namespace")
	}
	return all, nodes, nil
}

// istioAdapter is the adapter of the mesh that these commands are about.
func istioAdapter() istioMesh { return app.Mesh(study.MeshIstio, lab.Images{}).(istioMesh) }

type istioMesh interface {
	mesh.Chooser
	mesh.Controlled
}

// ofRevision are the pods of istiod of a revision; for "" of the only one there is.
func ofRevision(pods []corev1.Pod, revision string) ([]corev1.Pod, error) {
	of := map[string][]corev1.Pod{}
	for _, pod := range pods {
		name := istioAdapter().RevisionOf(pod.Labels)
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

func (i *istiods) istiod(pod corev1.Pod) signals.Target {
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
		resp.Body.Close()
		return nil, fmt.Errorf("HTTP status %s", resp.Status)
	}
	return resp.Body, nil
}

func (i *istiods) kubelet(node, path string, keep func([]byte) bool) signals.Target {
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

// keepCAdvisor keeps what a node's cAdvisor says of its machine, and of the limits
// of the pods, how much they held back, and the network.
func keepCAdvisor(pods []string) func([]byte) bool {
	return func(line []byte) bool {
		switch {
		case bytes.HasPrefix(line, []byte("machine_cpu_cores")):
			return true
		case bytes.HasPrefix(line, []byte("container_spec_cpu_quota")), bytes.HasPrefix(line, []byte("container_spec_cpu_period")),
			bytes.HasPrefix(line, []byte("container_cpu_cfs_throttled_seconds_total")), bytes.HasPrefix(line, []byte("container_network_transmit_bytes_total")):
			return ofPods(line, pods)
		}
		return false
	}
}

// keepContainers keeps the CPU of the pods' containers.
func keepContainers(pods []string) func([]byte) bool {
	return func(line []byte) bool {
		return bytes.HasPrefix(line, []byte("container_cpu_usage_seconds_total")) && ofPods(line, pods)
	}
}

func ofPods(line []byte, pods []string) bool {
	for _, pod := range pods {
		if bytes.Contains(line, []byte(`pod="`+pod+`"`)) {
			return true
		}
	}
	return false
}
