package podstate

import (
	"cmp"
	"slices"
	"time"
)

// Memory tracks how long problems have lasted. The zero value is ready to use.
type Memory struct {
	seen map[string]*sighting // by problem ID
}

type sighting struct {
	first    time.Time
	reported time.Time // when the mark last changed
	mark     string
	message  string
}

// Lasting is a problem with the time for which it has been observed.
type Lasting struct {
	Problem
	For time.Duration
	// Ends means that waiting longer does not help.
	Ends bool
}

// Note records the problems of one look at the pods, and returns them with what earlier
// looks showed: first those that end the wait, then those that have lasted longest. It
// forgets problems that are no longer present.
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
		// Between two pulls the kubelet reports only that it waits, not what failed.
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
