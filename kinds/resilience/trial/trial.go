package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/drive/fault/drive"
	loadcontrol "github.com/meshtrial/meshtrial/drive/load/control"
	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/podwait"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/kinds/resilience/verdict"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// scenarioTrial is one running resilience trial.
type scenarioTrial struct {
	*stage
	job   runner.Job
	out   record.Trial
	scene *scene
	made  []*unstructured.Unstructured // objects besides those removed by kind and mark

	census   *census
	scribe   *scribe
	clients  *clients
	timeline fault.Timeline
	// revisions is nil if no step involves them.
	revisions *revisions

	shared sharedProxies
	agents []site.Pod // of the mesh, on the nodes of its pods
	// before and after hold the clocks of its pods' nodes relative to the runner's, before and
	// after the timeline.
	before, after map[string]verdict.Clock

	zero   time.Time // start of the timeline, by the runner's clock
	events []record.Event
	looks  *looks

	noting   sync.Mutex // of Unmeasured in evidence, to which concurrent steps add
	evidence verdict.Evidence
	files    []runner.Artefact
}

// newScenarioTrial prepares a trial.
func newScenarioTrial(s *stage, job runner.Job) (*scenarioTrial, error) {
	t := &scenarioTrial{stage: s, job: job, out: record.Trial{Schema: record.Schema, Cell: job.Cell, Started: time.Now().UTC(), Scenario: &record.Scenario{}}}
	m, err := meshOf(s.o, job.Cell)
	if err != nil {
		return t, err
	}
	if t.scene, err = newScene(s.study, job.Cell, m, s.o.Lab.Images(), s.Run, job.ID, job.Seed); err != nil {
		return t, err
	}
	t.timeline = announced(t.scene.scenario.TimelineOf(job.Cell), t.scene.scenario.Graph)
	return t, nil
}

// measure runs the trial. An error means that it could not be completed.
func (t *scenarioTrial) measure(ctx context.Context) (done runner.Completed, err error) {
	defer func() {
		t.out.Validity = verdict.Of(t.out, t.events, t.evidence, t.o.Rules.Limits)
		done.Trial, done.Events, done.Evidence, done.Files = t.out, t.events, t.evidence, t.files
	}()
	defer func() { err = errors.Join(err, t.clear(ctx)) }()
	t.say("trial %s begins", t.job.ID)
	if err := runner.InOrder(ctx, t.putRight, t.findObservers, t.compareClocks, t.setControl, t.controlBefore, t.deploy); err != nil {
		return done, err
	}
	if err := t.prepare(ctx); err != nil {
		return done, t.clients.asLost(ctx, err)
	}
	defer t.clients.stop(ctx)
	loud := runner.Quiet(t.tell)
	err = t.play(ctx)
	t.endPlanes(ctx, "")
	loud()
	if err != nil {
		return done, t.clients.asLost(ctx, err)
	}
	book, err := t.collect(ctx)
	if err != nil {
		return done, t.clients.asLost(ctx, err)
	}
	t.out.Ended = time.Now().UTC()
	if done.Requests, err = packRequests(book); err != nil {
		return done, err
	}
	return done, ctx.Err()
}

// findObservers connects to the observers, including those of nodes that joined meanwhile.
func (t *scenarioTrial) findObservers(ctx context.Context) error {
	_, err := t.ReadyPods(ctx)
	return err
}

// deploy creates the trial's objects and waits until everything is ready.
func (t *scenarioTrial) deploy(ctx context.Context) error {
	s := t.scene
	begin := time.Now()
	t.say("%s with %s, %s", words.Plural(len(s.scenario.Graph.Services), "service"), words.Plural(s.scenario.Graph.Pods(), "pod"), words.Plural(s.scenario.Clients, "client"))
	if err := runner.InOrder(ctx, t.follow, t.labelFirst, t.create); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, site.ReadyTimeout)
	defer cancel()
	err := podwait.Beside(limited, t.Kube, t.Namespace, "the services and clients", t.pending, func(ctx context.Context) error {
		return t.census.await(ctx, func() bool { return t.lacking() == "" })
	})
	if err != nil {
		return errs.WithHint(err, "kubectl -n %s get events --sort-by=.lastTimestamp", t.Namespace)
	}
	t.out.Scenario.ReadyS = time.Since(begin).Seconds()
	t.say("all are ready after %.1f s", t.out.Scenario.ReadyS)
	return nil
}

// follow starts to watch the pods and to read their logs.
func (t *scenarioTrial) follow(ctx context.Context) (err error) {
	t.scribe = newScribe(ctx, t.Kube, t.Namespace, t.scene, t.ahead)
	t.census, err = newCensus(ctx, t.Kube, t.Namespace, t.job.ID, t.scribe.found)
	return err
}

