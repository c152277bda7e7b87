package trial

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/drive/load"
	loadcontrol "github.com/meshtrial/meshtrial/drive/load/control"
	workercontrol "github.com/meshtrial/meshtrial/drive/worker/control"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/kinds/dataplane/verdict"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/runner/hands"
	"github.com/meshtrial/meshtrial/run/site"
	rules "github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/study"
)

// deployed is a running topology, with a connection to each of its pods.
type deployed struct {
	*site.Site
	topology
	o       *runner.Options
	loads   map[dataplane.Variant][]*loadRole // several if cells require that
	workers map[dataplane.Variant]*workerRole
	// onNodes holds the mesh's proxies by node, and others those with their own pods by part,
	// limited to proxies that the plan's requests pass.
	onNodes, others map[string]site.Pod
	// sinkPod is the pod of the topology's sink, if it has one.
	sinkPod site.Pod
	// profilers is set if the study measures profiles.
	profilers *site.ProfileRoles
	// headers are the request headers for parts of sidecars, in all cells.
	headers []load.Header
	// deployment counts the run's sets of pods, starting at 1. block is the first block that the
	// current set measures; -1 for none yet.
	deployment, block int
	ready             time.Time // when all pods of that set were ready
	// at holds the nodes of the pods by name.
	at map[string]record.NodeAt
	// nodePorts holds the nodes' ports of servers at unknown addresses, by the server's name and
	// the worker's port.
	nodePorts map[string]map[int]int
	tell      func(runner.Event)
	// ahead is the time before its start at which a schedule was last announced to several
	// generators, such that all had their connections by then.
	ahead time.Duration
}

type loadRole struct {
	workload string // its name
	pod      site.Pod
	api      *loadcontrol.Client
}

type workerRole struct {
	mesh.Workload
	pod site.Pod
	api workercontrol.Client
	// extended holds the outcome of the workload's extensions.
	extended map[string]mesh.Extended
}

// deploy creates the topology and waits until every pod is ready and every role answers. On error
// it removes what it created.
func deploy(ctx context.Context, r runner.Deployment) (d *deployed, err error) {
	o, plan := r.Options, r.Plan
	s, err := site.New(o.Lab, o.Mesh, r.RunID)
	if err != nil {
		return nil, err
	}
	d = &deployed{
		Site: s, topology: newTopology(s.Namespace, plan), o: o,
		loads: map[dataplane.Variant][]*loadRole{}, workers: map[dataplane.Variant]*workerRole{}, deployment: r.Deployments + 1, block: -1, tell: r.Tell,
		at: map[string]record.NodeAt{}, nodePorts: map[string]map[int]int{},
	}
	if d.places, err = findPlaces(ctx, o.Lab, plan, r.Recorded); err != nil {
		return nil, err
	}
	d.Kubelets = o.Observed == record.ObservedKubelet
	d.Note = func(text string) { r.Tell(runner.Event{Stage: "deploy", Text: text}) }
	defer func() {
		if err != nil {
			err = runner.Removed(err, d.Remove(ctx))
		}
	}()
	if err := d.setHeaders(); err != nil {
		return d, err
	}
	return d, runner.InOrder(ctx, d.create, d.await, d.connect, d.checkPace, d.settle, d.extend, d.configure, d.reachOutside)
}

// create creates namespace, policies, Services, Deployments and the DaemonSet.
func (d *deployed) create(ctx context.Context) error {
	if err := d.CreateNamespace(ctx, string(study.DataPlane)); err != nil {
		return err
	}
	deployments, err := d.deployments(d.o.Mesh, d.o.Lab.Images(), d.Run)
	if err != nil {
		return err
	}
	// Policies before pods, so that a sidecar starts with its final configuration, and after
	// Services, whose addresses some of them have.
	for _, service := range d.services(d.o.Mesh, d.Run) {
		created, err := d.Kube.CoreV1().Services(d.Namespace).Create(ctx, service, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("create Service %s: %w", service.Name, err)
		}
		d.locate(created)
	}
	applier, err := lab.NewApplier(d.o.Lab.RESTConfig())
	if err != nil {
		return err
	}
	if err := applier.ApplyObjects(ctx, d.o.Mesh.Policies(d.workloads())); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, deployment := range deployments {
		group.Go(func() error {
			if _, err := d.Kube.AppsV1().Deployments(d.Namespace).Create(ctx, deployment, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("create Deployment %s: %w", deployment.Name, err)
			}
			return nil
		})
	}
	group.Go(func() error { return d.CreateObservers(ctx) })
	if d.o.Study.Measured(study.MeasureProfile) {
		group.Go(func() (err error) {
			d.profilers, err = d.CreateProfileRoles(ctx, "")
			return err
		})
	}
	return group.Wait()
}

