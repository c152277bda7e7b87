package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/drive/xds/routeprobe"
	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/kinds/ingress"
	"github.com/meshtrial/meshtrial/kinds/ingress/verdict"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
)

// Limits of waits. Those of objects grow with their number.
const (
	programmedTime = 2 * time.Minute
	servedTime     = time.Minute
	eachTime       = 50 * time.Millisecond // per route, listener and certificate
	attachedTime   = 30 * time.Second
	goneTime       = time.Minute
	lookEvery      = 200 * time.Millisecond
)

// Timing of the window.
const (
	quietTime = 2 * time.Second        // between the last status and the window
	lead      = 500 * time.Millisecond // from the window's start to the first change
	probeLead = 50 * time.Millisecond  // before a route is due
	after     = 500 * time.Millisecond // for which an added route is requested once it is served
	inFlight  = 32                     // concurrent requests to the API server
)

func resourceOf(kind string) schema.GroupVersionResource {
	switch kind {
	case "Secret":
		return schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	case "EnvoyProxy":
		return schema.GroupVersionResource{Group: "gateway.envoyproxy.io", Version: "v1alpha1", Resource: "envoyproxies"}
	}
	return schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: strings.ToLower(kind) + "s"}
}

// trial is one running trial.
type trial struct {
	*stage
	levels  ingress.Levels
	churn   *ingress.Churn
	of      mesh.Ingress
	world   *world
	beside  []*unstructured.Unstructured // further objects of the ingress
	address string
	proxy   site.Pod
	out     record.Trial
	seen    verdict.Evidence
}

// Measure implements [runner.Stage].
func (st *stage) Measure(ctx context.Context, job runner.Job) (done runner.Completed, err error) {
	t := &trial{stage: st, churn: ingress.Of(st.d.Study),
		out: record.Trial{Schema: record.Schema, Cell: job.Cell, Started: time.Now().UTC(), Warmup: record.Warmup{Steady: true}}}
	done.Trial = t.out
	if t.levels, err = ingress.LevelsOf(job.Cell); err != nil {
		return done, err
	}
	t.of = st.d.Ingresses[t.levels.Ingress]
	if t.world, err = newWorld(st.Namespace, job.ID, t.levels, time.Now()); err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, t.remove(ctx)) }()
	began := time.Now()
	if err := t.prepare(ctx); err != nil {
		return done, err
	}
	t.seen.ReadyNS = int64(time.Since(began))
	if err := t.settled(ctx); err != nil {
		return done, err
	}
	if err := t.window(ctx); err != nil {
		return done, err
	}
	t.rejections(ctx)
	done.Trial, done.Events = verdict.Of(t.out, t.seen, st.d.Rules.Limits)
	done.Trial.Ended = time.Now().UTC()
	done.Evidence = t.seen
	return done, ctx.Err()
}

// prepare creates the Gateway with everything that belongs to it, and waits until it serves.
func (t *trial) prepare(ctx context.Context) error {
	l := t.levels
	t.say("%s, %s, %s", words.Plural(l.Routes, "route"), words.Plural(l.Listeners, "listener"), words.Plural(l.Certificates, "certificate"))
	gateway := t.world.gateway()
	t.beside = t.of.Gateway(gateway)
	for _, o := range t.beside {
		o.SetLabels(map[string]string{trialLabel: t.world.trial})
	}
	var routes []*unstructured.Unstructured
	for n := range l.Routes {
		routes = append(routes, t.world.route(firstRoute(n), n))
	}
	for _, wave := range [][]*unstructured.Unstructured{slices.Concat(t.beside, t.world.secrets), append(t.world.sets(), gateway), routes} {
		if err := t.create(ctx, wave); err != nil {
			return err
		}
	}
	if err := t.awaitProgrammed(ctx, t.most(programmedTime)); err != nil {
		return err
	}
	if err := t.findProxy(ctx); err != nil {
		return err
	}
	return t.awaitServed(ctx, t.most(servedTime))
}

