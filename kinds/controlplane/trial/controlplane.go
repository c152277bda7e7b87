package trial

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/observe/signals"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/runner/hands"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/study"
)

// controlPlane is what control-plane trials share in the cluster once deployed: the pods of the
// simulated sidecars, observers, and the population and real pods of the last trial's cell.
type controlPlane struct {
	*site.Site
	o     *runner.Options
	study *study.Study
	world *population.World
	// mesh is the control plane under test.
	mesh mesh.ControlPlane
	// simulators are the pods for simulated sidecars, up to the required number.
	simulators []simulator
	wanted     int
	// reals are the real pods of the last trial, with their sidecars.
	reals []site.Pod
	// caller sends the traffic of the last trial; nil without traffic.
	caller *caller
	// gateway is the real gateway of the last trial; nil without one.
	gateway *gateway
	// deployedReal means that the Deployment of real pods exists.
	deployedReal bool
	// slices is the largest number of EndpointSlices without pods in any cell.
	slices int
	// living means that the present istiod is kept through all further trials.
	living bool
	// series records istiod's metrics; nil if not requested.
	series *signals.Recorder
	// profiled holds the cells that have been profiled.
	profiled map[string]bool

	config *rest.Config
	tell   func(runner.Event)
	say    func(format string, args ...any)
}

// deployControl creates the namespace and the roles, and waits until they answer. On error it
// removes what it created.
func deployControl(ctx context.Context, r runner.Deployment) (c *controlPlane, err error) {
	o := r.Options
	s, err := site.New(o.Lab, o.Mesh, r.RunID)
	if err != nil {
		return nil, err
	}
	config := o.Lab.RESTConfig()
	c = &controlPlane{Site: s, o: o, study: o.Study, mesh: o.Control, config: config, profiled: map[string]bool{}, wanted: controlplane.Simulators(r.Plan), slices: controlplane.EndpointSlices(r.Plan), tell: r.Tell,
		say: func(format string, args ...any) {
			r.Tell(runner.Event{Stage: "step", Text: fmt.Sprintf(format, args...)})
		}}
	c.Note = func(text string) { r.Tell(runner.Event{Stage: "deploy", Text: text}) }
	if c.world, err = population.New(config); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = runner.Removed(err, c.Remove(ctx))
		}
	}()
	if o.Study.Measured(controlplane.MeasureSignals) {
		folder, err := r.Folder(store.DirSeries)
		if err != nil {
			return c, err
		}
		if c.series, err = signals.OpenRecorder(folder); err != nil {
			return c, err
		}
	}
	if err := c.CreateNamespace(ctx, string(study.ControlPlane)); err != nil {
		return c, err
	}
	c.world.Own(c.Owner())
	c.world.Label(mesh.NamespaceLabels(o.Mesh))
	_, largest, err := asks(r.Plan)
	if err != nil {
		return c, err
	}
	if err := c.world.TryNode(ctx, largest); err != nil { // before touching istiod
		return c, err
	}
	if err := c.createRoles(ctx); err != nil {
		return c, err
	}
	return c, c.find(ctx)
}

// find waits for the roles' pods and connects to them. Pods count as ready for almost a minute
// after their node has died, so it searches again until all of several pods are reached.
func (c *controlPlane) find(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, site.ReadyTimeout)
	defer cancel()
	for {
		err := lab.WaitPods(limited, c.Kube, c.Namespace, mesh.AppLabel+"="+site.RoleXDS, c.wanted)
		if err == nil {
			err = c.AwaitObservers(limited)
		}
		if err == nil {
			err = c.awaitIstiodObserved(limited)
		}
		if err != nil {
			return c.SeeEvents(err)
		}
		if _, err := c.ReadyPods(ctx); err != nil {
			return err
		}
		err = c.findSimulators(limited)
		if err == nil || c.wanted == 1 || refused(err) || wake.Pause(limited, findEvery) != nil {
			return err
		}
		c.Redial()
	}
}

// findEvery is the delay before searching again for pods that were not reached.
const findEvery = time.Second