// create creates the objects, starting with those that configure proxies, so that proxies start
// with them.
func (t *scenarioTrial) create(ctx context.Context) error {
	s := t.scene
	objects := s.mesh.Policies(s.workloads())
	if _, weighs := study.OwnZone(s.cell[study.FactorLocality]); weighs {
		var err error
		if s.zones, err = openZones(ctx, t.Kube); err != nil {
			return err
		}
	}
	if m, ok := able[mesh.TrafficMaker](s); ok {
		for _, one := range s.scenario.Graph.Services {
			route := s.routes(one)[0] // all its ports in one
			if one.Gateway {
				route = s.forwarded(one)
			}
			objects = append(objects, m.Traffic(route, s.cell, s.zones)...)
		}
	}
	for _, o := range objects {
		mark(o, map[string]string{trialMark: t.job.ID, site.RunLabel: t.Run})
	}
	t.made = objects
	if err := t.apply.ApplyObjects(ctx, objects); err != nil {
		return err
	}
	configs, err := s.configs()
	if err != nil {
		return err
	}
	deployments, err := s.deployments()
	if err != nil {
		return err
	}
	err = createAll(ctx, "ConfigMap", configs, t.Kube.CoreV1().ConfigMaps(t.Namespace).Create)
	if err == nil {
		err = createAll(ctx, "Service", s.services(), t.Kube.CoreV1().Services(t.Namespace).Create)
	}
	if err == nil {
		err = createAll(ctx, "Deployment", deployments, t.Kube.AppsV1().Deployments(t.Namespace).Create)
	}
	return err
}

// createAll creates objects of a kind, several at a time.
func createAll[T metav1.Object](ctx context.Context, kind string, objects []T, create func(context.Context, T, metav1.CreateOptions) (T, error)) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for _, o := range objects {
		group.Go(func() error {
			if _, err := create(ctx, o, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("create %s %s: %w", kind, o.GetName(), err)
			}
			return nil
		})
	}
	return group.Wait()
}

// mark adds labels to an object.
func mark(o *unstructured.Unstructured, labels map[string]string) {
	all := o.GetLabels() // a copy
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, labels)
	o.SetLabels(all)
}

// prepare finds the clients, proves the levers, and sends requests.
func (t *scenarioTrial) prepare(ctx context.Context) error {
	t.clients = &clients{ahead: t.ahead}
	for _, r := range t.census.living(roleClients) {
		t.clients.all = append(t.clients.all, &client{resident: r, api: loadcontrol.NewClient(lab.InPod, t.Dialer.Role(t.Namespace, r.Name, site.LoadControlPort))})
	}
	t.findNodes(ctx)
	if err := runner.InOrder(ctx, t.findSidecars, t.proveLevers, t.findShared); err != nil {
		return err
	}
	t.findAgents(ctx)
	return runner.InOrder(ctx, t.beginRevisions, t.warmUp)
}

// play starts the load and runs the timeline.
func (t *scenarioTrial) play(ctx context.Context) error {
	t.zero = time.Now().Add(loadAhead)
	if err := t.clients.start(ctx, t.scene, t.zero); err != nil {
		return fmt.Errorf("start the clients: %w", err)
	}
	t.looks = t.watch(ctx)
	defer func() {
		t.noteFresh(ctx)
		t.looks.stop(ctx)
	}()
	executor := newExecutor(ctx, t)
	t.say("the timeline: %v, %s", t.timeline.Duration, words.Plural(len(t.timeline.Plan()), "step"))
	driver := drive.Driver{Executor: executor, Sense: t.sense(), Emit: func(e record.Event) {
		t.events = append(t.events, e)
		t.say("%s", describeStep(e, t.zero))
	}}
	err := driver.Run(ctx, t.zero, &t.timeline)
	if ctx.Err() != nil {
		t.out.Scenario.EndedBy = "interrupted"
	}
	return err
}

// describeStep describes an event for users.
func describeStep(e record.Event, zero time.Time) string {
	at := e.SentNS
	if at == 0 { // it never began
		at = e.PlannedNS
	}
	text := fmt.Sprintf("%6.2f s: step %s: %s %s", time.Unix(0, at).Sub(zero).Seconds(), e.Step, e.Op, e.Object)
	switch {
	case e.Error != "":
		text += ": " + e.Error
	case e.Proof != "":
		text += ": " + e.Proof
	}
	return text
}

