package dataplane

import (
	"time"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// Profiling configures the profiling of proxies.
type Profiling struct {
	Hz     int // samples per second of each thread's CPU time
	Length time.Duration
	Graph  string // GraphFP, GraphDwarf, GraphNone
}

// Additional time of a trial's profile: perf needs a moment to start, and CPU is read well inside
// the sampled period.
const (
	ProfileLead  = 2 * time.Second
	ProfileTrail = time.Second
)

// Taken returns how long perf samples for a profile.
func (p Profiling) Taken() time.Duration { return ProfileLead + p.Length + ProfileTrail }

// Call graph methods, as perf names them.
const (
	GraphFP    = "fp"
	GraphDwarf = "dwarf"
	GraphNone  = "none"
)

// DefaultProfiling returns the default profiling configuration.
func DefaultProfiling() Profiling {
	return Profiling{Hz: 99, Length: 10 * time.Second, Graph: GraphFP}
}

// ProfilingOf returns the study's profiling configuration.
func ProfilingOf(s *study.Study) Profiling {
	if Of(s).Profile == nil {
		return DefaultProfiling()
	}
	return *Of(s).Profile
}

// Prefixes of findings from profiles, each followed by the part ("profile_cost_client_proxy").
const (
	// FindingProfileCost is the additional CPU that a part uses while it is profiled, as a share.
	FindingProfileCost = "profile_cost"
	// FindingProfileNamed is the share of user-space samples whose function is known.
	FindingProfileNamed = "profile_named"
	// FindingCentre is a cost centre's share of a part's CPU time; the centre follows the part.
	// Only a run shows which centres there are.
	FindingCentre = "profile_share"
)

// profileFields returns the fields of section profile.
func profileFields(p *Profiling) study.Object {
	return study.Object{Name: "profile", Flow: true, Fields: []study.Field{
		{Name: "hz", Doc: "Samples per second of each thread's CPU time.", Value: study.Int(&p.Hz, 1, 10_000)},
		{Name: "length", Doc: "Duration of a profile.", Value: study.Duration(&p.Length, time.Second, time.Hour)},
		{Name: "graph", Doc: "Call stacks by frame pointers, by debug information (expensive), or none.", Value: study.OneOf(&p.Graph, GraphFP, GraphDwarf, GraphNone)},
	}}
}

// checkProfile finds profiles that would not fit.
func checkProfile(d *study.Decoder, s *study.Study) {
	p := ProfilingOf(s)
	if taken := p.Taken(); p.Graph == GraphDwarf && record.CopiesOfStacks(p.Hz, taken) > record.MaxRecording {
		d.Fail(d.Pos("profile"), study.CodeConflict, "lower hz or length, or take graph: fp", "profile: %s", record.TooManyCopies(p.Hz, taken))
	}
}
