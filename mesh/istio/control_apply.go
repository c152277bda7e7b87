package istio

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/journal/fields"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
)

// leverLabel marks the objects that implement our levers.
const leverLabel = "meshtrial.dev/lever"

// why is the reason that the journal states for changes to istiod.
const why = "levers of istiod"

// rolloutTimeout limits the wait for istiod, which may have to pull an image. Levers
// may extend it.
const rolloutTimeout = 3 * time.Minute

var sidecarResource = schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "sidecars"}

// Apply sets the levers. It writes nothing if a level is unavailable.
func (c *ControlPlane) Apply(ctx context.Context, l mesh.Levers, fresh bool) (mesh.Applied, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, max(rolloutTimeout, l.Wait))
	defer cancel()
	var done mesh.Applied
	if c.changes == nil {
		return done, errors.New("istio: istiod was opened read-only: levers could not be reverted")
	}
	sidecars, err := desiredSidecars(l, c.revision)
	if err != nil {
		return done, err
	}
	if err := c.refuse(ctx, l); err != nil {
		return done, err
	}
	awaited, newConfig, err := c.applyMeshConfig(ctx, l)
	if err != nil {
		return done, err
	}
	held, err := c.holdScalers(ctx, l)
	if err != nil {
		return done, err
	}
	changed, restarted, requests, err := c.applyDeployment(ctx, l, fresh)
	if err != nil {
		return done, err
	}
	done.Requests = requests
	if err := c.rolledOut(ctx); err != nil {
		return done, err
	}
	if newConfig && !restarted { // a new istiod starts with it
		if err := c.meshConfigInForce(ctx, awaited); err != nil {
			return done, err
		}
	}
	moved, err := c.applySidecars(ctx, sidecars)
	if err != nil {
		return done, err
	}
	if newConfig {
		done.Changed = append(done.Changed, "ConfigMap "+Namespace+"/"+c.config)
	}
	if changed {
		done.Changed = append(done.Changed, "Deployment "+Namespace+"/"+c.name)
	}
	done.Changed = append(append(done.Changed, held...), moved...)
	done.Restarted, done.Took = restarted, time.Since(began)
	return done, nil
}

// refuse returns why levers cannot take effect on istiod as it was installed. Its
// current state may result from the levers of an earlier trial, which Apply reverts.
func (c *ControlPlane) refuse(ctx context.Context, l mesh.Levers) error {
	d, err := c.changes.Original(ctx, c.object("apps/v1", "Deployment", c.name))
	if err != nil {
		return fmt.Errorf("istio: %w", err)
	}
	spec, err := specOf(d)
	if err != nil {
		return err
	}
	if _, err := desiredDeployment(spec, l); err != nil {
		return err
	}
	if !l.Named(controlplane.FactorSidecarScope) {
		return nil
	}
	stored, err := c.changes.Original(ctx, c.object("v1", "ConfigMap", c.config))
	if err != nil {
		return fmt.Errorf("istio: mesh configuration: %w", err)
	}
	text, _, err := unstructured.NestedString(stored.Object, "data", meshConfigKey)
	if err != nil {
		return fmt.Errorf("istio: mesh configuration: %w", err)
	}
	found := AsFound{revision: Revision{Name: c.revision}}
	if found.config, err = meshConfigOf(text, c.config); err != nil {
		return err
	}
	if err := found.readForLevers(ctx, c.kube, c.sidecars, []mesh.Levers{l}); err != nil {
		return err
	}
	return found.refuseLever(l)
}

// applyDeployment writes the Deployment if it differs. restarted means that istiod's
// pods are new, which fresh forces even without a difference. requests is as in
// [mesh.Applied].
func (c *ControlPlane) applyDeployment(ctx context.Context, l mesh.Levers, fresh bool) (changed, restarted bool, requests record.Cell, err error) {
	before, err := c.deployment(ctx)
	if err != nil {
		return false, false, nil, err
	}
	step, err := c.changes.Change(ctx, c.object("apps/v1", "Deployment", c.name), why, func(original, _ *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		spec, err := specOf(original)
		if err != nil {
			return nil, err
		}
		requests = requestsMoved(spec, l)
		return original, editSpec(original, l)
	})
	changed = len(step) > 0
	if err != nil {
		return false, false, nil, fmt.Errorf("istio: set levers: %w", err)
	}
	after, err := c.deployment(ctx)
	if err != nil {
		return changed, false, nil, err
	}
	if !equality.Semantic.DeepEqual(before.Spec.Template, after.Spec.Template) {
		return changed, true, requests, nil
	}
	if !fresh {
		return changed, false, requests, nil
	}
	return changed, true, requests, c.restart(ctx, metav1.DeleteOptions{})
}

// specOf parses the specification of a Deployment.
func specOf(d *unstructured.Unstructured) (appsv1.DeploymentSpec, error) {
	var out appsv1.DeploymentSpec
	spec, _, err := unstructured.NestedMap(d.Object, "spec")
	if err != nil {
		return out, err
	}
	return out, runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &out)
}

