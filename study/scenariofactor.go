package study

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/lazyregexp"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/rate"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// Factors of resilience that only its trials know.
const (
	FactorDrain = "drain"
	FactorSkip  = "skip"
)

// HashKeys is how many values the header has that ring_hash hashes: request n
// of a client carries the value n modulo HashKeys.
const HashKeys = 1000

// scenarioFactors is the table of the factors of resilience, in the order
// reports use.
var scenarioFactors = []Factor{
	resilient(choice(FactorMesh, ScopeTopology, MeshIstio, "The mesh whose sidecars the pods have.", Meshes()...).
		labelled(says("%s", MeshNone, "no mesh"))),
	graphCarrier(),
	replicasFactor,
	sharedRate(),
	shared(dataFactors, FactorConnections, "Connections each client keeps.", "8"),
	shared(dataFactors, FactorArrival, arrivalDoc, ""),
	resilient(choice(FactorProtocol, ScopeLoad, protocol.HTTP1, "What the clients speak to the first service.", protocol.Names(protocol.Calls)...).
		phrased(says("over %s"))),
	shared(dataFactors, FactorPayload, "", "0B"),
	meshLever(FactorRetries, LevelDefault,
		"Attempts that the mesh makes after one that failed: its own default, off, or a number.", `^(default|off|[1-9][0-9]?)$`, retriesLevel, "default", "off", "3").
		labelled(retriesLabel),
	ofRetries(meshLever(FactorRetryOn, LevelDefault,
		"Failures that the mesh retries, as Istio's retryOn names them, separated by commas.", `^(default|[a-z0-9-]+(,[a-z0-9-]+)*)$`, retryOnLevel, "default", "5xx,reset,connect-failure").
		labelled(says("retry on %s"))),
	ofRetries(meshLever(FactorPerTryTimeout, LevelNone,
		"Timeout of each of the mesh's attempts, or none.", timeOrNone, timeoutLevel, "none", "250ms").
		labelled(says("per-try timeout %s"))),
	meshLever(FactorRequestTimeout, LevelNone,
		"The mesh's timeout for a request with all its attempts, or none.", timeOrNone, timeoutLevel, "none", "1s").
		labelled(says("timeout %s")),
	meshLever(FactorOutlierDetection, LevelOff,
		"When a proxy ejects an endpoint: off, or errors (consecutive 5xx), interval, ejection (time) and max (share of endpoints).",
		`^(off|(errors|interval|ejection|max)=.*)$`, outlierLevel, LevelOff, "errors=5 interval=1s ejection=5s max=100%").
		labelled(says("outlier detection %s")),
	meshLever(FactorCircuitBreaker, LevelOff,
		"What a proxy lets through to a service at once: off, or connections, pending (requests that wait), requests (active, HTTP/2) and retries.",
		`^(off|(connections|pending|requests|retries)=.*)$`, breakerLevel, LevelOff, "connections=10 pending=5").
		labelled(says("circuit breaker %s")),
	meshed(choice(FactorLoadBalancer, ScopeMesh, LevelDefault, "How a proxy chooses an endpoint; ring_hash hashes the header x-meshtrial-key.",
		LevelDefault, "round_robin", "least_request", "random", "ring_hash").
		labelled(says("load balancer %s"))),
	meshed(choice(FactorLocality, ScopeMesh, LevelDefault,
		"Whether a proxy asks endpoints of its own zone first (prefer) or those of all zones alike (ignore). default leaves it to the mesh: Istio prefers them wherever outlier_detection is on.",
		LevelDefault, LocalityPrefer, LocalityIgnore).
		labelled(says("%s", LevelDefault, "default locality", LocalityPrefer, "own zone first", LocalityIgnore, "all zones alike"))),
	meshed(choice(FactorMTLS, ScopeServer, MTLSPermissive, "What the services' sidecars accept: strict (mutual TLS only), permissive (plain text too), off. Callers with a sidecar follow.",
		MTLSStrict, MTLSPermissive, MTLSOff).
		labelled(says("mTLS %s"))),
	resilient(choice(FactorDrain, ScopeServer, "true", "Whether workers drain when they are told to end: they serve on for a while, not ready, then finish what is under way. Otherwise they end at once.", "true", "false").
		labelled(onOff("drain"))),
	shared(controlFactors, FactorDebounceAfter, "", "").
		idleWhere(func(cell record.Cell) bool { return cell[FactorMesh] == MeshNone || cell[FactorMesh] == MeshLinkerd }),
	resilient(controlText(FactorSkip, ScopeTimeline, LevelNone,
		"Steps of the timeline that do not happen: none, or their names separated by commas. With it variants differ in what happens.",
		`^(none|[a-z0-9-]+(,[a-z0-9-]+)*)$`, skipLevel, LevelNone, "warned").
		labelled(skipLabel)),
}

