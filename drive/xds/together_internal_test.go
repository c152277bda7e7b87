package xds

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Divided proxies are, in order, all proxies again, divided evenly.
func TestSplit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		spec := DefaultSpec("127.0.0.1:1")
		spec.MaxConnecting = rapid.IntRange(1, 200).Draw(rt, "connecting")
		for i := range rapid.IntRange(1, 60).Draw(rt, "proxies") {
			spec.Proxies = append(spec.Proxies, Proxy{Name: fmt.Sprintf("p-%d", i), Namespace: "n", IP: "10.0.0.1"})
		}
		n := rapid.IntRange(1, len(spec.Proxies)).Draw(rt, "fleets")
		parts, err := spec.Split(n)
		must.OK(rt, err)
		var all []Proxy
		connecting, seeds := 0, map[uint64]bool{}
		for i, p := range parts {
			must.OK(rt, p.Validate())
			if at := Divide(len(spec.Proxies), n); len(all) != at[i] || len(p.Proxies) != at[i+1]-at[i] || len(p.Proxies) < len(spec.Proxies)/n || len(p.Proxies) > len(spec.Proxies)/n+1 {
				rt.Errorf("fleet %d of %d has %d of %d proxies, after %d", i, n, len(p.Proxies), len(spec.Proxies), len(all))
			}
			all = append(all, p.Proxies...)
			connecting += p.MaxConnecting
			seeds[p.Seed] = true
		}
		if !reflect.DeepEqual(all, spec.Proxies) || connecting != max(n, spec.MaxConnecting) || len(seeds) != n {
			rt.Errorf("%d of %d proxies, of which %d connect at a time, and %d seeds", len(all), len(spec.Proxies), connecting, len(seeds))
		}
	})
	spec := DefaultSpec("127.0.0.1:1")
	spec.Proxies = []Proxy{{Name: "p", Namespace: "n", IP: "10.0.0.1"}}
	for _, n := range []int{0, 2} {
		if _, err := spec.Split(n); errs.Code(err) != errs.CodeUsage {
			t.Errorf("one proxy in %d fleets: %v", n, err)
		}
	}
}

// times draws n different times, a few of which are missing.
func times(rt *rapid.T, name string, n int) []int64 {
	out := make([]int64, n)
	for i, at := range rapid.SliceOfNDistinct(rapid.Int64Range(1e15, 1e15+1e6), n, n, rapid.ID).Draw(rt, name) {
		if out[i] = at; rapid.IntRange(0, 4).Draw(rt, name+" none") == 0 {
			out[i] = record.Never
		}
	}
	return out
}

// parted assigns the data of proxies to their fleets, which number proxies and measure
// time separately.
type parted struct {
	at    []int
	ahead []int64
}

func shared(rt *rapid.T, proxies int) parted {
	n := rapid.IntRange(1, proxies).Draw(rt, "fleets")
	p := parted{at: Divide(proxies, n), ahead: make([]int64, n)}
	for i := 1; i < n; i++ {
		p.ahead[i] = rapid.Int64Range(-1e12, 1e12).Draw(rt, "ahead")
	}
	return p
}

// of returns the fleet of a proxy.
func (p parted) of(proxy int) int {
	i, found := slices.BinarySearch(p.at, proxy)
	if !found {
		i--
	}
	return i
}

// here converts a time of fleet i to the first one's clock.
func (p parted) here(i int, ns int64) int64 {
	if ns == 0 || ns == record.Never {
		return ns
	}
	return ns + p.ahead[i]
}

