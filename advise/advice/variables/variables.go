// Package variables asks an istiod which settings it has: the variables of its
// environment with their defaults and help, the metrics that it exports, and the
// fields of the mesh configuration.
//
// The program itself is asked, so that the answer is true of its version whatever
// that is: `pilot-discovery collateral` writes the reference page of the program that
// runs, and the binary carries the descriptor of MeshConfig.
package variables

import (
	"slices"
	"strings"
)

// Known is what an istiod has.
type Known struct {
	// Version is as the program says it, such as 1.31-eed52ebb66ad.
	Version string `json:"version"`
	// Source says what was asked.
	Source    string     `json:"source"`
	Variables []Variable `json:"variables"`
	Metrics   []Metric   `json:"metrics"`
	// Fields are those of MeshConfig and of the messages below it, as a MeshConfig in
	// YAML has them: "outboundTrafficPolicy.mode". Empty where the program does not
	// tell.
	Fields []Field `json:"mesh_config_fields"`
}

// Variable is a variable of istiod's environment.
type Variable struct {
	Name       string `json:"name"`
	Type       string `json:"type"` // String, Boolean, Integer, Floating-Point, Time Duration
	Default    string `json:"default"`
	Help       string `json:"help"`
	Deprecated bool   `json:"deprecated,omitempty"`
}

// Metric is a metric that istiod exports.
type Metric struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Help string `json:"help"`
}

// Field is a field of the mesh configuration.
type Field struct {
	Path string `json:"path"`
	Type string `json:"type"`
}

// Variable finds a variable by its name.
func (k *Known) Variable(name string) (Variable, bool) {
	i := slices.IndexFunc(k.Variables, func(v Variable) bool { return v.Name == name })
	if i < 0 {
		return Variable{}, false
	}
	return k.Variables[i], true
}

// HasField reports whether the mesh configuration has a field.
func (k *Known) HasField(path string) bool {
	return slices.ContainsFunc(k.Fields, func(f Field) bool { return f.Path == path })
}

// HasSetting reports whether istiod has a variable, whose name is in capitals, or a field of
// the mesh configuration. It is not known of fields if the program does not list them.
func (k *Known) HasSetting(name string) (has, known bool) {
	if name == strings.ToUpper(name) {
		_, has = k.Variable(name)
		return has, true
	}
	return k.HasField(name), len(k.Fields) > 0
}

// Lacks reports whether a metric is of istiod's own and this version does not export it,
// nor the histogram that a series is of.
func (k *Known) Lacks(metric string) bool {
	return strings.HasPrefix(metric, "pilot_") && !slices.ContainsFunc(k.Metrics, func(m Metric) bool {
		suffix, ok := strings.CutPrefix(metric, m.Name)
		return ok && slices.Contains([]string{"", "_sum", "_count", "_bucket"}, suffix)
	})
}
