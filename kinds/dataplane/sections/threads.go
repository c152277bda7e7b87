package sections

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

// maxThreadRows is the maximum number of rows in the threads table. If there are more, they are on
// the page and in the JSON report, and the table has one for all workers of a proxy.
const maxThreadRows = 48

// threadParts lists the parts whose threads are shown, proxies first.
var threadParts = slices.Concat(record.ProxyParts(), []string{record.PartWorker, record.PartGenerator,
	record.PartControl})

// threadsTable lists the activity of proxy threads, with a row for each that matters. If there is
// room it includes the other parts' threads; if there is too little, it has one row for all workers
// of a proxy.
func threadsTable(f record.Findings) report.Table {
	t := report.Table{Title: "Threads: on-CPU time share", Columns: append(report.FactorColumns(f),
		report.Column{Head: "part"}, report.Column{Head: "thread"}, report.Column{Head: "user", Right: true,
			Keep: 8}, report.Column{Head: "kernel", Right: true, Keep: 8},
		report.Column{Head: "run-queue wait", Right: true, Keep: 6}, report.Column{Head: "involuntary ctx switches/s",
			Right: true, Keep: 2}, report.Column{Head: "connections", Right: true, Keep: 4}, report.Column{Head: "threads", Right: true, Keep: 1})}
	n := countThreadRows(f, threadParts)
	parts := threadParts
	if n > maxThreadRows {
		parts = record.ProxyParts()
		n = countThreadRows(f, parts)
	}
	if n > maxThreadRows {
		return workersTable(f)
	}
	if n == 0 {
		return report.Table{}
	}
	worst := 0.0
	for _, c := range f.Cells {
		for _, part := range parts {
			s := c.Threads[part]
			for _, r := range s.Rows {
				t.Rows = append(t.Rows, append(report.FactorTexts(f, c.Cell), threadTexts(part, s, r)...))
			}
			worst = max(worst, s.DisagreementRatio)
		}
	}
	t.Notes = append(t.Notes, fmt.Sprintf("Share of one CPU, mean over trials. Connections: accepted per trial. "+
		"In each trial the threads add up to the CPU time of their cgroups, within %s or 1 ms.", percentOf(max(worst,
		0.0001))))
	t.Notes = append(t.Notes, busiestNotes(f)...)
	return t
}

// busiestNotes says whose threads are shown if several generators send.
func busiestNotes(f record.Findings) []string {
	if !slices.ContainsFunc(f.Cells, func(c record.CellSummary) bool { return dataplane.GeneratorsIn(c.Cell) > 1 }) {
		return nil
	}
	return []string{"Where several generators send, each with a client proxy of its own, the busiest one of each trial is shown, and not their sum."}
}

// workersOf returns a proxy's workers: the busiest, and the mean of all; n is 0 without any.
func workersOf(s record.ThreadsSummary) (busiest record.ThreadRow, mean float64, n int) {
	for _, r := range s.Rows {
		if !r.Worker {
			continue
		}
		if n == 0 || r.BusyRatio() > busiest.BusyRatio() {
			busiest = r
		}
		mean, n = mean+r.BusyRatio(), n+1
	}
	return busiest, mean / float64(max(n, 1)), n
}

// workersTable has a row for the workers of each proxy of each cell.
func workersTable(f record.Findings) report.Table {
	t := report.Table{Title: "Worker threads: on-CPU time share",
		Columns: append(report.FactorColumns(f), report.Column{Head: "part"},
			report.Column{Head: "workers", Right: true, Keep: 3}, report.Column{Head: "busiest", Right: true, Keep: 9},
			report.Column{Head: "in the kernel", Right: true, Keep: 4}, report.Column{Head: "mean of all", Right: true,
				Keep: 6}, report.Column{Head: "run-queue wait of busiest", Right: true, Keep: 7}, report.Column{Head: "limit", Keep: 5})}
	for _, c := range f.Cells {
		for _, part := range record.ProxyParts() {
			s := c.Threads[part]
			top, mean, n := workersOf(s)
			if n == 0 {
				continue
			}
			limit := report.Text{S: "–", Style: report.StyleDim}
			if s.Limit != "" {
				limit = report.Text{S: limitWords(s.Limit), Style: report.StyleBad}
			}
			t.Rows = append(t.Rows, append(report.FactorTexts(f, c.Cell), report.Text{S: report.PartWords(part)},
				report.Text{S: strconv.Itoa(n)}, report.Text{S: percentOf(top.BusyRatio())},
				report.Text{S: percentOf(top.SystemRatio)}, report.Text{S: percentOf(mean)}, report.Text{S: percentOf(top.WaitRatio)}, limit))
		}
	}
	if len(t.Rows) > 0 {
		t.Notes = append(t.Notes, "Share of one CPU, mean over trials; busiest: the worker that is busiest on average. The page and the JSON report list each thread.")
		t.Notes = append(t.Notes, busiestNotes(f)...)
	}
	return t
}

// busyAnswers states what limits proxies and, if nothing does, how busy their busiest worker was.
func busyAnswers(f record.Findings) []string {
	if limits := limitAnswers(f); len(limits) > 0 {
		return limits
	}
	var top record.ThreadRow
	where, workers := "", 0
	for _, c := range f.Cells {
		for _, part := range record.ProxyParts() {
			if r, _, n := workersOf(c.Threads[part]); n > 0 && r.BusyRatio() > top.BusyRatio() {
				top, workers, where = r, n, report.PartWords(part)+", "+c.Label
			}
		}
	}
	if workers == 0 {
		return nil
	}
	return []string{fmt.Sprintf("No proxy thread was saturated: the busiest worker was on-CPU %s of the time, with a run-queue wait of %s (%s).",
		percentOf(top.BusyRatio()), percentOf(top.WaitRatio), where)}
}