// The combined sightings of several fleets, each by its own clock, are those that one
// fleet would have had.
func TestSightingsTogether(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		proxies := rapid.IntRange(1, 20).Draw(rt, "proxies")
		fleets := shared(rt, proxies)
		seen := rapid.SliceOfDistinct(rapid.Int32Range(0, int32(proxies-1)), rapid.ID[int32]).Draw(rt, "seen")
		again := rapid.SliceOf(rapid.Int32Range(0, int32(proxies-1))).Draw(rt, "seen again")
		columns := func(name string, proxies []int32) Columns {
			received := rapid.SliceOfNDistinct(rapid.Int64Range(1e15, 1e15+1e6), len(proxies), len(proxies), rapid.ID).Draw(rt, name)
			slices.Sort(received)
			c := Columns{proxies, received, times(rt, name+" acknowledged", len(proxies))}
			return c.first(len(proxies))
		}
		want := MarkerSightings{Change: 3, Marker: 7, Type: "cds", Gone: true, Unknown: 5, SearchedFromNS: 1e15}
		want.Columns = columns("received", seen)
		if len(again) > 0 {
			stays := columns("again", again)
			want.Stays = &stays
		}
		parts := make([]Part[MarkerSightings], len(fleets.ahead))
		for i := range parts {
			searched := want.SearchedFromNS - int64(i)
			if i > 0 && rapid.Bool().Draw(rt, "since the start") {
				searched = 0
			}
			parts[i] = Part[MarkerSightings]{First: fleets.at[i], AheadNS: fleets.ahead[i], Said: MarkerSightings{Change: 3, Marker: 7, Type: "cds", Gone: true,
				Columns: new(Columns).first(0), SearchedFromNS: fleets.here(i, searched)}}
		}
		parts[len(parts)-1].Said.Unknown = 5
		for k, p := range want.Proxy {
			i := fleets.of(int(p))
			parts[i].Said.add(p-int32(fleets.at[i]), fleets.here(i, want.ReceivedNS[k]), fleets.here(i, want.AckedNS[k]))
		}
		for k, p := range again {
			i := fleets.of(int(p))
			if parts[i].Said.Stays == nil {
				parts[i].Said.Stays = &Columns{}
			}
			parts[i].Said.Stays.add(p-int32(fleets.at[i]), fleets.here(i, want.Stays.ReceivedNS[k]), fleets.here(i, want.Stays.AckedNS[k]))
		}
		if got := SightingsOf(parts); !reflect.DeepEqual(got, want) {
			rt.Errorf("%+v %+v\nwant %+v %+v", got, got.Stays, want, want.Stays)
		}
	})
}

// The account of several fleets is the sum of theirs, and the medians are over all
// proxies.
func TestAccountsTogether(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		proxies := rapid.IntRange(1, 20).Draw(rt, "proxies")
		fleets := shared(rt, proxies)
		parts := make([]Part[Account], len(fleets.ahead))
		for i := range parts {
			parts[i] = Part[Account]{First: fleets.at[i], AheadNS: fleets.ahead[i], Said: Account{Sizes: sizesOfAll{}, Wire: map[string]record.Wire{"cds": {Responses: int64(i), Nacks: 1}},
				Reconnects: map[string]int64{fmt.Sprint(i % 2): 1}, RSSBytes: 10, CPU: record.CPU{UserS: 1}, UnixNS: fleets.here(i, 1e15)}}
			parts[i].Said.Config, parts[i].Said.NamespaceConfig = map[string]int64{"cds": -1}, nil
		}
		whole := map[string][]int64{} // by namespace; "" for all
		for p := range proxies {
			a := &parts[fleets.of(p)].Said
			namespace, bytes := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "namespace"), rapid.Int64Range(0, 5).Draw(rt, "bytes")
			a.Sizes.add(namespace, "cds", bytes, 1)
			a.Proxies++
			whole[namespace], whole[""] = append(whole[namespace], bytes), append(whole[""], bytes)
		}
		for i := range parts {
			parts[i].Said.Config, parts[i].Said.NamespaceConfig = parts[i].Said.Sizes.medians()
		}
		got := AccountOf(parts)
		for namespace, all := range whole {
			slices.Sort(all)
			median := got.NamespaceConfig[namespace]["cds"]
			if namespace == "" {
				median = got.Config["cds"]
			}
			if median != all[len(all)/2] {
				rt.Errorf("the median of %v in %q is %d", all, namespace, median)
			}
		}
		n := int64(len(parts))
		if got.Proxies != proxies || got.Wire["cds"].Responses != n*(n-1)/2 || got.Wire["cds"].Nacks != n || got.Reconnects["0"]+got.Reconnects["1"] != n ||
			got.RSSBytes != 10*n || got.CPU.UserS != float64(n) || got.UnixNS != 1e15 || len(got.NamespaceConfig) != len(whole)-1 || got.Sizes != nil {
			rt.Errorf("%+v", got)
		}
	})
}

