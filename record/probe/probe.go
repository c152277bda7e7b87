// Package probe defines what studies can count in pods beyond CPU, memory and
// threads. Each probe is defined once, with its figures, their units and how they
// are read. The observer of a node reads the probes that a trial requests at both
// edges of its window. Plan, record, findings, report and the reference of study
// files all follow from the table.
//
// The package is pure: callers pass in a process's directory.
package probe

import (
	"io/fs"
	"slices"
)

// Probe counts something in a pod's network namespace.
type Probe struct {
	// Name is the measure with which a study requests the probe.
	Name    string
	Figures []Figure
	// Read returns the current values of all counters, by figure name. process is
	// the /proc directory of a process of the pod.
	Read func(process fs.FS) (map[string]uint64, error)
}

// Figure is a counter. Findings report its increase in the window per answered
// request.
type Figure struct {
	Name string // in counters and findings: "network_bytes"
	Unit string // of the finding: "bytes/request"
	Doc  string // what is counted, "Bytes that ...", with %s for the owner
	// Words name the figure in tables.
	Words string
}

// All lists all probes.
var All = []Probe{network}

// Names returns the names of all probes.
func Names() []string {
	out := make([]string, len(All))
	for i, p := range All {
		out[i] = p.Name
	}
	return out
}

// Of returns the probe with the given name.
func Of(name string) (Probe, bool) {
	i := slices.IndexFunc(All, func(p Probe) bool { return p.Name == name })
	if i < 0 {
		return Probe{}, false
	}
	return All[i], true
}