// collect reads all logs and builds the trial's record.
func (t *scenarioTrial) collect(ctx context.Context) (*ledger.Book, error) {
	t.say("collecting what clients, proxies and workers wrote")
	got, err := t.clients.collect(ctx)
	if err != nil {
		return nil, err
	}
	pods := t.census.account()
	book, err := t.scribe.settle(ctx, got.entries)
	if err != nil {
		return nil, err
	}
	out := t.out.Scenario
	out.Ledger = t.scene.ledgerSide()
	out.StartNS, out.EndNS = t.zero.UnixNano(), t.zero.Add(t.timeline.Duration).UnixNano()
	sidecar := map[string]bool{}
	for _, w := range t.scene.workloads() {
		sidecar[w.Name] = w.Proxy != nil
	}
	for i := range pods {
		pods[i].Sidecar = sidecar[pods[i].Service]
	}
	if err := t.noteZones(ctx, pods); err != nil {
		return book, err
	}
	out.Pods = pods
	out.Scheduled, out.Completed, out.Failed, out.Unfinished = got.total.Scheduled, got.total.Completed, got.total.Failed, got.total.Unfinished
	t.out.Load = got.total.Record(t.scene.levels.Rate)
	out.Lag = t.out.Load.Lag
	out.Samples, out.CPU, out.CountedS, out.Memory = t.looks.samples, t.looks.cpu(), t.looks.counted(), t.looks.memory
	out.Gateways = t.looks.enteredBy()
	t.wholeAgents(out)
	t.wholeNodes(out)
	t.noteOthers(out.CPU)
	t.wholeControl(out)
	t.compareAgain(ctx, pods)
	t.out.Window = record.Window{Start: t.zero.UTC(), Seconds: t.timeline.Duration.Seconds(), Intervals: int(math.Round(t.timeline.Duration.Seconds() / loadInterval.Seconds()))}
	t.evidence.Collected = t.witness(got, book)
	_, out.ClockErrorUS, _ = t.evidence.Collected.Apart()
	if err := t.checkShared(ctx, flowed{out.Scheduled, out.Completed}, got, book); err != nil {
		return book, err
	}
	return book, t.controlAfter(ctx)
}

// clearTimeout limits the time for ending a trial's pods.
const clearTimeout = 90 * time.Second

// clear removes what the trial created and waits until its pods are gone, even if the run itself
// was cancelled.
func (t *scenarioTrial) clear(ctx context.Context) error {
	ctx, cancel := ending.Within(ctx, clearTimeout)
	defer cancel()
	if t.looks != nil {
		t.looks.stop(ctx)
	}
	// Stop the census before the scribe, which it notifies of pods: no log readers may be added
	// while waiting for them.
	if t.census != nil {
		t.census.stop()
	}
	if t.scribe != nil {
		t.scribe.stop()
	}
	if err := errors.Join(t.removeObjects(ctx), t.removeWaypoint(ctx), t.settleShared(ctx), t.removeSecond(ctx)); err != nil {
		return fmt.Errorf("remove what trial %s made: %w", t.job.ID, err)
	}
	return nil
}

// removeObjects deletes everything with the trial's mark, until no pod is left.
func (t *scenarioTrial) removeObjects(ctx context.Context) error {
	marked, core := metav1.ListOptions{LabelSelector: trialMark + "=" + t.job.ID}, t.Kube.CoreV1()
	services, err := core.Services(t.Namespace).List(ctx, marked)
	err = errors.Join(err, t.apply.DeleteObjects(ctx, t.made), core.ConfigMaps(t.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, marked))
	if services != nil {
		for _, s := range services.Items {
			if failed := core.Services(t.Namespace).Delete(ctx, s.Name, metav1.DeleteOptions{}); !apierrors.IsNotFound(failed) {
				err = errors.Join(err, failed)
			}
		}
	}
	return errors.Join(err, t.removePods(ctx, marked))
}

// removePods deletes Deployments with their ReplicaSets, and pods without a grace period, until no
// pod is left.
func (t *scenarioTrial) removePods(ctx context.Context, which metav1.ListOptions) error {
	background := metav1.DeleteOptions{PropagationPolicy: site.Ptr(metav1.DeletePropagationBackground)}
	now := metav1.DeleteOptions{GracePeriodSeconds: site.Ptr(int64(0))}
	apps, core := t.Kube.AppsV1(), t.Kube.CoreV1()
	for {
		// A remaining ReplicaSet creates new pods.
		err := errors.Join(apps.Deployments(t.Namespace).DeleteCollection(ctx, background, which),
			apps.ReplicaSets(t.Namespace).DeleteCollection(ctx, background, which), core.Pods(t.Namespace).DeleteCollection(ctx, now, which))
		var pods *corev1.PodList
		if err == nil {
			pods, err = core.Pods(t.Namespace).List(ctx, which)
		}
		if err != nil && !kubernetes.Transient(err) || err == nil && len(pods.Items) == 0 {
			return err
		}
		if ended := wake.Pause(ctx, 100*time.Millisecond); ended != nil {
			return errors.Join(fmt.Errorf("pods did not terminate: %w", ended), err)
		}
	}
}

// packRequests encodes the file of a trial's requests.
func packRequests(book *ledger.Book) ([]byte, error) {
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("pack the requests: %w", err)
	}
	if err := errors.Join(book.Write(w), w.Close()); err != nil {
		return nil, fmt.Errorf("pack the requests: %w", err)
	}
	return out.Bytes(), nil
}
