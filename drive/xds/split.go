package xds

import (
	"slices"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// Divide says where each of n even parts of a number of things begins, and where the
// last one ends.
func Divide(things, n int) []int {
	out := make([]int, n+1)
	for i := range out {
		out[i] = things * i / n
	}
	return out
}

// Split returns the Specs of n fleets that have this one's proxies among themselves,
// each once and in their order, as [Divide] says. Together as many connect at a time
// as of one fleet, but at least one of each.
func (s *Spec) Split(n int) ([]Spec, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if n < 1 || n > len(s.Proxies) {
		return nil, errs.WithHint(errs.Usage("simulators %d: each needs a proxy of its own, and there are %d", n, len(s.Proxies)),
			"more proxies, or fewer simulators")
	}
	out := slices.Repeat([]Spec{*s}, n)
	at, connecting := Divide(len(s.Proxies), n), Divide(s.MaxConnecting, n)
	for i := range out {
		out[i].Proxies = s.Proxies[at[i]:at[i+1]:at[i+1]]
		out[i].MaxConnecting = max(1, connecting[i+1]-connecting[i])
		out[i].Seed += uint64(i)
	}
	return out, nil
}