// resilient is a factor of resilience alone.
func resilient(f Factor) Factor { f.Kind = Resilience; return f }

// graphCarrier says who carries the requests of services in the mesh.
func graphCarrier() Factor {
	f := choice(FactorSidecars, ScopeTopology, SidecarsBoth,
		"Who carries requests in Istio: the sidecars of both ends, ztunnel on their nodes (ambient), or ztunnel by way of one waypoint for all services (waypoint).",
		SidecarsBoth, SidecarsAmbient, SidecarsWaypoint)
	f.Kind, f.Implied = "", true
	return f.idleWhere(func(cell record.Cell) bool { return cell[FactorMesh] != MeshIstio })
}

// meshed is a factor that means nothing without sidecars.
func meshed(f Factor) Factor {
	return resilient(f).idleWhere(withoutSidecars)
}

// withoutSidecars says that no pod of a cell has any.
func withoutSidecars(cell record.Cell) bool {
	return cell[FactorMesh] == MeshNone || cell[FactorMesh] == MeshIstio && Ambient(cell)
}

// meshLever is a setting of the mesh.
func meshLever(name, def, doc, pattern string, parse func(string) (string, *Error), examples ...string) Factor {
	return meshed(controlText(name, ScopeMesh, def, doc, pattern, parse, examples...))
}

// ofRetries is a factor that means nothing where the mesh makes no retries.
func ofRetries(f Factor) Factor {
	return f.idleWhere(func(cell record.Cell) bool {
		return withoutSidecars(cell) || cell[FactorRetries] == LevelOff
	})
}

// shared is a factor of another kind's table that studies of resilience have
// too, with a document and a default of its own unless they are "".
func shared(table []Factor, name, doc, def string) Factor {
	i := slices.IndexFunc(table, func(f Factor) bool { return f.Name == name })
	f := table[i]
	f.Kind = ""
	if doc != "" {
		f.Doc = doc
	}
	if def != "" {
		f.Default = def
	}
	return f
}

// sharedRate is the rate without max: a scenario needs to know how many
// requests are due.
func sharedRate() Factor {
	f := shared(dataFactors, FactorRate, "Requests scheduled per second by all clients together (open loop).", "100")
	f.Examples = []string{"100", "1000"}
	f.parse = func(s string) (string, *Error) {
		if s == rate.Word {
			return "", complain(CodeInvalid, "a number of requests per second", "a scenario needs a rate, max has none")
		}
		return rateLevel(s)
	}
	return f
}

func retriesLabel(level string) string {
	switch level {
	case LevelDefault:
		return "default retries"
	case LevelOff:
		return "no retries"
	}
	return counts("retry")(level)
}

func skipLabel(level string) string {
	if level == LevelNone {
		return "every step"
	}
	return "without " + strings.ReplaceAll(level, ",", ", ")
}

func retriesLevel(s string) (string, *Error) {
	if s == LevelDefault || s == LevelOff {
		return s, nil
	}
	n, c := wholeNumber(s, 1, 99)
	if c != nil {
		c.Hint = "a number of attempts from 1 to 99, off, or default"
		return "", c
	}
	return strconv.FormatInt(n, 10), nil
}

