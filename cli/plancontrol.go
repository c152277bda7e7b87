package cli

import (
	"slices"
	"strconv"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// controlColumns has ztunnels where some cell has any.
func controlColumns(p *study.Plan) []string {
	out := []string{"simulated sidecars", "simulated gateways"}
	if simulatesZtunnels(p) {
		out = append(out, "simulated ztunnels")
	}
	return append(out, "real pods", "services", "istiod pods")
}

func simulatesZtunnels(p *study.Plan) bool {
	return slices.ContainsFunc(p.Cells, func(cell record.Cell) bool {
		l, err := study.ControlOf(cell)
		return err == nil && l.Ztunnels > 0
	})
}

func controlRow(p *study.Plan, cell record.Cell) ([]string, error) {
	l, err := study.ControlOf(cell)
	if err != nil {
		return nil, err
	}
	numbers := []int{l.Proxies, l.Gateways}
	if simulatesZtunnels(p) {
		numbers = append(numbers, l.Ztunnels)
	}
	var out []string
	for _, n := range append(numbers, l.RealPods, l.Services) {
		out = append(out, strconv.Itoa(n))
	}
	return append(out, cell[study.FactorIstiodReplicas]), nil // or as installed
}

func fillControl(_ *study.Plan, cell record.Cell, one *plannedCell) error {
	l, err := study.ControlOf(cell)
	if err != nil {
		return err
	}
	one.Deploys = &plannedControl{Proxies: l.Proxies, Gateways: l.Gateways, Ztunnels: l.Ztunnels, RealPods: l.RealPods,
		Services: l.Services, Istiod: l.IstiodReplicas, Installed: cell[study.FactorIstiodReplicas] == study.LevelInstalled, Restarts: one.Trials}
	return nil
}
