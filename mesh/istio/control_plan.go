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
	deployment, err := c.planDeployment(ctx, all)
	if err != nil {
		return nil, err
	}
	config, err := c.planMeshConfig(ctx, all)
	if err != nil {
		return nil, err
	}
	scalers, err := c.planScalers(ctx, all)
	if err != nil {
		return nil, err
	}
	out := slices.Concat(deployment, config, scalers)
	for _, l := range all {
		sidecars, err := c.desiredSidecars(l)
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

func (c *ControlPlane) planDeployment(ctx context.Context, all []mesh.Levers) ([]journal.Planned, error) {
	d, err := c.deployment(ctx)
	if err != nil {
		return nil, err
	}
	out, err := planSpec(c.object("apps/v1", "Deployment", c.name), &d.Spec, all, editSpec)
	for i := range out {
		for _, l := range all {
			out[i].Wide = merged(out[i].Wide, wideDeployment(&d.Spec, l))
		}
	}
	return out, err
}

// planSpec returns what edit changes in an object's spec with each of the
// levers.
func planSpec(o journal.Object, spec any, all []mesh.Levers, edit func(*unstructured.Unstructured, mesh.Levers) error) ([]journal.Planned, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(spec)
	if err != nil {
		return nil, err
	}
	live := &unstructured.Unstructured{Object: map[string]any{"spec": content}}
	var versions []map[string]any
	for _, l := range all {
		v := live.DeepCopy()
		if err := edit(v, l); err != nil {
			return nil, err
		}
		versions = append(versions, v.Object)
	}
	return planned(journal.Plan(o, live.Object, versions)), nil
}

func (c *ControlPlane) planMeshConfig(ctx context.Context, all []mesh.Levers) ([]journal.Planned, error) {
	stored, err := c.kube.CoreV1().ConfigMaps(Namespace).Get(ctx, c.config, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("istio: mesh configuration: %w", err)
	}
	of := func(text string) map[string]any { return map[string]any{"data": map[string]any{meshConfigKey: text}} }
	var versions []map[string]any
	var everybody []string
	for _, l := range all {
		text, err := meshConfigWith(stored.Data[meshConfigKey], l)
		if err != nil {
			return nil, err
		}
		versions = append(versions, of(text))
		does, err := wideConfig(stored.Data[meshConfigKey], l)
		if err != nil {
			return nil, err
		}
		everybody = merged(everybody, does)
	}
	out := planned(journal.Plan(c.object("v1", "ConfigMap", c.config), of(stored.Data[meshConfigKey]), versions, fields.Text("data", meshConfigKey)))
	for i := range out {
		out[i].Wide = everybody
	}
	return out, nil
}

func (c *ControlPlane) planScalers(ctx context.Context, all []mesh.Levers) ([]journal.Planned, error) {
	found, err := c.scalers(ctx)
	if err != nil {
		return nil, err
	}
	var out []journal.Planned
	for _, s := range found {
		one, err := planSpec(c.object("autoscaling/v2", "HorizontalPodAutoscaler", s.Name), &s.Spec, all, holdScaler)
		if err != nil {
			return nil, err
		}
		for i := range one {
			for _, l := range all {
				one[i].Wide = merged(one[i].Wide, wideScaler(&s.Spec, l))
			}
		}
		out = append(out, one...)
	}
	return out, nil
}

func planned(p journal.Planned, any bool) []journal.Planned {
	if !any {
		return nil
	}
	return []journal.Planned{p}
}
