// Package verdict says whether a trial of the data plane may be believed, from
// what the trial saw.
//
//	Evidence (written down by package trial) + record.Trial + limits -> record.Validity
//
// It is pure: a run is judged by it when its trials end, and years later.
package verdict

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/verdict"
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
	// CPUs is how many CPUs the generator could use, of several generators together.
	CPUs int `json:"cpus"`
	// Planned is how many requests the schedule has in the window, where several
	// generators send it; else 0.
	Planned int64 `json:"planned,omitempty"`
	// Repeated says in words why earlier attempts at the trial came to no end.
	Repeated []string `json:"repeated,omitempty"`
	// Control is who was the mesh's control plane; nil where that was not looked at.
	Control *verdict.ControlPlane `json:"control_plane,omitempty"`
	// Edges are when the nodes' counters were read.
	Edges []Edge `json:"edges"`
	// Source is [record.ObservedKubelet] where they were sampled by kubelets: the
	// trial's record then says when.
	Source string `json:"source,omitempty"`
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

// check finds what rules could not work with, or would take for a trial that is
// fine: what was never written looks like what was never wrong. It names the
// place.
func (e Evidence) check(t record.Trial) error {
	if err := cmp.Or(verdict.CheckNamed("refused", e.Refused), verdict.CheckNamed("unread", e.Unread)); err != nil {
		return err
	}
	if len(e.Refused) > 0 {
		return nil // nothing was measured
	}
	m := e.Mesh
	switch {
	case t.Load == nil:
		return errors.New("the trial is not one of the data plane")
	case !maps.Equal(m.Cell, t.Cell):
		return fmt.Errorf("mesh.cell: %q, and the trial's is %q: it is another trial's", m.Cell.Key(), t.Cell.Key())
	case e.Loops < 1:
		return fmt.Errorf("loops: %d, a generator has at least one", e.Loops)
	case e.Connections < 1:
		return fmt.Errorf("connections: %d, a generator keeps at least one", e.Connections)
	case len(e.Edges) == 0 && e.Source == "":
		return errors.New("edges: nothing says when counters were read")
	}
	for i, edge := range e.Edges {
		if edge.Node == "" {
			return fmt.Errorf("edges[%d]: no node", i)
		}
	}
	return cmp.Or(verdict.CheckCount("mesh.requests", m.Requests), verdict.CheckCount("mesh.unknown", m.Unknown),
		verdict.CheckCount("planned", e.Planned), verdict.CheckCount("cpus", int64(e.CPUs)), verdict.CheckCount("mesh.connections", m.Connections), verdict.CheckCount("mesh.probes", m.Probes), e.checkCounted())
}

// checkCounted finds counters that are not there although nothing says that
// they could not be read.
func (e Evidence) checkCounted() error {
	read := func(place, part string, values map[string]float64) error {
		if values == nil && !slices.ContainsFunc(e.Unread, func(c record.Check) bool { return c.Name == UnreadCounters+part }) {
			return fmt.Errorf("%s: no counters, and nothing says why", place)
		}
		return nil
	}
	if err := read("mesh.worker", record.PartWorker, e.Mesh.Worker); err != nil {
		return err
	}
	for _, part := range slices.Sorted(maps.Keys(e.Mesh.Proxies)) {
		place, p := "mesh.proxies."+part, e.Mesh.Proxies[part]
		if p == nil {
			return fmt.Errorf("%s: nothing", place)
		}
		if err := read(place+".rise", part, p.Rise); err != nil {
			return err
		}
	}
	return nil
}

// UnreadCounters begins the name of the check, in [Evidence.Unread], of a part
// whose counters could not be read.
const UnreadCounters = "counters-"
