package trial

import (
	"context"
	"fmt"
	"time"

	"github.com/meshtrial/meshtrial/drive/load"
	loadcontrol "github.com/meshtrial/meshtrial/drive/load/control"
	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record/rate"
	"github.com/meshtrial/meshtrial/run/site"
)

// Names of the objects for a control-plane study's traffic: a Service and its Deployment, and the
// Deployment of the calling pod.
const (
	roleTraffic = "traffic"
	roleCaller  = "caller"
)

// trafficService returns the Service that receives the traffic.
func trafficService(c *controlplane.Control, namespace string) population.Service {
	return population.Service{Namespace: namespace, Name: roleTraffic, Endpoints: c.Traffic.Endpoints}
}

// caller is the pod that sends the traffic.
type caller struct {
	pod site.Pod
	api *loadcontrol.Client
}

// ensureTraffic creates the pods that serve and send the traffic, recreates them if a lever that a
// sidecar reads at startup has changed, and finds the sender. They are in the namespace of the real
// pods, and are deleted with it.
func (c *controlPlane) ensureTraffic(ctx context.Context, levers mesh.Levers) error {
	if controlplane.Of(c.study).Traffic == nil {
		return nil
	}
	logger, ok := c.o.Mesh.(mesh.AttemptLogger)
	if !ok {
		return fmt.Errorf("mesh %s cannot log its sidecars' attempts, which are needed to count requests to stale endpoints", c.o.Mesh.Name())
	}
	namespace := levers.Namespaces[0]
	c.say("%d real pods that serve requests, and one that sends them", controlplane.Of(c.study).Traffic.Endpoints)
	workload := func(name string, port int) mesh.Workload {
		return mesh.Workload{Name: name, Namespace: namespace, ControlPort: port, Proxy: mesh.PlainProxy()}
	}
	client, server := workload(roleCaller, site.LoadControlPort), workload(roleTraffic, site.WorkerControlPort)
	applier, err := lab.NewApplier(c.o.Lab.RESTConfig())
	if err != nil {
		return err
	}
	objects := append(c.o.Mesh.Policies([]mesh.Workload{server, client}), logger.AttemptLog(client, population.ServicePort))
	if err := applier.ApplyObjects(ctx, objects); err != nil {
		return err
	}
	if err := c.putService(ctx, namespace, roleTraffic, workerPort()); err != nil {
		return err
	}
	if err := c.GivePullSecret(ctx, namespace); err != nil {
		return err
	}
	images, made := c.o.Lab.Images(), readAtStart(levers)
	for _, d := range []deployed{
		{Workload: server, pod: site.WorkerPod(server, images, c.Run), count: controlplane.Of(c.study).Traffic.Endpoints, made: made},
		{Workload: client, pod: site.LoadPod(client, images, c.Run), count: 1, made: made},
	} {
		d.app, d.decorate = d.Name, c.o.Mesh.Decorate
		if err := c.putDeployment(ctx, d); err != nil {
			return err
		}
	}
	limited, cancel := context.WithTimeout(ctx, site.ReadyTimeout)
	defer cancel()
	if err := c.awaitDeployment(limited, namespace, roleTraffic); err != nil {
		return err
	}
	return c.findCaller(limited, namespace)
}

// findCaller connects to the pod that sends the traffic and to its sidecar, which from now on
// counts as a real proxy: it needs every change that its peers need.
func (c *controlPlane) findCaller(ctx context.Context, namespace string) error {
	pods, err := c.findPods(ctx, namespace, roleCaller, 1)
	if err != nil {
		return err
	}
	pod := pods[0]
	if pod.Proxy == nil {
		return fmt.Errorf("pod %s/%s has no sidecar", namespace, pod.Name)
	}
	found := &caller{pod: pod, api: loadcontrol.NewClient(lab.InPod, c.Dialer.Role(namespace, pod.Name, site.LoadControlPort))}
	limited, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	if err := found.api.End(limited); err != nil { // left by a trial that lost its connection
		return fmt.Errorf("stop the load of pod %s/%s: %w", namespace, pod.Name, err)
	}
	c.caller = found
	c.reals = append(c.reals, pod)
	return nil
}

// trafficSpec returns the generator's load in a trial. The runner ends it.
func trafficSpec(t *controlplane.Traffic, s population.Service, longest time.Duration, seed uint64) (load.Spec, error) {
	spec := load.DefaultSpec(fmt.Sprintf("http://%s:%d/", s.Host(), population.ServicePort))
	spec.Connections, spec.Rate, spec.Arrival, spec.Seed = t.Connections, rate.Rate(t.Rate), t.Arrival, seed
	spec.TimeoutS = t.Timeout.Seconds()
	// Requests in flight at the end of the schedule are answered, or fail, before the generator
	// ends.
	spec.DrainS = (t.Timeout + time.Second).Seconds()
	spec.DurationS = longest.Seconds()
	return spec, spec.Validate()
}

// Timing of the traffic around a window.
const (
	trafficLead  = time.Second      // before the window
	trafficSpare = 10 * time.Minute // beyond the maximum duration of a trial
	linked       = time.Second      // minimum age of the caller sidecar's configuration stream
	linkedEvery  = 100 * time.Millisecond
	linkedLimit  = time.Minute
)

