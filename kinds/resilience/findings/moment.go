package findings

import (
	"slices"
	"sort"
	"strings"

	"github.com/meshtrial/meshtrial/record"
)

// moments views a trial through a sliding one-second window.
type moments struct {
	s       *trialScenario
	ats     []int64 // of the requests
	failed  []int64 // number of requests before each that failed or never ended
	latency bool    // whether latency is needed
}

func (s *trialScenario) moments(latency bool) *moments {
	m := &moments{s: s, ats: make([]int64, len(s.requests)), failed: make([]int64, len(s.requests)+1), latency: latency}
	for i := range s.requests {
		m.ats[i] = s.requests[i].at
		m.failed[i+1] = m.failed[i]
		if !s.requests[i].ok {
			m.failed[i+1]++
		}
	}
	return m
}

// look returns the moment from one time until before another, in nanoseconds since the start of the
// timeline.
func (m *moments) look(from, to int64) record.Moment {
	low, _ := slices.BinarySearch(m.ats, from)
	high, _ := slices.BinarySearch(m.ats, to)
	out := record.Moment{AtS: float64(to) / 1e9, Requests: int64(high - low), Failed: m.failed[high] - m.failed[low]}
	if out.Requests > 0 {
		out.ErrorShare = float64(out.Failed) / float64(out.Requests)
	}
	out.RateRPS = float64(m.s.answersIn(from, to)) / (float64(to-from) / 1e9)
	if m.latency {
		var micros []int64
		for _, r := range m.s.requests[low:high] {
			if r.ok {
				micros = append(micros, r.micros)
			}
		}
		out.SetLatency(micros)
	}
	zero := m.s.trial.Scenario.StartNS
	samples := m.s.trial.Scenario.Samples
	if i := sort.Search(len(samples), func(i int) bool { return samples[i].AtNS-zero > to }); i > 0 {
		out.Ready, out.Ejected = samples[i-1].Ready, samples[i-1].Ejected
	}
	return out
}

// momentNames lists the fields of expressions about moments, in words.
func momentNames() string {
	var out []string
	for _, v := range momentFields {
		out = append(out, v.name)
	}
	return strings.Join(out, ", ") + ", ready(service), ejected(service)"
}