// await waits for every workload's pod, and for an observer on each of their nodes.
func (d *deployed) await(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, site.ReadyTimeout)
	defer cancel()
	group, ctx := errgroup.WithContext(limited)
	for _, w := range d.workloads() {
		group.Go(func() error {
			return lab.WaitPods(ctx, d.Kube, d.Namespace, mesh.AppLabel+"="+w.Name, d.replicasOf(w))
		})
	}
	err := group.Wait()
	if err == nil {
		err = d.AwaitObservers(limited)
	}
	if err != nil {
		return d.SeeEvents(err)
	}
	d.ready = time.Now().UTC()
	return nil
}

func (d *deployed) connect(ctx context.Context) error {
	byApp, err := d.ReadyPods(ctx)
	if err != nil {
		return err
	}
	ref := func(w mesh.Workload, pod *corev1.Pod) (site.Pod, error) {
		if pod == nil {
			return site.Pod{}, fmt.Errorf("workload %s has no ready pod", w.Name)
		}
		if !d.Observed(pod.Spec.NodeName) {
			return site.Pod{}, errs.WithHint(fmt.Errorf("no observer runs on node %s", pod.Spec.NodeName),
				"kubectl -n %s describe daemonset %s", d.Namespace, site.RoleObserve)
		}
		return d.NewPod(ctx, pod, d.o.Mesh)
	}
	d.Loads = map[string]site.Versioned{}
	for v, w := range d.clients {
		pods, err := d.ReadyOf(ctx, w.Name, d.replicasOf(w))
		if err != nil {
			return err
		}
		d.loads[v] = nil
		for _, one := range pods {
			pod, err := ref(w, one)
			if err != nil {
				return err
			}
			role := &loadRole{workload: w.Name, pod: pod, api: loadcontrol.NewClient(lab.InPod, d.HTTP(one, site.LoadControlPort))}
			d.loads[v], d.Loads[pod.Name] = append(d.loads[v], role), role.api
		}
	}
	if err := d.endLoads(ctx); err != nil {
		return err
	}
	for v, w := range d.servers {
		pod, err := ref(w, byApp[w.Name])
		if err != nil {
			return err
		}
		role := &workerRole{Workload: w, pod: pod, api: workercontrol.Client{HTTPClient: d.HTTP(byApp[w.Name], site.WorkerControlPort), BaseURL: lab.InPod}}
		if old := d.workers[v]; old != nil {
			role.extended = old.extended
		}
		d.workers[v] = role
	}
	if d.sink != nil {
		if d.sinkPod, err = ref(*d.sink, byApp[mesh.SinkName]); err != nil {
			return err
		}
	}
	if err := d.awaitBrought(ctx); err != nil {
		return err
	}
	if err := d.findShared(ctx); err != nil {
		return err
	}
	d.findNodes(ctx)
	if d.profilers != nil {
		if err := d.profilers.Connect(ctx, d.nodes()); err != nil {
			return err
		}
	}
	return nil
}

// endTime limits how long load pods may take to end their work when they are found: a connection to
// a dead node may hang.
const endTime = 30 * time.Second

// endLoads ends what generators still send: a trial that lost its connections could not, and they
// would reject the next trial.
func (d *deployed) endLoads(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	group, limited := errgroup.WithContext(limited)
	for _, loads := range d.loads {
		for _, l := range loads {
			group.Go(func() error {
				if err := l.api.End(limited); err != nil {
					return fmt.Errorf("stop the load of pod %s: %w", l.pod.Name, err)
				}
				return nil
			})
		}
	}
	return group.Wait()
}

// Measure implements Stage.
func (d *deployed) Measure(ctx context.Context, job runner.Job) (runner.Completed, error) {
	renewed, err := d.renew(ctx, job.Block)
	if err != nil {
		return runner.Completed{Trial: record.Trial{Schema: record.Schema, Cell: job.Cell, Started: time.Now().UTC()}}, err
	}
	if refused := d.refused(job); refused != nil {
		now := time.Now().UTC()
		trial, seen := record.Trial{Schema: record.Schema, Cell: job.Cell, Started: now, Ended: now}, verdict.Evidence{Refused: refused}
		trial.Validity = verdict.Of(trial, seen, d.o.Rules.Limits, d.o.Mesh.Verify)
		return runner.Completed{Trial: trial, Evidence: seen}, nil
	}
	t, trial, log, err := d.carryThrough(ctx, job)
	if err != nil {
		return runner.Completed{Trial: trial, Log: log}, err
	}
	if !renewed.IsZero() {
		trial.Started = renewed
	}
	files, err := t.profiles(ctx, &trial)
	if err != nil && ctx.Err() == nil {
		// The window's measurements stay valid.
		t.seen.Unprofiled = append(t.seen.Unprofiled, fmt.Sprintf("no profiles: %v", err))
		err = nil
	}
	trial.Ended = time.Now().UTC() // the time limit of a run includes profiles
	trial.Validity = verdict.Of(trial, t.seen, d.o.Rules.Limits, d.o.Mesh.Verify)
	return runner.Completed{Trial: trial, Log: log, Files: files, Evidence: t.seen}, err
}

