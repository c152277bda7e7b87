package study

import (
	"time"

	"github.com/invopop/jsonschema"

	"github.com/meshtrial/meshtrial/record"
)

// Profiling says how proxies are profiled.
type Profiling struct {
	Hz     int // samples per second of each thread's CPU time
	Length time.Duration
	Graph  string // GraphFP, GraphDwarf, GraphNone
}

// What a trial's profile takes beside its length: perf needs a moment to
// begin, and CPU is read well inside the time that it samples.
const (
	ProfileLead  = 2 * time.Second
	ProfileTrail = time.Second
)

// Taken is how long perf samples for a profile.
func (p Profiling) Taken() time.Duration { return ProfileLead + p.Length + ProfileTrail }

// Ways to find out who called whom, as perf names them.
const (
	GraphFP    = "fp"
	GraphDwarf = "dwarf"
	GraphNone  = "none"
)

// DefaultProfiling is how proxies are profiled if a study does not say.
func DefaultProfiling() Profiling {
	return Profiling{Hz: 99, Length: 10 * time.Second, Graph: GraphFP}
}

// Profiling is how proxies are profiled.
func (s *Study) Profiling() Profiling {
	if s.Profile == nil {
		return DefaultProfiling()
	}
	return *s.Profile
}

// Beginnings of the names of findings from profiles, each followed by the part
// ("profile_cost_client_proxy").
const (
	// FindingProfileCost is how much more CPU a part uses while it is
	// profiled, as a share.
	FindingProfileCost = "profile_cost"
	// FindingProfileNamed is the share of samples in user space whose
	// function is known.
	FindingProfileNamed = "profile_named"
	// FindingCentre is a cost centre's share of a part's CPU time; the centre
	// follows the part. What centres there are only a run shows.
	FindingCentre = "profile_share"
)

// profileValue is the section profile.
type profileValue struct{ to **Profiling }

func (v profileValue) object(p *Profiling) object {
	return object{name: "profile", flow: true, fields: []field{
		{name: "hz", doc: "Samples per second of each thread's CPU time.", value: intValue{&p.Hz, 1, 10_000}},
		{name: "length", doc: "Length of a profile.", value: durationValue{to: &p.Length, low: time.Second, high: time.Hour}},
		{name: "graph", doc: "How callers are found: by frame pointers, by debug information (expensive), or not.", value: textValue{to: &p.Graph, oneOf: []string{GraphFP, GraphDwarf, GraphNone}}},
	}}
}

func (v profileValue) decode(d *decoder, n *node) {
	p := DefaultProfiling()
	before := len(d.errs)
	v.object(&p).decode(d, n)
	if taken := p.Taken(); len(d.errs) == before && p.Graph == GraphDwarf && record.CopiesOfStacks(p.Hz, taken) > record.MaxRecording {
		d.fail(n.pos, CodeConflict, "lower hz or length, or take graph: fp", "profile: %s", record.TooManyCopies(p.Hz, taken))
	}
	if len(d.errs) == before {
		*v.to = &p
	}
}

func (v profileValue) encode() *node {
	if *v.to == nil {
		return nil
	}
	p := **v.to
	return v.object(&p).encode()
}

func (v profileValue) schema() *jsonschema.Schema {
	p := DefaultProfiling()
	return v.object(&p).schema()
}
