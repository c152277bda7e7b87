package report

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/internal/openmetrics"
	"github.com/meshtrial/meshtrial/record"
)

// renderOpenMetrics writes a gauge for each finding that has a figure, and for each known end
// of its interval, in base units, with one family per unit. There are no timestamps, as
// gateways and file collectors reject them; a gauge gives the start of the run.
func renderOpenMetrics(w io.Writer, k Kind, f record.Findings, _ Options) error {
	var page openmetrics.Page
	study := clean(f.Study)
	for _, x := range f.Findings {
		if x.Verdict == record.VerdictInvalid {
			continue
		}
		quantile := ""
		if d, ok := k.Findings.Find(x.Name); ok && d.At > 0 {
			quantile = strconv.FormatFloat(float64(d.At), 'g', -1, 64)
		}
		labels := []string{"study", study, "finding", clean(x.Name), "cell", clean(x.Cell.Key()),
			"baseline", clean(x.Against.Key()), "quantile", quantile}
		scale, unit := metricUnit(x.Unit)
		add := func(name, help string, value float64) {
			if value *= scale; !math.IsNaN(value) && !math.IsInf(value, 0) {
				page.Gauge(openmetrics.Metric{Name: name, Unit: unit, Help: help}, value, labels...)
			}
		}
		openLow := x.Open == record.OpenLow || x.Open == record.OpenBoth
		if !openLow || x.Estimate != 0 { // otherwise it represents the unknown end
			add("meshtrial_finding", "Estimate of a finding.", x.Estimate)
		}
		if x.Trials != nil { // the minimum and maximum of trials are not an interval
			continue
		}
		if !openLow {
			add("meshtrial_finding_low", "Lower end of the finding's 95% interval.", x.Low)
		}
		if !x.OpenAbove() {
			add("meshtrial_finding_high", "Upper end of the finding's 95% interval.", x.High)
		}
	}
	trials := openmetrics.Metric{Name: "meshtrial_trials", Help: "Trials of the run, by whether they are valid."}
	page.Gauge(trials, float64(f.Validity.Valid), "study", study, "valid", "true")
	page.Gauge(trials, float64(f.Validity.Invalid), "study", study, "valid", "false")
	if at, err := time.Parse(time.RFC3339, f.Started); err == nil {
		page.Gauge(openmetrics.Metric{Name: "meshtrial_run_start_timestamp", Unit: "seconds", Help: "Start of the run, Unix time."},
			float64(at.Unix()), "study", study, "run", clean(f.Run))
	}
	if err := page.Write(w); err != nil {
		return fmt.Errorf("findings as OpenMetrics: %w", err)
	}
	return nil
}

// metricUnit returns the name of a finding's unit in base units for metric names, and the
// factor to it: "us/request" is 1e-6 of "seconds_per_request".
func metricUnit(unit string) (scale float64, name string) {
	base, per := SplitUnit(unit)
	scale, name = 1, metricWord(base)
	us, isTime := timeUnits[base]
	switch {
	case isTime:
		scale, name = us*1e-6, "seconds"
	case base == "rps":
		name, per = "requests", "s"
	case base == "mCPU":
		scale, name = 1e-3, "cores"
	case base == "1":
		name = ""
	}
	switch per {
	case "":
		return scale, name
	case "s":
		per = "second"
	case "h":
		per = "hour"
	case "rps":
		per = "request_per_second"
	}
	return scale, strings.TrimPrefix(name+"_per_"+metricWord(per), "_")
}

// metricWord removes characters that are invalid in a metric's name.
func metricWord(text string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if r < 0x80 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9') {
			return r
		}
		return '_'
	}, text), "_")
}
