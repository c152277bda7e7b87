package trial

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/journal/fields"
	"github.com/meshtrial/meshtrial/mesh"
)

// changed is an object that a step changes.
type changed struct {
	at     dynamic.ResourceInterface
	object *unstructured.Unstructured // desired state; for a deletion only its name
	gone   bool                       // to be deleted
	// Results of begin.
	step        []fields.Field
	made, begun bool
}

// whyConfig is the reason in the journal for a change of objects.
const whyConfig = "a step changes configuration"

func (c *changed) name() string { return c.object.GetKind() + " " + c.object.GetName() }

// look checks whether the object to delete exists.
func (c *changed) look(ctx context.Context) error {
	_, err := c.at.Get(ctx, c.object.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && c.gone:
		return fmt.Errorf("there is no %s to delete", c.name())
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("read %s: %w", c.name(), err)
	}
	return nil
}

func (c *changed) act(ctx context.Context, changes changer) (err error) {
	c.begun = true
	if c.gone {
		return changes.Remove(ctx, journal.ObjectOf(c.object), whyConfig)
	}
	c.step, c.made, err = changes.Apply(ctx, c.object, whyConfig)
	return err
}

// undo reverts act.
func (c *changed) undo(ctx context.Context, changes changer) error {
	o := journal.ObjectOf(c.object)
	switch {
	case !c.begun:
		return nil
	case c.gone, c.made:
		_, err := changes.Restore(ctx, func(e *journal.Entry) bool { return o.Same(e.Object) })
		return err
	case len(c.step) == 0: // it was already as wanted, or was rejected
		return nil
	}
	return changes.Revert(ctx, o, whyConfig, c.step)
}

// objectOf converts an object from a study file for the API's libraries, which accept few number
// types, and fills in the name of a pod.
func objectOf(o map[string]any, pod string) (*unstructured.Unstructured, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("object of a step: %w", err)
	}
	if pod != "" {
		text = bytes.ReplaceAll(text, []byte(fault.PodVariable), []byte(pod))
	}
	out := &unstructured.Unstructured{}
	if err := out.UnmarshalJSON(text); err != nil {
		return nil, fmt.Errorf("object of a step: %w", err)
	}
	return out, nil
}

func (r *performer) Config(a *fault.Config) error { return r.prepared(r.config(r.ctx, a)) }

// config changes Kubernetes objects.
func (h *executor) config(ctx context.Context, c *fault.Config) (*execution, error) {
	var all []*changed
	put := func(object *unstructured.Unstructured, gone bool) error {
		at, err := h.apply.Open(ctx, object, h.Namespace)
		if err != nil {
			return err
		}
		one := &changed{at: at, object: object, gone: gone}
		all = append(all, one)
		return one.look(ctx)
	}
	pod := ""
	if c.Pod != "" {
		chosen, err := h.choose(c.Pod, 1)
		if err != nil {
			return nil, err
		}
		pod = chosen[0].Name
	}
	for _, o := range c.Apply {
		object, err := objectOf(o, pod)
		if err == nil {
			err = put(object, false)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, r := range c.Delete {
		if err := put(journal.Object(r).Bare(), true); err != nil {
			return nil, err
		}
	}
	var witness *witness // of proxies, which only receive a mesh's objects
	var err error
	if c.Rejected || slices.ContainsFunc(all, (*changed).ofMesh) {
		if witness, err = h.witness(ctx); err != nil {
			return nil, err
		}
	}
	refused := "" // the API server's error, if the step expects one
	out := &execution{
		begin: func(ctx context.Context) error {
			for _, one := range all {
				err := one.act(ctx, h.changes)
				switch {
				case c.Rejected && (apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err)):
					refused = err.Error()
				case err != nil:
					return fmt.Errorf("change %s: %w", one.name(), err)
				}
			}
			return nil
		},
		prove: func(ctx context.Context) (string, error) {
			switch {
			case refused != "":
				return "the API server rejected it: " + refused, nil
			case c.Rejected:
				return witness.rejected(ctx)
			case witness == nil:
				return proveObjects(ctx, all)
			}
			return witness.changed(ctx)
		},
		end: func(ctx context.Context) error {
			var errs []error
			for _, one := range slices.Backward(all) {
				errs = append(errs, one.undo(ctx, h.changes))
			}
			return errors.Join(errs...)
		},
	}
	var names []string
	for _, one := range all {
		names, out.outlasting = append(names, one.name()), append(out.outlasting, journal.ObjectOf(one.object))
	}
	out.target = strings.Join(names, ", ")
	return out, nil
}

// ofMesh reports whether proxies receive such objects.
func (c *changed) ofMesh() bool { return fault.OfMesh(c.object.Object) }

// proveObjects reads back objects that no proxy receives.
func proveObjects(ctx context.Context, all []*changed) (string, error) {
	for _, one := range all {
		_, err := one.at.Get(ctx, one.object.GetName(), metav1.GetOptions{})
		if one.gone && apierrors.IsNotFound(err) {
			continue
		}
		if err != nil || one.gone {
			return "", fmt.Errorf("%s is not as expected: %w", one.name(), err)
		}
	}
	return "the API server has it; proxies do not receive such objects", nil
}

// witness observes, in the proxies themselves, that their configuration changes or that they reject
// a change.
type witness struct {
	h       *executor
	mesh    mesh.ConfigChecker
	pods    []*resident
	configs map[string][sha256.Size]byte
	refused map[string]float64
}

// rejections selects Envoy's counters of rejected configuration. See envoyproxy.io/docs, xDS
// subscription statistics, update_rejected.
const rejections = `\.update_rejected$`

// witness reads the proxies' configuration before a change.
func (h *executor) witness(ctx context.Context) (*witness, error) {
	m, ok := able[mesh.ConfigChecker](h.scene)
	if !ok {
		return nil, fmt.Errorf("the proxies of mesh %s do not report their configuration, so a change cannot be proved", h.scene.mesh.Name())
	}
	w := &witness{h: h, mesh: m}
	for _, one := range h.scene.workloads() {
		if one.Proxy != nil {
			w.pods = append(w.pods, h.census.living(one.Name)...)
		}
	}
	var err error
	for since := time.Now(); len(w.configs) == 0; {
		w.configs, w.refused, err = w.look(ctx)
		// If the machine was suspended, no proxy may have answered in time.
		if len(w.configs) == 0 && (time.Since(since) > 3*oneLook || wake.Pause(ctx, leverEvery) != nil) {
			if err == nil {
				err = errors.New("no pod has one")
			}
			return nil, fmt.Errorf("no proxy reports its configuration: %w", err)
		}
	}
	return w, nil
}

// look queries all living proxies. It omits those that do not answer because they are ending or
// busy; the error states the reason.
func (w *witness) look(ctx context.Context) (map[string][sha256.Size]byte, map[string]float64, error) {
	configs, refused := map[string][sha256.Size]byte{}, map[string]float64{}
	var missed error
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(leverMany)
	for _, r := range w.pods {
		if !w.h.census.lives(r.uid) {
			continue
		}
		group.Go(func() error {
			config, counted, err := w.one(ctx, r)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				missed = fmt.Errorf("proxy of %s: %w", r.Name, err)
				return nil
			}
			configs[r.uid], refused[r.uid] = config, counted
			return nil
		})
	}
	_ = group.Wait() // the functions return no error
	return configs, refused, missed
}

