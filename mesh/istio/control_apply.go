package istio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/study"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
)

// Marks that Apply leaves in the cluster, for Restore in any process.
const (
	// originalMark holds, on the Deployment and on the ConfigMap, what was
	// there before: a DeploymentSpec as JSON, and the MeshConfig's text.
	originalMark = "meshtrial.dev/original"
	// restartMark of the pod template changes with each restart.
	restartMark = "meshtrial.dev/restarted"
	// leverLabel marks the objects that are levers of ours.
	leverLabel = "meshtrial.dev/lever"
)

// rolloutTimeout bounds the wait for istiod: an image may have to be pulled.
const rolloutTimeout = 3 * time.Minute

var sidecarResource = schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "sidecars"}

// Apply sets the levers. Nothing is written when a level cannot be had.
func (c *ControlPlane) Apply(ctx context.Context, l mesh.Levers, fresh bool) (mesh.Applied, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, rolloutTimeout)
	defer cancel()
	var done mesh.Applied
	sidecars, err := desiredSidecars(l)
	if err != nil {
		return done, err
	}
	if l.Named(study.FactorSidecarScope) {
		if err := c.refuseForeign(ctx, sidecars); err != nil {
			return done, err
		}
	}
	d, err := c.deployment(ctx)
	if err != nil {
		return done, err
	}
	if _, err := wantedOf(d, l); err != nil {
		return done, err
	}
	newConfig, err := c.applyMeshConfig(ctx, l)
	if err != nil {
		return done, err
	}
	held, err := c.holdScalers(ctx, l)
	if err != nil {
		return done, err
	}
	changed, restarted, err := c.applyDeployment(ctx, l, fresh)
	if err != nil {
		return done, err
	}
	if err := c.rolledOut(ctx); err != nil {
		return done, err
	}
	if newConfig && !restarted { // a new istiod starts with it
		if err := c.meshConfigInForce(ctx, l); err != nil {
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

// wantedOf is what a Deployment must be for the levers, but for its restart
// mark, which stays.
func wantedOf(d *appsv1.Deployment, l mesh.Levers) (appsv1.DeploymentSpec, error) {
	original, err := originalSpec(d)
	if err != nil {
		return original, err
	}
	want, err := desiredDeployment(original, l)
	if err != nil {
		return want, err
	}
	if mark, ok := d.Spec.Template.Annotations[restartMark]; ok {
		setAnnotation(&want.Template.ObjectMeta, restartMark, mark)
	}
	return want, nil
}

// originalSpec is the Deployment as it was found.
func originalSpec(d *appsv1.Deployment) (appsv1.DeploymentSpec, error) {
	text, ok := d.Annotations[originalMark]
	if !ok {
		return d.Spec, nil
	}
	var spec appsv1.DeploymentSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		return spec, errs.WithHint(fmt.Errorf("istio: annotation %s of Deployment %s/%s: %w", originalMark, Namespace, d.Name, err),
			"it held istiod's Deployment before its levers were set; reinstall istiod")
	}
	return spec, nil
}

func setAnnotation(m *metav1.ObjectMeta, name, value string) {
	if m.Annotations == nil {
		m.Annotations = map[string]string{}
	}
	m.Annotations[name] = value
}

// applyDeployment writes the Deployment where it differs or a fresh istiod is
// wanted; restarted says that its pods are new ones.
func (c *ControlPlane) applyDeployment(ctx context.Context, l mesh.Levers, fresh bool) (changed, restarted bool, err error) {
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		d, err := c.deployment(ctx)
		if err != nil {
			return err
		}
		want, err := wantedOf(d, l)
		if err != nil {
			return err
		}
		restarted = fresh || !equality.Semantic.DeepEqual(d.Spec.Template, want.Template)
		changed = restarted || !equality.Semantic.DeepEqual(d.Spec, want)
		if !changed {
			return nil
		}
		if _, kept := d.Annotations[originalMark]; !kept {
			text, err := json.Marshal(d.Spec)
			if err != nil {
				return err
			}
			setAnnotation(&d.ObjectMeta, originalMark, string(text))
		}
		if restarted {
			setAnnotation(&want.Template.ObjectMeta, restartMark, time.Now().UTC().Format(time.RFC3339Nano))
		}
		d.Spec = want
		_, err = c.kube.AppsV1().Deployments(Namespace).Update(ctx, d, metav1.UpdateOptions{FieldManager: lab.FieldManager})
		return err
	})
	if err != nil {
		return false, false, fmt.Errorf("istio: set levers of Deployment %s/%s: %w", Namespace, c.name, err)
	}
	return changed, restarted, nil
}

// rolledOut waits until the Deployment's pods are ready and no others are
// left.
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

// applyMeshConfig writes the ConfigMap where it differs.
func (c *ControlPlane) applyMeshConfig(ctx context.Context, l mesh.Levers) (changed bool, err error) {
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		stored, err := c.kube.CoreV1().ConfigMaps(Namespace).Get(ctx, c.config, metav1.GetOptions{})
		if err != nil {
			return err
		}
		want, err := desiredMeshConfig(originalMesh(stored), l)
		if err != nil {
			return err
		}
		changed, err = differs(stored.Data[meshConfigKey], want)
		if err != nil || !changed {
			return err
		}
		if _, kept := stored.Annotations[originalMark]; !kept {
			setAnnotation(&stored.ObjectMeta, originalMark, stored.Data[meshConfigKey])
		}
		if stored.Data == nil {
			stored.Data = map[string]string{}
		}
		stored.Data[meshConfigKey] = want
		_, err = c.kube.CoreV1().ConfigMaps(Namespace).Update(ctx, stored, metav1.UpdateOptions{FieldManager: lab.FieldManager})
		return err
	})
	if err != nil {
		return false, fmt.Errorf("istio: mesh configuration in ConfigMap %s/%s: %w", Namespace, c.config, err)
	}
	return changed, nil
}

