package cli

import (
	"fmt"
	"io"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// writeScenarioCells prints the cells of a study of resilience, each with the
// verdict that the study expects of it.
func writeScenarioCells(t io.Writer, p *study.Plan) error {
	fmt.Fprintln(t, "cell\tcompared with\ttrials a block\tmesh\texpected")
	for _, cell := range givenCells(p) {
		against, trials := place(p, cell)
		expected := plannedVerdict(p, cell)
		if expected == "" {
			expected = "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\n", p.Label(cell), against, trials, cell[study.FactorMesh], expected)
	}
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
