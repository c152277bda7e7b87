package podstate

import (
	"cmp"
	"slices"
	"time"
)

// Memory keeps how long problems have lasted. The zero value is ready to use.
type Memory struct {
	seen map[string]*sighting // by a problem's id
}

type sighting struct {
	first    time.Time
	reported time.Time // since when the mark is what it is
	mark     string
	message  string
}

// Lasting is a problem and for how long it has been seen.
type Lasting struct {
	Problem
	For time.Duration
	// Ends says that waiting on does not help.
	Ends bool
}

// Note takes the problems of a look at the pods, and returns them with what is known from
// the looks before: those that end the wait first, then those that have lasted longest.
// A problem that is not among them any more is forgotten.
func (m *Memory) Note(problems []Problem, now time.Time) []Lasting {
	seen := make(map[string]*sighting, len(problems))
	out := make([]Lasting, 0, len(problems))
	for _, p := range problems {
		s := m.seen[p.id]
		if s == nil {
			s = &sighting{first: now, reported: now, mark: p.mark, message: p.Message}
		}
		if s.mark != p.mark {
			s.mark, s.reported = p.mark, now
		}
		// Between two pulls the kubelet says only that it waits, not what was wrong.
		if p.Reason != "ImagePullBackOff" || s.message == "" {
			s.message = p.Message
		}
		p.Message = s.message
		seen[p.id] = s
		lasting := now.Sub(s.first)
		out = append(out, Lasting{Problem: p, For: lasting, Ends: ruleOf(p.Code, p.Message).ends(lasting, s.reported.Sub(s.first))})
	}
	m.seen = seen
	slices.SortStableFunc(out, func(a, b Lasting) int {
		if a.Ends != b.Ends {
			if a.Ends {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.For, a.For)
	})
	return out
}
