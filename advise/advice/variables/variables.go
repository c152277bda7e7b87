// Package variables asks an istiod for its environment variables, with their defaults, and
// for the metrics that it exports.
//
// It asks the program itself, so the answer is correct for its version: `pilot-discovery
// collateral` writes the reference page of the running program.
package variables

import (
	"slices"
	"strings"
)

// Known describes the variables and metrics of an istiod.
type Known struct {
	// Version is the version that the program reports, such as 1.31-eed52ebb66ad.
	Version string `json:"version"`
	// Source is the program or image that was asked.
	Source    string     `json:"source"`
	Variables []Variable `json:"variables"`
	Metrics   []string   `json:"metrics"`
}

// Variable is a variable of istiod's environment.
type Variable struct {
	Name    string `json:"name"`
	Default string `json:"default"`
}

// Variable finds a variable by name.
func (k *Known) Variable(name string) (Variable, bool) {
	i := slices.IndexFunc(k.Variables, func(v Variable) bool { return v.Name == name })
	if i < 0 {
		return Variable{}, false
	}
	return k.Variables[i], true
}

// Lacks reports whether a metric is one of istiod's own that this version does not export,
// neither itself nor as the histogram that a series belongs to.
func (k *Known) Lacks(metric string) bool {
	return strings.HasPrefix(metric, "pilot_") && !slices.ContainsFunc(k.Metrics, func(name string) bool {
		suffix, ok := strings.CutPrefix(metric, name)
		return ok && slices.Contains([]string{"", "_sum", "_count", "_bucket"}, suffix)
	})
}
