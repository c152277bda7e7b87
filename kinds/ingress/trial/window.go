package trial

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/drive/xds/routeprobe"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
)

// window adds routes on their schedule while requests go to them and to existing ones, and waits
// until all are served, up to the settle limit.
func (t *trial) window(ctx context.Context) error {
	clock, err := t.api.Clock(ctx)
	if err != nil {
		return fmt.Errorf("compare clocks with the pod that requests routes: %w", err)
	}
	t.seen.AheadNS, t.seen.BoundNS = int64(clock.Ahead), int64(clock.Bound)
	var control []site.Pod
	namespace, selector := t.of.ControlPlane()
	proxies := t.proxies()
	if control, t.seen.Control.Before, err = t.pods(ctx, namespace, selector); err != nil {
		return err
	}
	if _, t.seen.Gateway.Before, err = t.pods(ctx, proxies.Namespace, proxies.Selector); err != nil {
		return err
	}
	step := time.Second / time.Duration(t.levels.ChangeRate)
	t.seen.StepNS, t.seen.EveryNS = int64(step), int64(t.churn.Every)
	t.say("adding %s in %v", words.Plural(t.churn.Changes, "route"), step*time.Duration(t.churn.Changes))
	defer runner.Quiet(t.d.Tell)()
	targets := t.targets(control)
	host := t.Host()
	before, err := t.snapshots(ctx, targets, false, observe.Begin)
	if err != nil {
		return err
	}
	start := time.Now()
	first := start.Add(lead)
	if err := t.ask(ctx, start, first, step); err != nil {
		return err
	}
	defer t.stopRequests(ctx)
	if err := t.add(ctx, first, step); err != nil {
		return err
	}
	if err := t.settle(ctx); err != nil {
		return err
	}
	end := time.Now()
	shots, err := t.snapshots(ctx, targets, true, observe.End)
	if err != nil {
		return err
	}
	host = t.HostAfter(host)
	all, err := t.api.StopRoutes(ctx)
	if err != nil {
		return fmt.Errorf("collect the outcome of requests: %w", err)
	}
	t.seen.Routes, t.seen.Watched = all[:t.churn.Changes], all[t.churn.Changes:]
	t.out.Window = record.Window{Start: start.UTC(), Seconds: end.Sub(start).Seconds(), Intervals: 1}
	t.costs(before, shots, targets, host)
	if _, t.seen.Control.After, err = t.pods(ctx, namespace, selector); err != nil {
		return err
	}
	if _, t.seen.Gateway.After, err = t.pods(ctx, proxies.Namespace, proxies.Selector); err != nil {
		return err
	}
	on := map[string][]string{record.PartGateway: {t.proxy.Node}, record.PartGenerator: {t.prober.Node}, record.PartWorker: {t.backend.Node}}
	for _, p := range control {
		on[record.PartControl] = append(on[record.PartControl], p.Node)
	}
	t.out.Nodes = t.NodesOf(ctx, on)
	return nil
}

// pods returns ready pods of the ingress, and their names with the number of their restarts.
func (t *trial) pods(ctx context.Context, namespace, selector string) (pods []site.Pod, names []string, err error) {
	found, err := t.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, nil, fmt.Errorf("list the pods %s of the ingress: %w", selector, err)
	}
	names = []string{}
	for i := range found.Items {
		pod := &found.Items[i]
		if !lab.PodReady(pod) || pod.DeletionTimestamp != nil {
			continue
		}
		restarts := int32(0)
		for _, s := range pod.Status.ContainerStatuses {
			restarts += s.RestartCount
		}
		names = append(names, fmt.Sprintf("%s (restart %d)", pod.Name, restarts))
		if t.Observed(pod.Spec.NodeName) {
			pods = append(pods, site.PodOf(pod))
		} else {
			t.seen.Unread = append(t.seen.Unread, record.Check{Name: "observed", Detail: "no observer runs beside " + site.Elsewhere(pod)})
		}
	}
	slices.Sort(names)
	return pods, names, nil
}

