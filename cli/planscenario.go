package cli

import (
	"fmt"
	"math"
	"strconv"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// scenarioRow is the mesh of a cell, and the verdict that is expected of it.
func scenarioRow(p *study.Plan, cell record.Cell) ([]string, error) {
	expected := plannedVerdict(p, cell)
	if expected == "" {
		expected = "-"
	}
	return []string{cell[study.FactorMesh], expected}, nil
}

func fillScenario(p *study.Plan, cell record.Cell, one *plannedCell) error {
	c := p.Study.Scenario
	one.Mesh, one.Expected = cell[study.FactorMesh], plannedVerdict(p, cell)
	one.Clients, one.ServicePods = c.Clients, c.In(cell).Graph.Pods()
	return nil
}

// plannedVerdict is what is expected of a cell; "" if the study asserts
// nothing that it could fail.
func plannedVerdict(p *study.Plan, cell record.Cell) string {
	if len(p.Study.Assert) == 0 {
		return ""
	}
	return p.Study.Expected(cell)
}

// deploysScenario names the pods that each trial has for itself.
func deploysScenario(p *study.Plan) (string, error) {
	c := p.Study.Scenario
	least, most := math.MaxInt, 0
	for _, cell := range p.Cells {
		n := c.In(cell).Graph.Pods()
		least, most = min(least, n), max(most, n)
	}
	services := strconv.Itoa(most)
	if least < most {
		services = fmt.Sprintf("%d to %d", least, most)
	}
	return fmt.Sprintf("pods of a trial: %s, %s of services", words.Plural(c.Clients, "client"), services), nil
}