// startTraffic waits until the caller's sidecar is connected to the restarted istiod, and starts
// the traffic.
func (t *controlTrial) startTraffic(ctx context.Context) error {
	if controlplane.Of(t.c.study).Traffic == nil {
		return nil
	}
	if err := t.awaitLinked(ctx); err != nil {
		return err
	}
	c := controlplane.Of(t.c.study)
	service := trafficService(c, t.levers.Namespaces[0])
	spec, err := trafficSpec(c.Traffic, service, trafficLead+c.Idle+c.Settle+controlplane.ChangeTime(t.c.study, t.job.Cell)+trafficSpare, t.job.Seed)
	if err != nil {
		return err
	}
	t.c.say("%g requests per second to %d pods", c.Traffic.Rate, c.Traffic.Endpoints)
	if t.traffic, err = t.c.witnessTraffic(ctx, service); err != nil {
		return err
	}
	if t.traffic.before, err = t.c.caller.pod.Proxy.Stats(ctx, attemptStat); err != nil {
		return fmt.Errorf("counters of the caller's sidecar: %w", err)
	}
	if t.traffic.started, err = t.c.caller.api.Start(ctx, spec); err != nil {
		return fmt.Errorf("start the requests: %w", err)
	}
	return wake.Pause(ctx, trafficLead)
}

// xdsStreams selects Envoy's gauge of configuration streams to its agent, which ends them when it
// loses istiod. (Istio's alt_stat_name of the cluster ends in a semicolon.)
const xdsStreams = `^cluster\.xds-grpc;?\.upstream_rq_active$`

func (t *controlTrial) awaitLinked(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, linkedLimit)
	defer cancel()
	for since := time.Now(); time.Since(since) < linked; {
		stats, err := t.c.caller.pod.Proxy.Stats(ctx, xdsStreams)
		if err != nil {
			return fmt.Errorf("wait until the caller's sidecar is connected to istiod: %w", err)
		}
		streams := 0.0
		for _, n := range stats.Values() {
			streams += n
		}
		if streams < 1 {
			since = time.Now()
		}
		if err := wake.Pause(ctx, linkedEvery); err != nil {
			return fmt.Errorf("wait until the caller's sidecar is connected to istiod: %w", err)
		}
	}
	return nil
}

// attemptStat selects the counters of attempts that got a connection.
const attemptStat = `^cluster\.outbound\|.*\|` + roleTraffic + `\..*\.upstream_rq_total$`

// endTraffic ends the schedule, waits until every request has finished, and joins the reports of
// generator, sidecar and API server.
func (t *controlTrial) endTraffic(ctx context.Context) error {
	w := t.traffic
	if w == nil {
		return nil
	}
	api := t.c.caller.api
	if _, err := api.Stop(ctx, w.started.Run); err != nil {
		return fmt.Errorf("stop the requests: %w", err)
	}
	t.c.say("waiting for the requests in flight")
	result, err := api.Result(ctx, w.started.Run)
	if err != nil {
		return fmt.Errorf("collect the record of the requests: %w", err)
	}
	clock, err := api.Clock(ctx)
	if err != nil {
		return fmt.Errorf("compare clocks with the caller: %w", err)
	}
	if clock.Ahead.Abs() <= clock.Bound {
		clock.Ahead = 0
	}
	after, err := t.c.caller.pod.Proxy.Stats(ctx, attemptStat)
	if err != nil {
		return fmt.Errorf("counters of the caller's sidecar: %w", err)
	}
	rises, err := after.Since(w.before)
	if err != nil {
		return fmt.Errorf("counters of the caller's sidecar: %w", err)
	}
	lines, err := w.finish(ctx)
	if err != nil {
		return err
	}
	total := result.Total()
	out := exposure(lines, w.book, clock.Ahead)
	c := controlplane.Of(t.c.study).Traffic
	out.RateRPS, out.Connections = c.Rate, c.Connections
	out.Requests, out.Completed, out.Failed, out.Unfinished = total.Scheduled, total.Completed, total.Failed, total.Unfinished
	out.Reasons = total.Reasons
	out.Latency = load.Summarise(total.Intended)
	for _, n := range rises {
		out.Counted += int64(n)
	}
	out.Residual = out.FailedTotal() + out.Unfinished
	for _, n := range out.ProxyFailed {
		out.Residual -= n
	}
	t.out.Control.Traffic = &out
	t.seen.TrafficWaitUS = load.Summarise(total.Wait).At(0.99)
	return nil
}

// stopTraffic ends what still runs of the traffic, even if the run itself was cancelled.
func (t *controlTrial) stopTraffic(ctx context.Context) {
	if t.traffic == nil {
		return
	}
	t.traffic.stop()
	if t.traffic.started.Run != "" && t.out.Control.Traffic == nil {
		ctx, cancel := ending.Within(ctx, site.StopTimeout)
		defer cancel()
		// An error means that it has ended, or that its pod is gone.
		_, _ = t.c.caller.api.Stop(ctx, t.traffic.started.Run)
	}
}
