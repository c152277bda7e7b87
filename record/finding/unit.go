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
	UnitSecondsPerChange = "s/change" // proxy-seconds; no SI prefix makes the unit more readable
	UnitChanges          = "changes"
	UnitResources        = "resources"
	UnitRequests         = "requests"
	UnitConnections      = "connections"
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
	UnitRatioPerHour     = "ratio/h" // relative growth of a value per hour
	UnitPerSecond        = "1/s"
	UnitThroughput       = "rps"
	UnitRequestRate      = "requests/s"
	UnitBytesPerRate     = "bytes/rps"

	// UnitMoney stands for a currency per month that only the study knows, and UnitLevel
	// for the unit of a factor's levels.
	UnitMoney = "money"
	UnitLevel = "of the factor"
)

// Counts reports whether a unit counts things, which are whole numbers in every trial.
func Counts(unit string) bool {
	return slices.Contains([]string{UnitPushes, UnitMissed, UnitChanges, UnitResources, UnitGoroutines, UnitRequests, UnitConnections, UnitRoutes, UnitWrites, UnitStreams}, unit)
}

// Exact reports whether figures of a unit are exact counts, or exact counts per change
// or request, without the resolution of a clock or a histogram.
func Exact(unit string) bool {
	return Counts(unit) || slices.Contains([]string{UnitPushesPerChange, UnitBytesPerChange, UnitBytesRequest, UnitPackets, UnitAttempts}, unit)
}

// scaled is an accepted unit of a figure and its size in the finding's own unit.
type scaled struct {
	name string
	one  float64
}

var (
	scaledTimes = []scaled{{"us", 1}, {"ms", 1000}, {"s", 1_000_000}}
	scaledBytes = []scaled{{"bytes", 1}, {"kB", 1000}, {"MB", 1_000_000}, {"KiB", 1 << 10}, {"MiB", 1 << 20}}
)

// scales lists the accepted units of figures, by the finding's own unit.
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

// Scale returns the size of a unit in a finding's own unit. It returns false if the
// finding does not accept the unit.
func Scale(own, unit string) (one float64, ok bool) {
	for _, u := range scales[own] {
		if u.name == unit {
			return u.one, true
		}
	}
	return 1, unit == own
}

// Scales lists the units in which figures of a finding can be given.
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