func countThreadRows(f record.Findings, parts []string) int {
	n := 0
	for _, c := range f.Cells {
		for _, part := range parts {
			n += len(c.Threads[part].Rows)
		}
	}
	return n
}

func threadTexts(part string, s record.ThreadsSummary, r record.ThreadRow) []report.Text {
	busy := report.StyleNone
	if s.Limit != "" && r.Worker {
		busy = report.StyleBad
	}
	connections := report.Text{S: "–", Style: report.StyleDim}
	if n := r.Accepted; n != nil {
		connections = report.Text{S: report.Count(*n)}
	}
	return []report.Text{
		{S: report.PartWords(part)}, {S: r.Name}, {S: percentOf(r.UserRatio),
			Style: busy}, {S: percentOf(r.SystemRatio), Style: busy},
		{S: percentOf(r.WaitRatio)}, {S: report.Fixed(r.InvoluntaryPerS,
			0)}, connections, {S: strconv.Itoa(r.Threads)},
	}
}

// percentOf formats a share, with one decimal if it is small.
func percentOf(ratio float64) string {
	if ratio < 0.0995 {
		return report.Fixed(100*ratio, 1) + "%"
	}
	return report.Percent(ratio)
}

// limitsTable lists what limits proxies, if anything does.
func limitsTable(f record.Findings) report.Table {
	t := report.Table{Title: "Proxy bottlenecks", Columns: append(report.FactorColumns(f),
		report.Column{Head: "part"}, report.Column{Head: "limit"}, report.Column{Head: "evidence"})}
	for _, c := range f.Cells {
		for _, part := range threadParts {
			if s := c.Threads[part]; s.Limit != "" {
				t.Rows = append(t.Rows, append(report.FactorTexts(f, c.Cell), report.Text{S: report.PartWords(part)},
					report.Text{S: limitWords(s.Limit), Style: report.StyleBad}, report.Text{S: s.Says.String()}))
			}
		}
	}
	return t
}

// limitWords names a limit.
func limitWords(limit string) string {
	switch limit {
	case record.LimitConcurrency:
		return "concurrency"
	case record.LimitCPU:
		return "CPU limit"
	case record.LimitImbalance:
		return "uneven workers"
	case record.LimitMain:
		return "main thread"
	case record.LimitMachine:
		return "the machine"
	}
	return limit
}

// maxLimitAnswers limits the number of limits with a sentence; the table has all.
const maxLimitAnswers = 3

// limitAnswers states what limits proxies, starting with the last cells, since studies go from
// little to much.
func limitAnswers(f record.Findings) []string {
	var out []string
	for i := len(f.Cells) - 1; i >= 0 && len(out) < maxLimitAnswers; i-- {
		c := f.Cells[i]
		for _, part := range record.ProxyParts() {
			s := c.Threads[part]
			if s.Limit == "" || len(out) == maxLimitAnswers {
				continue
			}
			where := ""
			if c.Label != "" && len(f.Cells) > 1 {
				where = c.Label + ": "
			}
			out = append(out, where+report.UpperFirst(s.Says.String())+".")
		}
	}
	return out
}

// threadCharts draws the threads of each part: in user space, in the kernel, and runnable without a
// CPU.
func threadCharts(f record.Findings) []report.Chart {
	l := report.LayoutOf(f)
	var out []report.Chart
	for _, part := range threadParts {
		words, color := report.PartWords(part), report.PartColor(part)
		for _, slice := range l.Slices(func(c record.CellSummary) bool { return len(c.Threads[part].Rows) > 0 }) {
			bars := report.Bars{X: report.Axis{Title: "share of one CPU's time, %", Scale: report.AxisLinear}}
			for _, c := range slice.Cells {
				for _, r := range c.Threads[part].Rows {
					bars.Rows = append(bars.Rows, report.BarRow{
						Label: l.Label(c.Cell, slice.Cells) + " · " + r.Name, Cell: c.Cell, Text: percentOf(r.BusyRatio()) + ", waited " + percentOf(r.WaitRatio),
						Pieces: []report.Piece{
							{Color: color, Value: 100 * r.UserRatio,
								Text: r.Name + ", user: " + percentOf(r.UserRatio)},
							{Color: color, Value: 100 * r.SystemRatio, Hatched: true,
								Text: r.Name + ", kernel: " + percentOf(r.SystemRatio)},
							{Color: "rule", Value: 100 * r.WaitRatio,
								Text: r.Name + ", run-queue wait: " + percentOf(r.WaitRatio)},
						},
					})
				}
			}
			out = append(out, report.Chart{Name: "Threads of the " + words +
				": on-CPU time share, kernel time hatched, and run-queue wait",
				Options: append([]report.Option{{Switch: "part", Choice: words}},
					slice.Options...), Initial: slice.Initial,
				Legend: []report.Key{{Text: words, Color: color},
					{Text: "hatched: in the kernel", Shape: report.KeyHatched}, {Text: "run-queue wait",
						Color: "rule"}}, Bars: &bars})
		}
	}
	return out
}
