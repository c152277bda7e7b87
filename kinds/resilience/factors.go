package resilience

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
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// Factors that only resilience trials have.
const (
	FactorDrain = "drain"
	FactorSkip  = "skip"
)

// HashKeys is the number of values of the header that ring_hash hashes: request n of a client
// carries the value n modulo HashKeys.
const HashKeys = 1000

// scenarioFactors is the table of the factors of resilience, in report order.
var scenarioFactors = []study.Factor{
	study.Choice(study.FactorMesh, study.ScopeTopology, study.MeshIstio, "The mesh that injects the pods' sidecars.", study.Meshes()...).
		Amongst(study.Meshes).
		Labelled(study.Says("%s", study.MeshNone, "no mesh")),
	study.Choice(study.FactorSidecars, study.ScopeTopology, study.SidecarsBoth,
		"What carries requests in Istio: sidecars at both ends, ztunnel on their nodes (ambient), or ztunnel through one waypoint for all services (waypoint).",
		study.SidecarsBoth, study.SidecarsAmbient, study.SidecarsWaypoint).
		IdleWhere(func(cell record.Cell) bool { return cell[study.FactorMesh] != study.MeshIstio }).OmittedAtDefault(),
	replicasFactor,
	sharedRate(),
	shared(study.Connections, "Connections each client keeps.", "8"),
	shared(study.Arrival, study.ArrivalDoc, ""),
	study.Choice(study.FactorProtocol, study.ScopeLoad, protocol.HTTP1, "Protocol between the clients and the first service.", protocol.Names(protocol.Enters)...).
		Phrased(study.Says("over %s")),
	shared(study.Payload, "", "0B"),
	study.KeepAlive.OmittedAtDefault(), // older studies do not have it
	meshLever(study.FactorRetries, study.LevelDefault,
		"Retries by the mesh: its default, off, or a number.", `^(default|off|[1-9][0-9]?)$`, retriesLevel, "default", "off", "3").
		Labelled(retriesLabel),
	ofRetries(meshLever(study.FactorRetryOn, study.LevelDefault,
		"Failures that the mesh retries, by the names of Istio's retryOn, separated by commas.", `^(default|[a-z0-9-]+(,[a-z0-9-]+)*)$`, retryOnLevel, "default", "5xx,reset,connect-failure").
		Labelled(study.Says("retry on %s"))),
	ofRetries(meshLever(study.FactorPerTryTimeout, study.LevelNone,
		"Timeout of each of the mesh's attempts, or none.", study.TimeOrNone, timeoutLevel, "none", "250ms").
		Labelled(study.Says("per-try timeout %s"))),
	meshLever(study.FactorRequestTimeout, study.LevelNone,
		"The mesh's timeout for a request including all attempts, or none.", study.TimeOrNone, timeoutLevel, "none", "1s").
		Labelled(study.Says("timeout %s")),
	meshLever(study.FactorOutlierDetection, study.LevelOff,
		"When a proxy ejects an endpoint: off, or errors (consecutive 5xx), interval, ejection (base time) and max (share of endpoints).",
		`^(off|(errors|interval|ejection|max)=.*)$`, outlierLevel, study.LevelOff, "errors=5 interval=1s ejection=5s max=100%").
		Labelled(study.Says("outlier detection %s")),
	meshLever(study.FactorCircuitBreaker, study.LevelOff,
		"A proxy's limits for a service: off, or connections, pending (waiting requests), requests (active, HTTP/2) and retries.",
		`^(off|(connections|pending|requests|retries)=.*)$`, breakerLevel, study.LevelOff, "connections=10 pending=5").
		Labelled(study.Says("circuit breaker %s")),
	meshed(study.Choice(study.FactorLoadBalancer, study.ScopeMesh, study.LevelDefault, "How a proxy chooses an endpoint; ring_hash hashes the header x-meshtrial-key.",
		study.LevelDefault, "round_robin", "least_request", "random", "ring_hash").
		Labelled(study.Says("load balancer %s"))),
	meshLever(study.FactorLocality, study.LevelDefault,
		"Whether a proxy prefers endpoints of its own zone and fails over to others (prefer), treats all zones alike (ignore), or sends its own zone a share and the others equal parts of the rest (own=80%). default leaves it to the mesh: Istio prefers its own zone wherever outlier_detection is on.",
		`^(default|prefer|ignore|own=[0-9]+%)$`, localityLevel, study.LevelDefault, study.LocalityPrefer, study.LocalityIgnore, "own=80%").
		Labelled(localityLabel),
	meshLever(study.FactorCallout, study.LevelOff,
		"A filter of the first service's proxy that asks a service of the graph about each request: off, or filter (ext-authz-grpc, ext-authz-http, rate-limit-global), to (the service), fail (open or closed; what happens to requests without an answer, closed if left out) and timeout (1s if left out).",
		`^(off|(filter|to|fail|timeout)=.*)$`, calloutLevel, study.LevelOff, calloutExample).
		Labelled(study.Says("asks %s", study.LevelOff, "asks nobody")).OmittedAtDefault(),
	meshed(study.Choice(study.FactorMTLS, study.ScopeServer, study.MTLSPermissive, "What the services' sidecars accept: strict (mutual TLS only), permissive (plain text too), off. Callers with a sidecar adapt.",
		study.MTLSStrict, study.MTLSPermissive, study.MTLSOff).
		Labelled(study.Says("mTLS %s"))),
	study.Choice(FactorDrain, study.ScopeServer, "true", "Whether workers and gateways drain when stopped: unready, they keep serving for a while, then finish the requests in progress. Otherwise they end at once.", "true", "false").
		Labelled(study.OnOff("drain")),
	study.DebounceAfter.
		IdleWhere(func(cell record.Cell) bool {
			return cell[study.FactorMesh] == study.MeshNone || cell[study.FactorMesh] == study.MeshLinkerd
		}),
	study.Text(FactorSkip, study.ScopeTimeline, study.LevelNone,
		"Steps of the timeline to leave out: none, or their names separated by commas. Lets variants differ in what happens.",
		`^(none|[a-z0-9-]+(,[a-z0-9-]+)*)$`, skipLevel, study.LevelNone, "warned").
		Labelled(skipLabel),
}

