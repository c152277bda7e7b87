package churn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/record"
)

// Announce tells the simulated sidecars which markers to look for, and returns when all
// of them know.
type Announce func(ctx context.Context, markers []record.Marker) error

const (
	// inFlight limits the concurrent requests to the API server.
	inFlight = 64
	// requestTimeout limits each of them.
	requestTimeout = 60 * time.Second
	// lead is how long before its time a change is prepared. Markers that could not be
	// announced at the start are announced then.
	lead = 300 * time.Millisecond
	// settle limits how long the controllers take for a change.
	settle = 60 * time.Second
	// maxErrors limits the failed deletions that an error names.
	maxErrors = 3
)

// Driver executes a plan once. Call Prepare, Drive and Cleanup in this order; Cleanup
// also after an error.
type Driver struct {
	plan    *Plan
	dynamic dynamic.Interface
	kube    kubernetes.Interface
	watch   *watcher
	refused []bool // by change: the API server rejected it
}

// NewDriver returns a Driver of a plan on a cluster.
func NewDriver(config *rest.Config, plan *Plan) (*Driver, error) {
	dyn, kube, err := population.Clients(config)
	if err != nil {
		return nil, err
	}
	return &Driver{plan: plan, dynamic: dyn, kube: kube, refused: make([]bool, len(plan.Changes))}, nil
}

// Prepare creates what the changes need: Services to route to, EndpointSlices to
// change, and the driver's own watches, which Cleanup ends. Call it before the mesh
// settles.
func (d *Driver) Prepare(ctx context.Context) error {
	if d.watch != nil {
		return errors.New("churn: a plan is prepared once")
	}
	for _, o := range d.plan.prepare { // namespaces come before their contents
		client, err := population.Client(d.dynamic, o)
		if err != nil {
			return err
		}
		if _, err := client.Create(ctx, o, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("churn: create %s: %w", population.Key(o), err)
		}
	}
	watch, err := d.watchAll(ctx)
	if err != nil {
		return fmt.Errorf("churn: %w", err)
	}
	d.watch = watch
	return nil
}

// Drive sends every change at start plus its offset. It returns an event for each, in
// order, when the last was answered and the controllers have followed changes of
// endpoints. Markers are announced first: unique ones immediately, the others shortly
// before their change. If the API server rejects a change, its event has an error; an
// error of Drive means that not all changes were sent, because the context ended or the
// first announcement failed. Events are complete even then. start should leave time for
// the announcement.
func (d *Driver) Drive(ctx context.Context, start time.Time, announce Announce) ([]record.Event, error) {
	events := d.events(start)
	if d.watch == nil {
		return events, errors.New("churn: the plan is not prepared")
	}
	if markers := d.plan.early(); len(markers) > 0 {
		if err := announce(ctx, markers); err != nil {
			return events, fmt.Errorf("churn: announce the markers: %w", err)
		}
	}
	var wait sync.WaitGroup
	slots := make(chan struct{}, inFlight)
	before := map[string]chan struct{}{} // the last change of an object
	for i := range d.plan.Changes {
		c := &d.plan.Changes[i]
		if err := until(ctx, start.Add(time.Duration(c.OffsetNS)-lead)); err != nil {
			break
		}
		done := make(chan struct{})
		var earlier []chan struct{}
		for _, key := range []string{c.Object, fmt.Sprint("group ", c.Group)} {
			if last := before[key]; last != nil {
				earlier = append(earlier, last)
			}
			before[key] = done
		}
		wait.Go(func() {
			defer close(done)
			for _, ch := range earlier { // keep the order, even if the server is slow
				select {
				case <-ch:
				case <-ctx.Done():
				}
			}
			d.one(ctx, c, &events[i], slots, announce)
		})
	}
	wait.Wait()
	d.watch.follow(ctx, d.plan, events)
	d.watch.fill(d.plan, events, d.refused)
	if err := context.Cause(ctx); err != nil {
		for i := range events {
			if events[i].CommittedNS == 0 && events[i].Error == "" {
				events[i].Error = "not sent: " + err.Error()
			}
		}
		return events, fmt.Errorf("churn: %w", err)
	}
	return events, nil
}

// events returns the events of all changes as planned.
func (d *Driver) events(start time.Time) []record.Event {
	out := make([]record.Event, len(d.plan.Changes))
	for i, c := range d.plan.Changes {
		out[i] = record.Event{Schema: record.Schema, Trial: d.plan.Spec.Trial, Change: i, Kind: c.Kind, Op: c.Op, Object: c.Object,
			Markers: slices.Clone(c.Markers), PlannedNS: start.UnixNano() + c.OffsetNS}
	}
	return out
}