// Several fleets are as late as the latest of those that received something.
func TestLagsTogether(t *testing.T) {
	lag := func(p50, p99 float64) record.Quantiles { return record.QuantilesAt(0.5, p50, 0.99, p99, 1, p99) }
	read := Account{Lag: lag(1, 20), Turn: lag(9, 9), LagSource: LagKernel, LagCount: 7, StampedReads: 7}
	more := Account{Lag: lag(2, 10), Turn: lag(3, 30), LagSource: LagKernel, LagCount: 3, StampedReads: 3}
	idle := Account{Lag: lag(500, 600), LagSource: LagTimer, LagCount: 5}
	blind := Account{Lag: lag(4, 5), LagSource: LagTimer, LagCount: 5, UnstampedReads: 9}
	unknown := Account{LagSource: LagTimer}
	for name, tt := range map[string]struct {
		of     []Account
		lag    record.Quantiles
		source string
		count  int64
	}{
		"two":                     {[]Account{read, more}, lag(2, 20), LagKernel, 10},
		"one was sent nothing":    {[]Account{idle, read}, lag(1, 20), LagKernel, 7},
		"none was":                {[]Account{idle, idle}, lag(500, 600), LagTimer, 10},
		"one has no times":        {[]Account{read, blind}, lag(4, 20), LagTimer, 12},
		"of one nothing is known": {[]Account{unknown, unknown}, record.Quantiles{}, LagKernel, 0},
	} {
		var parts []Part[Account]
		for _, a := range tt.of {
			parts = append(parts, Part[Account]{Said: a})
		}
		got := AccountOf(parts)
		if got.Lag != tt.lag || got.LagSource != tt.source && tt.count > 0 || got.LagCount != tt.count {
			t.Errorf("%s: %+v by the %s, %d", name, got.Lag, got.LagSource, got.LagCount)
		}
	}
	if got := AccountOf([]Part[Account]{{Said: read}, {Said: more}}).Turn; got != lag(9, 30) {
		t.Errorf("turns %+v", got)
	}
}

// The combined outage of several fleets is that of one.
func TestOutagesTogether(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		proxies := rapid.IntRange(1, 20).Draw(rt, "proxies")
		fleets := shared(rt, proxies)
		want := Outage{SinceUnixNS: 1e15, NowUnixNS: 2e15, LostNS: times(rt, "lost", proxies), BackNS: times(rt, "back", proxies), Losses: int64(proxies),
			Ended: map[string]int64{"connection": int64(proxies)}, Absent: rapid.SliceOfDistinct(rapid.Int32Range(0, int32(proxies-1)), rapid.ID[int32]).Draw(rt, "absent")}
		slices.Sort(want.Absent)
		if len(want.Absent) == 0 {
			want.Absent = nil
		}
		var all histogram
		down := make([]histogram, len(fleets.ahead))
		parts := make([]Part[Outage], len(down))
		for i := range parts {
			later := int64(0)
			if i > 0 {
				later = rapid.Int64Range(0, 1e9).Draw(rt, "later")
			}
			parts[i] = Part[Outage]{First: fleets.at[i], AheadNS: fleets.ahead[i], Said: Outage{SinceUnixNS: fleets.here(i, want.SinceUnixNS+later),
				NowUnixNS: fleets.here(i, want.NowUnixNS+later), Ended: map[string]int64{}}}
		}
		for p := range proxies {
			i := fleets.of(p)
			o := &parts[i].Said
			o.LostNS, o.BackNS = append(o.LostNS, fleets.here(i, want.LostNS[p])), append(o.BackNS, fleets.here(i, want.BackNS[p]))
			o.Losses++
			o.Ended["connection"]++
			took := rapid.Int64Range(0, 1e12).Draw(rt, "down")
			all.add(took)
			down[i].add(took)
		}
		for _, p := range want.Absent {
			i := fleets.of(int(p))
			parts[i].Said.Absent = append(parts[i].Said.Absent, p-int32(fleets.at[i]))
		}
		for i := range parts {
			c := down[i].take(false)
			parts[i].Said.Down, parts[i].Said.DownCounts = c.counted(), c.short()
		}
		c := all.take(false)
		want.Down = c.counted()
		if got := OutageOf(parts); !reflect.DeepEqual(got, want) {
			rt.Errorf("%+v\nwant %+v", got, want)
		}
	})
}

// The combined status of several fleets is that of one: the last message is the latest
// of any, and only markers known to all count.
func TestStatusesTogether(t *testing.T) {
	got := StatusOf([]Part[Status]{
		{Said: Status{Proxies: 3, Gateways: 1, Connected: 3, Synced: 2, EverSynced: 3, LastMessageUnixNS: 100, LastChangeUnixNS: 90, NowUnixNS: 200, Markers: 4, Waiting: map[string]int{"dial": 1}}},
		{AheadNS: 50, Said: Status{Proxies: 2, Connected: 1, Synced: 1, EverSynced: 1, LastMessageUnixNS: 160, NowUnixNS: 240, Markers: 3, LastError: "refused", Waiting: map[string]int{"dial": 1, "storm": 1}}},
	})
	want := Status{Proxies: 5, Gateways: 1, Connected: 4, Synced: 3, EverSynced: 4, LastMessageUnixNS: 110, LastChangeUnixNS: 90, NowUnixNS: 190, Markers: 3,
		LastError: "refused", Waiting: map[string]int{"dial": 2, "storm": 1}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}
