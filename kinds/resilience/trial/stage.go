package trial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/drive/graph"
	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/kinds/resilience/verdict"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/runner/hands"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study"
	"k8s.io/client-go/rest"
)

// stage is what resilience trials share in the cluster once deployed: observers on the nodes.
// Services and clients belong to each trial.
type stage struct {
	*site.Site
	o      *runner.Options
	study  *study.Study
	config *rest.Config
	apply  *lab.Applier
	tell   func(runner.Event)
	say    func(format string, args ...any)
	// seen holds the pods of the last trial, for the versions of their sidecars.
	seen []site.Pod
	// carriers holds the parts of ways that some trial of the run has had, and missed those that a
	// trial awaited in vain.
	carriers, missed record.Way
	// clocks holds the nodes' clock offsets at the last comparison, and ahead their lead over the
	// runner's clock, in nanoseconds.
	clocks map[string]verdict.Clock
	ahead  map[string]int64

	faults *site.FaultRoles // nil: no step acts on nodes
	// changes records what steps change elsewhere, and leftovers what they failed to revert.
	changes   changer
	leftovers leftovers
}

// Deploy implements [Kind]. It creates the namespace and the observers; on error nothing is left.
func (trials) Deploy(ctx context.Context, r runner.Deployment) (_ runner.Stage, err error) {
	r.Tell(runner.Event{Stage: "deploy", Text: "deploying the observer"})
	o := r.Options
	at, err := site.New(o.Lab, o.Mesh, r.RunID)
	if err != nil {
		return nil, err
	}
	config := o.Lab.RESTConfig()
	s := &stage{Site: at, o: o, study: o.Study, config: config, changes: o.Journal, tell: r.Tell,
		say: func(format string, args ...any) {
			r.Tell(runner.Event{Stage: "timeline", Text: fmt.Sprintf(format, args...)})
		}}
	s.Note = func(text string) { r.Tell(runner.Event{Stage: "deploy", Text: text}) }
	if s.apply, err = lab.NewApplier(config); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = runner.Removed(err, s.Remove(ctx))
		}
	}()
	if err := s.CreateNamespace(ctx, string(resilience.Kind)); err != nil {
		return nil, err
	}
	if err := s.CreateObservers(ctx); err != nil {
		return nil, err
	}
	if timeline := &resilience.Of(o.Study).Timeline; len(site.OffersFor(timeline)) > 0 || expires(timeline) {
		if s.faults, err = s.CreateFaultRoles(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.find(ctx); err != nil {
		return nil, err
	}
	if s.faults == nil {
		return s, nil
	}
	seen, err := s.faults.Check(ctx, &resilience.Of(s.study).Timeline) // what it needs of the nodes
	for _, text := range seen {
		s.say("%s", text)
	}
	return s, err
}

// Remove reverts what steps changed outside the run's namespace, unless already done, and removes
// the namespace, even if the run itself was cancelled.
func (s *stage) Remove(ctx context.Context) error {
	defer ending.Owe(ctx, "what the timeline's steps changed", "")()
	ctx, cancel := ending.Within(ctx, site.RestoreTimeout)
	defer cancel()
	var err error
	if s.o.Control != nil {
		err = s.o.Control.Restore(ctx)
	}
	_, undone := s.changes.Restore(ctx, journal.OfRun(s.Run))
	return errors.Join(err, undone, s.Site.Remove(ctx))
}

// find waits for an observer, connects to all observers, and compares clocks.
func (s *stage) find(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, site.ReadyTimeout)
	defer cancel()
	if err := lab.WaitPods(limited, s.Kube, s.Namespace, mesh.AppLabel+"="+site.RoleObserve, 1); err != nil {
		return s.SeeEvents(err)
	}
	if _, err := s.ReadyPods(ctx); err != nil {
		return err
	}
	if s.faults != nil {
		if err := s.faults.Connect(ctx); err != nil {
			return err
		}
	}
	return s.compareClocks(ctx)
}

// Place implements Stage.
func (s *stage) Place() *site.Site { return s.Site }

// Pods implements Stage.
func (s *stage) Pods() []site.Pod { return s.seen }

// Reconnect implements Stage.
func (s *stage) Reconnect(ctx context.Context) error {
	if err := s.TakenAway(ctx); err != nil {
		return err
	}
	s.Redial()
	s.seen = nil
	return s.find(ctx)
}

// Measure implements Stage.
func (s *stage) Measure(ctx context.Context, job runner.Job) (done runner.Completed, err error) {
	done.Trial, err = hands.AgainIfLost(ctx, func(lost []string) (record.Trial, error) {
		t, err := newScenarioTrial(s, job)
		if err != nil {
			return t.out, err
		}
		t.evidence.Repeated = lost
		done, err = t.measure(ctx)
		return done.Trial, err
	}, func(lost error) error {
		s.Note(fmt.Sprintf("trial %s, of %d clients, is repeated: %v", job.ID, resilience.Of(s.study).Clients, lost))
		return s.Reconnect(ctx)
	})
	return done, err
}

// meshOf returns the adapter of the mesh that a cell names.
func meshOf(o *runner.Options, cell record.Cell) (mesh.Mesh, error) {
	name := cell[study.FactorMesh]
	if m := o.Meshes[name]; m != nil {
		return m, nil
	}
	if o.Mesh != nil && o.Mesh.Name() == name {
		return o.Mesh, nil
	}
	return nil, errs.Usage("this program has no adapter for mesh %s", name)
}

// Check implements [Kind]: it finds what workers or generators would reject.
func (trials) Check(plan *study.Plan) error {
	for _, cell := range plan.Cells {
		s, err := newScene(plan.Study, cell, nil, lab.Images{}, "check", "check", 1)
		if err == nil {
			_, err = s.configs()
		}
		if err == nil {
			_, err = s.loadSpec(0)
		}
		if err != nil {
			return runner.Placed(plan, cell, err, "")
		}
	}
	return nil
}

