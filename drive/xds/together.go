package xds

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/record"
)

// Part is the answer of one of several fleets that together simulate one (see
// [Spec.Split]). In merged answers, proxies are numbered over all fleets and times are by
// the clock of the first. Parts are ordered by their proxies.
type Part[T any] struct {
	First   int   // number of its first proxy
	AheadNS int64 // how far its clock is ahead of the first one's
	Said    T
}

// at converts a time of the part to the clock of the first part; 0 and [record.Never]
// are not times and stay as they are.
func (p *Part[T]) at(ns int64) int64 {
	if ns == 0 || ns == record.Never {
		return ns
	}
	return ns - p.AheadNS
}

func (p *Part[T]) times(all []int64) []int64 {
	out := make([]int64, len(all))
	for i, ns := range all {
		out[i] = p.at(ns)
	}
	return out
}

func (p *Part[T]) numbers(all []int32) []int32 {
	out := make([]int32, len(all))
	for i, n := range all {
		out[i] = n + int32(p.First)
	}
	return out
}

// StatusOf merges the status of several fleets.
func StatusOf(parts []Part[Status]) Status {
	out := Status{NowUnixNS: math.MaxInt64, Markers: math.MaxInt, Waiting: map[string]int{}}
	for i := range parts {
		p := &parts[i]
		s := p.Said
		out.Proxies, out.Gateways, out.Ztunnels = out.Proxies+s.Proxies, out.Gateways+s.Gateways, out.Ztunnels+s.Ztunnels
		out.Connected, out.Synced, out.EverSynced = out.Connected+s.Connected, out.Synced+s.Synced, out.EverSynced+s.EverSynced
		out.LastMessageUnixNS, out.LastChangeUnixNS = max(out.LastMessageUnixNS, p.at(s.LastMessageUnixNS)), max(out.LastChangeUnixNS, p.at(s.LastChangeUnixNS))
		out.NowUnixNS, out.Markers = min(out.NowUnixNS, p.at(s.NowUnixNS)), min(out.Markers, s.Markers)
		out.LastError = cmp.Or(out.LastError, s.LastError)
		for why, n := range s.Waiting {
			out.Waiting[why] += n
		}
	}
	return out
}

// AccountOf merges the accounts of several fleets: counts are summed, and lag quantiles
// are the maximum over the fleets. A fleet that received nothing is left out of the lag if
// another received something. Convergence is measured from the first proxy of each fleet
// and is not merged.
func AccountOf(parts []Part[Account]) Account {
	if len(parts) == 1 {
		out := parts[0].Said
		out.Sizes, out.ZtunnelSizes = nil, nil
		return out
	}
	out := Account{Wire: map[string]record.Wire{}, Reconnects: map[string]int64{}, Sizes: sizesOfAll{}, ZtunnelSizes: sizesOfAll{}}
	for i := range parts {
		p := &parts[i]
		a := p.Said
		out.UnixNS = max(out.UnixNS, p.at(a.UnixNS))
		out.Proxies, out.Connected, out.Synced = out.Proxies+a.Proxies, out.Connected+a.Connected, out.Synced+a.Synced
		for name, w := range a.Wire {
			out.Wire[name] = out.Wire[name].Plus(w)
		}
		for name, w := range a.ZtunnelWire {
			if out.ZtunnelWire == nil {
				out.ZtunnelWire = map[string]record.Wire{}
			}
			out.ZtunnelWire[name] = out.ZtunnelWire[name].Plus(w)
		}
		for why, n := range a.Reconnects {
			out.Reconnects[why] += n
		}
		out.Errors, out.CPU = out.Errors+a.Errors, out.CPU.Plus(a.CPU)
		out.RSSBytes, out.HeapBytes = out.RSSBytes+a.RSSBytes, out.HeapBytes+a.HeapBytes
		out.StampedReads, out.UnstampedReads = out.StampedReads+a.StampedReads, out.UnstampedReads+a.UnstampedReads
		out.Turn, out.TimerLag = out.Turn.Larger(a.Turn), out.TimerLag.Larger(a.TimerLag)
		out.Sizes.merge(a.Sizes)
		out.ZtunnelSizes.merge(a.ZtunnelSizes)
	}
	out.medians()
	out.Sizes, out.ZtunnelSizes = nil, nil
	out.lagsOf(parts)
	return out
}

// lagsOf sets the read lag to the maximum over several fleets.
func (a *Account) lagsOf(parts []Part[Account]) {
	read := slices.DeleteFunc(slices.Clone(parts), func(p Part[Account]) bool { return p.Said.StampedReads+p.Said.UnstampedReads == 0 })
	if len(read) == 0 {
		read = parts
	}
	a.LagSource = LagKernel
	for _, p := range read {
		one := p.Said
		if one.LagCount == 0 { // unknown for this fleet, so unknown for all
			a.Lag, a.LagCount = record.Quantiles{}, 0
			return
		}
		a.Lag, a.LagCount = a.Lag.Larger(one.Lag), a.LagCount+one.LagCount
		if one.LagSource == LagTimer {
			a.LagSource = LagTimer
		}
	}
}

