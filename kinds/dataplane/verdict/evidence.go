// Package verdict says whether a trial of the data plane may be believed, from
// what the trial saw.
//
//	Evidence (written down by package trial) + record.Trial + limits -> record.Validity
//
// It is pure: a run is judged by it when its trials end, and years later.
package verdict

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
)

// Evidence is what a trial saw, beside what its record has.
type Evidence struct {
	// Refused are extensions of the cell that are not in force: such a trial
	// measures nothing.
	Refused []record.Check `json:"refused,omitempty"`
	// Unread are counters that could not be read, or that began anew.
	Unread []record.Check `json:"unread,omitempty"`
	// Loops is how many event loops the generator had, Connections how many
	// connections it kept.
	Loops       int `json:"loops"`
	Connections int `json:"connections"`
	// Edges are when the nodes' counters were read.
	Edges []Edge `json:"edges"`
	// Unmeasured and Unprofiled say in words what is not there, which what the
	// trial measured does not depend on.
	Unmeasured []string `json:"unmeasured,omitempty"`
	Unprofiled []string `json:"unprofiled,omitempty"`
	// Mesh is what proves the mode, without the configurations.
	Mesh mesh.Evidence `json:"mesh"`
	// Configs are the configurations in force in the proxies after the trial, by
	// part.
	Configs map[string]Dump `json:"configs,omitempty"`
}

// Edge is how far from the window's edges a node's counters were read, its
// clock corrected.
type Edge struct {
	Node string `json:"node"`
	// Before is after the window's begin, After after its end.
	Before time.Duration `json:"before_ns"`
	After  time.Duration `json:"after_ns"`
}

// Dump is a proxy's configuration: text where it is text.
type Dump []byte

// MarshalJSON implements json.Marshaler.
func (d Dump) MarshalJSON() ([]byte, error) {
	switch {
	case d == nil:
		return []byte("null"), nil
	case utf8.Valid(d):
		return json.Marshal(string(d))
	}
	return json.Marshal(map[string][]byte{"bytes": d})
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *Dump) UnmarshalJSON(data []byte) error {
	var text *string
	if err := json.Unmarshal(data, &text); err == nil {
		if *d = nil; text != nil {
			*d = Dump(*text)
		}
		return nil
	}
	var raw struct{ Bytes []byte }
	if err := json.Unmarshal(data, &raw); err != nil {
		return fmt.Errorf("a proxy's configuration: %w", err)
	}
	*d = raw.Bytes
	return nil
}

// mesh is what the mesh's adapter looks at.
func (e Evidence) mesh() mesh.Evidence {
	m := e.Mesh
	m.Proxies = map[string]*mesh.Passed{}
	for part, p := range e.Mesh.Proxies {
		if p != nil {
			with := *p
			with.Config = e.Configs[part]
			m.Proxies[part] = &with
		}
	}
	return m
}
