package trial

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/drive/fault/drive"
	"github.com/meshtrial/meshtrial/drive/fault/node"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// faultLease is the time for which a fault outlives a dead runner.
const faultLease = 20 * time.Second

// lookAgain is the polling interval for proofs.
const lookAgain = 20 * time.Millisecond

// faultPod is a pod that a step may act on.
type faultPod struct {
	name, UID, node, IP string
	containers          map[string]string // name to latest ID
}

// faultPods converts residents for steps on nodes.
func faultPods(all []*resident) []faultPod {
	out := make([]faultPod, len(all))
	for i, r := range all {
		out[i] = faultPod{name: r.Name, UID: r.uid, node: r.Node, IP: r.IP, containers: r.containers}
	}
	return out
}

// nodeExecutor prepares what steps do to processes and packets.
type nodeExecutor struct {
	roles *site.FaultRoles
	// pods lists the living pods of a service by name; fault.LoadService stands for the clients.
	pods func(service string) []faultPod
	// addresses returns a service's addresses besides its pods': its Service's cluster IPs.
	addresses func(ctx context.Context, service string) ([]string, error)
	// proxies names the containers of the sidecar.
	proxies []string
	// control is the mesh's control plane; nil if the mesh has none.
	control *controlPods
	// onNodes returns the ztunnels on the nodes of a service's pods, or for "" all that carry the
	// trial's requests. waypoint is the waypoint of its services.
	onNodes  func(ctx context.Context, service string, pick int) ([]faultPod, error)
	sharing  []string // names the containers of ztunnel
	waypoint *controlPods
	// killed is called with ztunnels that are about to be killed.
	killed func([]victim)
}

// standingFault is a fault in force, with its lease.
type standingFault struct {
	client  node.Client
	pod     faultPod
	fault   node.Fault
	release func() error
}

// undoFaults ends faults concurrently. A fault that ended early is an error.
func undoFaults(ctx context.Context, all []standingFault) error {
	failed := make([]error, len(all))
	var wait sync.WaitGroup
	for i, one := range all {
		wait.Go(func() {
			kept := one.release()
			_, err := one.client.Undo(ctx, one.fault.ID)
			var status *jsonhttp.StatusError
			if errors.As(err, &status) && status.Status == http.StatusNotFound {
				err = errors.Join(fmt.Errorf("it ended early: %w", err), kept)
			}
			if err != nil {
				failed[i] = fmt.Errorf("pod %s: %w", one.pod.name, err)
			}
		})
	}
	wait.Wait()
	return errors.Join(failed...)
}

// choose returns the first n pods of a service by name, or all for fault.All.
func (h *nodeExecutor) choose(service string, n int) ([]faultPod, error) {
	pods := h.pods(service)
	if n == fault.All {
		n = len(pods)
	}
	if n == 0 || len(pods) < n {
		return nil, fmt.Errorf("%s has %d pods, the step needs %d", service, len(pods), n)
	}
	return pods[:n], nil
}

func namesOf(pods []faultPod) string {
	names := make([]string, len(pods))
	for i, pod := range pods {
		names[i] = pod.name
	}
	return strings.Join(names, ", ")
}

// victim is a container with the processes that a step targets.
type victim struct {
	pod       faultPod
	client    node.Client
	container node.Container
	processes []node.Process // of the given kind, as found
}

// victims finds, in each pod, the container with processes of a kind.
func (h *nodeExecutor) victims(ctx context.Context, pods []faultPod, kind string, containers []string) ([]victim, error) {
	out := make([]victim, len(pods))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i, pod := range pods {
		group.Go(func() error {
			client, err := h.roles.At(pod.node)
			if err != nil {
				return err
			}
			for _, name := range containers {
				if pod.containers[name] == "" {
					continue
				}
				v := victim{pod: pod, client: client, container: node.Container{PodUID: pod.UID, ID: pod.containers[name]}}
				all, err := client.Processes(ctx, v.container)
				if err != nil {
					return fmt.Errorf("pod %s: %w", pod.name, err)
				}
				if err := client.Prepare(ctx, pod.UID); err != nil {
					return fmt.Errorf("pod %s: %w", pod.name, err)
				}
				v.processes = slices.DeleteFunc(all, func(p node.Process) bool { return p.Kind != kind })
				if len(v.processes) > 0 {
					out[i] = v
					return nil
				}
			}
			return fmt.Errorf("pod %s has no process of kind %s in a container %s", pod.name, kind, strings.Join(containers, " or "))
		})
	}
	return out, group.Wait()
}