// ask starts the requests: to added routes shortly before each is due, to existing ones at once.
func (t *trial) ask(ctx context.Context, start, first time.Time, step time.Duration) error {
	known := time.Duration(t.seen.AheadNS)
	var routes []routeprobe.Route
	for i := range t.churn.Changes {
		at := first.Add(time.Duration(i)*step - probeLead + known)
		routes = append(routes, routeprobe.Route{Change: i, Host: t.world.host(addedRoute(i), i), FromNS: at.UnixNano()})
	}
	watched := t.watched()
	for i, n := range watched { // spread evenly over the interval
		at := start.Add(time.Duration(i)*t.churn.WatchEvery/time.Duration(len(watched)) + known)
		routes = append(routes, routeprobe.Route{Change: n, Host: t.world.host(firstRoute(n), n), FromNS: at.UnixNano(), Watched: true})
	}
	if err := t.api.AskRoutes(ctx, t.spec(routes...)); err != nil {
		return fmt.Errorf("request routes: %w", err)
	}
	return nil
}

// add creates the added routes, each at its own time whatever becomes of the others.
func (t *trial) add(ctx context.Context, first time.Time, step time.Duration) error {
	timer, err := wake.New()
	if err != nil {
		return err
	}
	defer timer.Close()
	t.seen.Changes = make([]record.Event, t.churn.Changes)
	var wait sync.WaitGroup
	defer wait.Wait()
	for i := range t.churn.Changes {
		route := t.world.route(addedRoute(i), i)
		if i >= t.churn.Changes-t.churn.Unattached {
			unattached(route)
		}
		at := first.Add(time.Duration(i) * step)
		if err := timer.Until(ctx, at); err != nil {
			return err
		}
		wait.Go(func() { t.seen.Changes[i] = t.change(ctx, i, at, route) })
	}
	return nil
}

// change creates an added route. Its commit is the API server's response.
func (t *trial) change(ctx context.Context, i int, at time.Time, route *unstructured.Unstructured) record.Event {
	e := record.Event{Schema: record.Schema, Change: i, Kind: "httproute", Op: "create",
		Object: "HTTPRoute/" + route.GetNamespace() + "/" + route.GetName(), PlannedNS: at.UnixNano(), SentNS: time.Now().UnixNano(),
		Seen: record.Sightings{Proxy: []int32{}, ReceivedUS: record.Times{}, AckedUS: record.Times{}}}
	_, err := t.client(route.GetKind()).Create(ctx, route, metav1.CreateOptions{})
	if err != nil {
		e.Error = err.Error()
		return e
	}
	e.AnsweredNS = time.Now().UnixNano()
	e.CommittedNS = e.AnsweredNS // nothing watches for an earlier sign of it
	return e
}

// settle waits until all added routes are served, up to the limit. Answering costs the requesting
// pod little.
func (t *trial) settle(ctx context.Context) error {
	limit := time.Now().Add(t.churn.Settle)
	for {
		seen, err := t.api.RoutesSeen(ctx)
		if err != nil {
			return fmt.Errorf("read the outcome of requests: %w", err)
		}
		lacking := 0
		for _, s := range seen[:t.churn.Changes] {
			if s.GoodNS == 0 && t.seen.Changes[s.Change].Error == "" {
				lacking++
			}
		}
		if lacking == 0 {
			return wake.Pause(ctx, after) // relapses of the last one
		}
		if time.Now().After(limit) {
			return nil
		}
		t.say("%s not served yet", words.Plural(lacking, "route"))
		if err := wake.Pause(ctx, lookEvery); err != nil {
			return err
		}
	}
}

// snapshots reads the counters of all nodes at an edge of the window.
func (t *trial) snapshots(ctx context.Context, targets map[string][]observe.Target, memory bool, edge observe.Edge) (map[string]observe.Snapshot, error) {
	return t.Snapshot(ctx, targets, observe.SnapshotsRequest{Memory: memory, Processes: true, Edge: edge})
}

// costs turns the snapshots into CPU, memory and pressure.
func (t *trial) costs(before, after map[string]observe.Snapshot, targets map[string][]observe.Target, host *observe.Host) {
	window := map[string]site.Shots{}
	for node := range targets {
		window[node] = site.Shots{Before: before[node], After: after[node]}
	}
	part := func(target string) string { part, _, _ := strings.Cut(target, "-"); return part }
	t.seen.Unread = append(t.seen.Unread, t.Account(&t.out, targets, window, part, t.proxy.Node, host)...)
}
