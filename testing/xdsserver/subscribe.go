package xdsserver

import (
	"hash/maphash"
	"slices"
)

// subscription is a set of names, shared by all streams with the same set.
type subscription struct {
	names []string // sorted
}

func (s *subscription) has(name string) bool {
	_, ok := slices.BinarySearch(s.names, name)
	return ok
}

// subscriptions holds one of each.
type subscriptions struct {
	seed maphash.Seed
	all  map[uint64][]*subscription
}

func newSubscriptions() *subscriptions {
	return &subscriptions{seed: maphash.MakeSeed(), all: map[uint64][]*subscription{}}
}

// get returns the subscription to names, which it may sort and keep.
func (s *subscriptions) get(names []string) *subscription {
	slices.Sort(names)
	names = slices.Compact(names)
	var h maphash.Hash
	h.SetSeed(s.seed)
	for _, name := range names {
		h.WriteString(name)
		h.WriteByte(0)
	}
	key := h.Sum64()
	for _, have := range s.all[key] {
		if slices.Equal(have.names, names) {
			return have
		}
	}
	out := &subscription{names: names}
	s.all[key] = append(s.all[key], out)
	return out
}

// change returns a subscription with names added and removed.
func (s *subscriptions) change(from *subscription, add, remove []string) *subscription {
	if len(add) == 0 && len(remove) == 0 {
		return from
	}
	if len(from.names) == 0 && len(remove) == 0 {
		return s.get(slices.Clone(add))
	}
	names := append(slices.Clone(from.names), add...)
	if len(remove) > 0 {
		gone := map[string]bool{}
		for _, name := range remove {
			gone[name] = true
		}
		names = slices.DeleteFunc(names, func(name string) bool { return gone[name] })
	}
	return s.get(names)
}
