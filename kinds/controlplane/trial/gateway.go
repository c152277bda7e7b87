package trial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/meshtrial/meshtrial/drive/churn"
	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/drive/xds/routeprobe"
	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study"
)

// Names of the real gateway and of the pod behind it, for a Service and a Deployment each. They are
// in a namespace of the population and are deleted with it.
const (
	roleGateway = "real-gateway"
	roleBackend = "real-gateway-backend"
)

// gatewayPort is the gateway pod's port, which requires no privileges.
const gatewayPort = 8080

// gateway is a study's real gateway, the pod behind it, and its address.
type gateway struct {
	pod, backend site.Pod
	address      string
}

// gatewayOf returns a study's real gateway for package churn; nil for none. It is in the namespace
// of the simulated gateways: for a Gateway of the Gateway API istiod considers only Services of its
// own namespace (pilot/pkg/model/push_context.go).
func gatewayOf(c *controlplane.Control) *churn.Gateway {
	if c.Gateway == nil {
		return nil
	}
	return &churn.Gateway{
		Service: population.Service{Namespace: population.GatewayNamespace, Name: roleGateway, Endpoints: 1},
		Backend: population.Service{Namespace: population.GatewayNamespace, Name: roleBackend, Endpoints: 1},
	}
}

// gatewayPlan returns the externally visible effects of a study's real gateway.
func gatewayPlan(plan *study.Plan) []journal.Planned {
	real := gatewayOf(controlplane.Of(plan.Study))
	if real == nil {
		return nil
	}
	note := "a real ingress gateway and its backend pod: only it and the simulated ones receive the trials' routes; of others' Gateways it receives those that select no pods"
	return []journal.Planned{{Object: fmt.Sprintf("Deployments and Services %s and %s in namespace %s", roleGateway, roleBackend, real.Service.Namespace), Done: journal.Made, Note: note}}
}

// ensureGateway creates the real gateway and the pod behind it, recreates the gateway if a lever
// that it reads at startup has changed, and finds both.
func (c *controlPlane) ensureGateway(ctx context.Context, levers mesh.Levers) error {
	real := gatewayOf(controlplane.Of(c.study))
	if real == nil {
		return nil
	}
	gated, ok := c.o.Mesh.(mesh.Gated)
	if !ok {
		return fmt.Errorf("mesh %s has no gateway", c.o.Mesh.Name())
	}
	namespace := real.Service.Namespace
	if c.gateway == nil {
		c.say("a real gateway and its backend pod")
	}
	if err := c.GivePullSecret(ctx, namespace); err != nil {
		return err
	}
	if err := c.makeGateway(ctx, gated, namespace, levers); err != nil {
		return err
	}
	found, err := c.findGateway(ctx, namespace)
	c.gateway = found
	return err
}

// makeGateway creates the missing Services and Deployments of both. A changed template triggers a
// rollout of the gateway's pod.
func (c *controlPlane) makeGateway(ctx context.Context, gated mesh.Gated, namespace string, levers mesh.Levers) error {
	behind := mesh.Workload{Name: roleBackend, Namespace: namespace, ControlPort: site.WorkerControlPort}
	real := mesh.Workload{Name: roleGateway, Namespace: namespace, Proxy: mesh.PlainProxy()}
	for _, d := range []deployed{
		{Workload: behind, pod: site.WorkerPod(behind, c.o.Lab.Images(), c.Run), count: 1, app: roleBackend, decorate: c.o.Mesh.Decorate},
		{Workload: real, pod: gatewayPod(c.Run), count: 1, made: readAtStart(levers), decorate: gated.DecorateGateway},
	} {
		if err := c.putDeployment(ctx, d); err != nil {
			return err
		}
	}
	port := corev1.ServicePort{Name: "http2", Port: churn.GatewayPort, TargetPort: intstr.FromInt(gatewayPort)}
	return errors.Join(c.putService(ctx, namespace, roleGateway, port), c.putService(ctx, namespace, roleBackend, workerPort()))
}

// gatewayPod returns the real gateway's pod before the mesh turns it into a gateway. The trials'
// Gateways select it.
func gatewayPod(run string) corev1.PodTemplateSpec {
	labels := site.Labels(run, roleGateway)
	labels[population.GatewayLabel] = "true"
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken:  site.Ptr(false),
			EnableServiceLinks:            site.Ptr(false),
			TerminationGracePeriodSeconds: site.Ptr(int64(1)),
		},
	}
}

// findGateway waits until both are ready, and connects to the gateway.
func (c *controlPlane) findGateway(ctx context.Context, namespace string) (*gateway, error) {
	behind, err := c.findPods(ctx, namespace, roleBackend, 1)
	if err != nil {
		return nil, err
	}
	pods, err := c.findPods(ctx, namespace, roleGateway, 1)
	if err != nil {
		return nil, err
	}
	if pods[0].Proxy == nil {
		return nil, errs.WithHint(fmt.Errorf("the mesh's injector did not inject pod %s/%s as a gateway", namespace, pods[0].Name),
			"check that the injector has the template gateway: ConfigMap istio-sidecar-injector in the mesh's namespace")
	}
	service, err := c.Kube.CoreV1().Services(namespace).Get(ctx, roleGateway, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("address of the gateway: %w", err)
	}
	return &gateway{pods[0], behind[0], net.JoinHostPort(service.Spec.ClusterIP, strconv.Itoa(churn.GatewayPort))}, nil
}

