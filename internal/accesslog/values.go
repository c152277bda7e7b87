package accesslog

import (
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Missing reports whether a value is absent: Envoy writes "-" in text, null or nothing in JSON.
func Missing(value []byte) bool {
	return len(value) == 0 || len(value) == 1 && value[0] == '-'
}

// Number parses a non-negative whole number, written as text or as a JSON number.
func Number(text string) (n int64, ok bool) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, n >= 0
	}
	// Pipelines write 200.0 and 2e2.
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f < 0 || f > 1<<53 || f != math.Trunc(f) {
		return 0, false
	}
	return int64(f), true
}

// StatusCode parses a response code. 0 means a connection without requests, or a request
// without a response.
func StatusCode(text string) (code int, ok bool) {
	n, ok := Number(text)
	return int(n), ok && (n == 0 || n >= 100 && n <= 999)
}

// layouts are the layouts of START_TIME in custom formats. Without a zone it is UTC. See
// envoyproxy.io/docs, Access logging, START_TIME.
var layouts = []string{
	time.RFC3339Nano,
	"2006-01-02T15:04:05Z0700",
	"2006/01/02T15:04:05Z0700",
	"2006-01-02 15:04:05Z07:00",
	"2006-01-02 15:04:05 Z0700",
	"2006-01-02T15:04:05",
	"2006-01-02 15:04:05",
	"2006/01/02 15:04:05",
	"02/Jan/2006:15:04:05 -0700",
}

// lastYear limits times: a later one is not a time.
const lastYear = 2200

// Time parses when a request began, in nanoseconds since 1970: RFC 3339 or another of layouts,
// optionally in brackets, or the time since 1970 with or without decimals. The magnitude
// distinguishes seconds, milliseconds, microseconds and nanoseconds.
func Time(text string) (ns int64, ok bool) {
	if ns, ok := epoch(text); ok {
		return ns, true
	}
	text = strings.Trim(text, " []")
	for _, layout := range layouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UnixNano(), t.Year() >= 1970 && t.Year() < lastYear
		}
	}
	// A date followed by the epoch time, as in Envoy's own example.
	if date, seconds, found := strings.Cut(text, " "); found && len(date) > len("2006-01-02") && !strings.Contains(seconds, ":") {
		text = seconds
	}
	return epoch(text)
}

// epoch parses the time since 1970 to the nanosecond.
func epoch(text string) (ns int64, ok bool) {
	whole, fraction, _ := strings.Cut(text, ".")
	n, err := strconv.ParseUint(whole, 10, 63)
	if err != nil || strings.ContainsAny(fraction, "eE") {
		f, err := strconv.ParseFloat(text, 64) // for example 1.79e+09
		if err != nil || !strings.ContainsAny(text, "eE") || f < 0 || f > math.MaxInt64/2 {
			return 0, false
		}
		whole, part := math.Modf(f)
		unit := unitOf(uint64(f))
		if whole > float64(math.MaxInt64/2/unit) {
			return 0, false
		}
		return inRange(int64(whole)*unit + int64(part*float64(unit)))
	}
	unit := unitOf(n)
	if n > math.MaxInt64/uint64(unit) {
		return 0, false
	}
	part := int64(0)
	for i := range 9 {
		part *= 10
		if i < len(fraction) {
			part += int64(fraction[i] - '0')
		}
	}
	for i := range len(fraction) {
		if fraction[i] < '0' || fraction[i] > '9' {
			return 0, false
		}
	}
	return inRange(int64(n)*unit + part*unit/1e9)
}

func inRange(ns int64) (int64, bool) {
	return ns, ns >= 0 && time.Unix(0, ns).UTC().Year() < lastYear
}

// unitOf returns the number of nanoseconds in the unit of a time since 1970. Read as seconds,
// the smallest milliseconds would be in the year 5138; as milliseconds, they are in 1973.
func unitOf(n uint64) int64 {
	switch {
	case n < 1e11:
		return 1e9
	case n < 1e14:
		return 1e6
	case n < 1e17:
		return 1e3
	}
	return 1
}

// Address returns the address IP:PORT of an upstream host. A proxy of an ambient mesh tunnels
// to it through an internal listener, and then writes envoy://LISTENER/IP:PORT, as in
// envoy://connect_originate/10.1.0.7:8080. Address returns any other address unchanged. See
// istio.io/istio, pilot/pkg/networking/util, BuildInternalLbEndpoint.
func Address(host string) string {
	internal, found := strings.CutPrefix(host, "envoy://")
	if !found {
		return host
	}
	_, id, _ := strings.Cut(internal, "/")
	if _, err := netip.ParseAddrPort(id); err != nil {
		return host
	}
	return id
}