// meshed makes a factor meaningless without sidecars.
func meshed(f study.Factor) study.Factor {
	return f.IdleWhere(withoutSidecars)
}

// withoutSidecars reports whether no pod of a cell has a sidecar.
func withoutSidecars(cell record.Cell) bool {
	return cell[study.FactorMesh] == study.MeshNone || cell[study.FactorMesh] == study.MeshIstio && study.Ambient(cell)
}

// meshLever returns a factor for a mesh setting.
func meshLever(name, def, doc, pattern string, parse func(string) (string, *study.Error), examples ...string) study.Factor {
	return meshed(study.Text(name, study.ScopeMesh, def, doc, pattern, parse, examples...))
}

// ofRetries makes a factor meaningless where the mesh does not retry.
func ofRetries(f study.Factor) study.Factor {
	return f.IdleWhere(func(cell record.Cell) bool {
		return withoutSidecars(cell) || cell[study.FactorRetries] == study.LevelOff
	})
}

// shared returns a factor that data-plane studies have too, with its own description and default
// unless they are "".
func shared(f study.Factor, doc, def string) study.Factor {
	if doc != "" {
		f.Doc = doc
	}
	if def != "" {
		f.Default = def
	}
	return f
}

// sharedRate returns the rate factor without max: a scenario needs to know the number of requests
// that are due.
func sharedRate() study.Factor {
	f := shared(study.Rate, "Requests scheduled per second by all clients together (open loop).", "100")
	f.Examples = []string{"100", "1000"}
	f.Parse = func(s string) (string, *study.Error) {
		if s == rate.Word {
			return "", study.Complain(study.CodeInvalid, "a number of requests per second", "a scenario needs a numeric rate, not max")
		}
		return study.RateLevel(s)
	}
	return f
}

func retriesLabel(level string) string {
	switch level {
	case study.LevelDefault:
		return "default retries"
	case study.LevelOff:
		return "no retries"
	}
	return study.Counts("retry")(level)
}

func localityLevel(s string) (string, *study.Error) {
	if s == study.LevelDefault || s == study.LocalityPrefer || s == study.LocalityIgnore {
		return s, nil
	}
	if share, ok := study.OwnZone(s); ok && share >= 1 && share <= 99 {
		return s, nil
	}
	return "", study.Complain(study.CodeInvalid, "default, prefer, ignore, or a share such as own=80%, from 1% to 99%", "unknown locality %q", study.Clip(s, 40))
}

func localityLabel(level string) string {
	if share, ok := study.OwnZone(level); ok {
		return strconv.Itoa(share) + "% to the own zone"
	}
	return study.Says("%s", study.LevelDefault, "default locality", study.LocalityPrefer, "own zone first", study.LocalityIgnore, "all zones alike")(level)
}

func skipLabel(level string) string {
	if level == study.LevelNone {
		return "every step"
	}
	return "without " + strings.ReplaceAll(level, ",", ", ")
}

func retriesLevel(s string) (string, *study.Error) {
	if s == study.LevelDefault || s == study.LevelOff {
		return s, nil
	}
	level, c := study.IntegerLevel(1, 99)(s)
	if c != nil {
		c.Hint = "use a number of attempts from 1 to 99, off, or default"
	}
	return level, c
}

// skipLevel parses a list of step names and puts it in canonical order.
func skipLevel(s string) (string, *study.Error) {
	if s == study.LevelNone {
		return s, nil
	}
	names := strings.Split(s, ",")
	for i, name := range names {
		if names[i] = strings.TrimSpace(name); !study.NamePattern.MatchString(names[i]) {
			return "", study.Complain(study.CodeInvalid, "use names of steps, such as warned,sale, or none", "invalid step name %q", study.Clip(name, 40))
		}
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ","), nil
}

// skipped returns the names of the steps that a level of [FactorSkip] leaves out.
func skipped(level string) []string {
	if level == study.LevelNone || level == study.NotApplicable || level == "" {
		return nil
	}
	return strings.Split(level, ",")
}