// editSpec applies the levers to a Deployment. It writes only fields that they change,
// so fields unknown to this program are preserved.
func editSpec(d *unstructured.Unstructured, l mesh.Levers) error {
	original, err := specOf(d)
	if err != nil {
		return err
	}
	want, err := desiredDeployment(original, l)
	if err != nil {
		return err
	}
	before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&original)
	if err != nil {
		return err
	}
	after, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&want)
	if err != nil {
		return err
	}
	return fields.Redo(d.Object, fields.Diff(map[string]any{"spec": before}, map[string]any{"spec": after}))
}

// Kill deletes istiod's pods without grace (SIGTERM, and SIGKILL two seconds later) and
// waits until others are ready, within the context's deadline.
func (c *ControlPlane) Kill(ctx context.Context) error {
	if c.changes == nil {
		return errors.New("istio: istiod was opened read-only: it must not be killed")
	}
	now := int64(0)
	if err := c.restart(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		return err
	}
	return c.rolledOut(ctx)
}

// restart deletes istiod's pods, and waits until they are gone. Replacements start
// immediately.
func (c *ControlPlane) restart(ctx context.Context, how metav1.DeleteOptions) error {
	old, err := c.pods(ctx)
	if err != nil {
		return err
	}
	gone := map[string]bool{}
	for i := range old {
		gone[string(old[i].UID)] = true
		if err := c.kube.CoreV1().Pods(Namespace).Delete(ctx, old[i].Name, how); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("istio: delete pod %s: %w", old[i].Name, err)
		}
	}
	for {
		now, err := c.pods(ctx)
		switch {
		case err != nil && !kubernetes.Transient(err):
			return err
		case err == nil && !slices.ContainsFunc(now, func(p corev1.Pod) bool { return gone[string(p.UID)] }):
			return nil
		}
		if ended := wake.Pause(ctx, restartLook); ended != nil {
			return errs.WithHint(errors.Join(fmt.Errorf("istio: wait for istiod's old pods to terminate: %w", ended), err), "kubectl -n %s get pods -l %s", Namespace, istiodLabel)
		}
	}
}

// restartLook is the polling interval for terminating pods.
const restartLook = 50 * time.Millisecond

// object identifies one of istiod's objects.
func (c *ControlPlane) object(version, kind, name string) journal.Object {
	return journal.Object{APIVersion: version, Kind: kind, Namespace: Namespace, Name: name}
}

// rolledOut waits until the Deployment's pods are ready and no others are left.
func (c *ControlPlane) rolledOut(ctx context.Context) error {
	err := lab.WaitDeployment(ctx, c.kube, Namespace, c.name)
	if err == nil {
		var d *appsv1.Deployment
		if d, err = c.deployment(ctx); err == nil {
			count := 1
			if d.Spec.Replicas != nil {
				count = int(*d.Spec.Replicas)
			}
			err = lab.WaitPods(ctx, c.kube, Namespace, metav1.FormatLabelSelector(d.Spec.Selector), count)
		}
	}
	return errs.WithHint(err, "kubectl -n %s describe pods -l %s", Namespace, istiodLabel)
}

// applySidecars makes our Sidecars match the wanted ones.
func (c *ControlPlane) applySidecars(ctx context.Context, wanted []*unstructured.Unstructured) ([]string, error) {
	found, err := c.sidecars.Namespace(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: leverLabel})
	if err != nil {
		return nil, fmt.Errorf("istio: list Sidecars: %w", err)
	}
	var moved []string
	for i := range found.Items {
		s := &found.Items[i]
		if slices.ContainsFunc(wanted, func(w *unstructured.Unstructured) bool { return sameObject(w, s) }) {
			continue
		}
		o := journal.ObjectOf(s)
		if _, err := c.changes.Restore(ctx, func(e *journal.Entry) bool { return e.Object == o }); err != nil {
			return moved, fmt.Errorf("istio: %w", err)
		}
		moved = append(moved, "Sidecar "+s.GetNamespace()+"/"+s.GetName())
	}
	for _, w := range wanted {
		if slices.ContainsFunc(found.Items, func(s unstructured.Unstructured) bool {
			return sameObject(w, &s) && equality.Semantic.DeepEqual(w.Object["spec"], s.Object["spec"])
		}) {
			continue
		}
		if _, _, err := c.changes.Apply(ctx, w, why); err != nil {
			return moved, fmt.Errorf("istio: %w", err)
		}
		moved = append(moved, "Sidecar "+w.GetNamespace()+"/"+w.GetName())
	}
	return moved, nil
}

func sameObject(a, b *unstructured.Unstructured) bool {
	return a.GetName() == b.GetName() && a.GetNamespace() == b.GetNamespace()
}

// Restore reverts what this run's Apply changed, and waits for istiod. Failures are
// reported at the end, after everything else has been reverted.
func (c *ControlPlane) Restore(ctx context.Context) error {
	if c.changes == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, rolloutTimeout)
	defer cancel()
	done, err := c.changes.Restore(ctx, journal.OfRun(c.changes.Run()))
	deployment := c.object("apps/v1", "Deployment", c.name)
	if slices.ContainsFunc(done, func(o journal.Outcome) bool { return o.Entry.Object == deployment && len(o.Back) > 0 }) {
		err = errors.Join(err, c.rolledOut(ctx))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", mesh.ErrNotRestored, err)
	}
	return nil
}
