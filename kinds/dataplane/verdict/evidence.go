// Package verdict decides whether a data-plane trial is valid, from what the trial observed.
//
//	Evidence (written down by package trial) + record.Trial + limits -> record.Validity
//
// It is pure: it judges a run when its trials end, and years later.
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

// Evidence is what a trial observed, in addition to its record.
type Evidence struct {
	// Refused lists extensions of the cell that are not in force: such a trial measures nothing.
	Refused []record.Check `json:"refused,omitempty"`
	// Unread lists counters that could not be read, or that restarted.
	Unread []record.Check `json:"unread,omitempty"`
	// Loops is the number of the generator's event loops, Connections the number of connections it
	// kept.
	Loops       int `json:"loops"`
	Connections int `json:"connections"`
	// CPUs is the number of CPUs that the generator could use, over all generators.
	CPUs int `json:"cpus"`
	// Planned is the number of requests in the window's schedule if several generators send it;
	// else 0.
	Planned int64 `json:"planned,omitempty"`
	// Repeated says in words why earlier attempts at the trial failed.
	Repeated []string `json:"repeated,omitempty"`
	// Control is the mesh's control plane; nil if it was not observed.
	Control *verdict.ControlPlane `json:"control_plane,omitempty"`
	// Edges holds the times when the nodes' counters were read.
	Edges []Edge `json:"edges"`
	// Source is [ObservedKubelet] if kubelets sampled the counters. The trial's record then has the
	// times.
	Source string `json:"source,omitempty"`
	// Unmeasured and Unprofiled say in words what is missing without affecting what the trial
	// measured.
	Unmeasured []string `json:"unmeasured,omitempty"`
	Unprofiled []string `json:"unprofiled,omitempty"`
	// Mesh is the proof of the mode, without the configurations.
	Mesh mesh.Evidence `json:"mesh"`
	// Configs holds the configurations in force in the proxies after the trial, by part.
	Configs map[string]Dump `json:"configs,omitempty"`
}

// Edge is the distance between the edges of the window and the readings of a node's counters, with
// its clock corrected.
type Edge struct {
	Node string `json:"node"`
	// Before is counted from the start of the window, After from its end.
	Before time.Duration `json:"before_ns"`
	After  time.Duration `json:"after_ns"`
}

// Dump is a proxy's configuration, encoded as text if it is text.
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

// check finds evidence that rules cannot use, or would mistake for a good trial: missing data looks
// like the absence of problems. It names the field.
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
		return errors.New("the trial is not a data-plane trial")
	case !maps.Equal(m.Cell, t.Cell):
		return fmt.Errorf("mesh.cell is %q, but the trial's is %q: the evidence is another trial's", m.Cell.Key(), t.Cell.Key())
	case e.Loops < 1:
		return fmt.Errorf("loops is %d, but a generator has at least one", e.Loops)
	case e.Connections < 1:
		return fmt.Errorf("connections is %d, but a generator has at least one", e.Connections)
	case len(e.Edges) == 0 && e.Source == "":
		return errors.New("edges: the times of counter readings are missing")
	}
	for i, edge := range e.Edges {
		if edge.Node == "" {
			return fmt.Errorf("edges[%d]: no node", i)
		}
	}
	return cmp.Or(verdict.CheckCount("mesh.requests", m.Requests), verdict.CheckCount("mesh.unknown", m.Unknown),
		verdict.CheckCount("planned", e.Planned), verdict.CheckCount("cpus", int64(e.CPUs)), verdict.CheckCount("mesh.connections", m.Connections), verdict.CheckCount("mesh.probes", m.Probes), e.checkCounted())
}

// checkCounted finds missing counters without a statement that they could not be read.
func (e Evidence) checkCounted() error {
	read := func(place, part string, values map[string]float64) error {
		if values == nil && !slices.ContainsFunc(e.Unread, func(c record.Check) bool { return c.Name == UnreadCounters+part }) {
			return fmt.Errorf("%s: no counters, and no reason", place)
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

// UnreadCounters is the prefix of the check, in [Evidence.Unread], for a part whose counters could
// not be read.
const UnreadCounters = "counters-"
