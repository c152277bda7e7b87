package study

import (
	"strings"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/rate"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// Names of the factors.
const (
	FactorSidecars    = "sidecars"
	FactorConnections = "connections"
	FactorGenerators  = "generators"
	FactorRate        = "rate"
	FactorArrival     = "arrival"
	FactorProtocol    = "protocol"
	FactorPayload     = "payload"
	FactorKeepAlive   = "keep_alive"
	FactorMTLS        = "mtls"
	FactorTelemetry   = "telemetry"
	FactorConcurrency = "concurrency"
	FactorCPULimit    = "cpu_limit"
	FactorEnvoy       = "envoy"
)

// Levels that code compares with.
const (
	SidecarsNone   = "none"
	SidecarsServer = "server"
	SidecarsClient = "client"
	SidecarsBoth   = "both"
	// SidecarsAmbient is neither, in an ambient mesh.
	SidecarsAmbient = "ambient"
	// SidecarsWaypoint is ambient with a waypoint for the server's Service.
	SidecarsWaypoint = "waypoint"
	// SidecarsGateway is no proxy in either pod: requests come in by the mesh's ingress
	// gateway.
	SidecarsGateway = "gateway"

	ArrivalPoisson = "poisson"
	ArrivalUniform = "uniform"
	ArrivalBurst   = "burst"

	MTLSStrict     = "strict"
	MTLSPermissive = "permissive"
	MTLSOff        = "off"

	TelemetryOff       = "off"
	TelemetryText      = "access-log-text"
	TelemetryJSON      = "access-log-json"
	TelemetryTextStats = "access-log-text+stats"
	TelemetryJSONStats = "access-log-json+stats"

	CPULimitNone = "none"
	EnvoyDefault = "default" // the Envoy of the proxy image
)

// MaxGenerators bounds the client pods that send the requests of a trial.
const MaxGenerators = 100

// ArrivalDoc says what [FactorArrival] is, at any rate but max.
const ArrivalDoc = "How requests are spread over time: poisson (independent users), uniform (evenly spaced), or burst (all connections fire together, as fortio does by default)."

// dataFactors is the table of the data plane's factors, in the order reports
// use.
var dataFactors = []Factor{
	Choice(FactorSidecars, ScopeTopology, SidecarsBoth,
		"Which of the two pods has a sidecar. ambient: neither; ztunnel on their nodes carries the requests. waypoint: the same, by way of a waypoint of the server's Service. gateway: neither; requests pass an ingress gateway of the mesh, in a pod of its own.",
		carrierLevels("")...).
		amongst(func() []string { return carrierLevels("") }).
		subjected(carrierSubject),
	Factor{
		Name: FactorConnections, Scope: ScopeLoad, Unit: "connections", Default: "16", Numeric: true,
		Doc:      "Connections from the generator to the worker; with keep_alive false, concurrent requests.",
		Pattern:  `^[1-9][0-9]*$`,
		Examples: []string{"2", "16", "64"},
		Parse:    IntegerLevel(1, 10_000), Integer: true, Low: 1,
	}.Labelled(Counts("connection")).Phrased(After("at", Counts("connection"))),
	Factor{
		Name: FactorGenerators, Scope: ScopeLoad, Unit: "generators", Default: "1", Numeric: true, Implied: true,
		Doc:      "Load generators, each in a client pod of its own. They share the connections, and send together exactly the requests that one would.",
		Pattern:  `^[1-9][0-9]*$`,
		Examples: []string{"1", "2", "4"},
		Parse:    IntegerLevel(1, MaxGenerators), Integer: true, Low: 1,
	}.Labelled(Counts("generator")).Phrased(After("with", Counts("generator"))),
	Factor{
		Name: FactorRate, Scope: ScopeLoad, Unit: "requests/s", Default: "1000", Numeric: true,
		Doc:      "Requests scheduled per second over all connections (open loop); max sends as fast as the connections allow.",
		Pattern:  `^(max|[0-9]+(\.[0-9]+)?)$`,
		Examples: []string{"1000", "max"},
		Parse:    RateLevel, Plain: &PlainNumber{Max: maxRate, Word: rate.Word},
	}.Labelled(Says("%s rps", rate.Word, "max rate")).Phrased(Grouped(Says("at %s requests per second", rate.Word, "as fast as possible"))),
	Choice(FactorArrival, ScopeLoad, ArrivalPoisson,
		ArrivalDoc+" Means nothing at rate max.",
		ArrivalPoisson, ArrivalUniform, ArrivalBurst).
		Phrased(Says("with %s arrivals", ArrivalPoisson, "with Poisson arrivals")).
		IdleWhere(func(cell record.Cell) bool { return cell[FactorRate] == rate.Word }),
	Choice(FactorProtocol, ScopeLoad, protocol.HTTP1,
		"What the generator speaks to the worker.",
		protocol.Names(nil)...).
		Phrased(Says("over %s")),
	Factor{
		Name: FactorPayload, Scope: ScopeLoad, Unit: "bytes", Default: "1KiB", Numeric: true,
		Doc:      "Request body size, with its unit: 1KiB is 1,024 bytes, 1kB is 1,000.",
		Pattern:  `^[0-9]+(\.[0-9]+)?(B|kB|KiB|MB|MiB)$`,
		Examples: []string{"0B", "1KiB", "64KiB"},
		Parse:    payloadLevel, value: bytesValue,
	}.Phrased(Says("with payloads of %s bytes")),
	Choice(FactorKeepAlive, ScopeLoad, "true",
		"Whether connections live on after a request; false opens a new one for each.",
		"true", "false").
		Labelled(Says("new connections", "true", "keep-alive")),
	ofServer(Choice(FactorMTLS, ScopeServer, MTLSStrict,
		"What the server's sidecar accepts: strict mutual TLS only, permissive also plain text, off plain text only. A client without a sidecar speaks plain text, so strict becomes permissive there.",
		MTLSStrict, MTLSPermissive, MTLSOff).
		Labelled(Says("mTLS %s")).shortened(Says("mtls-%s")).Becoming(mtlsBecomes)),
	ofProxies(Choice(FactorTelemetry, ScopeProxies, TelemetryOff,
		"What the sidecars report about every request: an access log as text or JSON, with or without the mesh's request metrics.",
		TelemetryOff, TelemetryText, TelemetryJSON, TelemetryTextStats, TelemetryJSONStats).
		Labelled(Says("telemetry %s")).shortened(strings.NewReplacer("access-log-", "log-", "+", "-").Replace)),
	ofProxies(Factor{
		Name: FactorConcurrency, Unit: "threads", Default: "2", Numeric: true,
		Doc:      "Worker threads per sidecar.",
		Pattern:  `^[1-9][0-9]*$`,
		Examples: []string{"1", "2", "4"},
		Parse:    IntegerLevel(1, 128), Integer: true, Low: 1,
	}.Labelled(Counts("thread")).Phrased(Says("with %s proxy threads")).shortened(Says("c%s"))),
	ofProxies(Factor{
		Name: FactorCPULimit, Unit: "CPUs", Default: CPULimitNone, Numeric: true,
		Doc:      "CPU limit of each sidecar's container, in Kubernetes notation (500m, 2), or none.",
		Pattern:  `^(none|[0-9]+(\.[0-9]+)?m?)$`,
		Examples: []string{"none", "500m", "2"},
		Parse:    CPULevel, value: CPUValue, Plain: &PlainNumber{},
	}.Labelled(Says("CPU limit %s")).shortened(Says("cpu%s"))),
	ofProxies(Factor{
		Name: FactorEnvoy, Default: EnvoyDefault,
		Doc:      "Version of Envoy in the sidecars; default is the one the proxy image comes with.",
		Pattern:  `^(default|[0-9]+\.[0-9]+\.[0-9]+)$`,
		Examples: []string{"default", "1.39.0"},
		Parse:    envoyLevel,
	}.Labelled(Says("Envoy %s")).shortened(func(level string) string { return "envoy" + strings.ReplaceAll(level, ".", "-") })),
	interceptionFactor,
	ofServer(Factor{
		Name: FactorFilters, Default: FiltersNone,
		Doc:      filtersDoc,
		Pattern:  filtersPattern(),
		Examples: []string{"none", "lua", "authz-allow-100+jwt", "planted-200"},
		Parse:    filtersLevel,
	}.Labelled(filtersLabel).shortened(func(level string) string { return strings.ReplaceAll(level, partSeparator, "-") })),
	plantedFactor,
	placementFactor,
}

// ofProxies is a factor of the sidecars of both pods.
func ofProxies(f Factor) Factor {
	f.Scope = ScopeProxies
	return f.IdleWhere(func(cell record.Cell) bool { return !proxied(cell) })
}

// ofServer is a factor of the server's sidecar.
func ofServer(f Factor) Factor {
	f.Scope = ScopeServer
	return f.IdleWhere(func(cell record.Cell) bool { return !HasServerProxy(cell) })
}

// mtlsBecomes is permissive for strict mutual TLS where the client has no
// sidecar to speak it.
func mtlsBecomes(cell record.Cell) string {
	if level := cell[FactorMTLS]; level != MTLSStrict || HasClientProxy(cell) || !HasServerProxy(cell) {
		return level
	}
	return MTLSPermissive
}

func filtersLabel(level string) string {
	if level == FiltersNone {
		return "no filters"
	}
	return strings.ReplaceAll(level, partSeparator, " + ")
}
