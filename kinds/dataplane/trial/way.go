package trial

import (
	"context"
	"fmt"

	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/site"
	"github.com/meshtrial/meshtrial/study"
)

// proxiesOf says how a mesh's proxies at the place of a part are found.
func proxiesOf(m mesh.Mesh, part string) mesh.Proxies {
	p, _ := record.ProxyOf(part)
	return m.Proxies(p.Place)
}

// containersOf names the containers that make a part's proxy.
func containersOf(m mesh.Mesh, part string) []string { return proxiesOf(m, part).Containers }

// nounOf names a proxy in messages.
func nounOf(part string) string {
	p, _ := record.ProxyOf(part)
	return p.Noun
}

// findShared finds the proxies with pods of their own that the plan's requests
// pass, on the nodes of the run's pods and elsewhere, and waits until they are
// ready.
func (d *deployed) findShared(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, site.ReadyTimeout)
	defer cancel()
	d.onNodes, d.others = map[string]site.Pod{}, map[string]site.Pod{}
	for _, cell := range d.cells {
		for _, part := range study.WayOf(cell) {
			p, _ := record.ProxyOf(part)
			if !p.Place.Shared() {
				continue
			}
			proxies := d.o.Mesh.Proxies(p.Place)
			if len(proxies.Containers) == 0 {
				return fmt.Errorf("mesh %s has no proxy that is %s", d.o.Mesh.Name(), p.Noun)
			}
			if p.Place != record.PlaceNode {
				if err := d.find(ctx, d.others, part, proxies, ""); err != nil {
					return err
				}
				continue
			}
			for _, node := range d.nodes() {
				if err := d.find(ctx, d.onNodes, node, proxies, node); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// find notes a proxy's pod under a key, once.
func (d *deployed) find(ctx context.Context, into map[string]site.Pod, key string, proxies mesh.Proxies, node string) error {
	if _, known := into[key]; known {
		return nil
	}
	for {
		pod, err := d.FindProxy(ctx, proxies, node)
		if err == nil {
			into[key] = pod
			return nil
		}
		if wake.Pause(ctx, toldLook) != nil {
			return err
		}
	}
}

// wayOf is the way of a cell's requests between two pods, and the pod of each
// proxy there is: of the way, and sidecars of the two that should not be there.
func (d *deployed) wayOf(cell record.Cell, client, server site.Pod) (record.Way, map[string]site.Pod, error) {
	way := study.WayOf(cell)
	if client.Node == server.Node {
		way = way.OnOneNode()
	}
	pods := map[string]site.Pod{}
	for part, pod := range map[string]site.Pod{record.PartClientProxy: client, record.PartServerProxy: server} {
		if pod.Proxy != nil {
			pods[part] = pod
		}
	}
	for _, part := range way {
		p, _ := record.ProxyOf(part)
		if !p.Place.Shared() {
			continue
		}
		pod, ok := d.others[part]
		if p.Place == record.PlaceNode {
			node := server.Node
			if p.Side == record.SideClient {
				node = client.Node
			}
			pod, ok = d.onNodes[node]
		}
		if !ok {
			return nil, nil, fmt.Errorf("cell %s: %s is not there", cell.Key(), p.Noun)
		}
		pods[part] = pod
	}
	return way, pods, nil
}

// has says that a further hand has brought a proxy along already: one of a node
// serves all hands there, and is counted once.
func (t *trialRun) has(part string, pod site.Pod) bool {
	for name, there := range t.more {
		if partOf(name) == part && there.UID == pod.UID {
			return true
		}
	}
	return false
}
