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
	"github.com/meshtrial/meshtrial/drive/fault/node"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
)

// faultLease is the time for which a fault outlives a dead runner.
const faultLease = 20 * time.Second

// lookAgain is the polling interval for proofs.
const lookAgain = 20 * time.Millisecond

// podsOf returns residents as other code knows pods.
func podsOf(all []*resident) []site.Pod {
	out := make([]site.Pod, len(all))
	for i, r := range all {
		out[i] = site.Pod{Name: r.Name, UID: r.uid, Node: r.Node, Address: r.IP, Containers: r.containers}
	}
	return out
}

func namesOf(pods []site.Pod) string {
	names := make([]string, len(pods))
	for i, pod := range pods {
		names[i] = pod.Name
	}
	return strings.Join(names, ", ")
}

// victim is a pod that a step acts on.
type victim struct {
	pod    site.Pod
	client node.Client
	// container has the processes that the step acts on, as found.
	container node.Container
	processes []node.Process
	// fault is in force once begun, and release ends the renewal of its lease; nil: there is none.
	fault   node.Fault
	release func() error
}

// keeps renews the lease of a fault until it is undone, even after the context in which it began
// ends. err is that of beginning the fault.
func (v *victim) keeps(ctx context.Context, f node.Fault, err error) error {
	if err == nil {
		v.fault, v.release = f, v.client.Keep(context.WithoutCancel(ctx), faultLease, f.ID)
	}
	return err
}

// undoAll ends the faults that are in force. A fault that ended early is an error.
func undoAll(ctx context.Context, all []victim) error {
	return each(all, func(v *victim) error {
		if v.release == nil {
			return nil
		}
		kept := v.release()
		_, err := v.client.Undo(ctx, v.fault.ID)
		var status *jsonhttp.StatusError
		if errors.As(err, &status) && status.Status == http.StatusNotFound {
			err = errors.Join(fmt.Errorf("it ended early: %w", err), kept)
		}
		return err
	})
}

// each calls act for all victims concurrently.
func each(all []victim, act func(*victim) error) error {
	failed := make([]error, len(all))
	var wait sync.WaitGroup
	for i := range all {
		wait.Go(func() {
			if err := act(&all[i]); err != nil {
				failed[i] = fmt.Errorf("pod %s: %w", all[i].pod.Name, err)
			}
		})
	}
	wait.Wait()
	return errors.Join(failed...)
}

// victims finds, in each pod, the container with processes of a kind.
func (h *executor) victims(ctx context.Context, pods []site.Pod, kind string, containers []string) ([]victim, error) {
	all := make([]victim, len(pods))
	for i, pod := range pods {
		all[i].pod = pod
	}
	return all, each(all, func(v *victim) (err error) {
		if v.client, err = h.faults.At(v.pod.Node); err != nil {
			return err
		}
		for _, name := range containers {
			if v.pod.Containers[name] == "" {
				continue
			}
			v.container = node.Container{PodUID: v.pod.UID, ID: v.pod.Containers[name]}
			found, err := v.client.Processes(ctx, v.container)
			if err == nil {
				err = v.client.Prepare(ctx, v.pod.UID)
			}
			if err != nil {
				return err
			}
			v.processes = slices.DeleteFunc(found, func(p node.Process) bool { return p.Kind != kind })
			if len(v.processes) > 0 {
				return nil
			}
		}
		return fmt.Errorf("no process of kind %s in a container %s", kind, strings.Join(containers, " or "))
	})
}

func (r *performer) Process(a *fault.Process) error {
	return r.prepared(r.process(r.ctx, a, r.lasting))
}

