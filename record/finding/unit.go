package finding

import "slices"

// Units of findings.
const (
	UnitMicroseconds = "us"
	UnitPerRequest   = "us/request"
	UnitBytes        = "bytes"
	UnitBytesRequest = "bytes/request"
	UnitPackets      = "packets/request"

	UnitPerChange        = "us/change"
	UnitBytesPerChange   = "bytes/change"
	UnitPushes           = "pushes"
	UnitPushesPerChange  = "pushes/change"
	UnitSecondsPerChange = "s/change" // proxy-seconds, which no factor of a thousand makes handier
	UnitChanges          = "changes"
	UnitResources        = "resources"
	UnitRequests         = "requests"
	UnitRoutes           = "routes"
	UnitWrites           = "writes"
	UnitAttempts         = "attempts/request"
	UnitMissed           = "missed" // change-proxy pairs
	UnitCores            = "cores"
	UnitMilliCPU         = "mCPU" // thousandths of a CPU
	UnitGoroutines       = "goroutines"
	UnitStreams          = "streams"
	UnitBytesPerSecond   = "bytes/s"
	UnitBytesPerHour     = "bytes/h"
	UnitRatio            = "ratio"
	UnitRatioPerHour     = "ratio/h" // of a value's own, each hour
	UnitPerSecond        = "1/s"
	UnitThroughput       = "rps"
	UnitRequestRate      = "requests/s"
	UnitBytesPerRate     = "bytes/rps"

	// UnitMoney stands for a currency per month that only the study knows,
	// UnitLevel for the unit of a factor's levels.
	UnitMoney = "money"
	UnitLevel = "of the factor"
)

// Counts reports whether a unit is of things, which are whole in every trial.
func Counts(unit string) bool {
	return slices.Contains([]string{UnitPushes, UnitMissed, UnitChanges, UnitResources, UnitGoroutines, UnitRequests, UnitRoutes, UnitWrites, UnitStreams}, unit)
}

// Exact says that figures of a unit are counted one by one, or are such a count for each
// change or request: no step of a clock or of a histogram is in them.
func Exact(unit string) bool {
	return Counts(unit) || slices.Contains([]string{UnitPushesPerChange, UnitBytesPerChange, UnitBytesRequest, UnitPackets, UnitAttempts}, unit)
}

// scaled is a unit that a figure may be given in, and what one of it is in the
// finding's own.
type scaled struct {
	name string
	one  float64
}

var (
	scaledTimes = []scaled{{"us", 1}, {"ms", 1000}, {"s", 1_000_000}}
	scaledBytes = []scaled{{"bytes", 1}, {"kB", 1000}, {"MB", 1_000_000}, {"KiB", 1 << 10}, {"MiB", 1 << 20}}
)

// scales are the units that a figure may be given in, by the finding's own.
var scales = map[string][]scaled{
	UnitMicroseconds:   scaledTimes,
	UnitPerRequest:     each(scaledTimes[:2], "/request"),
	UnitPerChange:      each(scaledTimes, "/change"),
	UnitBytes:          scaledBytes,
	UnitBytesPerChange: each(scaledBytes, "/change"),
}

func each(units []scaled, suffix string) []scaled {
	out := make([]scaled, len(units))
	for i, u := range units {
		out[i] = scaled{u.name + suffix, u.one}
	}
	return out
}

// Scale returns what one of a unit is in a finding's own; false if figures of
// the finding cannot be given in it.
func Scale(own, unit string) (one float64, ok bool) {
	for _, u := range scales[own] {
		if u.name == unit {
			return u.one, true
		}
	}
	return 1, unit == own
}

// Scales lists the units that figures of a finding can be given in.
func Scales(own string) []string {
	if scales[own] == nil {
		return []string{own}
	}
	var out []string
	for _, u := range scales[own] {
		out = append(out, u.name)
	}
	return out
}
