package population

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Types of proxy, as in a node's id.
const (
	Sidecar = "sidecar"
	Router  = "router"
	Ztunnel = "ztunnel"
)

// Identity is whom a simulated proxy claims to be: a Pod that exists.
type Identity struct {
	Type           string            `json:"type"` // Sidecar, Router or Ztunnel
	Name           string            `json:"name"` // of the Pod
	Namespace      string            `json:"namespace"`
	IP             string            `json:"ip"`
	ServiceAccount string            `json:"service_account"`
	Node           string            `json:"node"`
	Labels         map[string]string `json:"labels"`
	// Workload is the name of the pod's Deployment.
	Workload string `json:"workload"`
	// Ports are those of its container.
	Ports []Port `json:"ports,omitempty"`
}

// Port is a port of a pod's container, as POD_PORTS of a node's metadata
// gives it.
type Port struct {
	Name          string `json:"name"`
	ContainerPort int    `json:"containerPort"`
	Protocol      string `json:"protocol"`
}

// Identities picks the simulated sidecars, gateways and ztunnels out of the
// population's pods: the first pod of each Service, then the second of each,
// then those of no Service; so a few sidecars are already spread over all
// namespaces and Services. Each type's proxies stand at even distances, so that even
// parts of all have as many of each. It is an error when there are not enough running
// pods.
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
			return nil, fmt.Errorf("pods %s and %s/%s have the same address %s: kwok gave it twice, which it does when it is started anew over a population", other, pod.Namespace, pod.Name, pod.Status.PodIP)
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
			return nil, fmt.Errorf("%d simulated %s need as many running pods: there are %d", want.n, want.what, len(list))
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

// interleaved is lists in one, in which each list's members keep their order and stand at
// even distances.
func interleaved[T any](lists [][]T) []T {
	type placed struct {
		member T
		at     float64 // between 0, where the list begins, and 1
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

// running tells whether a pod runs, is ready and has an address.
func running(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP == "" {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
