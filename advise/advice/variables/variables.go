// Package variables asks an istiod for the variables of its environment, with their
// defaults, and for the metrics that it exports.
//
// The program itself is asked, so that the answer is true of its version: `pilot-discovery
// collateral` writes the reference page of the program that runs.
package variables

import (
	"slices"
	"strings"
)

// Known is what an istiod has.
type Known struct {
	// Version is as the program says it, such as 1.31-eed52ebb66ad.
	Version string `json:"version"`
	// Source is the program or the image that was asked.
	Source    string     `json:"source"`
	Variables []Variable `json:"variables"`
	Metrics   []string   `json:"metrics"`
}

// Variable is a variable of istiod's environment.
type Variable struct {
	Name    string `json:"name"`
	Default string `json:"default"`
}

// Variable finds a variable by its name.
func (k *Known) Variable(name string) (Variable, bool) {
	i := slices.IndexFunc(k.Variables, func(v Variable) bool { return v.Name == name })
	if i < 0 {
		return Variable{}, false
	}
	return k.Variables[i], true
}

// Lacks reports whether a metric is of istiod's own and this version does not export it,
// nor the histogram that a series is of.
func (k *Known) Lacks(metric string) bool {
	return strings.HasPrefix(metric, "pilot_") && !slices.ContainsFunc(k.Metrics, func(name string) bool {
		suffix, ok := strings.CutPrefix(metric, name)
		return ok && slices.Contains([]string{"", "_sum", "_count", "_bucket"}, suffix)
	})
}
