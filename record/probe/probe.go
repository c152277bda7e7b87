// Package probe defines what studies can count of pods beyond CPU, memory and
// threads: each probe once, with its figures, their units and how they are read.
// The observer of a node reads those that a trial asks for at the two edges of
// its window; plan, record, findings, report and the reference of study files
// follow from the table.
//
// It is pure: a process's directory is given.
package probe

import (
	"io/fs"
	"slices"
)

// Probe counts something in the network namespace of a pod.
type Probe struct {
	// Name is that of the measure by which a study asks for it.
	Name    string
	Figures []Figure
	// Read reads the counters of all figures, by their names, as far as they have
	// risen until now. process is the directory in /proc of a process of the pod.
	Read func(process fs.FS) (map[string]uint64, error)
}

// Figure is a counter. Findings have its rise in the window, for each answered
// request.
type Figure struct {
	Name string // of counters and findings: "network_bytes"
	Unit string // of the finding: "bytes/request"
	Doc  string // what is counted, "Bytes that ...", with %s for whose
	// Words name it in tables.
	Words string
}

// All are the probes that there are.
var All = []Probe{network}

// Names lists them.
func Names() []string {
	out := make([]string, len(All))
	for i, p := range All {
		out[i] = p.Name
	}
	return out
}

// Of finds a probe by its name.
func Of(name string) (Probe, bool) {
	i := slices.IndexFunc(All, func(p Probe) bool { return p.Name == name })
	if i < 0 {
		return Probe{}, false
	}
	return All[i], true
}
