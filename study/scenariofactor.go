package study

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/fault"
	"github.com/meshtrial/meshtrial/protocol"
	"github.com/meshtrial/meshtrial/record"
)

// Names of the factors of resilience, beside those that they share with the
// data plane.
const (
	FactorMesh             = "mesh"
	FactorRetries          = "retries"
	FactorRetryOn          = "retry_on"
	FactorPerTryTimeout    = "per_try_timeout"
	FactorRequestTimeout   = "request_timeout"
	FactorOutlierDetection = "outlier_detection"
	FactorCircuitBreaker   = "circuit_breaker"
	FactorLoadBalancer     = "load_balancer"
	FactorDrain            = "drain"
	FactorSkip             = "skip"
)

// Levels that code compares with.
const (
	LevelOff = "off"
)

// HashKeys is how many values the header has that ring_hash hashes: request n
// of a client carries the value n modulo HashKeys.
const HashKeys = 1000

// scenarioFactors are the factors of resilience, in the order reports use.
var scenarioFactors = func() []Factor {
	shared := func(name, doc, def string) Factor {
		f := Factor{}
		for _, of := range factors {
			if of.Name == name {
				f = of
			}
		}
		if f.Kind = ""; doc != "" {
			f.Doc = doc
		}
		if def != "" {
			f.Default = def
		}
		return f
	}
	rate := shared(FactorRate, "Requests scheduled a second by all clients together (open loop).", "100")
	rate.Examples = []string{"100", "1000"}
	rate.parse = func(s string) (string, *complaint) {
		if s == RateMax {
			return "", complain("a number of requests a second", "a scenario needs a rate, max has none")
		}
		return rateLevel(s)
	}
	own := func(f Factor) Factor { f.Kind = Resilience; return f }
	text := func(name string, scope Scope, def, doc, pattern string, parse func(string) (string, *complaint), examples ...string) Factor {
		return own(controlText(name, scope, def, doc, pattern, parse, examples...))
	}
	return []Factor{
		own(choice(FactorMesh, ScopeTopology, MeshIstio, "The mesh whose sidecars the pods have.", MeshNone, MeshIstio, MeshLinkerd)),
		rate,
		shared(FactorConnections, "Connections each client keeps.", "8"),
		shared(FactorArrival, "", ""),
		own(choice(FactorProtocol, ScopeLoad, protocol.HTTP1, "What the clients speak to the first service.", protocol.Names(protocol.Calls)...)),
		shared(FactorPayload, "", "0B"),
		text(FactorRetries, ScopeMesh, LevelDefault,
			"Attempts that the mesh makes after one that failed: its own default, off, or a number.", `^(default|off|[1-9][0-9]?)$`, retriesLevel, "default", "off", "3"),
		text(FactorRetryOn, ScopeMesh, LevelDefault,
			"What the mesh takes for a failure to be tried again, as Istio's retryOn says it, with a comma between.", `^(default|[a-z0-9-]+(,[a-z0-9-]+)*)$`, retryOnLevel, "default", "5xx,reset,connect-failure"),
		text(FactorPerTryTimeout, ScopeMesh, LevelNone,
			"How long an attempt of the mesh may take, or none.", durationPattern, timeoutLevel, "none", "250ms"),
		text(FactorRequestTimeout, ScopeMesh, LevelNone,
			"How long the mesh gives a request with all its attempts, or none.", durationPattern, timeoutLevel, "none", "1s"),
		text(FactorOutlierDetection, ScopeMesh, LevelOff,
			"When a proxy ejects an endpoint: off, or errors (consecutive 5xx), interval, ejection (time) and max (share of endpoints).",
			`^(off|(errors|interval|ejection|max)=.*)$`, outlierLevel, LevelOff, "errors=5 interval=1s ejection=5s max=100%"),
		text(FactorCircuitBreaker, ScopeMesh, LevelOff,
			"What a proxy lets through to a service at once: off, or connections, pending (requests that wait), requests (active, HTTP/2) and retries.",
			`^(off|(connections|pending|requests|retries)=.*)$`, breakerLevel, LevelOff, "connections=10 pending=5"),
		own(choice(FactorLoadBalancer, ScopeMesh, LevelDefault, "How a proxy chooses an endpoint; ring_hash hashes the header x-meshtrial-key.",
			LevelDefault, "round_robin", "least_request", "random", "ring_hash")),
		own(choice(FactorMTLS, ScopeServer, MTLSPermissive, "What the services' sidecars accept: strict (mutual TLS only), permissive (plain text too), off. Callers with a sidecar follow.",
			MTLSStrict, MTLSPermissive, MTLSOff)),
		own(choice(FactorDrain, ScopeServer, "true", "Whether workers drain when they are told to end: they serve on for a while, not ready, then finish what is under way. Otherwise they end at once.", "true", "false")),
		shareControl(FactorDebounceAfter),
		text(FactorSkip, ScopeTimeline, LevelNone,
			"Steps of the timeline that do not happen: none, or their names with a comma between. Variants differ by it in what happens.",
			`^(none|[a-z0-9-]+(,[a-z0-9-]+)*)$`, skipLevel, LevelNone, "warned"),
	}
}()

