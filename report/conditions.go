package report

import (
	"strconv"

	"github.com/meshtrial/meshtrial/record"
)

// maxConditionRows is how many cells the table of conditions is shown for;
// those of larger studies are in the JSON report.
const maxConditionRows = 12

// conditionsTable has what the windows of a cell's trials had in common
// beside their latency and cost: connections, and the machine's state.
func conditionsTable(f record.Findings) table {
	t := table{Title: "Connections, and the machine's state (medians of the trials)", Columns: factorColumns(f)}
	pods, states := false, false
	for _, c := range f.Cells {
		pods, states = pods || len(c.Connections) > 0, states || c.Pressure != nil
	}
	if pods {
		t.Columns = append(t.Columns, column{"client pod", true, 3}, column{"server pod", true, 3}, column{"retransmitted", true, 1})
	}
	if states {
		t.Columns = append(t.Columns, column{"CPUs busy", true, 4}, column{"tasks waited for one", true, 2}, column{"stolen", true, 2})
	}
	if !pods && !states || len(f.Cells) > maxConditionRows {
		return t
	}
	for _, c := range f.Cells {
		row := factorTexts(f, c.Cell)
		if pods {
			row = append(row, connectionCells(c.Connections)...)
		}
		if p := c.Pressure; states && p != nil {
			row = append(row, text{S: percent(p.BusyRatio)}, text{S: percent(p.CPUSomeRatio)}, text{S: percent(p.StealRatio)})
		} else if states {
			row = append(row, text{"–", styleDim}, text{"–", styleDim}, text{"–", styleDim})
		}
		t.Rows = append(t.Rows, row)
	}
	if states {
		t.Notes = append(t.Notes, "CPUs busy: of all CPU time; tasks waited for one: share of the time in which some task did.")
	}
	return t
}

// connectionCells are a pod's open connections, and both pods' segments that
// were sent again.
func connectionCells(pods map[string]record.Connections) []text {
	client, haveClient := pods[record.PartGenerator]
	server, haveServer := pods[record.PartWorker]
	open := func(c record.Connections, have bool) text {
		if !have {
			return text{"–", styleDim}
		}
		return text{S: count(c.Established)}
	}
	again := text{"–", styleDim}
	if haveClient || haveServer {
		again = text{S: strconv.FormatInt(client.Retransmitted+server.Retransmitted, 10)}
	}
	return []text{open(client, haveClient), open(server, haveServer), again}
}