// TimelineOf returns the timeline of a cell, without the steps that the cell skips.
func (c *Scenario) TimelineOf(cell record.Cell) fault.Timeline {
	return c.Timeline.Without(skipped(cell[FactorSkip]))
}

var reRetryOn = lazyregexp.New(`^[a-z0-9-]+(,[a-z0-9-]+)*$`)

func retryOnLevel(s string) (string, *study.Error) {
	if !reRetryOn.MatchString(s) || len(s) > 200 {
		return "", study.Complain(study.CodeInvalid, "as 5xx,reset,connect-failure", "%q contains no condition", study.Clip(s, 40))
	}
	return s, nil
}

func timeoutLevel(s string) (string, *study.Error) {
	if s == study.LevelNone {
		return s, nil
	}
	d, c := study.ParseDuration(s)
	switch {
	case c != nil:
		return "", c
	case d < time.Millisecond || d > time.Hour:
		return "", study.Complain(study.CodeRange, "from 1ms to 1h, or none", "%s is out of range", s)
	}
	return study.FormatDuration(d), nil
}

type setting struct {
	name  string
	parse func(string) (string, *study.Error)
}

var atLeastOne = study.IntegerLevel(1, 1_000_000)

func shareLevel(s string) (string, *study.Error) {
	r, c := study.ParseRatio(s)
	if c == nil && (r <= 0 || r > 1) {
		c = study.Complain(study.CodeRange, "from 1% to 100%", "%s is out of range", s)
	}
	if c != nil {
		return "", c
	}
	return r.String(), nil
}

func outlierLevel(s string) (string, *study.Error) {
	return settingsLevel(s, "errors=5 interval=1s ejection=5s max=100%",
		setting{"errors", atLeastOne}, setting{"interval", timeoutLevel}, setting{"ejection", timeoutLevel}, setting{"max", shareLevel})
}

func breakerLevel(s string) (string, *study.Error) {
	return settingsLevel(s, "connections=10 pending=5",
		setting{"connections", atLeastOne}, setting{"pending", atLeastOne}, setting{"requests", atLeastOne}, setting{"retries", atLeastOne})
}

// settingsLevel parses name=value pairs and puts them in canonical order.
func settingsLevel(s, example string, known ...setting) (string, *study.Error) {
	if s == study.LevelOff {
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
			return "", study.Complain(study.CodeInvalid, "as "+example+", or off", "%q is not a setting", study.Clip(part, 40))
		case i < 0:
			return "", study.Complain(study.CodeUnknown, errs.Suggest(name, names), "unknown setting %q", study.Clip(name, 40))
		case values[name] != "":
			return "", study.Complain(study.CodeDuplicate, "", "%s is given twice", name)
		}
		value, c := known[i].parse(value)
		if c == nil && value == study.LevelNone {
			c = study.Complain(study.CodeInvalid, "leave it out", "%s=none has no effect", name)
		}
		if c != nil {
			c.Msg = name + ": " + c.Msg
			return "", c
		}
		values[name] = value
	}
	if len(values) == 0 {
		return "", study.Complain(study.CodeInvalid, "as "+example+", or off", "no setting is given")
	}
	var out []string
	for _, name := range names {
		if v := values[name]; v != "" {
			out = append(out, name+"="+v)
		}
	}
	return strings.Join(out, " "), nil
}

// Levels holds the levels of a resilience cell as typed values.
type Levels struct {
	Mesh        string
	Rate        rate.Rate // total over all clients, never max
	Connections int       // per client
	Arrival     string
	Protocol    string
	Payload     int64
	KeepAlive   bool
	Drain       bool
	MTLS        string // of the services' sidecars; "" without sidecars
}

// LevelsOf reads a cell of a resilience study. It fails only for a cell that did not come from the
// plan of such a study.
func LevelsOf(cell record.Cell) (Levels, error) {
	r := study.ReadCell(scenarioFactors, cell)
	return Levels{Mesh: r.Text(study.FactorMesh), Rate: r.Rate(study.FactorRate), Connections: r.Int(study.FactorConnections), Arrival: r.Text(study.FactorArrival),
		Protocol: r.Text(study.FactorProtocol), Payload: int64(r.Number(study.FactorPayload)), KeepAlive: r.Bool(study.FactorKeepAlive), Drain: r.Bool(FactorDrain), MTLS: r.Set(study.FactorMTLS)}, r.Err()
}

// reference is the text of docs/study.md about the factors.
const reference = `
A study with the section ` + "`timeline`" + ` is a resilience study. It has only these factors, and no
` + "`workload`, `window` or `interval`" + `. [scenarios.md](scenarios.md) describes ` + "`graph` and `timeline`" + `.

Levers do not apply without a mesh, or where ztunnel or a waypoint carries the requests;
` + "`meshtrial study plan`" + ` notes where such a cell is compared with one that has levers. ` + "`retry_on`" + ` and
` + "`per_try_timeout`" + ` do not apply with ` + "`retries: off`" + `.
`