// Timing of the requests to routes.
const (
	routeLead  = 50 * time.Millisecond // before a route is due
	routeAfter = 50 * time.Millisecond // after it is first served
	servesIn   = time.Minute           // the gateway's first route, once istiod has restarted
	servesLook = 100 * time.Millisecond
)

// asks returns the specification of requests for routes through the gateway.
func (t *controlTrial) asks(routes ...routeprobe.Route) routeprobe.Spec {
	g := controlplane.Of(t.c.study).Gateway
	return routeprobe.Spec{Address: t.c.gateway.address, Every: g.Every, Timeout: g.Timeout, After: routeAfter, Routes: routes}
}

// awaitGateway waits until the gateway serves the first route, which exists from the start of the
// trial, and its status shows it: then the fresh istiod, which has won its election (awaitElected),
// has configured it.
func (t *controlTrial) awaitGateway(ctx context.Context) error {
	if t.c.gateway == nil || !controlplane.RoutesGateway(t.levels.Change) { // only such cells have that route
		return nil
	}
	api, host := t.fleet.apis[0], t.plan.GatewayHost()
	spec := t.asks(routeprobe.Route{Host: host})
	spec.Every = servesLook
	if err := api.AskRoutes(ctx, spec); err != nil {
		return t.fleet.Lost(fmt.Errorf("request the gateway's first route: %w", err))
	}
	defer t.stopRoutes(ctx)
	limited, cancel := context.WithTimeout(ctx, servesIn)
	defer cancel()
	for {
		seen, err := api.RoutesSeen(ctx)
		if err != nil {
			return t.fleet.Lost(fmt.Errorf("request the gateway's first route: %w", err))
		}
		if len(seen) == 1 && seen[0].GoodNS != 0 {
			return t.awaitStatus(ctx)
		}
		if err := wake.Pause(limited, servesLook); err != nil {
			if ctx.Err() != nil {
				return err
			}
			said := ""
			if len(seen) == 1 {
				said = fmt.Sprintf(": answers by status %v; %s", seen[0].Statuses, seen[0].Error)
			}
			return errs.WithHint(fmt.Errorf("the gateway at %s does not serve http://%s/ after %v%s", spec.Address, host, servesIn, said),
				"kubectl -n %s logs deployment/%s shows why", t.plan.Spec.Gateway.Service.Namespace, roleGateway)
		}
	}
}

// startRoutes sends requests for the routes to come, each starting shortly before it is due. The
// first simulator pod sends them, by its clock.
func (t *controlTrial) startRoutes(ctx context.Context, first time.Time) error {
	if t.c.gateway == nil {
		return nil
	}
	var routes []routeprobe.Route
	for _, c := range t.plan.Changes {
		if c.Host != "" && len(routes) < controlplane.Of(t.c.study).Gateway.Probes {
			at := first.Add(time.Duration(c.OffsetNS) - routeLead + t.seen.Clock.Known())
			routes = append(routes, routeprobe.Route{Change: c.Index, Host: c.Host, FromNS: at.UnixNano()})
		}
	}
	if len(routes) == 0 {
		return nil
	}
	if err := t.fleet.apis[0].AskRoutes(ctx, t.asks(routes...)); err != nil {
		return t.fleet.Lost(fmt.Errorf("probe the gateway's routes: %w", err))
	}
	t.probing, t.seen.RoutesEvery = true, controlplane.Of(t.c.study).Gateway.Every
	return nil
}

// unserved returns the number of requested routes that exist and are not served yet.
func (t *controlTrial) unserved(ctx context.Context) (int, error) {
	if !t.probing {
		return 0, nil
	}
	seen, err := t.fleet.apis[0].RoutesSeen(ctx)
	if err != nil {
		return 0, t.fleet.Lost(fmt.Errorf("read the outcome of requests to the gateway: %w", err))
	}
	n := 0
	for _, s := range seen {
		if s.GoodNS == 0 && t.taken(s.Change) {
			n++
		}
	}
	return n, nil
}

// endRoutes ends the requests and collects their outcomes.
func (t *controlTrial) endRoutes(ctx context.Context) (err error) {
	if !t.probing {
		return nil
	}
	t.probing = false
	if t.seen.Routes, err = t.fleet.apis[0].StopRoutes(ctx); err != nil {
		return t.fleet.Lost(fmt.Errorf("collect the outcome of requests to the gateway: %w", err))
	}
	return nil
}

// stopRoutes ends requests that may still be sent, even if the run itself was cancelled.
func (t *controlTrial) stopRoutes(ctx context.Context) {
	if t.c.gateway == nil {
		return
	}
	ctx, cancel := ending.Within(ctx, site.StopTimeout)
	defer cancel()
	_, _ = t.fleet.apis[0].StopRoutes(ctx) // an error means that they have ended, or that the pod is gone
}
