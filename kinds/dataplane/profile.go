package dataplane

import (
	"time"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
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

// ProfilingOf is how proxies are profiled.
func ProfilingOf(s *study.Study) Profiling {
	if Of(s).Profile == nil {
		return DefaultProfiling()
	}
	return *Of(s).Profile
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

// profileFields are those of the section profile.
func profileFields(p *Profiling) study.Object {
	return study.Object{Name: "profile", Flow: true, Fields: []study.Field{
		{Name: "hz", Doc: "Samples per second of each thread's CPU time.", Value: study.Int(&p.Hz, 1, 10_000)},
		{Name: "length", Doc: "Length of a profile.", Value: study.Duration(&p.Length, time.Second, time.Hour)},
		{Name: "graph", Doc: "How callers are found: by frame pointers, by debug information (expensive), or not.", Value: study.OneOf(&p.Graph, GraphFP, GraphDwarf, GraphNone)},
	}}
}

// checkProfile finds profiles that would not fit.
func checkProfile(d *study.Decoder, s *study.Study) {
	p := ProfilingOf(s)
	if taken := p.Taken(); p.Graph == GraphDwarf && record.CopiesOfStacks(p.Hz, taken) > record.MaxRecording {
		d.Fail(d.Pos("profile"), study.CodeConflict, "lower hz or length, or take graph: fp", "profile: %s", record.TooManyCopies(p.Hz, taken))
	}
}
