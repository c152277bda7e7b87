package istio

import (
	"context"
	"fmt"
	"slices"

	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/journal/fields"
	"github.com/meshtrial/meshtrial/mesh"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Plan implements [mesh.ControlPlane]. It uses the same functions as Apply to
// determine what Apply would change.
func (c *ControlPlane) Plan(ctx context.Context, all []mesh.Levers) ([]journal.Planned, error) {
	d, err := c.deployment(ctx)
	if err != nil {
		return nil, err
	}
	deployment := c.object("apps/v1", "Deployment", c.name)
	out, err := planSpec(deployment, &d.Spec, all, editSpec, func(l mesh.Levers) []string {
		return wideDeployment(&d.Spec, l)
	})
	if err != nil {
		return nil, err
	}
	config, err := c.planMeshConfig(ctx, all)
	if err != nil {
		return nil, err
	}
	out = append(out, config...)
	scalers, err := c.scalers(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range scalers {
		scaler := c.object("autoscaling/v2", "HorizontalPodAutoscaler", s.Name)
		one, err := planSpec(scaler, &s.Spec, all, holdScaler, func(l mesh.Levers) []string {
			return wideScaler(&s.Spec, l)
		})
		if err != nil {
			return nil, err
		}
		out = append(out, one...)
	}
	for _, l := range all {
		sidecars, err := desiredSidecars(l, c.revision)
		if err != nil {
			return nil, err
		}
		for _, s := range sidecars {
			name := journal.ObjectOf(s).String()
			i := slices.IndexFunc(out, func(p journal.Planned) bool { return p.Object == name })
			if i < 0 {
				i, out = len(out), append(out, journal.Planned{Object: name, Done: journal.Made})
			}
			out[i].Wide = merged(out[i].Wide, wideSidecar(l))
		}
	}
	return out, nil
}

// planSpec returns what edit changes in an object's spec with each of the
// levers. wide describes what they do to every proxy.
func planSpec(o journal.Object, spec any, all []mesh.Levers, edit func(*unstructured.Unstructured, mesh.Levers) error,
	wide func(mesh.Levers) []string) ([]journal.Planned, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(spec)
	if err != nil {
		return nil, err
	}
	live := &unstructured.Unstructured{Object: map[string]any{"spec": content}}
	var versions []map[string]any
	var everybody []string
	for _, l := range all {
		v := live.DeepCopy()
		if err := edit(v, l); err != nil {
			return nil, err
		}
		versions, everybody = append(versions, v.Object), merged(everybody, wide(l))
	}
	return planned(o, everybody, live.Object, versions), nil
}

func (c *ControlPlane) planMeshConfig(ctx context.Context, all []mesh.Levers) ([]journal.Planned, error) {
	stored, err := c.kube.CoreV1().ConfigMaps(Namespace).Get(ctx, c.config, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("istio: mesh configuration: %w", err)
	}
	now := stored.Data[meshConfigKey]
	of := func(text string) map[string]any { return map[string]any{"data": map[string]any{meshConfigKey: text}} }
	var versions []map[string]any
	var everybody []string
	for _, l := range all {
		text, err := desiredMeshConfig(now, l)
		if err != nil {
			return nil, err
		}
		does, err := wideConfig(now, l)
		if err != nil {
			return nil, err
		}
		versions, everybody = append(versions, of(text)), merged(everybody, does)
	}
	text := fields.Text("data", meshConfigKey)
	return planned(c.object("v1", "ConfigMap", c.config), everybody, of(now), versions, text), nil
}

// planned returns the change to an object, if any, and what that does to every proxy.
func planned(o journal.Object, everybody []string, live map[string]any, versions []map[string]any,
	texts ...[]fields.Step) []journal.Planned {
	p, any := journal.Plan(o, live, versions, texts...)
	if !any {
		return nil
	}
	p.Wide = everybody
	return []journal.Planned{p}
}