// shareControl is a lever of the control plane that studies of resilience
// have too.
func shareControl(name string) Factor {
	for _, f := range controlFactors {
		if f.Name == name {
			f.Kind = ""
			return f
		}
	}
	panic("no factor " + name)
}

func retriesLevel(s string) (string, *complaint) {
	if s == LevelDefault || s == LevelOff {
		return s, nil
	}
	n, c := wholeNumber(s, 1, 99)
	if c != nil {
		c.hint = "a number of attempts from 1 to 99, off, or default"
		return "", c
	}
	return strconv.FormatInt(n, 10), nil
}

// skipLevel reads a list of names of steps and puts it in one order.
func skipLevel(s string) (string, *complaint) {
	if s == LevelNone {
		return s, nil
	}
	names := strings.Split(s, ",")
	for i, name := range names {
		if names[i] = strings.TrimSpace(name); !reName.MatchString(names[i]) {
			return "", complain("as warned,sale, or none", "%q is no name of a step", clip(name, 40))
		}
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ","), nil
}

// skipped are the names of the steps that a level of [FactorSkip] leaves out.
func skipped(level string) []string {
	if level == LevelNone || level == NotApplicable || level == "" {
		return nil
	}
	return strings.Split(level, ",")
}

// TimelineOf is the timeline as it happens in a cell, without the steps that
// the cell skips.
func (c *Scenario) TimelineOf(cell record.Cell) fault.Timeline {
	return c.Timeline.Without(skipped(cell[FactorSkip]))
}

var reRetryOn = regexp.MustCompile(`^[a-z0-9-]+(,[a-z0-9-]+)*$`)

func retryOnLevel(s string) (string, *complaint) {
	if !reRetryOn.MatchString(s) || len(s) > 200 {
		return "", complain("as 5xx,reset,connect-failure", "%q names no conditions", clip(s, 40))
	}
	return s, nil
}

func timeoutLevel(s string) (string, *complaint) {
	if s == LevelNone {
		return s, nil
	}
	d, c := parseDuration(s)
	switch {
	case c != nil:
		return "", c
	case d < time.Millisecond || d > time.Hour:
		return "", complain("from 1ms to 1h, or none", "%s is out of range", s)
	}
	return formatDuration(d), nil
}

// Settings are the parts of a level such as "errors=5 interval=1s".
type Settings map[string]string

// ParseSettings reads a level of outlier_detection or circuit_breaker; nil
// for off.
func ParseSettings(level string) Settings {
	if level == LevelOff || level == NotApplicable {
		return nil
	}
	out := Settings{}
	for _, part := range strings.Fields(level) {
		name, value, _ := strings.Cut(part, "=")
		out[name] = value
	}
	return out
}

type setting struct {
	name  string
	parse func(string) (string, *complaint)
}

func atLeastOne(s string) (string, *complaint) {
	n, c := wholeNumber(s, 1, 1_000_000)
	if c != nil {
		return "", c
	}
	return strconv.FormatInt(n, 10), nil
}

func shareLevel(s string) (string, *complaint) {
	r, c := parseRatio(s)
	if c == nil && (r <= 0 || r > 1) {
		c = complain("from 1% to 100%", "%s is out of range", s)
	}
	if c != nil {
		return "", c
	}
	return r.String(), nil
}

