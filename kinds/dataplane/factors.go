package dataplane

import (
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/rate"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// MaxGenerators limits the number of client pods that send a trial's requests.
const MaxGenerators = 100

// factors is the table of the data plane's factors, in report order.
var factors = []study.Factor{
	study.Choice(study.FactorSidecars, study.ScopeTopology, study.SidecarsBoth,
		"Which of the two pods has a sidecar. ambient: neither; ztunnel on their nodes carries the requests. waypoint: the same, through a waypoint of the server's Service. gateway: neither; requests pass an ingress gateway in its own pod.",
		study.CarrierLevels("")...).
		Amongst(func() []string { return study.CarrierLevels("") }).
		Subjected(study.CarrierSubject),
	study.Connections,
	study.Factor{
		Name: study.FactorGenerators, Scope: study.ScopeLoad, Unit: "generators", Default: "1", Numeric: true, Implied: true,
		Doc:      "Load generators, each in its own client pod. They share the connections, and together send exactly the requests that one would.",
		Pattern:  `^[1-9][0-9]*$`,
		Examples: []string{"1", "2", "4"},
		Parse:    study.IntegerLevel(1, MaxGenerators), Integer: true, Low: 1,
	}.Labelled(study.Counts("generator")).Phrased(study.After("with", study.Counts("generator"))),
	study.Rate,
	study.Arrival,
	study.Choice(study.FactorProtocol, study.ScopeLoad, protocol.HTTP1,
		"Protocol between generator and worker.",
		protocol.Names(nil)...).
		Phrased(study.Says("over %s")),
	study.Payload,
	study.KeepAlive,
	ofServer(study.Choice(study.FactorMTLS, study.ScopeServer, study.MTLSStrict,
		"What the server's sidecar accepts: strict only mutual TLS, permissive also plain text, off only plain text. A client without a sidecar sends plain text, so strict becomes permissive there.",
		study.MTLSStrict, study.MTLSPermissive, study.MTLSOff).
		Labelled(study.Says("mTLS %s")).Shortened(study.Says("mtls-%s")).Becoming(mtlsBecomes)),
	ofProxies(study.Choice(study.FactorTelemetry, study.ScopeProxies, study.TelemetryOff,
		"What sidecars report per request: an access log as text or JSON, with or without the mesh's request metrics.",
		study.TelemetryOff, study.TelemetryText, study.TelemetryJSON, study.TelemetryTextStats, study.TelemetryJSONStats).
		Labelled(study.Says("telemetry %s")).Shortened(strings.NewReplacer("access-log-", "log-", "+", "-").Replace)),
	ofProxies(study.Factor{
		Name: study.FactorConcurrency, Unit: "threads", Default: "2", Numeric: true,
		Doc:      "Worker threads per sidecar.",
		Pattern:  `^[1-9][0-9]*$`,
		Examples: []string{"1", "2", "4"},
		Parse:    study.IntegerLevel(1, 128), Integer: true, Low: 1,
	}.Labelled(study.Counts("thread")).Phrased(study.Says("with %s proxy threads")).Shortened(study.Says("c%s"))),
	ofProxies(study.Factor{
		Name: study.FactorCPULimit, Default: study.CPULimitNone,
		Doc:      "CPU limit of each sidecar's container, in Kubernetes notation (500m, 2), or none.",
		Pattern:  `^(none|[0-9]+(\.[0-9]+)?m?)$`,
		Examples: []string{"none", "500m", "2"},
		Parse:    study.CPULevel, Plain: &study.PlainNumber{},
	}.NumericIn("CPUs", study.CPUValue).Labelled(study.Says("CPU limit %s")).Shortened(study.Says("cpu%s"))),
	ofProxies(study.Factor{
		Name: study.FactorEnvoy, Default: study.EnvoyDefault,
		Doc:      "Version of Envoy in the sidecars; default is that of the proxy image.",
		Pattern:  `^(default|[0-9]+\.[0-9]+\.[0-9]+)$`,
		Examples: []string{"default", "1.39.0"},
		Parse:    envoyLevel,
	}.Labelled(study.Says("Envoy %s")).Shortened(func(level string) string { return "envoy" + strings.ReplaceAll(level, ".", "-") })),
	interceptionFactor,
	ofServer(study.Factor{
		Name: FactorFilters, Default: FiltersNone,
		Doc:      filtersDoc,
		Pattern:  filtersPattern(),
		Examples: []string{"none", "lua", "authz-allow-100+jwt", "planted-200"},
		Parse:    filtersLevel,
	}.Labelled(filtersLabel).Shortened(func(level string) string { return strings.ReplaceAll(level, partSeparator, "-") })).
		IdleWhere(func(cell record.Cell) bool { return !study.HasServerProxy(cell) && !atWaypoint(cell) }),
	plantedFactor,
	placementFactor,
	destinationFactor,
}

// ofProxies makes a factor apply to the sidecars of both pods.
func ofProxies(f study.Factor) study.Factor {
	f.Scope = study.ScopeProxies
	return f.IdleWhere(func(cell record.Cell) bool { return !study.Proxied(cell) })
}

// ofServer makes a factor apply to the server's sidecar.
func ofServer(f study.Factor) study.Factor {
	f.Scope = study.ScopeServer
	return f.IdleWhere(func(cell record.Cell) bool { return !study.HasServerProxy(cell) })
}

// atWaypoint reports whether a cell's waypoint has parts: only those that ask the sink, and only for
// servers in the mesh.
func atWaypoint(cell record.Cell) bool {
	return study.Waypoint(cell) && !study.Outside(cell) && Asks(cell[FactorFilters])
}

// mtlsBecomes returns permissive for strict mutual TLS if the client has no sidecar to use it.
func mtlsBecomes(cell record.Cell) string {
	if level := cell[study.FactorMTLS]; level != study.MTLSStrict || study.HasClientProxy(cell) || !study.HasServerProxy(cell) {
		return level
	}
	return study.MTLSPermissive
}

func filtersLabel(level string) string {
	if level == FiltersNone {
		return "no filters"
	}
	return strings.ReplaceAll(level, partSeparator, " + ")
}

// FactorInterception is how connections reach the sidecars.
const FactorInterception = "interception"

// Levels of [FactorInterception].
const (
	InterceptionRedirect = "redirect"
	InterceptionNone     = "none"
)

var interceptionFactor = ofProxies(study.Choice(FactorInterception, study.ScopeProxies, InterceptionRedirect,
	"How connections reach the sidecars: redirect uses packet filter rules in the pod, Istio's default; with none, the client connects to its sidecar's listener on loopback, and the Service points to a port of the server's sidecar. For HTTP and gRPC without the generator's own TLS.",
	InterceptionRedirect, InterceptionNone).
	Labelled(study.Says("interception %s")).Shortened(study.Says("no-redirect")))

// checkInterception finds settings that require redirection.
func checkInterception(d *study.Decoder, s *study.Study) {
	if !slices.Contains(s.Levels(FactorInterception), InterceptionNone) {
		return
	}
	at := s.Place(FactorInterception)
	if d.Root.Get("hops") != nil {
		at = d.Pos("hops")
	}
	switch {
	case s.Mesh != study.MeshIstio:
		d.Fail(at, study.CodeConflict, "leave it out, or mesh: istio", "interception none works only with Istio's sidecars, and the mesh is %s", s.Mesh)
	case speaks(s, headless) != "":
		name := speaks(s, headless)
		d.Fail(at, study.CodeConflict, "leave "+name+" out", "without redirection a sidecar finds the Service by the request's host, and %s has none", strings.ToUpper(name))
	case s.Load.TLS:
		d.Fail(at, study.CodeConflict, "leave load.tls out", "without redirection a sidecar finds the Service by the request's host, which it cannot read if the generator uses TLS")
	}
}

// Levels holds the levels of a cell as typed values, for code that acts on them.
type Levels struct {
	Connections  int
	Rate         rate.Rate
	Arrival      string // NotApplicable at rate max
	Protocol     string
	PayloadBytes int64
	KeepAlive    bool
}

// LevelsOf reads the generator's part of a cell. It fails only for a cell that did not come from a
// plan.
func LevelsOf(cell record.Cell) (Levels, error) {
	r := study.ReadCell(factors, cell)
	return Levels{Connections: r.Int(study.FactorConnections), Rate: r.Rate(study.FactorRate), Arrival: r.Text(study.FactorArrival),
		Protocol: r.Text(study.FactorProtocol), PayloadBytes: int64(r.Number(study.FactorPayload)), KeepAlive: r.Bool(study.FactorKeepAlive)}, r.Err()
}

// Scattered reports whether a cell's several generators may run both on and off its worker's node
// while node components carry their requests.
func Scattered(cell record.Cell) bool {
	return GeneratorsIn(cell) > 1 && placeOf(cell) == "" && len(study.WayOf(cell).At(record.PlaceNode)) > 0
}

func envoyLevel(s string) (string, *study.Error) {
	if s == study.EnvoyDefault {
		return s, nil
	}
	if !study.VersionPattern.MatchString(s) {
		return "", study.Complain(study.CodeInvalid, "use a full version such as 1.39.0, or default", "%q is not a version of Envoy", s)
	}
	return strings.TrimPrefix(s, "v"), nil
}

// FactorPlanted is an effect of known size, which tests a study itself.
const FactorPlanted = "planted"

// Levels of [FactorPlanted] that are words. The others are times.
const (
	PlantedNone    = "none"
	PlantedNothing = "nothing" // separate pods with the same configuration
	PlantedBypass  = "bypass"  // a defect: no route leads to the egress gateway
)

const mostPlanted = time.Second

var plantedFactor = study.Factor{
	Name: FactorPlanted, Scope: study.ScopePods, Default: PlantedNone,
	Doc:      "A known effect to test a study with: the workload delays each request by this much, and the service time must be fixed; nothing only gives the cell its own pods; with bypass, requests do not reach the egress gateway, and no trial is valid.",
	Pattern:  `^(none|nothing|bypass|[0-9]+(us|ms))$`,
	Examples: []string{"none", "nothing", "200us"},
	Parse:    plantedLevel,
}.Labelled(study.Says("planted %s", PlantedNone, "nothing planted")).Phrased(study.Says("with %s planted", PlantedNothing, "in pods of its own", PlantedBypass, "with a bypass planted")).
	Shortened(study.Says("planted-%s")).
	Becoming(func(cell record.Cell) string {
		if cell[FactorPlanted] == PlantedBypass && !study.Leaving(cell) {
			return PlantedNone
		}
		return cell[FactorPlanted]
	})

func plantedLevel(s string) (string, *study.Error) {
	if s == PlantedNone || s == PlantedNothing || s == PlantedBypass {
		return s, nil
	}
	d, c := study.ParseDuration(s)
	switch {
	case c != nil:
		return "", c
	case d <= 0 || d > mostPlanted || d%time.Microsecond != 0:
		return "", study.Complain(study.CodeInvalid, "as 200us", "%s: use whole microseconds, at most %v, or nothing", s, mostPlanted)
	}
	return strings.Replace(d.String(), "µs", "us", 1), nil
}

// checkPlanted finds a planted time without a fixed time to add it to, and a bypass of no gateway.
func checkPlanted(d *study.Decoder, s *study.Study) {
	if slices.Equal(s.Levels(FactorPlanted), []string{PlantedNone}) {
		return
	}
	if t := Of(s).Workload.ServiceTime; t.Distribution != study.DistributionFixed {
		d.Fail(d.Pos("workload", "service_time", "distribution"), study.CodeConflict, "use distribution: fixed, or leave "+FactorPlanted+" out",
			"a planted time is added to a fixed service time, and this one is %s", t.Distribution)
	}
	if slices.Contains(s.Levels(FactorPlanted), PlantedBypass) && !slices.Contains(s.Levels(study.FactorDestination), study.DestinationEgress) {
		d.Fail(s.Place(FactorPlanted), study.CodeConflict, "set "+study.FactorDestination+": "+study.DestinationEgress, "%s: %s needs an egress gateway to bypass", FactorPlanted, PlantedBypass)
	}
}

// Planted returns how much longer the workload of a variant holds each request.
func (v Variant) Planted() time.Duration {
	d, _ := study.ParseDuration(v.planted) // 0 for words
	return d
}

// Bypass reports whether requests to a variant's server are meant to bypass the egress gateway.
func (v Variant) Bypass() bool { return v.planted == PlantedBypass }
