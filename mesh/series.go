package mesh

import (
	"strconv"
	"strings"
)

// LabelOf returns the value of a label in a series name as formatted by [observe.Metric.Key];
// "" if absent.
func LabelOf(key, label string) string {
	at := strings.Index(key, "{"+label+`="`)
	if at < 0 {
		at = strings.Index(key, ","+label+`="`)
	}
	if at < 0 {
		return ""
	}
	quoted := key[at+len(label)+2:]
	value, err := strconv.QuotedPrefix(quoted)
	if err != nil {
		return ""
	}
	value, _ = strconv.Unquote(value) // it is quoted
	return value
}

// HasLabels reports whether a series name has all of the labels.
func HasLabels(key string, labels map[string]string) bool {
	for label, value := range labels {
		if LabelOf(key, label) != value {
			return false
		}
	}
	return true
}

// SumSeries is a helper for Verify: it sums the series of a name with all of the labels.
func SumSeries(stats map[string]float64, name string, labels map[string]string) float64 {
	total := 0.0
	for key, value := range stats {
		if strings.HasPrefix(key, name+"{") && HasLabels(key, labels) {
			total += value
		}
	}
	return total
}
