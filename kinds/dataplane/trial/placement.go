package trial

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study"
)

// findPlaces chooses nodes for a plan's pods from those that the cluster has now, the same as in
// earlier trials of the run; nil for a plan that leaves them to Kubernetes.
func findPlaces(ctx context.Context, l lab.Lab, plan *study.Plan, recorded []record.Trial) (dataplane.Places, error) {
	if !dataplane.Placed(plan) {
		return nil, nil
	}
	open, err := openNodes(ctx, l, dataplane.FactorPlacement)
	if err != nil {
		return nil, err
	}
	hint := "usable nodes are ready, have no taints, and for other zones have labels " + corev1.LabelTopologyZone
	if l.Kind() == lab.KindLocal {
		hint = "run `meshtrial lab down`, and the run starts a lab with enough nodes; or `meshtrial lab up --nodes N --zones A,B`"
	}
	return dataplane.ChoosePlaces(plan, open, dataplane.PlacesKept(recorded), hint)
}

// openNodes returns the nodes where the scheduler may put any pod; factor is the one that needs
// them.
func openNodes(ctx context.Context, l lab.Lab, factor string) ([]dataplane.NodeAt, error) {
	kube, err := kubernetes.NewForConfig(l.RESTConfig())
	if err != nil {
		return nil, err
	}
	nodes, err := site.OpenNodes(ctx, kube)
	if err != nil {
		return nil, fmt.Errorf("factor %s: %w", factor, err)
	}
	var open []dataplane.NodeAt
	for i := range nodes {
		open = append(open, nodeAt(&nodes[i]))
	}
	return open, nil
}

// checkSpread rejects several generators whose requests may pass different proxies, judging by the
// nodes that the cluster has now.
func checkSpread(ctx context.Context, l lab.Lab, plan *study.Plan) error {
	if !slices.ContainsFunc(plan.Cells, dataplane.Scattered) {
		return nil
	}
	open, err := openNodes(ctx, l, study.FactorGenerators)
	if err != nil {
		return err
	}
	return refuseSpread(plan, len(open))
}

// refuseSpread is checkSpread for a number of nodes: if node proxies carry requests, those of a
// generator next to the worker's pod take another way than those of one elsewhere.
func refuseSpread(plan *study.Plan, nodes int) error {
	for _, cell := range plan.Cells {
		if nodes > 1 && dataplane.Scattered(cell) {
			return runner.Placed(plan, cell, fmt.Errorf("%d generators may be scheduled both on the worker's node and on others, where other proxies carry their requests: the cluster has %d schedulable nodes", dataplane.GeneratorsIn(cell), nodes),
				fmt.Sprintf("%s: %s or %s puts all of them on one node", dataplane.FactorPlacement, dataplane.PlacementOtherNode, dataplane.PlacementSameNode), study.FactorGenerators)
		}
	}
	return nil
}

// nodeAt describes a node for plans.
func nodeAt(n *corev1.Node) dataplane.NodeAt {
	return dataplane.NodeAt{Name: n.Name, Host: n.Labels[corev1.LabelHostname], Zone: site.Zone(n), Kind: site.Kind(n)}
}

// pin makes a variant's pod run where the plan requires it, by its node's own label. A pod that may
// run anywhere returns soon if it is lost with its node.
func (t topology) pin(v dataplane.Variant, pod *corev1.PodTemplateSpec) {
	if at, ok := t.places[v.Place()]; ok {
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: at.Host}
		return
	}
	lab.LeaveDeadNodes(pod)
}

// findNodes records what may be read about the pods' nodes.
func (d *deployed) findNodes(ctx context.Context) {
	for _, name := range d.nodes() {
		d.at[name] = d.NodeAt(ctx, name, d.at[name])
	}
}

// on returns the nodes of the trial's pods, and of the proxies on its way that may run anywhere.
func (t *trialRun) on() map[string]record.NodeAt {
	out := map[string]record.NodeAt{}
	for part, node := range map[string]string{record.PartGenerator: t.client.pod.Node, record.PartWorker: t.server.pod.Node} {
		out[part] = t.d.at[node]
	}
	for i, h := range t.hands {
		out[record.OfHand(record.PartGenerator, i)] = t.d.at[h.pod.Node]
	}
	for part, pod := range t.proxies {
		if p, _ := record.ProxyOf(part); p.Place == record.PlaceWaypoint || p.Place == record.PlaceGateway {
			out[part] = t.d.at[pod.Node]
		}
	}
	return out
}
