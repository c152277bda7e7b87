package runner

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/meshmark/meshmark/errs"
	"github.com/meshmark/meshmark/lab"
	loadcontrol "github.com/meshmark/meshmark/load/control"
	"github.com/meshmark/meshmark/mesh"
	"github.com/meshmark/meshmark/observe"
	"github.com/meshmark/meshmark/record"
	"github.com/meshmark/meshmark/study"
	workercontrol "github.com/meshmark/meshmark/worker/control"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// deployed is a topology that runs, with a line to each of its pods.
type deployed struct {
	topology
	o       *Options
	loads   map[study.Variant]*loadRole
	workers map[study.Variant]*workerRole
	// observers by node name.
	observers map[string]observe.Client
	control   []podRef // istiod's pods, whose CPU is measured too

	kube   kubernetes.Interface
	dialer *lab.Dialer
}

// podRef is a running pod, by the names that measurements use.
type podRef struct {
	name, uid, node string
	containers      map[string]string // name to container ID
	proxy           *observe.EnvoyAdmin
	proxyState      *mesh.ProxyState
}

type loadRole struct {
	pod podRef
	api *loadcontrol.Client
}

type workerRole struct {
	mesh.Workload
	pod podRef
	api workercontrol.Client
}

// deploy creates the topology and waits until every pod is ready and every
// role answers. On error it removes what it made.
func deploy(ctx context.Context, o *Options, plan *study.Plan, run string) (d *deployed, err error) {
	config := o.Lab.RESTConfig()
	config.QPS, config.Burst = -1, -1
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	d = &deployed{
		topology: newTopology(namespacePrefix+run, plan), o: o,
		loads: map[study.Variant]*loadRole{}, workers: map[study.Variant]*workerRole{},
		observers: map[string]observe.Client{},
		kube:      kube, dialer: lab.NewDialer(config),
	}
	defer func() {
		if err != nil {
			d.remove()
		}
	}()
	if err := d.create(ctx, run); err != nil {
		return d, err
	}
	if err := d.await(ctx); err != nil {
		return d, err
	}
	if err := d.connect(ctx); err != nil {
		return d, err
	}
	return d, d.configure(ctx)
}

// create makes namespace, policies, Services, Deployments and the DaemonSet.
func (d *deployed) create(ctx context.Context, run string) error {
	me, err := thisProcess()
	if err != nil {
		return fmt.Errorf("create namespace %s: %w", d.namespace, err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: d.namespace,
		Labels: map[string]string{
			runLabel: run, "app.kubernetes.io/part-of": "meshmark",
			// The observe role looks at its node.
			"pod-security.kubernetes.io/enforce": "privileged",
		},
	}}
	if err := annotate(namespace, me); err != nil {
		return err
	}
	if _, err := d.kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create namespace %s: %w", d.namespace, err)
	}
	deployments, err := d.deployments(d.o.Mesh, d.o.Lab.Images(), run)
	if err != nil {
		return err
	}
	// Policies first: a sidecar then starts with its final configuration.
	applier, err := lab.NewApplier(d.o.Lab.RESTConfig())
	if err != nil {
		return err
	}
	if err := applier.ApplyObjects(ctx, d.o.Mesh.Policies(d.workloads())); err != nil {
		return err
	}
	for _, service := range d.services(run) {
		if _, err := d.kube.CoreV1().Services(d.namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create Service %s: %w", service.Name, err)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, deployment := range deployments {
		group.Go(func() error {
			if _, err := d.kube.AppsV1().Deployments(d.namespace).Create(ctx, deployment, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("create Deployment %s: %w", deployment.Name, err)
			}
			return nil
		})
	}
	group.Go(func() error {
		set := d.observeSet(d.o.Lab.Images(), run)
		if _, err := d.kube.AppsV1().DaemonSets(d.namespace).Create(ctx, set, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create DaemonSet %s: %w", set.Name, err)
		}
		return nil
	})
	return group.Wait()
}

// readyTimeout bounds the wait for pods: an image may have to be pulled.
const readyTimeout = 3 * time.Minute

// await waits for every workload's pod, and an observer on their nodes.
func (d *deployed) await(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	group, ctx := errgroup.WithContext(limited)
	for _, w := range d.workloads() {
		group.Go(func() error {
			return lab.WaitPods(ctx, d.kube, d.namespace, mesh.AppLabel+"="+w.Name, 1)
		})
	}
	err := group.Wait()
	if err == nil {
		err = d.awaitObservers(limited)
	}
	if err != nil {
		return errs.WithHint(err, "kubectl -n %s get events --sort-by=.lastTimestamp", d.namespace)
	}
	return nil
}

// awaitObservers waits until an observer is ready on every node that has one
// of the workloads' pods. Other nodes do not matter.
func (d *deployed) awaitObservers(ctx context.Context) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		pods, err := d.kube.CoreV1().Pods(d.namespace).List(ctx, metav1.ListOptions{})
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