// OutageOf merges the outages of several fleets. The merged outage begins with the
// earliest of them.
func OutageOf(parts []Part[Outage]) Outage {
	out := Outage{SinceUnixNS: math.MaxInt64, NowUnixNS: math.MaxInt64, LostNS: record.Times{}, BackNS: record.Times{}, Ended: map[string]int64{}}
	var down counts
	for i := range parts {
		p := &parts[i]
		o := p.Said
		out.SinceUnixNS, out.NowUnixNS = min(out.SinceUnixNS, p.at(o.SinceUnixNS)), min(out.NowUnixNS, p.at(o.NowUnixNS))
		out.LostNS, out.BackNS = append(out.LostNS, p.times(o.LostNS)...), append(out.BackNS, p.times(o.BackNS)...)
		out.Absent = append(out.Absent, p.numbers(o.Absent)...)
		out.Losses += o.Losses
		for why, n := range o.Ended {
			out.Ended[why] += n
		}
		down.add(o.DownCounts, o.Down.Max())
	}
	out.Down = down.counted()
	return out
}

// SightingsOf merges the sightings of one marker by the proxies of several fleets,
// ordered by time received.
func SightingsOf(parts []Part[MarkerSightings]) MarkerSightings {
	out := parts[0].Said
	if len(parts) == 1 {
		return out
	}
	out.Unknown, out.SearchedFromNS = 0, 0
	var all, stays []sighted
	for i := range parts {
		p := &parts[i]
		m := p.Said
		out.Unknown, out.SearchedFromNS = out.Unknown+m.Unknown, max(out.SearchedFromNS, p.at(m.SearchedFromNS))
		all = p.entries(all, &m.Columns)
		if m.Stays != nil {
			stays = p.entries(stays, m.Stays)
		}
	}
	out.Columns, out.Stays = inOrder(all), nil
	if len(stays) > 0 {
		one := inOrder(stays)
		out.Stays = &one
	}
	return out
}

// sighted is one row of the columns of sightings.
type sighted struct {
	proxy           int32
	received, acked int64
}

func (p *Part[T]) entries(to []sighted, c *Columns) []sighted {
	for i, proxy := range c.Proxy {
		to = append(to, sighted{proxy + int32(p.First), p.at(c.ReceivedNS[i]), p.at(c.AckedNS[i])})
	}
	return to
}

func inOrder(all []sighted) Columns {
	slices.SortStableFunc(all, func(a, b sighted) int { return cmp.Compare(a.received, b.received) })
	out := new(Columns).first(0)
	for _, s := range all {
		out.add(s.proxy, s.received, s.acked)
	}
	return out
}

// sizesOfAll counts proxies by namespace, type and the number of bytes that they hold.
type sizesOfAll map[string]map[string]map[int64]int

func (s sizesOfAll) add(namespace, kind string, bytes int64, n int) {
	if s[namespace] == nil {
		s[namespace] = map[string]map[int64]int{}
	}
	if s[namespace][kind] == nil {
		s[namespace][kind] = map[int64]int{}
	}
	s[namespace][kind][bytes] += n
}

func (s sizesOfAll) merge(other sizesOfAll) {
	for namespace, kinds := range other {
		for kind, sizes := range kinds {
			for bytes, n := range sizes {
				s.add(namespace, kind, bytes, n)
			}
		}
	}
}

// medians returns the median sizes by type, over all proxies and for each namespace.
func (s sizesOfAll) medians() (all map[string]int64, by map[string]map[string]int64) {
	all, by = map[string]int64{}, map[string]map[string]int64{}
	sum := sizesOfAll{}
	for namespace, kinds := range s {
		by[namespace] = map[string]int64{}
		for kind, sizes := range kinds {
			by[namespace][kind] = medianOf(sizes)
			for bytes, n := range sizes {
				sum.add("", kind, bytes, n)
			}
		}
	}
	for kind, sizes := range sum[""] {
		all[kind] = medianOf(sizes)
	}
	return all, by
}

// medianOf returns the median (the upper one of an even count) of values given with
// their frequencies.
func medianOf(values map[int64]int) int64 {
	total := 0
	for _, n := range values {
		total += n
	}
	rank := total / 2
	for _, v := range slices.Sorted(maps.Keys(values)) {
		if rank -= values[v]; rank < 0 {
			return v
		}
	}
	return 0
}
