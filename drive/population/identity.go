package population

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/podstate"
)

// Types of proxy, as in a node's id.
const (
	Sidecar = "sidecar"
	Router  = "router"
	Ztunnel = "ztunnel"
)

// Identity is the existing Pod to which a simulated proxy claims to belong.
type Identity struct {
	Type           string            `json:"type"` // Sidecar, Router or Ztunnel
	Name           string            `json:"name"` // of the Pod
	Namespace      string            `json:"namespace"`
	IP             string            `json:"ip"`
	ServiceAccount string            `json:"service_account"`
	Node           string            `json:"node"`
	Labels         map[string]string `json:"labels"`
	Workload       string            `json:"workload"` // the pod's Deployment
	Ports          []Port            `json:"ports,omitempty"`
}

// Port is a container port, as in POD_PORTS of a node's metadata.
type Port struct {
	Name          string `json:"name"`
	ContainerPort int    `json:"containerPort"`
	Protocol      string `json:"protocol"`
}

// Identities picks the simulated sidecars, gateways and ztunnels from the
// population's pods: the first pod of each Service, then the second of each, then
// those of no Service, so that even a few sidecars are spread over all namespaces
// and Services. The types are interleaved evenly, so that equal parts of the result
// have equal numbers of each. Too few running pods are an error.
func (s Sizes) Identities(pods []corev1.Pod) ([]Identity, error) {
	type candidate struct {
		id             Identity
		rank, workload int
		served         bool
	}
	byWorkload := map[string][]candidate{}
	ips := map[string]string{}
	for i := range pods {
		pod := &pods[i]
		if pod.Labels[Label] != LabelValue || !running(pod) {
			continue
		}
		if other, twice := ips[pod.Status.PodIP]; twice {
			return nil, fmt.Errorf("pods %s and %s/%s have the same address %s: kwok assigned it twice, as it does when restarted with an existing population", other, pod.Namespace, pod.Name, pod.Status.PodIP)
		}
		ips[pod.Status.PodIP] = pod.Namespace + "/" + pod.Name
		c := candidate{id: identityOf(pod)}
		app := pod.Labels[AppLabel]
		switch number, isService := strings.CutPrefix(app, "svc-"); {
		case app == GatewayDeployment && pod.Namespace == GatewayNamespace:
			c.id.Type = Router
		case app == ZtunnelDeployment && pod.Namespace == ZtunnelNamespace:
			c.id.Type = Ztunnel
		case isService:
			n, err := strconv.Atoi(number)
			if err != nil {
				return nil, fmt.Errorf("pod %s/%s: label %s=%s names no Service of the population", pod.Namespace, pod.Name, AppLabel, app)
			}
			c.served, c.workload = true, n
		case app != ClientsDeployment:
			continue
		}
		key := pod.Namespace + "/" + app
		byWorkload[key] = append(byWorkload[key], c)
	}
	of := map[string][]candidate{} // by type
	for _, list := range byWorkload {
		slices.SortFunc(list, func(a, b candidate) int { return strings.Compare(a.id.Name, b.id.Name) })
		for i := range list {
			list[i].rank = i
			of[list[i].id.Type] = append(of[list[i].id.Type], list[i])
		}
	}
	order := func(a, b candidate) int {
		if a.served != b.served {
			if a.served {
				return -1
			}
			return 1
		}
		return cmp.Or(a.rank-b.rank, a.workload-b.workload, strings.Compare(a.id.Namespace, b.id.Namespace), strings.Compare(a.id.Name, b.id.Name))
	}
	var picked [][]Identity // by type
	for _, want := range []struct {
		what, name string
		n          int
	}{{"sidecars", Sidecar, s.Proxies}, {"gateways", Router, s.Gateways}, {"ztunnels", Ztunnel, s.Ztunnels}} {
		list := of[want.name]
		if len(list) < want.n {
			return nil, fmt.Errorf("%d simulated %s need as many running pods, but there are %d", want.n, want.what, len(list))
		}
		slices.SortFunc(list, order)
		ids := make([]Identity, want.n)
		for i, c := range list[:want.n] {
			ids[i] = c.id
		}
		picked = append(picked, ids)
	}
	return interleaved(picked), nil
}

// interleaved merges lists. The members of each list keep their order and are evenly
// spaced.
func interleaved[T any](lists [][]T) []T {
	type placed struct {
		member T
		at     float64 // position, from 0 to 1
	}
	var all []placed
	for _, list := range lists {
		for i, member := range list {
			all = append(all, placed{member, (float64(i) + 0.5) / float64(len(list))})
		}
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Compare(a.at, b.at) })
	out := make([]T, len(all))
	for i, p := range all {
		out[i] = p.member
	}
	return out
}

func identityOf(pod *corev1.Pod) Identity {
	id := Identity{Type: Sidecar, Name: pod.Name, Namespace: pod.Namespace, IP: pod.Status.PodIP,
		ServiceAccount: pod.Spec.ServiceAccountName, Node: pod.Spec.NodeName, Labels: pod.Labels, Workload: pod.Labels[AppLabel]}
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			id.Ports = append(id.Ports, Port{Name: p.Name, ContainerPort: int(p.ContainerPort), Protocol: string(p.Protocol)})
		}
	}
	return id
}

// running reports whether a pod runs, is ready and has an address.
func running(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning && pod.Status.PodIP != "" && podstate.Ready(pod)
}

// Newest returns an identity for one more proxy of a namespace: the newest of the
// simulated pods that run there, preferably one that no proxy claims yet.
func (w *World) Newest(ctx context.Context, namespace string, claimed []Identity) (Identity, error) {
	pods, err := w.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: Label + "=" + LabelValue})
	if err != nil {
		return Identity{}, fmt.Errorf("list pods: %w", err)
	}
	id, ok := newest(pods.Items, claimed)
	if !ok {
		return Identity{}, fmt.Errorf("no simulated pod runs in namespace %s", namespace)
	}
	return id, nil
}

// newest picks the identity; false if no pod runs.
func newest(pods []corev1.Pod, claimed []Identity) (Identity, bool) {
	taken := make(map[string]bool, len(claimed))
	for _, id := range claimed {
		taken[id.Namespace+"/"+id.Name] = true
	}
	var best *corev1.Pod
	better := func(a, b *corev1.Pod) bool {
		if x, y := taken[a.Namespace+"/"+a.Name], taken[b.Namespace+"/"+b.Name]; x != y {
			return y
		}
		if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
			return c > 0
		}
		return strings.Compare(a.Name, b.Name) < 0
	}
	for i := range pods {
		if pod := &pods[i]; running(pod) && (best == nil || better(pod, best)) {
			best = pod
		}
	}
	if best == nil {
		return Identity{}, false
	}
	return identityOf(best), true
}