func outlierLevel(s string) (string, *complaint) {
	return settingsLevel(s, "errors=5 interval=1s ejection=5s max=100%",
		setting{"errors", atLeastOne}, setting{"interval", timeoutLevel}, setting{"ejection", timeoutLevel}, setting{"max", shareLevel})
}

func breakerLevel(s string) (string, *complaint) {
	return settingsLevel(s, "connections=10 pending=5",
		setting{"connections", atLeastOne}, setting{"pending", atLeastOne}, setting{"requests", atLeastOne}, setting{"retries", atLeastOne})
}

// settingsLevel reads name=value pairs and puts them in one order.
func settingsLevel(s, example string, known ...setting) (string, *complaint) {
	if s == LevelOff {
		return s, nil
	}
	var names []string
	for _, k := range known {
		names = append(names, k.name)
	}
	values := map[string]string{}
	for _, part := range strings.Fields(s) {
		name, value, ok := strings.Cut(part, "=")
		i := slices.Index(names, name)
		switch {
		case !ok:
			return "", complain("as "+example+", or off", "%q is no setting", clip(part, 40))
		case i < 0:
			return "", complain(errs.Suggest(name, names), "unknown setting %q", clip(name, 40))
		case values[name] != "":
			return "", complain("", "%s is given twice", name)
		}
		value, c := known[i].parse(value)
		if c == nil && value == LevelNone {
			c = complain("leave it out", "%s=none says nothing", name)
		}
		if c != nil {
			c.msg = name + ": " + c.msg
			return "", c
		}
		values[name] = value
	}
	if len(values) == 0 {
		return "", complain("as "+example+", or off", "no setting is given")
	}
	var out []string
	for _, name := range names {
		if v := values[name]; v != "" {
			out = append(out, name+"="+v)
		}
	}
	return strings.Join(out, " "), nil
}

// meshLevers mean nothing without a mesh.
var meshLevers = []string{FactorRetries, FactorRetryOn, FactorPerTryTimeout, FactorRequestTimeout, FactorOutlierDetection, FactorCircuitBreaker, FactorLoadBalancer, FactorMTLS, FactorDebounceAfter}

func scenarioEffective(cell record.Cell) record.Cell {
	out := cell.With(nil)
	switch {
	case cell[FactorMesh] == MeshNone:
		for _, name := range meshLevers {
			out[name] = NotApplicable
		}
	case cell[FactorMesh] == MeshLinkerd:
		out[FactorDebounceAfter] = NotApplicable
	}
	if cell[FactorRetries] == LevelOff {
		out[FactorRetryOn], out[FactorPerTryTimeout] = NotApplicable, NotApplicable
	}
	return out
}

// ScenarioLevels is a cell of a study of resilience with its levels as
// values.
type ScenarioLevels struct {
	Mesh        string
	RateRPS     float64 // of all clients together
	Connections int     // of each client
	Arrival     string
	Protocol    string
	Payload     int64
	Drain       bool
	MTLS        string // of the services' sidecars; "" without any
}

// ScenarioOf reads a cell of a study of resilience. It fails only for a cell
// that did not come from such a plan.
func ScenarioOf(cell record.Cell) (ScenarioLevels, error) {
	fail := func(name string, err error) (ScenarioLevels, error) {
		return ScenarioLevels{}, fmt.Errorf("cell %s: %s: %w", cell.Key(), name, err)
	}
	out := ScenarioLevels{Mesh: cell[FactorMesh], Arrival: cell[FactorArrival], Protocol: cell[FactorProtocol], Drain: cell[FactorDrain] == "true"}
	if out.MTLS = cell[FactorMTLS]; out.MTLS == NotApplicable {
		out.MTLS = ""
	}
	var err error
	if out.RateRPS, err = strconv.ParseFloat(cell[FactorRate], 64); err != nil {
		return fail(FactorRate, err)
	}
	if out.Connections, err = strconv.Atoi(cell[FactorConnections]); err != nil {
		return fail(FactorConnections, err)
	}
	payload, c := parseBytes(cell[FactorPayload])
	if c != nil {
		return fail(FactorPayload, c)
	}
	out.Payload = int64(payload)
	return out, nil
}
