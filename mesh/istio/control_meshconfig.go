package istio

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/lab/journal/fields"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// applyMeshConfig writes the ConfigMap if it differs. awaited has the levels that
// istiod must then show, for the levers that this changes; see [configLevels].
func (c *ControlPlane) applyMeshConfig(ctx context.Context, l mesh.Levers) (awaited record.Cell, changed bool, err error) {
	step, err := c.changes.Change(ctx, c.object("v1", "ConfigMap", c.config), why, func(original, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		text, _, err := unstructured.NestedString(original.Object, "data", meshConfigKey)
		if err != nil {
			return nil, err
		}
		now, _, err := unstructured.NestedString(live.Object, "data", meshConfigKey)
		if err != nil {
			return nil, err
		}
		want, err := desiredMeshConfig(text, l)
		if err != nil {
			return nil, err
		}
		if awaited, err = movedLevels(now, want); err != nil {
			return nil, err
		}
		return original, unstructured.SetNestedField(original.Object, want, "data", meshConfigKey)
	}, fields.Text("data", meshConfigKey))
	if err != nil {
		return nil, false, fmt.Errorf("istio: mesh configuration: %w", err)
	}
	return awaited, len(step) > 0, nil
}

// movedLevels returns the levels of a MeshConfig's levers that differ in another text
// of it, with the other's values.
func movedLevels(from, to string) (record.Cell, error) {
	before, err := parseMeshConfig(from)
	if err != nil {
		return nil, err
	}
	after, err := parseMeshConfig(to)
	if err != nil {
		return nil, err
	}
	was, is := configLevels(before), configLevels(after)
	maps.DeleteFunc(is, func(lever, level string) bool { return was[lever] == level })
	return is, nil
}

// configLevels returns the levels of all MeshConfig levers, from its text or from a
// running istiod. Their spelling is comparable between the two, but not with factors.
func configLevels(config map[string]any) record.Cell {
	selectors, _ := json.Marshal(readSelectors(config["discoverySelectors"])) // they were read from JSON
	out := record.Cell{controlplane.FactorDiscoverySelectors: string(selectors), controlplane.FactorExportTo: exported(config), controlplane.FactorOutboundPolicy: configuredPolicy(config)}
	metadata := activeMetadata(config)
	for _, f := range controlplane.Levers() {
		if f.Lever.ProxyMetadata == "" {
			continue
		}
		out[f.Name] = study.LevelDefault
		if value, set := metadata[f.Lever.ProxyMetadata]; set {
			out[f.Name] = fmt.Sprint(value)
		}
	}
	return out
}

// meshConfigInForce waits until every replica shows these levels of the MeshConfig's
// levers, whether named by the cell or reverted to the installed ones.
func (c *ControlPlane) meshConfigInForce(ctx context.Context, levels record.Cell) error {
	for {
		wrong, err := c.meshDiffers(ctx, levels)
		if err == nil && wrong == "" {
			return nil
		}
		if wake.Pause(ctx, 100*time.Millisecond) == nil {
			continue
		}
		if err != nil {
			wrong = err.Error()
		}
		return fmt.Errorf("istio: wait until istiod uses its mesh configuration: %w (last seen: %s)",
			context.Cause(ctx), wrong)
	}
}

// meshDiffers names a replica with another level; "" if all agree.
func (c *ControlPlane) meshDiffers(ctx context.Context, levels record.Cell) (string, error) {
	pods, err := c.Pods(ctx)
	if err != nil {
		return "", err
	}
	for _, pod := range pods {
		active, err := c.activeMesh(ctx, pod)
		if err != nil {
			return "", err
		}
		has := configLevels(active)
		for lever, want := range levels {
			if has[lever] != want {
				return fmt.Sprintf("%s of %s is %s, not %s", lever, pod.Name, has[lever], want), nil
			}
		}
	}
	return "", nil
}
