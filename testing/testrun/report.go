package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	slowest      = 20
	longPackages = 15 // number of packages whose minutes are shown individually
)

// report prints the results of the run, and reports whether everything passed.
func (t *tally) report(took time.Duration) (ok bool) {
	t.reportMinutes(took)
	slow := t.times("", took).Tests
	fmt.Fprintln(t.out, "\nslowest:")
	for _, r := range slow[:min(slowest, len(slow))] {
		fmt.Fprintf(t.out, "  %7.1f s  %s %s\n", r.Seconds, r.Package, r.Test)
	}
	for _, r := range t.skipped {
		fmt.Fprintf(t.out, "skipped: %s: %s\n", r, r.reason)
	}
	for _, r := range t.disturbed {
		if !has(t.failed, r) {
			fmt.Fprintf(t.out, "\nDISTURBED: %s: it failed, and passed when run once more, alone. Look why:\n%s\n", r, r.reason)
		}
	}
	for _, r := range t.failed {
		fmt.Fprintf(t.out, "\nFAILED: %s\n%s\n", r, r.reason)
	}
	fmt.Fprintf(t.out, "\nsecond tries: %d\n", len(t.disturbed))
	fmt.Fprintf(t.out, "%d passed, %d failed, %d skipped\n", len(t.passed), len(t.failed), len(t.skipped))
	return len(t.failed) == 0 && len(t.passed) > 0
}

// reportMinutes prints where the time went.
func (t *tally) reportMinutes(took time.Duration) {
	fmt.Fprintf(t.out, "\nminutes by package, of %.1f in all:\n", took.Minutes())
	names := slices.SortedFunc(maps.Keys(t.minutes), func(a, b string) int {
		return cmp.Or(cmp.Compare(t.minutes[b], t.minutes[a]), strings.Compare(a, b))
	})
	shown := min(longPackages, len(names))
	for _, name := range names[:shown] {
		fmt.Fprintf(t.out, "  %6.2f  %s\n", t.minutes[name], name)
	}
	if rest := names[shown:]; len(rest) > 0 {
		sum := 0.0
		for _, name := range rest {
			sum += t.minutes[name]
		}
		fmt.Fprintf(t.out, "  %6.2f  %d others\n", sum, len(rest))
	}
	if len(t.labs) == 0 {
		return
	}
	fmt.Fprintln(t.out, "minutes by lab:")
	for _, name := range slices.Sorted(maps.Keys(t.labs)) {
		u := t.labs[name]
		sum := 0.0
		var by []string
		for _, pkg := range slices.Sorted(maps.Keys(u.seconds)) {
			sum += u.seconds[pkg]
			by = append(by, fmt.Sprintf("%s %.2f", pkg, u.seconds[pkg]/60))
		}
		fmt.Fprintf(t.out, "  %6.2f  %s: started %d times, %.0f s till it was up; %s\n", sum/60, name, u.starts, u.upS, strings.Join(by, ", "))
	}
}