func originalMesh(stored *corev1.ConfigMap) string {
	if text, ok := stored.Annotations[originalMark]; ok {
		return text
	}
	return stored.Data[meshConfigKey]
}

// differs compares two MeshConfigs by what they say.
func differs(a, b string) (bool, error) {
	x, err := parseMeshConfig(a)
	if err != nil {
		return false, err
	}
	y, err := parseMeshConfig(b)
	if err != nil {
		return false, err
	}
	return !reflect.DeepEqual(x, y), nil
}

// refuseForeign fails when a Sidecar that is not ours stands where one of
// ours belongs, or holds mesh-wide.
func (c *ControlPlane) refuseForeign(ctx context.Context, wanted []*unstructured.Unstructured) error {
	found, err := c.sidecars.Namespace(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: "!" + leverLabel})
	if err != nil {
		return fmt.Errorf("istio: list Sidecars: %w", err)
	}
	for i := range found.Items {
		s := &found.Items[i]
		_, selects, _ := unstructured.NestedMap(s.Object, "spec", "workloadSelector")
		inTheWay := s.GetNamespace() == Namespace && !selects || slices.ContainsFunc(wanted, func(w *unstructured.Unstructured) bool {
			return w.GetNamespace() == s.GetNamespace() && (!selects || w.GetName() == s.GetName())
		})
		if inTheWay {
			return errs.WithHint(fmt.Errorf("istio: Sidecar %s/%s would hold beside the one of the factor sidecar_scope", s.GetNamespace(), s.GetName()),
				"remove it for the study: kubectl -n %s delete sidecar %s", s.GetNamespace(), s.GetName())
		}
	}
	return nil
}

// applySidecars makes our Sidecars those that are wanted.
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
		if err := c.sidecars.Namespace(s.GetNamespace()).Delete(ctx, s.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return moved, fmt.Errorf("istio: remove Sidecar %s/%s: %w", s.GetNamespace(), s.GetName(), err)
		}
		moved = append(moved, "Sidecar "+s.GetNamespace()+"/"+s.GetName())
	}
	var missing []*unstructured.Unstructured
	for _, w := range wanted {
		if slices.ContainsFunc(found.Items, func(s unstructured.Unstructured) bool {
			return sameObject(w, &s) && equality.Semantic.DeepEqual(w.Object["spec"], s.Object["spec"])
		}) {
			continue
		}
		missing = append(missing, w)
		moved = append(moved, "Sidecar "+w.GetNamespace()+"/"+w.GetName())
	}
	if err := c.applier.ApplyObjects(ctx, missing); err != nil {
		return moved, fmt.Errorf("istio: set Sidecars: %w", err)
	}
	return moved, nil
}

func sameObject(a, b *unstructured.Unstructured) bool {
	return a.GetName() == b.GetName() && a.GetNamespace() == b.GetNamespace()
}

// Restore puts back what Apply found, and waits for istiod. What cannot be
// put back is told at the end, when all else has been.
func (c *ControlPlane) Restore(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, rolloutTimeout)
	defer cancel()
	_, sidecars := c.applySidecars(ctx, nil)
	// Before the Deployment: an autoscaler that is still held to another number
	// would set that again.
	scalers := c.restoreScalers(ctx)
	config := retry.RetryOnConflict(retry.DefaultBackoff, func() error { return c.restoreMeshConfig(ctx) })
	restarted := false
	deployment := retry.RetryOnConflict(retry.DefaultBackoff, func() (err error) {
		restarted, err = c.restoreDeployment(ctx)
		return err
	})
	all := errors.Join(sidecars, config, deployment, scalers)
	if restarted {
		all = errors.Join(all, c.rolledOut(ctx))
	}
	if all != nil {
		return fmt.Errorf("%w: %w", mesh.ErrNotRestored, all)
	}
	return nil
}

func (c *ControlPlane) restoreMeshConfig(ctx context.Context) error {
	stored, err := c.kube.CoreV1().ConfigMaps(Namespace).Get(ctx, c.config, metav1.GetOptions{})
	if err != nil {
		return err
	}
	text, kept := stored.Annotations[originalMark]
	if !kept {
		return nil
	}
	stored.Data[meshConfigKey] = text
	delete(stored.Annotations, originalMark)
	_, err = c.kube.CoreV1().ConfigMaps(Namespace).Update(ctx, stored, metav1.UpdateOptions{FieldManager: lab.FieldManager})
	return err
}

func (c *ControlPlane) restoreDeployment(ctx context.Context) (bool, error) {
	d, err := c.deployment(ctx)
	if err != nil {
		return false, err
	}
	if _, kept := d.Annotations[originalMark]; !kept {
		return false, nil
	}
	if d.Spec, err = originalSpec(d); err != nil {
		return false, err
	}
	delete(d.Annotations, originalMark)
	_, err = c.kube.AppsV1().Deployments(Namespace).Update(ctx, d, metav1.UpdateOptions{FieldManager: lab.FieldManager})
	return err == nil, err
}
