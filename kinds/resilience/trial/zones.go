package trial

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/drive/fault/node"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/kinds/resilience"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study"
)

// spread distributes a workload's pods evenly over zones, if zones matter in the cell.
func (s *scene) spread(w mesh.Workload, pod *corev1.PodTemplateSpec) {
	if !s.scenario.Zoned(s.cell) {
		return
	}
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{mesh.AppLabel: w.Name}}}}
}

// openZones returns the zones of nodes that take pods, as REGION/ZONE, in order.
func openZones(ctx context.Context, kube kubernetes.Interface) ([]string, error) {
	open, err := site.OpenNodes(ctx, kube)
	return zonesOf(open), err
}

func zonesOf(nodes []corev1.Node) []string {
	var out []string
	for i := range nodes {
		if zone := site.Zone(&nodes[i]); zone != "" {
			out = append(out, zone)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// fitNodes rejects a plan that drains nodes, or in whose cells zones matter, if too few nodes take
// pods, or these are in too few zones.
func fitNodes(ctx context.Context, o *runner.Options, plan *study.Plan) error {
	drains, zoned := resilience.Drains(plan), resilience.Zoned(plan)
	if !drains && !zoned {
		return nil
	}
	kube, err := kubernetes.NewForConfig(o.Lab.RESTConfig())
	if err != nil {
		return err
	}
	open, err := site.OpenNodes(ctx, kube)
	if err != nil {
		return err
	}
	if drains && len(open) < 2 {
		return errs.WithHint(errs.Usage("a step drains a node, and no other node is schedulable: its pods would have nowhere to go"), needsNodes)
	}
	zones := len(zonesOf(open))
	if zoned && zones < resilience.ZonesNeeded {
		return errs.WithHint(errs.Usage("the study needs nodes in %d zones, and those that are schedulable are in %d, by their label %s", resilience.ZonesNeeded, zones, corev1.LabelTopologyZone),
			"meshtrial lab up --nodes %d", resilience.ZonesNeeded)
	}
	for _, cell := range plan.Cells {
		if why, hint := resilience.Of(plan.Study).Unweighed(cell, zones); why != "" {
			return errs.WithHint(errs.Usage("cell %s: %s: %s", plan.Label(cell), study.FactorLocality, why), "%s", hint)
		}
	}
	return nil
}

// noteZones records the zones of pods, if they matter.
func (t *scenarioTrial) noteZones(ctx context.Context, pods []record.ScenarioPod) error {
	if !t.scene.scenario.Zoned(t.scene.cell) {
		return nil
	}
	zones := map[string]string{}
	for i, p := range pods {
		if p.Node == "" {
			continue
		}
		if _, known := zones[p.Node]; !known {
			zone, err := t.zoneOf(ctx, p.Node)
			if err != nil {
				return err
			}
			zones[p.Node] = zone
		}
		pods[i].Zone = zones[p.Node]
	}
	return nil
}

func (r *performer) Zone(a *fault.Zone) error { return r.prepared(r.zone(r.ctx, a)) }

// zone drops packets between the services' pods in a zone and all others, in both directions.
func (h *executor) zone(ctx context.Context, a *fault.Zone) (*execution, error) {
	first := h.census.living(a.Service) // clients are a service of the census too
	if len(first) == 0 {
		return nil, fmt.Errorf("%s has no pods", a.Service)
	}
	gone, err := h.zoneOf(ctx, first[0].Node)
	if err != nil {
		return nil, err
	}
	var inside []*resident
	var peers []string
	for _, w := range h.scene.workloads() {
		for _, r := range h.census.living(w.Name) {
			zone, err := h.zoneOf(ctx, r.Node)
			switch {
			case err != nil:
				return nil, err
			case zone == gone && w.Name != roleClients:
				inside = append(inside, r)
			default:
				peers = append(peers, r.IP)
			}
		}
	}
	if len(inside) == 0 {
		return nil, fmt.Errorf("no service has a pod in zone %s", gone)
	}
	out, err := h.disturb(ctx, gone, inside, node.NetworkRequest{Peers: peers, Direction: node.Both, Cut: true})
	if err != nil {
		return nil, err
	}
	prove := out.prove
	out.prove = func(ctx context.Context) (string, error) {
		text, err := prove(ctx)
		return fmt.Sprintf("pods %s: %s", namesOf(podsOf(inside)), text), err
	}
	return out, nil
}
