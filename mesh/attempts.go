package mesh

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/internal/accesslog"
)

// AttemptLogger is a mesh whose sidecars can log every attempt at an endpoint, including
// retries. A proxy's usual access log has one line per request, which names only the last
// endpoint. Its statistics count by endpoint, but lose an endpoint's count with its address.
type AttemptLogger interface {
	// AttemptLog returns the object that makes a workload's sidecar write a line in
	// AttemptFormat for each attempt at a Service's port, and one in RequestFormat for each
	// failed request, to its standard output.
	AttemptLog(w Workload, port int) *unstructured.Unstructured
	// LogContainer names the container whose output has the lines.
	LogContainer() string
}

// Formats of the lines, by Envoy's command operators.
// See envoyproxy.io/docs, Access logging, Command operators.
const (
	attemptWord   = "mm-attempt"
	requestWord   = "mm-request"
	lineFields    = " %START_TIME(%s.%6f)% %DURATION% %UPSTREAM_HOST% %RESPONSE_CODE% %RESPONSE_FLAGS% %REQ(X-REQUEST-ID)%\n"
	AttemptFormat = attemptWord + lineFields
	RequestFormat = requestWord + lineFields
)

// AttemptLine is a line of this log.
type AttemptLine struct {
	Request bool  // about a failed request rather than an attempt
	StartNS int64 // Unix time by the proxy's clock, with microsecond resolution
	TookMS  int64
	// Host is the endpoint's address; the zero value if none was chosen.
	Host  netip.AddrPort
	Code  int    // 0 without a response
	Flags string // Envoy's response flags, "-" for none
	ID    string // of the request, the same in all its attempts
}

// OK reports whether an endpoint answered without an error.
func (l AttemptLine) OK() bool { return l.Flags == "-" && l.Code >= 100 && l.Code < 400 }

// Unconnected reports whether the attempt ended without a connection: flag UF, upstream
// connection failure, which includes its timeout. See envoyproxy.io/docs, Access logging,
// RESPONSE_FLAGS.
func (l AttemptLine) Unconnected() bool {
	return slices.Contains(strings.Split(l.Flags, ","), "UF")
}

// GivenUp reports whether the attempt ended without a response or a reason because its caller
// went away.
func (l AttemptLine) GivenUp() bool { return l.Flags == "-" && l.Code == 0 }

// ParseAttempt parses a line of a sidecar's output. ours is false for other lines; an error
// means that the line is damaged.
func ParseAttempt(line string) (l AttemptLine, ours bool, err error) {
	fields := strings.Fields(line)
	if len(fields) == 0 || fields[0] != attemptWord && fields[0] != requestWord {
		return l, false, nil
	}
	fail := func(what string) (AttemptLine, bool, error) {
		return AttemptLine{}, true, fmt.Errorf("log of attempts: %s in %.200q", what, line)
	}
	if len(fields) != 7 {
		return fail("want 7 fields")
	}
	l = AttemptLine{Request: fields[0] == requestWord, Flags: fields[5], ID: fields[6]}
	seconds, micros, ok := strings.Cut(fields[1], ".")
	s, err := strconv.ParseInt(seconds, 10, 64)
	us, errUS := strconv.ParseUint(micros, 10, 32)
	if !ok || err != nil || errUS != nil || len(micros) != 6 || s < 0 || s > 1<<33 {
		return fail("no time")
	}
	l.StartNS = s*1e9 + int64(us)*1e3
	if fields[2] != "-" {
		if l.TookMS, err = strconv.ParseInt(fields[2], 10, 64); err != nil || l.TookMS < 0 {
			return fail("no duration")
		}
	}
	if fields[3] != "-" {
		if l.Host, err = netip.ParseAddrPort(accesslog.Address(fields[3])); err != nil {
			return fail("no address")
		}
	}
	if fields[4] != "-" {
		if l.Code, err = strconv.Atoi(fields[4]); err != nil || l.Code < 0 || l.Code > 999 {
			return fail("no status code")
		}
	}
	return l, true, nil
}