// oneLook limits a query to one proxy.
const oneLook = 3 * time.Second

func (w *witness) one(ctx context.Context, r *resident) (config [sha256.Size]byte, refused float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, oneLook)
	defer cancel()
	admin := w.h.admin(r)
	text, err := admin.Get(ctx, w.mesh.ConfigPath(), nil)
	if err != nil {
		return config, 0, err
	}
	stats, err := admin.Stats(ctx, rejections)
	if err != nil {
		return config, 0, err
	}
	for _, n := range stats.Counters {
		refused += n
	}
	config, err = configHash(text)
	return config, refused, err
}

// witnessSteady is the time without another proxy after which the current ones count as all.
const witnessSteady = 1500 * time.Millisecond

// await polls until some proxies show the change and no others follow.
func (w *witness) await(ctx context.Context, shows func(uid string, config [sha256.Size]byte, refused float64) bool) (count, of int, err error) {
	last, since := 0, time.Now()
	for {
		configs, refused, err := w.look(ctx)
		count, of = 0, 0
		for uid, config := range configs {
			if _, known := w.configs[uid]; !known {
				continue
			}
			of++
			if shows(uid, config, refused[uid]) {
				count++
			}
		}
		if count != last {
			last, since = count, time.Now()
		}
		if count == of && of > 0 || count > 0 && time.Since(since) > witnessSteady {
			return count, of, nil
		}
		if stop := wake.Pause(ctx, leverEvery); stop != nil {
			return count, of, errors.Join(stop, err)
		}
	}
}

func (w *witness) changed(ctx context.Context) (string, error) {
	count, of, err := w.await(ctx, func(uid string, config [sha256.Size]byte, _ float64) bool { return config != w.configs[uid] })
	if err != nil {
		return "", fmt.Errorf("the configuration of no proxy has changed: %w", err)
	}
	return fmt.Sprintf("the configuration of %d of %d proxies has changed", count, of), nil
}

func (w *witness) rejected(ctx context.Context) (string, error) {
	count, of, err := w.await(ctx, func(uid string, _ [sha256.Size]byte, refused float64) bool { return refused > w.refused[uid] })
	if err != nil {
		return "", fmt.Errorf("no proxy has counted a rejected configuration: %w", err)
	}
	return fmt.Sprintf("%d of %d proxies have rejected it", count, of), nil
}

// stamps are the fields of Envoy's response that differ with every control-plane message, whatever
// its content. See envoy.admin.v3.ConfigDump.
var stamps = []string{"last_updated", "version_info", "system_version_info"}

// configHash identifies a configuration by its content. Envoy writes the members of its maps,
// and some lists, in a different order each time.
func configHash(text []byte) ([sha256.Size]byte, error) {
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("configuration: %w", err)
	}
	plain, err := canonical(tree)
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("configuration: %w", err)
	}
	return sha256.Sum256(plain), nil
}

// canonical encodes a JSON value without stamps in a canonical order: objects by name, lists by the
// content of their elements.
func canonical(tree any) (json.RawMessage, error) {
	switch v := tree.(type) {
	case map[string]any:
		out := make(map[string]json.RawMessage, len(v))
		for name, value := range v {
			if slices.Contains(stamps, name) {
				continue
			}
			text, err := canonical(value)
			if err != nil {
				return nil, err
			}
			out[name] = text
		}
		return json.Marshal(out)
	case []any:
		out := make([]json.RawMessage, len(v))
		for i, value := range v {
			text, err := canonical(value)
			if err != nil {
				return nil, err
			}
			out[i] = text
		}
		slices.SortFunc(out, func(a, b json.RawMessage) int { return slices.Compare(a, b) })
		return json.Marshal(out)
	}
	return json.Marshal(tree)
}
