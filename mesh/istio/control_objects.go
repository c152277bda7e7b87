package istio

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
)

// FoundInObjects returns the levers' values as listed objects have them: from the pods of one revision's istiods, and
// from the mesh configuration in their ConfigMap, nil if that is unknown. Unlike [ControlPlane.Found] it does not
// know the mesh-wide Sidecar, nor variables that have their value from elsewhere.
func (*Mesh) FoundInObjects(pods []corev1.Pod, config []byte) (record.Cell, error) {
	s := state{pods: pods}
	unknown := map[string]bool{}
	for i := range pods {
		container := containerOf(&pods[i].Spec)
		if container == nil {
			continue
		}
		r := replica{pod: pods[i].Name, env: map[string]string{}}
		for _, e := range container.Env {
			r.env[e.Name] = e.Value
			unknown[e.Name] = e.ValueFrom != nil
		}
		// A running istiod leaves this out where it is REGISTRY_ONLY, a ConfigMap where it is the default.
		r.mesh = map[string]any{"outboundTrafficPolicy": map[string]any{"mode": controlplane.OutboundAllowAny}}
		if err := yaml.Unmarshal(config, &r.mesh); err != nil {
			return nil, fmt.Errorf("mesh configuration: %w", err)
		}
		if len(container.EnvFrom) > 0 {
			for _, f := range controlplane.Levers() {
				if _, own := r.env[f.Lever.Env]; !own {
					unknown[f.Lever.Env] = true
				}
			}
		}
		s.replicas = append(s.replicas, r)
	}
	if len(s.replicas) == 0 {
		return nil, nil
	}
	out := found(s, nil, mesh.Levers{})
	for _, f := range controlplane.Levers() {
		if f.Lever.Env != "" && unknown[f.Lever.Env] || f.Lever.ProxyMetadata != "" && config == nil {
			delete(out, f.Name)
		}
	}
	delete(out, controlplane.FactorSidecarScope)
	delete(out, controlplane.FactorSidecarHosts)
	if config == nil {
		for _, name := range []string{controlplane.FactorDiscoverySelectors, controlplane.FactorExportTo, controlplane.FactorOutboundPolicy} {
			delete(out, name)
		}
	}
	return out, nil
}