// connect finds the pods and opens a line to each.
func (d *deployed) connect(ctx context.Context) error {
	pods, err := d.kube.CoreV1().Pods(d.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list pods of namespace %s: %w", d.namespace, err)
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
			d.observers[pod.Spec.NodeName] = observe.Client{HTTPClient: d.http(pod, observeControlPort), BaseURL: "http://observe"}
		}
	}
	ref := func(w mesh.Workload) (podRef, error) {
		pod := byApp[w.Name]
		if pod == nil {
			return podRef{}, fmt.Errorf("workload %s has no ready pod", w.Name)
		}
		if d.observers[pod.Spec.NodeName].HTTPClient == nil {
			return podRef{}, errs.WithHint(fmt.Errorf("no observer runs on node %s", pod.Spec.NodeName),
				"kubectl -n %s describe daemonset %s", d.namespace, roleObserve)
		}
		return d.newPodRef(ctx, pod, d.o.Mesh)
	}
	for v, w := range d.clients {
		pod, err := ref(w)
		if err != nil {
			return err
		}
		d.loads[v] = &loadRole{pod: pod, api: loadcontrol.NewClient("http://load", d.http(byApp[w.Name], loadControlPort))}
	}
	for v, w := range d.servers {
		pod, err := ref(w)
		if err != nil {
			return err
		}
		d.workers[v] = &workerRole{Workload: w, pod: pod, api: workercontrol.Client{HTTPClient: d.http(byApp[w.Name], workerControlPort), BaseURL: "http://worker"}}
	}
	return d.findControlPlane(ctx)
}

// measure implements measurer.
func (d *deployed) measure(ctx context.Context, cell record.Cell, seed uint64) (record.Trial, []byte, error) {
	t, err := newTrial(d, d.o, cell, seed)
	if err != nil {
		return record.Trial{Schema: record.Schema, Cell: cell, Started: time.Now().UTC()}, nil, err
	}
	return t.measure(ctx)
}

// reconnect finds the pods again after something broke, waiting until they
// are ready.
func (d *deployed) reconnect(ctx context.Context) error {
	d.dialer.Close()
	config := d.o.Lab.RESTConfig()
	config.QPS, config.Burst = -1, -1
	d.dialer = lab.NewDialer(config)
	d.observers, d.control = map[string]observe.Client{}, nil
	if err := d.await(ctx); err != nil {
		return err
	}
	if err := d.connect(ctx); err != nil {
		return err
	}
	return d.configure(ctx)
}

// pods lists the pods of all workloads.
func (d *deployed) pods() []podRef {
	var out []podRef
	for _, l := range d.loads {
		out = append(out, l.pod)
	}
	for _, w := range d.workers {
		out = append(out, w.pod)
	}
	return out
}

// findControlPlane notes istiod's pods that run on an observed node.
func (d *deployed) findControlPlane(ctx context.Context) error {
	pods, err := d.kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: "app=istiod"})
	if err != nil {
		return fmt.Errorf("list istiod's pods: %w", err)
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; lab.PodReady(pod) && d.observers[pod.Spec.NodeName].HTTPClient != nil {
			d.control = append(d.control, refOf(pod))
		}
	}
	return nil
}

func (d *deployed) http(pod *corev1.Pod, port int) *http.Client {
	return d.dialer.Client(pod.Namespace, pod.Name, port)
}

func refOf(pod *corev1.Pod) podRef {
	ref := podRef{name: pod.Name, uid: string(pod.UID), node: pod.Spec.NodeName, containers: map[string]string{}}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, status := range statuses {
			ref.containers[status.Name] = status.ContainerID
		}
	}
	return ref
}

func (d *deployed) newPodRef(ctx context.Context, pod *corev1.Pod, m mesh.Mesh) (podRef, error) {
	ref := refOf(pod)
	for _, name := range m.ProxyContainers() {
		if ref.containers[name] == "" {
			continue
		}
		admin := observe.EnvoyAdmin{HTTPClient: d.http(pod, m.AdminPort())}
		info, err := admin.ServerInfo(ctx)
		if err != nil {
			return ref, fmt.Errorf("sidecar of pod %s: %w", pod.Name, err)
		}
		ref.proxy = &admin
		ref.proxyState = &mesh.ProxyState{Version: info.Version, CPULimit: cpuLimit(pod, name)}
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

// configure tells every worker what the study says of the workload.
func (d *deployed) configure(ctx context.Context) error {
	for _, server := range d.workers {
		_, err := server.api.Update(ctx, func(c *workercontrol.Config) { setWorkload(c, d.o.Study.Workload) })
		if err != nil {
			return fmt.Errorf("configure worker %s: %w", server.Name, err)
		}
	}
	return nil
}

func setWorkload(c *workercontrol.Config, w study.Workload) {
	c.ResponseBytes = int64(w.Response)
	t := w.ServiceTime
	c.ServiceTime = workercontrol.ServiceTime{Distribution: t.Distribution, MeanUS: micros(t.Mean), Sigma: t.Sigma, Seed: 1}
	if t.Distribution == study.DistributionRecorded {
		c.ServiceTime.MeanUS = 0
		for _, v := range t.Values {
			c.ServiceTime.SamplesUS = append(c.ServiceTime.SamplesUS, micros(v))
		}
	} else if t.Mean == 0 {
		c.ServiceTime = workercontrol.ServiceTime{Distribution: workercontrol.None}
	}
}

func micros(t time.Duration) float64 { return float64(t) / float64(time.Microsecond) }

// removeTimeout bounds the clean-up, which runs also when the run's own
// context has ended.
const removeTimeout = 30 * time.Second

// remove deletes the namespace, and with it everything the run made.
func (d *deployed) remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	d.dialer.Close()
	return removeNamespace(ctx, d.kube, d.namespace)
}