// carryThrough measures a trial without judging it.
func (d *deployed) carryThrough(ctx context.Context, job runner.Job) (t *trialRun, trial record.Trial, log []byte, err error) {
	trial, err = hands.AgainIfLost(ctx, func(lost []string) (trial record.Trial, err error) {
		trial = record.Trial{Schema: record.Schema, Cell: job.Cell, Started: time.Now().UTC()}
		// An autoscaler may have changed the pods since the last trial.
		control, err := d.FindControlPlane(ctx, d.o.Mesh)
		if err != nil {
			return trial, err
		}
		if t, err = newTrial(ctx, d, d.o, job); err != nil {
			return trial, err
		}
		t.seen.Repeated = lost
		if trial, log, err = t.measure(ctx); err == nil {
			t.seenControl(ctx, control)
		}
		return trial, t.asLost(ctx, err)
	}, func(lost error) error {
		d.tell(runner.Event{Stage: "deploy", Text: fmt.Sprintf("trial %s, of %d generators, is repeated: %v", job.ID, len(t.hands), lost)})
		return d.Reconnect(ctx)
	})
	return t, trial, log, err
}

// Pods lists the pods of all workloads.
func (d *deployed) Pods() []site.Pod {
	var out []site.Pod
	for _, loads := range d.loads {
		for _, l := range loads {
			out = append(out, l.pod)
		}
	}
	for _, w := range d.workers {
		out = append(out, w.pod)
	}
	return out
}

// nodes returns the nodes of the workloads' pods and of shared proxies.
func (d *deployed) nodes() []string {
	var out []string
	for _, pod := range d.Pods() {
		out = append(out, pod.Node)
	}
	for _, pod := range d.others {
		out = append(out, pod.Node)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// configure sends every worker the study's workload.
func (d *deployed) configure(ctx context.Context) error {
	for v, server := range d.workers {
		workload := dataplane.Of(d.o.Study).Workload
		workload.ServiceTime.Mean += v.Planted() // added to a fixed time
		_, err := server.api.Update(ctx, func(c *workercontrol.Config) { setWorkload(c, workload) })
		if err != nil {
			return fmt.Errorf("configure worker %s: %w", server.Name, err)
		}
	}
	return nil
}

func setWorkload(c *workercontrol.Config, w dataplane.Workload) {
	c.ResponseBytes = int64(w.Response)
	t := w.ServiceTime
	c.ServiceTime = workercontrol.ServiceTime{Distribution: t.Distribution, MeanUS: record.Microseconds(t.Mean), Sigma: t.Sigma, Seed: 1}
	if t.Distribution == study.DistributionRecorded {
		c.ServiceTime.MeanUS = 0
		for _, v := range t.Values {
			c.ServiceTime.SamplesUS = append(c.ServiceTime.SamplesUS, record.Microseconds(v))
		}
	} else if t.Mean == 0 {
		c.ServiceTime = workercontrol.ServiceTime{Distribution: workercontrol.None}
	}
}

// Place implements Stage.
func (d *deployed) Place() *site.Site { return d.Site }

// awaitBrought waits until all pods whose requests node proxies carry are connected to their
// proxies.
func (d *deployed) awaitBrought(ctx context.Context) error {
	if !slices.ContainsFunc(d.workloads(), func(w mesh.Workload) bool { return w.Carrier != "" }) {
		return nil
	}
	return d.AwaitBrought(ctx, d.o.Mesh.Proxies(record.PlaceNode).Agents)
}

// seenControl records the control plane at the start of the trial, and now.
func (t *trialRun) seenControl(ctx context.Context, before []string) {
	after, err := t.d.FindControlPlane(ctx, t.o.Mesh)
	if err != nil {
		t.unmeasured("whether the mesh's control plane stayed the same is unknown: %v", err)
		return
	}
	t.seen.Control = &rules.ControlPlane{Before: before, After: after}
}

// wholeControl removes the control plane's usage from the record if some of its pods could not be
// read.
func (t *trialRun) wholeControl(out *record.Trial) {
	why := t.d.ControlUnseen()
	if why == "" {
		return
	}
	delete(out.CPU, record.PartControl)
	delete(out.Memory, record.PartControl)
	delete(out.Waits, record.PartControl)
	delete(out.Threads, record.PartControl)
	t.seen.Unmeasured = append(t.seen.Unmeasured, why)
}
