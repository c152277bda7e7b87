package load

import (
	"fmt"
	"slices"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// dealt reports whether this generator is one of several that together act as one.
func (s *Spec) dealt() bool { return s.Share != nil && s.Share.Connections > 0 }

// burst returns the requests of a burst that are this generator's, from..to-1: as many as it
// has connections.
func (s *Share) burst() (from, to int) {
	for i := range s.Index {
		from += part(s.Connections, s.Of, i)
	}
	return from, from + part(s.Connections, s.Of, s.Index)
}

// Split returns the Specs of n generators that share the connections and together send exactly
// this one's schedule. At rate max there is no schedule, and they only share the connections.
//
// Each generator numbers its own requests, also in key headers; the prefix of request ids
// distinguishes them.
func (s *Spec) Split(n int) ([]Spec, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	switch {
	case n < 1 || n > s.Connections:
		return nil, errs.WithHint(errs.Usage("generators %d: each needs a connection of its own, and there are %d", n, s.Connections),
			"use more connections or fewer generators")
	case s.Share != nil:
		return nil, errs.Usage("share: one generator's share cannot be split again")
	case n == 1:
		return []Spec{*s}, nil
	}
	out := slices.Repeat([]Spec{*s}, n)
	for i := range out {
		one := &out[i]
		one.Connections = part(s.Connections, n, i)
		one.Threads = min(s.Threads, one.Connections)
		if s.MaxConnections > 0 {
			one.MaxConnections = one.Connections + part(s.MaxConnections-s.Connections, n, i)
		}
		if s.RequestID != "" {
			one.RequestID = fmt.Sprintf("%s-%d", s.RequestID, i)
		}
		if !s.Rate.IsMax() {
			one.Share = &Share{Index: i, Of: n, Connections: s.Connections}
		}
	}
	return out, nil
}

// Planned returns the number of requests that the schedule has in from..to, in nanoseconds,
// without rate changes; 0 at rate max.
func (s *Spec) Planned(from, to int64) int64 {
	schedule := s.schedule()
	if schedule == nil {
		return 0
	}
	n := int64(0)
	for {
		r, ok := schedule.Next()
		if !ok || r.Offset >= to {
			return n
		}
		if r.Offset >= from {
			n++
		}
	}
}