func (r *ready) Process(a *fault.Process) error { return r.holds(r.node.process(r.ctx, a, r.lasting)) }

// process kills or pauses.
func (h *nodeExecutor) process(ctx context.Context, p *fault.Process, lasting time.Duration) (drive.Execution, error) {
	var pods []faultPod
	var containers []string
	kind := ""
	var err error
	switch p.Of {
	case fault.OfControlPlane:
		if h.control == nil {
			return nil, errors.New("this mesh has no control plane")
		}
		kind = node.KindIstiod
		pods, containers, err = h.control.list(ctx)
	case fault.OfProxy, fault.OfAgent:
		kind, containers = map[string]string{fault.OfProxy: node.KindEnvoy, fault.OfAgent: node.KindAgent}[p.Of], h.proxies
		pods, err = h.choose(p.Service, p.Pick)
	case fault.OfZtunnel:
		kind, containers = node.KindNode, h.sharing
		pods, err = h.onNodes(ctx, p.Service, p.Pick)
	case fault.OfWaypoint:
		kind = node.KindEnvoy
		pods, containers, err = h.waypoint.list(ctx)
	case fault.OfWorker:
		kind, containers = node.KindWorker, []string{site.RoleWorker, site.RoleLoad}
		pods, err = h.choose(p.Service, p.Pick)
	default:
		err = fmt.Errorf("process of %q is not known here", p.Of)
	}
	if err != nil {
		return nil, err
	}
	all, err := h.victims(ctx, pods, kind, containers)
	if err != nil {
		return nil, err
	}
	target := kind + " of " + namesOf(pods)
	switch {
	case p.Of == fault.OfControlPlane && p.Do == fault.DoKill && lasting > 0:
		return h.control.away(ctx, target, kind, all)
	case p.Of == fault.OfWaypoint && p.Do == fault.DoKill && lasting > 0:
		return h.waypoint.away(ctx, target, kind, all)
	case p.Do == fault.DoPause:
		return pauseAll(target, kind, all), nil
	}
	killing := killAll(target, kind, all)
	if p.Do == fault.DoOOM {
		killing = starveAll(target, kind, all)
	}
	if p.Of == fault.OfZtunnel {
		kill := killing.begin
		killing.begin = func(ctx context.Context) error { h.killed(all); return kill(ctx) }
	}
	return killing, nil
}

// killAll kills processes for good; Kubernetes restarts them.
func killAll(target, kind string, all []victim) *execution {
	return &execution{
		target: target,
		begin: func(ctx context.Context) error {
			return each(ctx, all, func(ctx context.Context, _ int, v victim) error {
				_, err := v.client.Signal(ctx, node.SignalRequest{Container: v.container, Kind: kind, Signal: node.SignalKill})
				return err
			})
		},
		prove: func(ctx context.Context) (string, error) { return proveStates(ctx, all, "ended", hasEnded) },
	}
}

func hasEnded(state string) bool { return state == node.Gone || state == "Z" }

// starveAll makes the kernel kill processes for lack of memory; Kubernetes restarts them.
func starveAll(target, kind string, all []victim) *execution {
	counted := make([]string, len(all))
	return &execution{
		target: target,
		begin: func(ctx context.Context) error {
			return each(ctx, all, func(ctx context.Context, i int, v victim) error {
				f, err := v.client.Signal(ctx, node.SignalRequest{Container: v.container, Kind: kind, Signal: node.SignalOOM})
				if m := f.Memory; err == nil && m != nil {
					counted[i] = fmt.Sprintf("the kernel counted %d OOM kills in pod %s, which used %.1f MiB", m.Kills, v.pod.name, float64(m.UsedBytes)/(1<<20))
				}
				return err
			})
		},
		prove: func(ctx context.Context) (string, error) {
			text, err := proveStates(ctx, all, "ended", hasEnded)
			return strings.Join(append(counted, text), "; "), err
		},
	}
}

