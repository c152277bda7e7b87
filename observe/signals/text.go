package signals

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/meshtrial/meshtrial/record"
)

// WriteTable writes a reading in human-readable form.
func WriteTable(w io.Writer, r Reading) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s at %s, last %s\n", r.Source, time.UnixMilli(r.AtMS).Format(time.DateTime), Seconds(r.WindowS))
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\nLATENCY\tmean")
	for _, q := range record.Percentiles() {
		fmt.Fprintf(t, "\t%s", q.Head())
	}
	fmt.Fprintln(t)
	for _, f := range families {
		writeFamily(t, r, f)
	}
	t.Flush()
	group := GroupLatency
	for _, v := range r.Signals {
		if v.Group == GroupLatency {
			continue
		}
		if v.Group != group {
			t.Flush()
			group = v.Group
			fmt.Fprintf(&b, "\n%s\n", strings.ToUpper(groupTitles[group]))
		}
		fmt.Fprintf(t, "  %s\t%s\n", v.Title, v.Describe())
	}
	t.Flush()
	if len(r.Alerts) > 0 {
		fmt.Fprintf(&b, "\nALERTS\n")
		for _, a := range r.Alerts {
			fmt.Fprintf(t, "  %s\t%s\t%s\n", a.Name, a.Severity, a.describe(r.AtMS))
		}
		t.Flush()
	}
	if len(r.Missing) > 0 {
		fmt.Fprintf(&b, "\nmissing: the source does not have the metric. istiod shows most of them only after their first count.\n")
	}
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "\nnot read: %s\n", p)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeFamily writes one histogram: its mean and quantiles.
func writeFamily(w io.Writer, r Reading, f family) {
	fmt.Fprintf(w, "  %s", f.title)
	mean, _ := r.Find(f.key + "_mean")
	switch mean.Status {
	case StatusMissing:
		fmt.Fprintf(w, "\tmissing: %s\n", f.metric)
		return
	case StatusNoData:
		fmt.Fprintf(w, "\tno data\n")
		return
	}
	fmt.Fprintf(w, "\t%s", mean.Describe())
	for _, q := range record.Percentiles() {
		v, _ := r.Find(f.key + "_" + q.Name())
		fmt.Fprintf(w, "\t%s", v.Describe())
	}
	fmt.Fprintln(w)
}

// Describe formats the value with its unit and parts, or says why there is
// none.
func (v Value) Describe() string {
	switch {
	case v.Status == StatusMissing:
		return "missing: " + strings.Join(v.Missing, ", ")
	case v.Status != StatusOK:
		return "no data"
	case v.Bucket == WithinFirst:
		return "<" + Seconds(v.HighS)
	case v.Bucket == BeyondLast:
		return ">" + Seconds(v.LowS)
	case v.HighS > wideBucket*v.LowS:
		return Seconds(v.LowS) + " to " + Seconds(v.HighS)
	}
	text := amount(*v.Value, v.Unit)
	if len(v.Parts) > 1 || len(v.Parts) == 1 && v.Parts[0].Name != "" && v.Unit != UnitRatio {
		var parts []string
		for _, p := range v.Parts {
			parts = append(parts, shortType(p.Name)+" "+amount(p.Value, v.Unit))
		}
		text += "  (" + strings.Join(parts, ", ") + ")"
	}
	if v.Saturated {
		text += "  SATURATED"
	}
	return text
}

// wideBucket is the ratio of a bucket's bounds from which a quantile within it
// is too imprecise for a single number.
const wideBucket = 1.5

// shortType shortens the names of xDS types, such as
// type.googleapis.com/envoy.config.cluster.v3.Cluster.
func shortType(name string) string {
	if rest, ok := strings.CutPrefix(name, "type.googleapis.com/"); ok {
		return rest[strings.LastIndexByte(rest, '.')+1:]
	}
	return name
}

func (a Alert) describe(nowMS int64) string {
	text := fmt.Sprintf("%s (over %s for %s)", a.State, Seconds(a.AboveS), Seconds(a.ForS))
	if a.SinceMS > 0 {
		text += fmt.Sprintf(", over it since %s", Seconds(float64(nowMS-a.SinceMS)/1000))
	}
	if n := len(a.Fired); n > 0 {
		text += fmt.Sprintf(", fired %d times, first at %s", n, time.UnixMilli(a.Fired[0].FromMS).Format(time.TimeOnly))
	}
	return strings.Replace(text, " 1 times", " once", 1)
}

// amount formats a value in its unit.
func amount(v float64, unit string) string {
	switch unit {
	case UnitSeconds:
		return Seconds(v)
	case UnitRatio:
		return digits(v*100) + "%"
	case UnitPerSecond:
		return digits(v) + "/s"
	case UnitBytes:
		switch {
		case v >= 1e6:
			return digits(v/1e6) + " MB/s"
		case v >= 1e3:
			return digits(v/1e3) + " kB/s"
		}
		return digits(v) + " B/s"
	case UnitCount:
		return fmt.Sprintf("%.0f", v)
	}
	return digits(v) + " " + unit
}

// Seconds formats a time in the most readable unit.
func Seconds(s float64) string {
	switch {
	case s == 0:
		return "0 s"
	case math.Abs(s) < 0.001:
		return digits(s*1e6) + " us"
	case math.Abs(s) < 1:
		return digits(s*1e3) + " ms"
	}
	return digits(s) + " s"
}

// digits formats three significant digits, and all digits before the point.
func digits(v float64) string {
	if v == 0 {
		return "0"
	}
	decimals := max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
	text := fmt.Sprintf("%.*f", min(decimals, 9), v)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// Line writes the most important signals of a reading in one line.
func Line(r Reading) string {
	part := func(label, key string) string {
		v, ok := r.Find(key)
		if !ok || v.Status == StatusMissing {
			return label + " missing"
		}
		v.Parts = nil
		return label + " " + v.Describe()
	}
	text := strings.Join([]string{
		time.UnixMilli(r.AtMS).Format(time.TimeOnly),
		part("debounce p99", "debounce_p99"), part("convergence p99", "convergence_istiod_p99"), part("true p99", "convergence_true_p99"),
		part("in", "inbound_updates"), part("pushes", "xds_pushes"), part("proxies", "xds_proxies"), part("CPU", "cpu_process"), part("rejects", "rejects"),
	}, "  ")
	for _, a := range r.Alerts {
		if a.State == StateFiring || a.State == StatePending {
			text += "  " + strings.ToUpper(a.Severity) + " " + a.State
		}
	}
	return text
}
