package scope

import (
	"cmp"
	"maps"
	"slices"
)

// ReportSchema is the version of Report's JSON.
const ReportSchema = 2

// Report is the total size of several proxies' configuration.
type Report struct {
	Schema    int     `json:"schema"`
	Proxies   []Proxy `json:"proxies"`
	DumpBytes int64   `json:"dump_bytes"`
	WireBytes int64   `json:"wire_bytes,omitempty"`
	// Types covers all proxies together. Owners lists owners with the number of
	// proxies that carry their configuration, largest first. Owners and
	// OtherOwners add up to the total.
	Types       []TypeSize   `json:"types"`
	Owners      []OwnerTotal `json:"owners"`
	OtherOwners *Others      `json:"other_owners,omitempty"`
	// Uncalled is set if proxies were asked for their calls.
	Uncalled *Uncalled `json:"uncalled,omitempty"`
	Notes    []Note    `json:"notes,omitempty"`
}

// OwnerTotal is an owner's configuration over all proxies.
type OwnerTotal struct {
	OwnerSize
	Share   float64 `json:"share_ratio"` // of all bytes
	Proxies int     `json:"proxies"`
}

// Others sums up what was left out of a list.
type Others struct {
	Owners    int   `json:"owners"`
	DumpBytes int64 `json:"dump_bytes"`
	WireBytes int64 `json:"wire_bytes,omitempty"`
}

// Uncalled is the configuration of outbound clusters and their endpoints that
// proxies hold and, according to their counters, have not called.
type Uncalled struct {
	Clusters      int             `json:"clusters"` // a cluster counts once for each proxy that was asked
	Never         int             `json:"never_called"`
	DumpBytes     int64           `json:"dump_bytes"`
	NeverBytes    int64           `json:"never_called_dump_bytes"`
	Owners        []UncalledOwner `json:"owners"` // some proxy holds them and called none of their clusters; largest first
	OwnersInTotal int             `json:"owners_in_total"`
}

// UncalledOwner is an owner none of whose clusters was called by a proxy.
type UncalledOwner struct {
	Owner     Owner `json:"owner"`
	Clusters  int   `json:"clusters"`
	DumpBytes int64 `json:"dump_bytes"`
	Proxies   int   `json:"proxies"` // that hold it and did not call it
}

// Merge adds up proxies. top limits the lists of owners, resources and
// clusters; 0 means no limit.
func Merge(proxies []Proxy, top int) Report {
	sum := NewSum(0, 0)
	for _, p := range proxies {
		sum.Add(p)
	}
	r := sum.Report()
	r.Proxies = slices.Clone(proxies)
	if top > 0 {
		r.cut(top)
	}
	return r
}

// A Sum adds up proxies one at a time, and keeps little of each, since there may
// be thousands. Use [NewSum].
type Sum struct {
	top      int // limits lists
	detailed int // of the first ones the lists are kept
	report   Report
	types    map[string]TypeSize
	owners   map[Owner]OwnerTotal
	uncalled Uncalled
	unused   map[Owner]UncalledOwner
}

// NewSum returns an empty Sum. top limits the lists of owners and resources, with 0
// for no limit; those of single proxies are kept of the first ones alone.
func NewSum(top, detailed int) *Sum {
	return &Sum{top: top, detailed: detailed, report: Report{Schema: ReportSchema}, types: map[string]TypeSize{},
		owners: map[Owner]OwnerTotal{}, unused: map[Owner]UncalledOwner{}}
}

// Add adds a proxy, after [Proxy.SetCalls] if it was asked.
func (s *Sum) Add(p Proxy) {
	r := &s.report
	r.DumpBytes += p.DumpBytes
	r.WireBytes += p.WireBytes
	for _, t := range p.Types {
		s.types[t.Type] = s.types[t.Type].plus(t)
	}
	for _, o := range p.Owners {
		sum := s.owners[o.Owner]
		s.owners[o.Owner] = OwnerTotal{OwnerSize: sum.plus(o), Proxies: sum.Proxies + 1}
	}
	for _, note := range p.Notes {
		if !slices.Contains(r.Notes, note) {
			r.Notes = append(r.Notes, note)
		}
	}
	s.addUncalled(p)
	p.Clusters, p.Calls = nil, nil
	if len(r.Proxies) < s.detailed {
		p.Owners, p.Largest = first(p.Owners, s.top), first(p.Largest, s.top)
	} else {
		p.Owners, p.Largest = nil, nil
	}
	if p.Node != nil {
		node := *p.Node
		node.Labels = nil
		p.Node = &node
	}
	r.Proxies = append(r.Proxies, p)
}

