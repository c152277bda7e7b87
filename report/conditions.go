package report

import (
	"strconv"

	"github.com/meshtrial/meshtrial/record"
)

// maxConditionRows is the largest number of cells for which the table of
// conditions is shown; the JSON report has those of larger studies.
const maxConditionRows = 12

// conditionsTable shows the conditions during the windows of a cell's trials,
// other than their latency and cost: connections, and the state of the machine.
func conditionsTable(f record.Findings) Table {
	t := Table{Title: "Connections and machine state (medians over trials)", Columns: append(FactorColumns(f),
		Column{Head: "client pod", Right: true, Keep: 3}, Column{Head: "server pod", Right: true, Keep: 3}, Column{Head: "retransmitted", Right: true, Keep: 1},
		Column{Head: "CPUs busy", Right: true, Keep: 4}, Column{Head: "CPU pressure (PSI some)", Right: true, Keep: 2}, Column{Head: "steal", Right: true, Keep: 2})}
	known := false
	for _, c := range f.Cells {
		shown := []Text{Dash, Dash, Dash, Dash, Dash, Dash}
		again := int64(0) // by both pods
		for i, part := range []string{record.PartGenerator, record.PartWorker} {
			if pod, ok := c.Connections[part]; ok {
				again += pod.Retransmitted
				shown[i], shown[2], known = Text{S: Count(pod.Established)}, Text{S: strconv.FormatInt(again, 10)}, true
			}
		}
		if p := c.Pressure; p != nil {
			for i, ratio := range []float64{p.BusyRatio, p.CPUSomeRatio, p.StealRatio} {
				shown[3+i], known = Text{S: Percent(ratio)}, true
			}
		}
		t.Rows = append(t.Rows, append(FactorTexts(f, c.Cell), shown...))
	}
	if !known || len(f.Cells) > maxConditionRows {
		return Table{}
	}
	return withoutEmpty(t)
}
