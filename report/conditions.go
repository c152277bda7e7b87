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
	t := Table{Title: "Connections and machine state (medians over trials)", Columns: FactorColumns(f)}
	pods, states := false, false
	for _, c := range f.Cells {
		_, client := c.Connections[record.PartGenerator]
		_, server := c.Connections[record.PartWorker]
		pods, states = pods || client || server, states || c.Pressure != nil
	}
	if pods {
		t.Columns = append(t.Columns, Column{Head: "client pod", Right: true, Keep: 3}, Column{Head: "server pod", Right: true, Keep: 3}, Column{Head: "retransmitted", Right: true, Keep: 1})
	}
	if states {
		t.Columns = append(t.Columns, Column{Head: "CPUs busy", Right: true, Keep: 4}, Column{Head: "CPU pressure (PSI some)", Right: true, Keep: 2}, Column{Head: "steal", Right: true, Keep: 2})
	}
	if !pods && !states || len(f.Cells) > maxConditionRows {
		return t
	}
	for _, c := range f.Cells {
		row := FactorTexts(f, c.Cell)
		if pods {
			row = append(row, connectionCells(c.Connections)...)
		}
		if p := c.Pressure; states && p != nil {
			row = append(row, Text{S: Percent(p.BusyRatio)}, Text{S: Percent(p.CPUSomeRatio)}, Text{S: Percent(p.StealRatio)})
		} else if states {
			row = append(row, Dash, Dash, Dash)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// connectionCells formats a pod's open connections, and both pods'
// retransmitted segments.
func connectionCells(pods map[string]record.Connections) []Text {
	client, haveClient := pods[record.PartGenerator]
	server, haveServer := pods[record.PartWorker]
	open := func(c record.Connections, have bool) Text {
		if !have {
			return Dash
		}
		return Text{S: Count(c.Established)}
	}
	again := Dash
	if haveClient || haveServer {
		again = Text{S: strconv.FormatInt(client.Retransmitted+server.Retransmitted, 10)}
	}
	return []Text{open(client, haveClient), open(server, haveServer), again}
}