// first copies the first entries, so that the others can go.
func first[T any](list []T, top int) []T {
	if top > 0 {
		list = list[:min(top, len(list))]
	}
	return slices.Clone(list)
}

// Len is the number of proxies that were added.
func (s *Sum) Len() int { return len(s.report.Proxies) }

// Report returns the totals so far.
func (s *Sum) Report() Report {
	r := s.report
	r.Proxies, r.Notes = slices.Clone(r.Proxies), slices.Clone(r.Notes)
	r.Types = slices.AppendSeq([]TypeSize{}, maps.Values(s.types))
	slices.SortFunc(r.Types, compareTypes)
	r.Owners = slices.AppendSeq([]OwnerTotal{}, maps.Values(s.owners))
	slices.SortFunc(r.Owners, func(a, b OwnerTotal) int { return compareSizes(a.OwnerSize, b.OwnerSize) })
	for i := range r.Owners {
		o := &r.Owners[i]
		switch {
		case r.DumpBytes > 0:
			o.Share = float64(o.DumpBytes) / float64(r.DumpBytes)
		case r.WireBytes > 0:
			o.Share = float64(o.WireBytes) / float64(r.WireBytes)
		}
	}
	r.Uncalled = s.Uncalled()
	if s.top > 0 {
		r.cut(s.top)
	}
	return r
}

// cut truncates the lists to their largest entries.
func (r *Report) cut(top int) {
	if len(r.Owners) > top {
		r.OtherOwners = &Others{Owners: len(r.Owners) - top}
		for _, o := range r.Owners[top:] {
			r.OtherOwners.DumpBytes += o.DumpBytes
			r.OtherOwners.WireBytes += o.WireBytes
		}
		r.Owners = r.Owners[:top:top]
	}
	for i := range r.Proxies {
		p := &r.Proxies[i]
		p.Owners = p.Owners[:min(top, len(p.Owners)):min(top, len(p.Owners))]
		p.Largest = p.Largest[:min(top, len(p.Largest)):min(top, len(p.Largest))]
	}
	if r.Uncalled != nil && len(r.Uncalled.Owners) > top {
		r.Uncalled.Owners = r.Uncalled.Owners[:top:top]
	}
}

// addUncalled adds what SetCalls recorded of a proxy.
func (s *Sum) addUncalled(p Proxy) {
	u := &s.uncalled
	mine, called := map[Owner]UncalledOwner{}, map[Owner]bool{}
	for _, c := range p.Clusters {
		if c.Calls == nil {
			continue
		}
		u.Clusters++
		u.DumpBytes += c.DumpBytes
		if *c.Calls > 0 {
			called[c.Owner] = true
			continue
		}
		u.Never++
		u.NeverBytes += c.DumpBytes
		o := mine[c.Owner]
		mine[c.Owner] = UncalledOwner{c.Owner, o.Clusters + 1, o.DumpBytes + c.DumpBytes, 1}
	}
	for owner, o := range mine {
		if sum := s.unused[owner]; !called[owner] {
			s.unused[owner] = UncalledOwner{owner, sum.Clusters + o.Clusters, sum.DumpBytes + o.DumpBytes, sum.Proxies + 1}
		}
	}
}

// Uncalled is what SetCalls recorded, in sum; nil if no proxy was asked.
func (s *Sum) Uncalled() *Uncalled {
	if s.uncalled.Clusters == 0 {
		return nil
	}
	u := s.uncalled
	u.Owners = slices.AppendSeq([]UncalledOwner{}, maps.Values(s.unused))
	slices.SortFunc(u.Owners, func(a, b UncalledOwner) int {
		return cmp.Or(cmp.Compare(b.DumpBytes, a.DumpBytes), compareOwners(a.Owner, b.Owner))
	})
	u.OwnersInTotal = len(u.Owners)
	return &u
}
