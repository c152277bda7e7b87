package xds

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/meshtrial/meshtrial/record"
)

// Part is what one of several fleets says that are one together (see [Spec.Split]).
// Taken together, proxies are numbered over all of them, and times are by the clock of
// the first. Parts are in the order of their proxies.
type Part[T any] struct {
	First   int   // number of its first proxy
	AheadNS int64 // how far its clock is ahead of the first one's
	Said    T
}

// at is a time of a part's by the first one's clock; 0 and [record.Never] are none.
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

// StatusOf is how several fleets stand together.
func StatusOf(parts []Part[Status]) Status {
	out := Status{NowUnixNS: math.MaxInt64, Markers: math.MaxInt}
	for i := range parts {
		p := &parts[i]
		s := p.Said
		out.Proxies, out.Gateways, out.Ztunnels = out.Proxies+s.Proxies, out.Gateways+s.Gateways, out.Ztunnels+s.Ztunnels
		out.Connected, out.Synced, out.EverSynced = out.Connected+s.Connected, out.Synced+s.Synced, out.EverSynced+s.EverSynced
		out.LastMessageUnixNS, out.LastChangeUnixNS = max(out.LastMessageUnixNS, p.at(s.LastMessageUnixNS)), max(out.LastChangeUnixNS, p.at(s.LastChangeUnixNS))
		out.NowUnixNS, out.Markers = min(out.NowUnixNS, p.at(s.NowUnixNS)), min(out.Markers, s.Markers)
		out.LastError = cmp.Or(out.LastError, s.LastError)
		for why, n := range s.Waiting {
			if out.Waiting == nil {
				out.Waiting = map[string]int{}
			}
			out.Waiting[why] += n
		}
	}
	return out
}

// AccountOf is the account of several fleets: the sum of what they counted, and how
// late the latest of them was, at each quantile. One that was sent nothing says nothing
// of that, where another one was. Convergence begins with the first proxy of each fleet
// and is not taken together. Sidecars are held against the ztunnels of their own fleet.
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
			out.Wire[name] = plus(out.Wire[name], w)
		}
		for name, w := range a.ZtunnelWire {
			if out.ZtunnelWire == nil {
				out.ZtunnelWire = map[string]record.Wire{}
			}
			out.ZtunnelWire[name] = plus(out.ZtunnelWire[name], w)
		}
		for why, n := range a.Reconnects {
			out.Reconnects[why] += n
		}
		out.StoppedReading, out.StoppedLost, out.UnreadBytes = out.StoppedReading+a.StoppedReading, out.StoppedLost+a.StoppedLost, out.UnreadBytes+a.UnreadBytes
		out.Errors, out.CPU = out.Errors+a.Errors, out.CPU.Plus(a.CPU)
		out.RSSBytes, out.HeapBytes = out.RSSBytes+a.RSSBytes, out.HeapBytes+a.HeapBytes
		out.StampedReads, out.UnstampedReads = out.StampedReads+a.StampedReads, out.UnstampedReads+a.UnstampedReads
		out.Turn, out.TimerLag = out.Turn.Larger(a.Turn), out.TimerLag.Larger(a.TimerLag)
		out.Sizes.merge(a.Sizes)
		out.ZtunnelSizes.merge(a.ZtunnelSizes)
		out.Behind = out.Behind.plus(a.Behind)
	}
	out.medians()
	out.Sizes, out.ZtunnelSizes = nil, nil
	out.lagsOf(parts)
	return out
}

// lagsOf fills in how late the latest of several fleets was to read.
func (a *Account) lagsOf(parts []Part[Account]) {
	read := slices.DeleteFunc(slices.Clone(parts), func(p Part[Account]) bool { return p.Said.StampedReads+p.Said.UnstampedReads == 0 })
	if len(read) == 0 {
		read = parts
	}
	a.LagSource = LagKernel
	for _, p := range read {
		one := p.Said
		if one.LagCount == 0 { // of this one nothing is known
			a.Lag, a.LagCount = record.Quantiles{}, 0
			return
		}
		a.Lag, a.LagCount = a.Lag.Larger(one.Lag), a.LagCount+one.LagCount
		if one.LagSource == LagTimer {
			a.LagSource = LagTimer
		}
	}
}

func plus(a, b record.Wire) record.Wire {
	return record.Wire{
		Responses: a.Responses + b.Responses, Bytes: a.Bytes + b.Bytes, Resources: a.Resources + b.Resources,
		Identical: a.Identical + b.Identical, IdenticalBytes: a.IdenticalBytes + b.IdenticalBytes,
		Removed: a.Removed + b.Removed, Acks: a.Acks + b.Acks, Nacks: a.Nacks + b.Nacks,
	}
}

// OutageOf is what became of the streams of several fleets. It began when it did for
// the first of them.
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

// SightingsOf are the sightings of one marker by the proxies of several fleets, in the
// order of their times.
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
		all = p.entries(all, m.Proxy, m.ReceivedNS, m.AckedNS)
		if m.Stays != nil {
			stays = p.entries(stays, m.Stays.Proxy, m.Stays.ReceivedNS, m.Stays.AckedNS)
		}
	}
	out.Proxy, out.ReceivedNS, out.AckedNS = inOrder(all)
	if out.Stays = nil; len(stays) > 0 {
		out.Stays = &Stays{}
		out.Stays.Proxy, out.Stays.ReceivedNS, out.Stays.AckedNS = inOrder(stays)
	}
	return out
}

// sighted is an entry of columns of sightings.
type sighted struct {
	proxy           int32
	received, acked int64
}

func (p *Part[T]) entries(to []sighted, proxies []int32, received, acked []int64) []sighted {
	for i, proxy := range proxies {
		to = append(to, sighted{proxy + int32(p.First), p.at(received[i]), p.at(acked[i])})
	}
	return to
}

func inOrder(all []sighted) (proxies []int32, received []int64, acked record.Times) {
	slices.SortStableFunc(all, func(a, b sighted) int { return cmp.Compare(a.received, b.received) })
	proxies, received, acked = make([]int32, len(all)), make([]int64, len(all)), make(record.Times, len(all))
	for i, s := range all {
		proxies[i], received[i], acked[i] = s.proxy, s.received, s.acked
	}
	return proxies, received, acked
}

// sizesOfAll says how many proxies hold how many bytes, by namespace and type.
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

// medians are those over all proxies by type, and over the proxies of each namespace.
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

// medianOf is the median of values that occur so often, of an even number the upper.
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
