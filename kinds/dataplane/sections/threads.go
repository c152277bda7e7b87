package sections

import (
	"cmp"
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
		report.Column{Head: "part"}, report.Column{Head: "thread"}, right("user", 8), right("kernel", 8), right("run-queue wait", 6),
		right("involuntary ctx switches/s", 2), right("connections", 4), right("threads", 1))}
	parts := threadParts
	if countThreadRows(f, parts) > maxThreadRows {
		parts = record.ProxyParts()
	}
	switch n := countThreadRows(f, parts); {
	case n > maxThreadRows:
		return workersTable(f)
	case n == 0:
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
	t.Notes = append(busiestNotes(f), fmt.Sprintf("Share of one CPU, mean over trials. Connections: accepted per trial. "+
		"In each trial the threads add up to the CPU time of their cgroups, within %s or 1 ms.", percentOf(max(worst, 0.0001))))
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
	t := report.Table{Title: "Worker threads: on-CPU time share", Columns: append(report.FactorColumns(f), report.Column{Head: "part"},
		right("workers", 3), right("busiest", 9), right("in the kernel", 4), right("mean of all", 6),
		right("run-queue wait of busiest", 7), report.Column{Head: "limit", Keep: 5})}
	for _, c := range f.Cells {
		for _, part := range record.ProxyParts() {
			s := c.Threads[part]
			top, mean, n := workersOf(s)
			if n == 0 {
				continue
			}
			limit := report.Dash
			if s.Limit != "" {
				limit = limitText(s.Limit)
			}
			t.Rows = append(t.Rows, append(report.FactorTexts(f, c.Cell), report.Text{S: report.PartWords(part)},
				report.Text{S: strconv.Itoa(n)}, report.Text{S: percentOf(top.BusyRatio())},
				report.Text{S: percentOf(top.SystemRatio)}, report.Text{S: percentOf(mean)}, report.Text{S: percentOf(top.WaitRatio)}, limit))
		}
	}
	if len(t.Rows) > 0 {
		t.Notes = append(busiestNotes(f), "Share of one CPU, mean over trials; busiest: the worker that is busiest on average. The page and the JSON report list each thread.")
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
	connections := report.Dash
	if n := r.Accepted; n != nil {
		connections = report.Text{S: report.Count(*n)}
	}
	return []report.Text{{S: report.PartWords(part)}, {S: r.Name}, {S: percentOf(r.UserRatio), Style: busy}, {S: percentOf(r.SystemRatio), Style: busy},
		{S: percentOf(r.WaitRatio)}, {S: report.Fixed(r.InvoluntaryPerS, 0)}, connections, {S: strconv.Itoa(r.Threads)}}
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
					limitText(s.Limit), report.Text{S: s.Says.String()}))
			}
		}
	}
	return t
}

func limitText(limit string) report.Text {
	names := map[string]string{record.LimitConcurrency: "concurrency", record.LimitCPU: "CPU limit",
		record.LimitImbalance: "uneven workers", record.LimitMain: "main thread", record.LimitMachine: "the machine"}
	return report.Text{S: cmp.Or(names[limit], limit), Style: report.StyleBad}
}

// maxLimitAnswers limits the number of limits with a sentence; the table has all.
const maxLimitAnswers = 3

// limitAnswers states what limits proxies, starting with the last cells, since studies go from
// little to much.
func limitAnswers(f record.Findings) []string {
	var out []string
	for _, c := range slices.Backward(f.Cells) {
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
					piece := func(of, color string, ratio float64, hatched bool) report.Piece {
						return report.Piece{Color: color, Value: 100 * ratio, Hatched: hatched, Text: r.Name + ", " + of + ": " + percentOf(ratio)}
					}
					bars.Rows = append(bars.Rows, report.BarRow{
						Label: l.Label(c.Cell, slice.Cells) + " · " + r.Name, Cell: c.Cell, Text: percentOf(r.BusyRatio()) + ", waited " + percentOf(r.WaitRatio),
						Pieces: []report.Piece{piece("user", color, r.UserRatio, false), piece("kernel", color, r.SystemRatio, true), piece("run-queue wait", "rule", r.WaitRatio, false)},
					})
				}
			}
			out = append(out, report.Chart{Name: "Threads of the " + words + ": on-CPU time share, kernel time hatched, and run-queue wait",
				Options: append([]report.Option{{Switch: "part", Choice: words}}, slice.Options...), Initial: slice.Initial,
				Legend: []report.Key{{Text: words, Color: color}, {Text: "hatched: in the kernel", Shape: report.KeyHatched}, {Text: "run-queue wait", Color: "rule"}}, Bars: &bars})
		}
	}
	return out
}
