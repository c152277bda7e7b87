package trial

import (
	"github.com/meshtrial/meshtrial/drive/population"
	"github.com/meshtrial/meshtrial/mesh"
)

// leverEvidence returns the proof of the levers.
func (t *controlTrial) leverEvidence() mesh.ControlEvidence {
	e := mesh.ControlEvidence{Rises: t.out.Control.Istiod}
	seen := map[string]bool{}
	for _, id := range t.ids {
		key := id.Namespace + "/" + id.Workload
		gateway := id.Type == population.Router
		if id.Type == population.Ztunnel { // Sidecars do not apply to ztunnels
			continue
		}
		if seen[id.Namespace] && key != t.levers.Namespaces[0]+"/"+t.levers.Workload[population.AppLabel] || seen[key] {
			continue
		}
		seen[id.Namespace], seen[key] = true, true
		e.Proxies = append(e.Proxies, mesh.ControlProxy{ID: id.Name + "." + id.Namespace, Namespace: id.Namespace, Labels: id.Labels, Gateway: gateway})
	}
	if len(t.c.reals) > 0 { // all in one namespace, of one workload
		real := t.c.reals[0]
		e.Proxies = append(e.Proxies, mesh.ControlProxy{ID: real.Name + "." + real.Namespace, Namespace: real.Namespace,
			Labels: map[string]string{population.AppLabel: t.realWorkload()}})
	}
	return e
}