// early returns the markers that can be announced before the first change: those that
// belong to one change only.
func (p *Plan) early() []record.Marker {
	var out []record.Marker
	for _, c := range p.Changes {
		if !c.repeats() {
			out = append(out, c.Markers...)
		}
	}
	return out
}

// repeats reports whether an earlier change may have had the same markers: those of an
// endpoint that comes and goes.
func (c *Change) repeats() bool { return c.Kind == KindEndpointsFlap }

// one executes a change and fills in its event.
func (d *Driver) one(ctx context.Context, c *Change, e *record.Event, slots chan struct{}, announce Announce) {
	if c.pods != nil {
		d.podChange(ctx, c, e, slots, announce)
		return
	}
	if c.repeats() {
		if err := announce(ctx, e.Markers); err != nil {
			e.Error = "announce its markers: " + err.Error()
			return
		}
	}
	if until(ctx, time.Unix(0, e.PlannedNS)) != nil {
		return
	}
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return
	}
	e.SentNS = time.Now().UnixNano()
	for _, w := range c.writes {
		if err := d.write(ctx, w); err != nil {
			e.Error = err.Error()
			d.refused[c.Index] = isRefusal(err)
			return
		}
	}
	e.CommittedNS = time.Now().UnixNano()
}

// write sends a request and waits for the answer.
func (d *Driver) write(ctx context.Context, w write) error {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, fmt.Errorf("no answer within %s", requestTimeout))
	defer cancel()
	client, err := population.Client(d.dynamic, w.object)
	if err != nil {
		return err
	}
	if w.patch == nil {
		_, err = client.Create(ctx, w.object, metav1.CreateOptions{})
	} else {
		var body []byte
		if body, err = json.Marshal(w.patch); err != nil {
			return err
		}
		_, err = client.Patch(ctx, w.object.GetName(), types.MergePatchType, body, metav1.PatchOptions{})
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Cleanup deletes what the changes created and reverts what they did to the population.
// It continues after failures and returns them.
func (d *Driver) Cleanup(ctx context.Context) error {
	if d.watch != nil {
		d.watch.stop()
	}
	var all []error
	note := func(err error) {
		if err != nil && !apierrors.IsNotFound(err) {
			all = append(all, err)
		}
	}
	for _, w := range d.plan.restore {
		note(d.write(ctx, w))
	}
	note(d.restorePods(ctx))
	note(d.remove(ctx, append(d.plan.written(), d.plan.prepare...)))
	if err := errors.Join(all...); err != nil {
		return fmt.Errorf("churn: clean up: %w", err)
	}
	return nil
}

// Withdraw deletes what the changes created, but not what was prepared. It returns when
// the first deletion was sent and when the last was answered.
func (d *Driver) Withdraw(ctx context.Context) (first, last time.Time, err error) {
	first = time.Now()
	if err := d.remove(ctx, d.plan.written()); err != nil {
		return first, time.Now(), fmt.Errorf("churn: withdraw: %w", err)
	}
	return first, time.Now(), nil
}

// written returns the objects of all writes, with repetitions.
func (p *Plan) written() (out []*unstructured.Unstructured) {
	for _, c := range p.Changes {
		for _, w := range c.writes {
			out = append(out, w.object)
		}
	}
	return out
}

// remove deletes the plan's own objects, each once. A missing one is no error.
func (d *Driver) remove(ctx context.Context, objects []*unstructured.Unstructured) error {
	seen := map[string]bool{}
	var mu sync.Mutex
	var all []error
	var group errgroup.Group
	group.SetLimit(inFlight)
	for _, o := range objects {
		key := o.GetAPIVersion() + "/" + population.Key(o) // two groups may have the same kind
		if o.GetLabels()[Label] != d.plan.Spec.Trial || seen[key] {
			continue
		}
		seen[key] = true
		group.Go(func() error {
			client, err := population.Client(d.dynamic, o)
			if err == nil {
				err = client.Delete(ctx, o.GetName(), metav1.DeleteOptions{})
			}
			if err != nil && !apierrors.IsNotFound(err) {
				mu.Lock()
				defer mu.Unlock()
				all = append(all, err)
			}
			return nil
		})
	}
	_ = group.Wait() // errors are in all
	if more := len(all) - maxErrors; more > 0 {
		all = append(all[:maxErrors], fmt.Errorf("and %d more", more))
	}
	return errors.Join(all...)
}

// until waits until a given time.
func until(ctx context.Context, at time.Time) error { return wake.Pause(ctx, time.Until(at)) }