// skipLevel reads a list of names of steps and puts it in one order.
func skipLevel(s string) (string, *Error) {
	if s == LevelNone {
		return s, nil
	}
	names := strings.Split(s, ",")
	for i, name := range names {
		if names[i] = strings.TrimSpace(name); !reName.MatchString(names[i]) {
			return "", complain(CodeInvalid, "use names of steps, as warned,sale, or none", "invalid step name %q", clip(name, 40))
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

var reRetryOn = lazyregexp.New(`^[a-z0-9-]+(,[a-z0-9-]+)*$`)

func retryOnLevel(s string) (string, *Error) {
	if !reRetryOn.MatchString(s) || len(s) > 200 {
		return "", complain(CodeInvalid, "as 5xx,reset,connect-failure", "%q names no conditions", clip(s, 40))
	}
	return s, nil
}

func timeoutLevel(s string) (string, *Error) {
	if s == LevelNone {
		return s, nil
	}
	d, c := parseDuration(s)
	switch {
	case c != nil:
		return "", c
	case d < time.Millisecond || d > time.Hour:
		return "", complain(CodeRange, "from 1ms to 1h, or none", "%s is out of range", s)
	}
	return formatDuration(d), nil
}

type setting struct {
	name  string
	parse func(string) (string, *Error)
}

func atLeastOne(s string) (string, *Error) {
	n, c := wholeNumber(s, 1, 1_000_000)
	if c != nil {
		return "", c
	}
	return strconv.FormatInt(n, 10), nil
}

func shareLevel(s string) (string, *Error) {
	r, c := parseRatio(s)
	if c == nil && (r <= 0 || r > 1) {
		c = complain(CodeRange, "from 1% to 100%", "%s is out of range", s)
	}
	if c != nil {
		return "", c
	}
	return r.String(), nil
}

func outlierLevel(s string) (string, *Error) {
	return settingsLevel(s, "errors=5 interval=1s ejection=5s max=100%",
		setting{"errors", atLeastOne}, setting{"interval", timeoutLevel}, setting{"ejection", timeoutLevel}, setting{"max", shareLevel})
}

func breakerLevel(s string) (string, *Error) {
	return settingsLevel(s, "connections=10 pending=5",
		setting{"connections", atLeastOne}, setting{"pending", atLeastOne}, setting{"requests", atLeastOne}, setting{"retries", atLeastOne})
}

// settingsLevel reads name=value pairs and puts them in one order.
func settingsLevel(s, example string, known ...setting) (string, *Error) {
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
			return "", complain(CodeInvalid, "as "+example+", or off", "%q is no setting", clip(part, 40))
		case i < 0:
			return "", complain(CodeUnknown, errs.Suggest(name, names), "unknown setting %q", clip(name, 40))
		case values[name] != "":
			return "", complain(CodeDuplicate, "", "%s is given twice", name)
		}
		value, c := known[i].parse(value)
		if c == nil && value == LevelNone {
			c = complain(CodeInvalid, "leave it out", "%s=none says nothing", name)
		}
		if c != nil {
			c.Msg = name + ": " + c.Msg
			return "", c
		}
		values[name] = value
	}
	if len(values) == 0 {
		return "", complain(CodeInvalid, "as "+example+", or off", "no setting is given")
	}
	var out []string
	for _, name := range names {
		if v := values[name]; v != "" {
			out = append(out, name+"="+v)
		}
	}
	return strings.Join(out, " "), nil
}

// ScenarioLevels is a cell of a study of resilience with its levels as
// values.
type ScenarioLevels struct {
	Mesh        string
	Rate        rate.Rate // of all clients together, never max
	Connections int       // of each client
	Arrival     string
	Protocol    string
	Payload     int64
	Drain       bool
	MTLS        string // of the services' sidecars; "" without any
}

// ScenarioOf reads a cell of a study of resilience. It fails only for a cell
// that did not come from such a plan.
func ScenarioOf(cell record.Cell) (ScenarioLevels, error) {
	r := ReadCell(scenarioFactors, cell)
	return ScenarioLevels{Mesh: r.Text(FactorMesh), Rate: r.Rate(FactorRate), Connections: r.Int(FactorConnections), Arrival: r.Text(FactorArrival),
		Protocol: r.Text(FactorProtocol), Payload: int64(r.Number(FactorPayload)), Drain: r.Bool(FactorDrain), MTLS: r.Set(FactorMTLS)}, r.Err()
}

// reference is what docs/study.md says of the factors.
const reference = `
A study is one of resilience if it has the section ` + "`timeline`" + `. It has these factors and no
others, and the fields ` + "`workload`, `window` and `interval`" + ` have no place in it.
[scenarios.md](scenarios.md) says what stands in ` + "`graph` and `timeline`" + `.

Levers mean nothing without a mesh, nor where ztunnel or a waypoint carries the requests; ` + "`meshtrial study plan`" + `
notes where such a cell is compared with one that has levers. ` + "`retry_on` and `per_try_timeout`" + ` mean
nothing where ` + "`retries`" + ` is off.
`
