package trial

import (
	"context"
	"slices"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
)

// awaitBrought waits until all pods whose requests node proxies carry are connected to their
// proxies.
func (d *deployed) awaitBrought(ctx context.Context) error {
	if !slices.ContainsFunc(d.workloads(), func(w mesh.Workload) bool { return w.Carrier != "" }) {
		return nil
	}
	return d.AwaitBrought(ctx, d.o.Mesh.Proxies(record.PlaceNode).Agents)
}