// process kills or pauses.
func (h *executor) process(ctx context.Context, p *fault.Process, lasting time.Duration) (*execution, error) {
	kind, containers := node.KindEnvoy, mesh.Sidecars(h.scene.mesh).Containers
	var pods []site.Pod
	var away *controlPods // whose pods stay away until the step ends, if killed
	var err error
	switch p.Of {
	case fault.OfControlPlane:
		if away = controlOf(h.Kube, h.changes, h.scene.mesh); away == nil {
			return nil, errors.New("this mesh has no control plane")
		}
		kind, containers = node.KindIstiod, away.containers
		pods, err = away.list(ctx)
	case fault.OfWaypoint:
		away = waypointPods(h.Kube, h.Namespace, h.scene.mesh.Proxies(record.PlaceWaypoint))
		containers = away.containers
		pods, err = away.list(ctx)
	case fault.OfZtunnel:
		kind, containers = node.KindNode, h.scene.mesh.Proxies(record.PlaceNode).Containers
		pods, err = h.ztunnelsOf(ctx, p.Service, p.Pick)
	default: // of services' pods
		switch p.Of {
		case fault.OfAgent:
			kind = node.KindAgent
		case fault.OfWorker:
			kind, containers = node.KindWorker, []string{site.RoleWorker, site.RoleLoad}
		}
		var chosen []*resident
		chosen, err = h.choose(p.Service, p.Pick)
		pods = podsOf(chosen)
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
	case p.Do == fault.DoPause:
		return pauseAll(target, kind, all), nil
	case p.Do == fault.DoKill && away != nil && lasting > 0:
		return away.away(ctx, kind, endAll(target, kind, node.SignalKill, all), all)
	}
	signal := map[string]string{fault.DoKill: node.SignalKill, fault.DoOOM: node.SignalOOM}[p.Do]
	out := endAll(target, kind, signal, all)
	if p.Of == fault.OfZtunnel {
		end := out.begin
		out.begin = func(ctx context.Context) error { h.shared.noteKilled(pods); return end(ctx) }
	}
	return out, nil
}

// endAll kills processes, or makes the kernel kill them for lack of memory. Kubernetes restarts
// them.
func endAll(target, kind, signal string, all []victim) *execution {
	return &execution{
		target: target,
		begin: func(ctx context.Context) error {
			return each(all, func(v *victim) (err error) {
				v.fault, err = v.client.Signal(ctx, node.SignalRequest{Container: v.container, Kind: kind, Signal: signal})
				return err
			})
		},
		prove: func(ctx context.Context) (string, error) {
			text, err := proveStates(ctx, all, "ended", func(state string) bool { return state == node.Gone || state == "Z" })
			for _, v := range slices.Backward(all) {
				if m := v.fault.Memory; m != nil {
					text = fmt.Sprintf("the kernel counted %d OOM kills in pod %s, which used %.1f MiB; %s",
						m.Kills, v.pod.Name, float64(m.UsedBytes)/(1<<20), text)
				}
			}
			return text, err
		},
	}
}

// pauseAll stops processes until the end of the step.
func pauseAll(target, kind string, all []victim) *execution {
	return &execution{
		target: target,
		begin: func(ctx context.Context) error {
			return each(all, func(v *victim) error {
				f, err := v.client.Signal(ctx, node.SignalRequest{Container: v.container, Kind: kind, Signal: node.SignalStop,
					LeaseMS: faultLease.Milliseconds()})
				return v.keeps(ctx, f, err)
			})
		},
		prove: func(ctx context.Context) (string, error) {
			return proveStates(ctx, all, "stopped", func(state string) bool { return state == "T" })
		},
		end: func(ctx context.Context) error {
			if err := undoAll(ctx, all); err != nil {
				return err
			}
			_, err := proveStates(ctx, all, "going on", func(state string) bool { return state != "T" })
			return err
		},
	}
}

// proveStates waits until every process is in the right state, according to its node's /proc.
func proveStates(ctx context.Context, all []victim, word string, right func(state string) bool) (string, error) {
	for {
		count, wrong := 0, ""
		for _, v := range all {
			now, err := v.client.Look(ctx, v.processes)
			if err != nil {
				return "", fmt.Errorf("pod %s: %w", v.pod.Name, err)
			}
			for _, p := range now {
				if right(p.State) {
					count++
				} else {
					wrong = fmt.Sprintf("process %d (%s) of pod %s is not %s but in state %s", p.PID, p.Comm, v.pod.Name, word, p.State)
				}
			}
		}
		if wrong == "" {
			return fmt.Sprintf("/proc has %d of %d processes as %s", count, count, word), nil
		}
		if err := wake.Pause(ctx, lookAgain); err != nil {
			return "", fmt.Errorf("%s: %w", wrong, err)
		}
	}
}
