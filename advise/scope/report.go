package scope

import (
	"cmp"
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
	r := Report{Schema: ReportSchema, Owners: []OwnerTotal{}, Types: []TypeSize{}, Proxies: slices.Clone(proxies)}
	types, owners := map[string]*TypeSize{}, map[Owner]*OwnerTotal{}
	for _, p := range proxies {
		r.DumpBytes += p.DumpBytes
		r.WireBytes += p.WireBytes
		for _, t := range p.Types {
			sum := types[t.Type]
			if sum == nil {
				sum = &TypeSize{Type: t.Type}
				types[t.Type] = sum
			}
			sum.Resources += t.Resources
			sum.DumpBytes += t.DumpBytes
			sum.WireBytes += t.WireBytes
			sum.StaticBytes += t.StaticBytes
		}
		for _, o := range p.Owners {
			sum := owners[o.Owner]
			if sum == nil {
				sum = &OwnerTotal{OwnerSize: OwnerSize{Owner: o.Owner}}
				owners[o.Owner] = sum
			}
			sum.Resources += o.Resources
			sum.DumpBytes += o.DumpBytes
			sum.WireBytes += o.WireBytes
			sum.ShapedBytes += o.ShapedBytes
			sum.Proxies++
		}
		for _, note := range p.Notes {
			if !slices.Contains(r.Notes, note) {
				r.Notes = append(r.Notes, note)
			}
		}
	}
	for _, t := range types {
		r.Types = append(r.Types, *t)
	}
	sortTypes(r.Types)
	for _, o := range owners {
		switch {
		case r.DumpBytes > 0:
			o.Share = float64(o.DumpBytes) / float64(r.DumpBytes)
		case r.WireBytes > 0:
			o.Share = float64(o.WireBytes) / float64(r.WireBytes)
		}
		r.Owners = append(r.Owners, *o)
	}
	slices.SortFunc(r.Owners, func(a, b OwnerTotal) int { return compareSizes(a.OwnerSize, b.OwnerSize) })
	r.Uncalled = uncalled(proxies)
	if top > 0 {
		r.cut(top)
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

// uncalled sums up what SetCalls recorded; nil if no proxy was asked.
func uncalled(proxies []Proxy) *Uncalled {
	var u Uncalled
	owners := map[Owner]*UncalledOwner{}
	for _, p := range proxies {
		mine, called := map[Owner]*UncalledOwner{}, map[Owner]bool{}
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
			if mine[c.Owner] == nil {
				mine[c.Owner] = &UncalledOwner{Owner: c.Owner}
			}
			mine[c.Owner].Clusters++
			mine[c.Owner].DumpBytes += c.DumpBytes
		}
		for owner, o := range mine {
			if called[owner] {
				continue
			}
			if owners[owner] == nil {
				owners[owner] = &UncalledOwner{Owner: owner}
			}
			owners[owner].Clusters += o.Clusters
			owners[owner].DumpBytes += o.DumpBytes
			owners[owner].Proxies++
		}
	}
	if u.Clusters == 0 {
		return nil
	}
	u.Owners = []UncalledOwner{}
	for _, o := range owners {
		u.Owners = append(u.Owners, *o)
	}
	slices.SortFunc(u.Owners, func(a, b UncalledOwner) int {
		return cmp.Or(cmp.Compare(b.DumpBytes, a.DumpBytes), compareOwners(a.Owner, b.Owner))
	})
	u.OwnersInTotal = len(u.Owners)
	return &u
}
