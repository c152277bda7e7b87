package cli

import (
	"fmt"

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
	one.Clients, one.ServicePods = c.Clients, c.Graph.Pods()
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
	return fmt.Sprintf("pods of a trial: %s, %d of services", count(c.Clients, "client"), c.Graph.Pods()), nil
}
