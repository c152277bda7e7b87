package signals

import (
	"maps"
	"slices"
	"strings"
)

// spell formats a series as PromQL does: name{label="value",...}, sorted.
func spell(name string, labels map[string]string) string {
	if len(labels) == 0 {
		return name
	}
	var b strings.Builder
	b.WriteString(name + "{")
	for i, label := range slices.Sorted(maps.Keys(labels)) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(label + `="` + escape.Replace(labels[label]) + `"`)
	}
	return b.String() + "}"
}

// escape escapes label values for Prometheus's text format.
var escape = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