// create creates objects, several at a time.
func (t *trial) create(ctx context.Context, objects []*unstructured.Unstructured) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(inFlight)
	for _, o := range objects {
		group.Go(func() error {
			if _, err := t.client(o.GetKind()).Create(ctx, o, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("create %s %s: %w", o.GetKind(), o.GetName(), err)
			}
			return nil
		})
	}
	return group.Wait()
}

func (t *trial) client(kind string) dynamic.ResourceInterface {
	return t.objects.Resource(resourceOf(kind)).Namespace(t.Namespace)
}

// most returns a limit that grows with the number of the trial's objects.
func (t *trial) most(limit time.Duration) time.Duration {
	return limit + time.Duration(t.levels.Routes+t.levels.Listeners+t.levels.Certificates)*eachTime
}

// until polls until done reports true. late means that it did not within the limit.
func until(ctx context.Context, limit, every time.Duration, done func(context.Context) (bool, error)) (late bool, err error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		ok, err := done(limited)
		if err != nil && limited.Err() == nil {
			return false, err
		}
		if err == nil && ok {
			return false, nil
		}
		if wake.Pause(limited, every) != nil {
			return ctx.Err() == nil, context.Cause(ctx)
		}
	}
}

// awaitProgrammed waits until the Gateway has an address and its status says that it is programmed.
func (t *trial) awaitProgrammed(ctx context.Context, limit time.Duration) error {
	late, err := until(ctx, limit, lookEvery, func(ctx context.Context) (bool, error) {
		gateway, err := t.client("Gateway").Get(ctx, t.world.name(), metav1.GetOptions{})
		if kubernetes.Transient(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("read Gateway %s: %w", t.world.name(), err)
		}
		address, programmed := programmedAt(gateway)
		t.address = net.JoinHostPort(address, strconv.Itoa(t.world.port()))
		return programmed && address != "", nil
	})
	if late {
		return errs.WithHint(fmt.Errorf("Gateway %s/%s is not programmed after %v: %s", t.Namespace, t.world.name(), limit, t.conditions(ctx)),
			"%s", t.proxies().Hint)
	}
	return err
}

func (t *trial) proxies() mesh.Proxies { return t.of.GatewayProxies(t.Namespace, t.world.name()) }

// statusTime limits reading a status after a wait has ended.
const statusTime = 10 * time.Second

// conditions describes the conditions of the Gateway.
func (t *trial) conditions(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	gateway, err := t.client("Gateway").Get(ctx, t.world.name(), metav1.GetOptions{})
	if err != nil {
		return "its status is unknown: " + err.Error()
	}
	return cmp.Or(said(statusOf(gateway).Conditions), "its status has no conditions")
}

