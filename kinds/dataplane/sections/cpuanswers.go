package sections

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
	"github.com/meshtrial/meshtrial/stat"
)

// fitAnswers splits each proxy's CPU, if the study varies the rate, into the cost per additional
// request and the intercept. It returns nothing if other factors vary as well, and omits proxies
// whose points lie off the line.
func fitAnswers(f record.Findings, top record.Cell) []string {
	var answers []string
	for _, part := range record.ProxyParts() {
		slope, okSlope := onlyFinding(f, "cpu_"+part+"_slope", top)
		idle, okIdle := onlyFinding(f, "cpu_"+part+"_idle", top)
		if !okSlope || !okIdle || stat.PoorFit.In(slope.Warnings) {
			continue
		}
		s := report.Scale{Div: 1, Unit: "µs"}
		answers = append(answers, fmt.Sprintf("Each request costs the %s %s of CPU, on top of %s, by the line along the measured rates.", report.PartWords(part),
			s.Quantity(slope.Estimate, slope.Low, slope.High), report.Scale{Div: 1, Unit: "mCPU"}.Quantity(idle.Estimate, idle.Low, idle.High)))
	}
	return answers
}

// onlyFinding returns the one measured finding of a name in the cells with top's levels, and false
// if there is none or several.
func onlyFinding(f record.Findings, name string, top record.Cell) (found record.Finding, ok bool) {
	for _, x := range f.Findings {
		if x.Name != name || x.Verdict != record.VerdictMeasured || report.Pick(x.Cell, slices.Sorted(maps.Keys(top))).Key() != top.Key() {
			continue
		}
		if ok {
			return found, false
		}
		found, ok = x, true
	}
	return found, ok
}

// cpuAnswers states the CPU cost of a request in each proxy, over the cells that have top's levels
// (all cells if top is nil).
func cpuAnswers(f record.Findings, top record.Cell) []string {
	var answers []string
	for _, part := range record.ProxyParts() {
		low, high, n := math.Inf(1), math.Inf(-1), 0
		var only record.CPUPerRequest
		for _, cell := range f.Cells {
			cpu, ok := cell.CPUPerRequest[part]
			if !ok || cpu.UserUS+cpu.SystemUS == 0 || report.Pick(cell.Cell, slices.Sorted(maps.Keys(top))).Key() != top.Key() {
				continue
			}
			only, n = cpu, n+1
			low, high = math.Min(low, cpu.UserUS+cpu.SystemUS), math.Max(high, cpu.UserUS+cpu.SystemUS)
		}
		s := report.ScaleFor("us", high)
		switch {
		case n == 1:
			sum := only.UserUS + only.SystemUS
			cost := s.Value(sum)
			if only.HighUS > only.LowUS {
				cost = s.Quantity(sum, only.LowUS, only.HighUS)
			}
			kernel := fmt.Sprintf(", %s of it in the kernel", report.Percent(only.SystemUS/sum))
			if only.Whole {
				kernel = ""
			}
			answers = append(answers, fmt.Sprintf("A request costs the %s %s of CPU%s.", report.PartWords(part), cost, kernel))
		case n > 1:
			answers = append(answers, fmt.Sprintf("A request costs the %s between %s and %s of CPU.", report.PartWords(part), s.Plain(low), s.Value(high)))
		}
	}
	return answers
}
