package profile

import (
	"cmp"

	"github.com/meshtrial/meshtrial/record"
)

// Summary is the output of `meshtrial profile --format json`.
type Summary struct {
	Schema  int    `json:"schema"`
	Title   string `json:"title"`
	Kind    string `json:"kind"`
	Unit    string `json:"unit"`
	Event   string `json:"event,omitempty"`
	Total   int64  `json:"total"` // in the unit
	Samples int64  `json:"samples"`
	// TooFew means that there are too few samples for shares.
	TooFew     bool                 `json:"too_few,omitempty"`
	SpanS      float64              `json:"span_s,omitempty"` // from the first sample to the last
	Trust      float64              `json:"trust"`            // share of user-space samples with a name
	Enough     bool                 `json:"enough"`           // whether there are enough names to show functions
	Advice     []string             `json:"advice,omitempty"` // how to get the missing names
	Notes      []string             `json:"notes,omitempty"`
	Binaries   []Binary             `json:"binaries"`
	Threads    []ThreadCost         `json:"threads"`
	Costs      Costs                `json:"costs"`
	Self       []record.ProfileCost `json:"self"`       // top functions by self cost
	Cumulative []record.ProfileCost `json:"cumulative"` // including callees
	Against    *Diff                `json:"against,omitempty"`
}

// Summarise summarizes profiles that are blocks of one measurement, after
// [Profile.Distrust]. filters may be nil.
func Summarise(title string, profiles []*Profile, filters []ConfigFilter, top int) (Summary, View) {
	all := Merge(profiles)
	trust := all.Distrust(nil)
	s := Summary{Schema: 1, Title: title, Kind: all.Kind, Unit: all.Unit, Event: all.Event,
		Total: all.Total(), Samples: all.Taken(), Trust: trust.User, Enough: trust.Enough, Notes: all.Notes,
		Binaries: all.Binaries, Threads: all.ByThread(), Costs: Cost(profiles, filters),
		Self: all.Top(top), Cumulative: all.TopCumulative(top)}
	for _, p := range profiles {
		if from, to, ok := p.Span(); ok {
			s.SpanS += float64(to-from) / 1e9
		}
	}
	v := NewView(all, title, trust)
	if s.TooFew = TooFew(s.Kind, s.Samples); s.TooFew {
		v.Notes = append([]string{Few(s.Samples).String()}, v.Notes...)
	}
	v.Costs = &s.Costs
	s.Advice = v.Advice
	return s, v
}

// Merge merges profiles. Unless there is only one, samples lose their times.
func Merge(profiles []*Profile) *Profile {
	if len(profiles) == 1 {
		return profiles[0]
	}
	out := New(KindCPU, UnitSamples)
	for i, p := range profiles {
		if i == 0 {
			out.Kind, out.Unit, out.Period, out.Event = p.Kind, p.Unit, p.Period, p.Event
		}
		if p.Period != out.Period {
			out.Period = 0
		}
		out.Notes = append(out.Notes, p.Notes...)
		for _, b := range p.Binaries {
			if to := out.Binary(b.Path); to != nil {
				to.BuildID, to.Type, to.Text = cmp.Or(b.BuildID, to.BuildID), cmp.Or(b.Type, to.Type), cmp.Or(b.Text, to.Text)
				to.Doubt, to.Why = cmp.Or(b.Doubt, to.Doubt), cmp.Or(b.Why, to.Why)
			}
		}
		stacks := p.stacksIn(out)
		for s := range p.Samples() {
			out.Add(Sample{Stack: stacks[s.Stack], Thread: out.Thread(p.threads[s.Thread]), Weight: s.Weight, TimeNS: NoTime})
		}
	}
	return out
}