// pauseAll stops processes until the end of the step.
func pauseAll(target, kind string, all []victim) drive.Execution {
	var mu sync.Mutex
	var begun []standingFault
	return &execution{
		target: target,
		begin: func(ctx context.Context) error {
			return each(ctx, all, func(ctx context.Context, _ int, v victim) error {
				f, err := v.client.Signal(ctx, node.SignalRequest{Container: v.container, Kind: kind, Signal: node.SignalStop, LeaseMS: faultLease.Milliseconds()})
				if err == nil {
					mu.Lock()
					begun = append(begun, keep(ctx, v.client, v.pod, f))
					mu.Unlock()
				}
				return err
			})
		},
		prove: func(ctx context.Context) (string, error) {
			return proveStates(ctx, all, "stopped", func(state string) bool { return state == "T" })
		},
		end: func(ctx context.Context) error {
			if err := undoFaults(ctx, begun); err != nil {
				return err
			}
			_, err := proveStates(ctx, all, "going on", func(state string) bool { return state != "T" })
			return err
		},
	}
}

// keep renews a fault's lease until it is undone, even after the context in which it began ends.
func keep(ctx context.Context, client node.Client, pod faultPod, f node.Fault) standingFault {
	return standingFault{client: client, pod: pod, fault: f, release: client.Keep(context.WithoutCancel(ctx), faultLease, f.ID)}
}

// each calls act for all victims concurrently.
func each(ctx context.Context, all []victim, act func(context.Context, int, victim) error) error {
	failed := make([]error, len(all))
	var wait sync.WaitGroup
	for i, v := range all {
		wait.Go(func() {
			if err := act(ctx, i, v); err != nil {
				failed[i] = fmt.Errorf("pod %s: %w", v.pod.name, err)
			}
		})
	}
	wait.Wait()
	return errors.Join(failed...)
}

// proveStates waits until every process is in the right state, according to its node's /proc.
func proveStates(ctx context.Context, all []victim, word string, right func(state string) bool) (string, error) {
	ticker := time.NewTicker(lookAgain)
	defer ticker.Stop()
	for {
		count, wrong := 0, ""
		for _, v := range all {
			now, err := v.client.Look(ctx, v.processes)
			if err != nil {
				return "", fmt.Errorf("pod %s: %w", v.pod.name, err)
			}
			for _, p := range now {
				if right(p.State) {
					count++
				} else {
					wrong = fmt.Sprintf("process %d (%s) of pod %s is not %s but in state %s", p.PID, p.Comm, v.pod.name, word, p.State)
				}
			}
		}
		if wrong == "" {
			return fmt.Sprintf("/proc has %d of %d processes as %s", count, count, word), nil
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("%s: %w", wrong, ctx.Err())
		case <-ticker.C:
		}
	}
}

// newNodeExecutor returns a trial's executor for actions on nodes.
func newNodeExecutor(t *scenarioTrial, roles *site.FaultRoles) *nodeExecutor {
	h := &nodeExecutor{
		roles:   roles,
		proxies: mesh.Sidecars(t.scene.mesh).Containers,
		pods: func(service string) []faultPod {
			if service == fault.LoadService {
				service = roleClients
			}
			return faultPods(t.census.living(service))
		},
		addresses: func(ctx context.Context, service string) ([]string, error) {
			if service == fault.LoadService {
				return nil, nil // they receive no calls
			}
			found, err := t.Kube.CoreV1().Services(t.Namespace).Get(ctx, service, metav1.GetOptions{})
			if err != nil {
				return nil, fmt.Errorf("addresses of Service %s: %w", service, err)
			}
			return slices.DeleteFunc(found.Spec.ClusterIPs, func(ip string) bool { return ip == "" || ip == corev1.ClusterIPNone }), nil
		},
	}
	h.control = controlOf(t.Kube, t.changes, t.scene.mesh)
	if t.scene.ambient() { // steps only affect what carries requests
		h.onNodes, h.sharing, h.killed = t.ztunnelsOf, t.scene.mesh.Proxies(record.PlaceNode).Containers, t.shared.noteKilled
		h.waypoint = waypointPods(t.Kube, t.Namespace, t.scene.mesh.Proxies(record.PlaceWaypoint))
	}
	return h
}