// Fit implements [Kind].
func (trials) Fit(ctx context.Context, o *runner.Options, plan *study.Plan) ([]record.Component, error) {
	if err := fitControl(o, plan); err != nil {
		return nil, err
	}
	if err := fitNodes(ctx, o, plan); err != nil {
		return nil, err
	}
	var out []record.Component
	for _, name := range slices.Sorted(maps.Keys(o.Beside)) {
		if version := o.Beside[name].Version; version != "" {
			out = append(out, record.Component{Name: "control plane of revision " + name, Version: version, Source: record.SourceOfCluster})
		}
	}
	checked := map[string]bool{}
	for _, cell := range plan.Cells {
		m, err := meshOf(o, cell)
		if err != nil {
			return nil, err
		}
		s, err := newScene(o.Study, cell, m, o.Lab.Images(), "check", "check", 1)
		if err != nil {
			return nil, err
		}
		if err := fitMesh(plan, cell, m); err != nil {
			return nil, err
		}
		if !checked[m.Name()] {
			checked[m.Name()] = true
			asked, err := Asks(plan, m.Name())
			if err != nil {
				return nil, err
			}
			components, err := m.Check(ctx, o.Lab.RESTConfig(), asked.Proxies)
			if err != nil {
				return nil, err
			}
			out = append(out, components...)
		}
		if _, err := s.deployments(); err != nil {
			return nil, err
		}
		if err := s.fitUpgrades(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Asks returns what the cells with a mesh in a plan require of the installed mesh.
func Asks(plan *study.Plan, name string) (mesh.Asked, error) {
	var out mesh.Asked
	for _, cell := range plan.Cells {
		s, err := newScene(plan.Study, cell, nil, lab.Images{}, "check", "check", 1)
		if err != nil {
			return out, err
		}
		if s.levels.Mesh != name {
			continue
		}
		for _, w := range s.workloads() {
			serves := w.Name != roleClients
			if w.Carrier != "" { // no sidecar involved
				out.Ambient, out.Waypoint = true, out.Waypoint || study.Waypoint(cell)
				continue
			}
			out.Sent, out.Served = out.Sent || w.Proxy != nil, out.Served || serves && w.Proxy != nil
			out.Plain = out.Plain || serves && (w.Proxy == nil || w.Proxy.Level(study.FactorMTLS) == study.MTLSOff)
			if w.Proxy != nil && !slices.ContainsFunc(out.Proxies, w.Proxy.Equal) {
				out.Proxies = append(out.Proxies, *w.Proxy)
			}
		}
		for _, r := range s.routes(s.scenario.Graph.Services...) {
			if !slices.Contains(out.Ports, r.Port) {
				out.Ports = append(out.Ports, r.Port)
			}
		}
		if SetsControl(plan) {
			out.Levers = append(out.Levers, mesh.LeversOf(cell))
		}
	}
	return out, nil
}

// fitMesh finds requirements of a cell that its mesh does not meet, with their position in the
// study.
func fitMesh(plan *study.Plan, cell record.Cell, m mesh.Mesh) error {
	r, ok := m.(mesh.Resilience)
	if !ok || study.Ambient(cell) { // ambient has no levers, and no steps that sidecars would prove
		return nil
	}
	for _, lack := range r.Lacks(cell) {
		return runner.Placed(plan, cell, errs.Usage("mesh %s does not support %s=%s: %s", m.Name(), lack.Factor, lack.Level, lack.Reason), "", lack.Factor)
	}
	timeline := resilience.Of(plan.Study).TimelineOf(cell)
	for _, step := range timeline.Steps {
		if mesh.Sidecars(m).AdminPort == 0 {
			continue // without a mesh such steps report it themselves
		}
		missing := ""
		_, moves := step.Action.(*fault.Move)
		switch a := step.Action.(type) {
		case *fault.Revision, *fault.Move:
			if moves && !slices.ContainsFunc(resilience.Of(plan.Study).Graph.Services, func(one graph.Service) bool { return one.Sidecar }) {
				missing = "no service has a sidecar, so nothing would move"
			}
			if _, ok := m.(mesh.Revisioned); !ok {
				missing = "it has no revisions to move namespaces between"
			}
		case *fault.Certificates:
			if _, ok := m.(mesh.CertificateReader); !ok {
				missing = "its proxies do not expose their certificates"
			}
		case *fault.Config:
			if _, ok := m.(mesh.ConfigChecker); !ok && (a.Rejected || slices.ContainsFunc(a.Apply, fault.OfMesh)) {
				missing = "its proxies do not report their configuration, so a change cannot be proved"
			}
		}
		if missing != "" {
			return runner.Placed(plan, cell, errs.Usage("step %s is not supported with mesh %s: %s", step.Name, m.Name(), missing), "", study.FactorMesh)
		}
	}
	return nil
}

// newScene builds the scene of a cell. m may be nil for cells without a mesh.
func newScene(s *study.Study, cell record.Cell, m mesh.Mesh, images lab.Images, run, trial string, seed uint64) (*scene, error) {
	levels, err := resilience.LevelsOf(cell)
	if err != nil {
		return nil, err
	}
	return &scene{run: run, trial: trial, namespace: site.NamespacePrefix + run, study: s, scenario: resilience.Of(s).In(cell), cell: cell, levels: levels, mesh: m, images: images, seed: seed}, nil
}

// observerAt returns the observer of a node.
func (s *stage) observerAt(node string) (observe.Client, bool) {
	o := s.Observers[node]
	return o, o.HTTPClient != nil
}