// status is what trials read of the statuses of Gateways, ListenerSets and HTTPRoutes.
type status struct {
	Addresses []struct {
		Value string `json:"value"`
	} `json:"addresses"`
	Conditions []metav1.Condition `json:"conditions"`
	Listeners  []struct {
		AttachedRoutes int `json:"attachedRoutes"`
	} `json:"listeners"`
	Parents []struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"parents"`
}

// statusOf reads an object's status. What is missing or of another type stays empty.
func statusOf(o *unstructured.Unstructured) (s status) {
	all, _, _ := unstructured.NestedMap(o.Object, "status")
	_ = runtime.DefaultUnstructuredConverter.FromUnstructured(all, &s)
	return s
}

// said describes conditions of a status.
func said(conditions []metav1.Condition) string {
	var out []string
	for _, c := range conditions {
		out = append(out, fmt.Sprintf("%s is %s (%s: %s)", c.Type, c.Status, c.Reason, c.Message))
	}
	return strings.Join(out, ", ")
}

// programmedAt returns the first address of a Gateway, and whether its status for the present
// specification says that it is programmed.
func programmedAt(gateway *unstructured.Unstructured) (address string, programmed bool) {
	s := statusOf(gateway)
	if len(s.Addresses) > 0 {
		address = s.Addresses[0].Value
	}
	c := meta.FindStatusCondition(s.Conditions, "Programmed")
	return address, c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration >= gateway.GetGeneration()
}

// findProxy waits for the Gateway's proxy.
func (t *trial) findProxy(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, site.ReadyTimeout)
	defer cancel()
	var err error
	if t.proxy, err = t.AwaitProxy(limited, t.FindProxy, t.proxies(), ""); err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// spec returns the specification of requests.
func (t *trial) spec(routes ...routeprobe.Route) routeprobe.Spec {
	return routeprobe.Spec{Address: t.address, Every: t.churn.Every, Timeout: t.churn.Timeout, After: after, WatchEvery: t.churn.WatchEvery,
		RootCA: t.world.root, Routes: routes}
}

// watched returns the numbers of the existing routes that requests go to, spread over all of them.
func (t *trial) watched() (out []int) {
	n := min(t.churn.Watched, t.levels.Routes)
	for i := range n {
		out = append(out, i*t.levels.Routes/n)
	}
	return out
}

// awaitServed waits until requests see the watched routes and the last one served.
func (t *trial) awaitServed(ctx context.Context, limit time.Duration) error {
	var routes []routeprobe.Route
	for _, n := range append(t.watched(), t.levels.Routes-1) {
		routes = append(routes, routeprobe.Route{Change: n, Host: t.world.host(firstRoute(n), n)})
	}
	spec := t.spec(routes...)
	spec.Every, spec.After = lookEvery, 0
	if err := t.api.AskRoutes(ctx, spec); err != nil {
		return fmt.Errorf("request the first routes: %w", err)
	}
	defer t.stopRequests(ctx)
	lacking := make([]routeprobe.Seen, len(routes)) // until an answer says more
	for i, r := range routes {
		lacking[i].Change = r.Change
	}
	late, err := until(ctx, limit, lookEvery, func(ctx context.Context) (bool, error) {
		seen, err := t.api.RoutesSeen(ctx)
		if err != nil {
			return false, fmt.Errorf("request the first routes: %w", err)
		}
		lacking = slices.DeleteFunc(seen, func(s routeprobe.Seen) bool { return s.GoodNS != 0 })
		return len(lacking) == 0, nil
	})
	if late {
		first := lacking[0]
		why := fmt.Sprintf("; route %s: answers by status %v %s", firstRoute(first.Change), first.Statuses, first.Error)
		return errs.WithHint(fmt.Errorf("the gateway at %s does not serve %d of %d requested routes after %v%s", t.address, len(lacking), len(routes), limit, why), "%s", t.proxies().Hint)
	}
	return err
}

// settled waits until the statuses of the Gateway and its ListenerSets count all routes, and those
// of all routes are written, which ingresses do after they serve them: otherwise that work would be
// measured too.
func (t *trial) settled(ctx context.Context) error {
	attached := 0
	// Each look lists all routes, and the ingress writes to the same API server.
	every := time.Second + time.Duration(t.levels.Routes)*2*time.Millisecond
	late, err := until(ctx, t.most(attachedTime), every, func(ctx context.Context) (bool, error) {
		silent := t.levels.Routes
		var err error
		if attached, err = t.attached(ctx); err == nil && attached >= t.levels.Routes {
			silent, err = t.silent(ctx)
		}
		return err == nil && silent == 0, nil
	})
	if err != nil {
		return err
	}
	if late {
		t.seen.Problems = append(t.seen.Problems, verdict.NoteUnsettled.Of(attached, t.levels.Routes, t.most(attachedTime)))
	}
	return wake.Pause(ctx, quietTime)
}

// silent returns the number of routes without a status.
func (t *trial) silent(ctx context.Context) (n int, err error) {
	all, err := t.client("HTTPRoute").List(ctx, metav1.ListOptions{LabelSelector: t.selector()})
	if err != nil {
		return 0, err
	}
	for i := range all.Items {
		if len(statusOf(&all.Items[i]).Parents) == 0 {
			n++
		}
	}
	return n, nil
}

func (t *trial) attached(ctx context.Context) (sum int, err error) {
	for _, kind := range []string{"Gateway", "ListenerSet"} {
		if kind == "ListenerSet" && t.levels.Listeners <= ownListeners {
			break
		}
		all, err := t.client(kind).List(ctx, metav1.ListOptions{LabelSelector: t.selector()})
		if err != nil {
			return sum, err
		}
		for i := range all.Items {
			for _, l := range statusOf(&all.Items[i]).Listeners {
				sum += l.AttachedRoutes
			}
		}
	}
	return sum, nil
}

func (t *trial) selector() string { return trialLabel + "=" + t.world.trial }

// stopRequests ends requests that may still be sent, even if the run itself was cancelled.
func (t *trial) stopRequests(ctx context.Context) {
	ctx, cancel := ending.Within(ctx, site.StopTimeout)
	defer cancel()
	_, _ = t.api.StopRoutes(ctx) // an error means that they have ended, or that the pod is gone
}

// rejections reads what the statuses of routes that were never served say.
func (t *trial) rejections(ctx context.Context) {
	t.seen.Rejected = map[int]string{}
	for _, s := range t.seen.Routes {
		if s.GoodNS != 0 || t.seen.Changes[s.Change].Error != "" {
			continue
		}
		route, err := t.client("HTTPRoute").Get(ctx, addedRoute(s.Change), metav1.GetOptions{})
		if err != nil {
			continue // its status stays unknown
		}
		text := "none"
		for _, p := range statusOf(route).Parents {
			text = said(p.Conditions)
		}
		t.seen.Rejected[s.Change] = text
	}
}

// remove deletes everything of the trial, and waits until its proxy is gone, even if the run itself
// was cancelled.
func (t *trial) remove(ctx context.Context) error {
	ctx, cancel := ending.Within(ctx, t.most(goneTime))
	defer cancel()
	t.say("deleting the gateway")
	background := metav1.DeletePropagationBackground
	var all []error
	kinds := []string{"HTTPRoute", "ListenerSet", "Gateway", "Secret"}
	for _, o := range t.beside {
		kinds = append(kinds, o.GetKind())
	}
	for _, kind := range kinds {
		err := t.client(kind).DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{LabelSelector: t.selector()})
		if err != nil && !apierrors.IsNotFound(err) {
			all = append(all, fmt.Errorf("delete the trial's %ss: %w", kind, err))
		}
	}
	proxies := t.proxies()
	for {
		pods, err := t.Kube.CoreV1().Pods(proxies.Namespace).List(ctx, metav1.ListOptions{LabelSelector: proxies.Selector})
		if err == nil && len(pods.Items) == 0 {
			return errors.Join(all...)
		}
		if wake.Pause(ctx, lookEvery) == nil {
			continue
		}
		if err == nil {
			err = errs.WithHint(errors.New("they still exist"), "%s", proxies.Hint)
		}
		return errors.Join(append(all, fmt.Errorf("the gateway's pods (%s), %v after its deletion: %w", proxies.Selector, t.most(goneTime), err))...)
	}
}

// targets returns the containers whose CPU and memory are read, by node.
func (t *trial) targets(control []site.Pod) map[string][]observe.Target {
	out := map[string][]observe.Target{}
	add := func(name string, p site.Pod) {
		out[p.Node] = append(out[p.Node], observe.Target{Name: name, PodUID: p.UID})
	}
	add(record.PartGateway, t.proxy)
	add(record.PartGenerator, t.prober)
	add(record.PartWorker, t.backend)
	for i, p := range control {
		add(fmt.Sprintf("%s-%d", record.PartControl, i), p)
	}
	t.WithNodesHere(out)
	return out
}
