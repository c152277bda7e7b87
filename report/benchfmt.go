package report

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/record"
)

// renderBenchfmt writes each sample as a line of Go's benchmark format, for benchstat: the
// measurements, not the estimates. The number of iterations is the number of requests. Names
// end in the number of CPUs, as otherwise a level that ends in a number would be mistaken
// for it.
func renderBenchfmt(w io.Writer, _ Kind, f record.Findings, _ Options) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n", clean(fmt.Sprintf("study %s, run %s; a line for each cell and deployment", f.Study, f.Run)))
	if f.Machine.CPUModel != "" { // by which benchstat distinguishes machines
		fmt.Fprintf(&b, "cpu: %s\n", clean(f.Machine.CPUModel))
	}
	for _, left := range f.LeftOut {
		fmt.Fprintf(&b, "# %s\n", clean(fmt.Sprintf("trial %s (%s) left out, not valid: %s", left.Trial, left.Cell.Key(), strings.Join(left.Checks, ", "))))
	}
	for _, s := range f.Samples {
		fmt.Fprintf(&b, "BenchmarkMeshtrial/study=%s", url.PathEscape(f.Study))
		for _, factor := range slices.Sorted(maps.Keys(s.Cell)) {
			fmt.Fprintf(&b, "/%s=%s", url.PathEscape(factor), url.PathEscape(s.Cell[factor]))
		}
		fmt.Fprintf(&b, "-%d %d", max(1, f.Machine.CPUs), max(1, s.Requests))
		for _, v := range s.Values {
			scale, unit := benchUnit(v)
			fmt.Fprintf(&b, " %s %s", benchNumber(v.Value*scale), unit)
		}
		b.WriteByte('\n')
	}
	_, err := w.Write(b.Bytes())
	return err
}

// benchUnit names a value and its unit as readers of the format parse units. Times are in
// seconds: readers derive other units from them, except for 0.
func benchUnit(v record.SampleValue) (scale float64, unit string) {
	base, per := SplitUnit(v.Unit)
	scale = 1
	if us, ok := timeUnits[base]; ok {
		scale, base = us*1e-6, "sec"
	}
	if base == "bytes" {
		base = "B"
	}
	unit = v.Name
	if base != "" {
		unit += "-" + url.PathEscape(base)
	}
	if per != "" {
		unit += "/" + per
	}
	return scale, unit
}

// benchNumber formats a number with seven significant digits, more than any measure has.
func benchNumber(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', 7, 64)
}