// awaitIstiodObserved waits until the nodes of istiod's pods have an observer.
func (c *controlPlane) awaitIstiodObserved(ctx context.Context) error {
	for {
		if _, err := c.ReadyPods(ctx); err != nil {
			return err
		}
		pods, err := c.mesh.Pods(ctx)
		if err != nil && !kubernetes.Transient(err) {
			return err
		}
		lacking := ""
		for _, p := range pods {
			if c.Observers[p.Node].HTTPClient == nil {
				lacking = p.Node
			}
		}
		if lacking == "" && len(pods) > 0 {
			return nil
		}
		switch ended := wake.Pause(ctx, readyLook); {
		case ended != nil && len(pods) == 0:
			return errors.Join(fmt.Errorf("wait for a ready istiod pod: %w", ended), err)
		case ended != nil:
			return fmt.Errorf("wait for an observer on node %s, where istiod runs: %w", lacking, ended)
		}
	}
}

// Place implements Stage.
func (c *controlPlane) Place() *site.Site { return c.Site }

// Pods implements Stage: it returns the pods with real sidecars.
func (c *controlPlane) Pods() []site.Pod { return c.reals }

// Measure implements Stage.
func (c *controlPlane) Measure(ctx context.Context, job runner.Job) (done runner.Completed, err error) {
	done.Trial, err = hands.AgainIfLost(ctx, func(lost []string) (record.Trial, error) {
		t, err := newControlTrial(c, job)
		if err != nil {
			return t.out, err
		}
		t.seen.Repeated = lost
		done, err = t.measure(ctx)
		return done.Trial, err
	}, func(lost error) error {
		c.Note(fmt.Sprintf("trial %s, of %s simulators, is repeated: %v", job.ID, job.Cell[controlplane.FactorSimulators], lost))
		return c.Reconnect(ctx)
	})
	return done, err
}

// Reconnect implements Stage.
func (c *controlPlane) Reconnect(ctx context.Context) error {
	if err := c.TakenAway(ctx); err != nil {
		return err
	}
	c.Redial()
	c.forget()
	return c.find(ctx)
}

// forget drops the connections to the last trial's own pods, which still exist.
func (c *controlPlane) forget() { c.reals, c.caller, c.gateway = nil, nil, nil }

// populationTimeout limits the creation of a cell's pods, Services and other objects. Levers have
// their own limit.
const populationTimeout = 15 * time.Minute

// Remove reverts istiod and removes population, real pods and roles, even if the run itself was
// cancelled.
func (c *controlPlane) Remove(ctx context.Context) error {
	defer ending.Owe(ctx, "istiod as it was, and the simulated pods", "")()
	ctx, cancel := ending.Within(ctx, site.RestoreTimeout+site.SlicesTime(c.slices))
	defer cancel()
	stopping, stopped := context.WithTimeout(ctx, site.StopTimeout)
	newFleet(c.simulators).stop(stopping)
	stopped()
	c.say("reverting istiod, removing the simulated pods")
	err := c.revert(ctx)
	if c.series != nil {
		err = errors.Join(err, c.series.Close())
	}
	// The namespace goes last: while it exists, a later run knows that there is something to clean
	// up.
	return errors.Join(err, c.Site.Remove(ctx))
}

// revert reverts what the run changed outside its namespace. Istiod restarts while the population
// is deleted: neither needs the other, and both mostly wait. Tens of thousands of EndpointSlices go
// first: together with an istiod that reads them they overload the API server, which also delays
// renewals of the Lease. If one of their namespaces does not terminate, istiod is reverted anyway.
// Without the cluster's Lease all of it belongs to another run.
func (c *controlPlane) revert(ctx context.Context) error {
	if err := c.o.Journal.Held(ctx); err != nil {
		return err
	}
	var restored, removed error
	if c.slices > 0 {
		limited, cancel := context.WithTimeout(ctx, site.SlicesTime(c.slices))
		defer cancel()
		removed = c.world.Remove(limited)
		return errors.Join(c.mesh.Restore(ctx), removed)
	}
	var wait sync.WaitGroup
	wait.Go(func() { restored = c.mesh.Restore(ctx) })
	wait.Go(func() { removed = c.world.Remove(ctx) })
	wait.Wait()
	return errors.Join(restored, removed)
}

// observerOf returns the observer on a node.
func (c *controlPlane) observerOf(node string) (observe.Client, error) {
	o := c.Observers[node]
	if o.HTTPClient == nil {
		return o, fmt.Errorf("no observer runs on node %s", node)
	}
	return o, nil
}
