package study

import (
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/record/rate"
)

// Names of factors that several kinds share, or that mesh adapters apply.
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
	FactorDestination = "destination"
)

// Levels that the code compares with.
const (
	SidecarsNone   = "none"
	SidecarsServer = "server"
	SidecarsClient = "client"
	SidecarsBoth   = "both"
	// SidecarsAmbient has no sidecars and runs in an ambient mesh.
	SidecarsAmbient = "ambient"
	// SidecarsWaypoint is ambient with a waypoint for the server's Service.
	SidecarsWaypoint = "waypoint"
	// SidecarsGateway has no proxy in either pod: requests enter through the mesh's ingress
	// gateway.
	SidecarsGateway = "gateway"

	// DestinationInside is a server that the mesh knows.
	DestinationInside = "inside"
	// DestinationOutside is an address of which the mesh knows nothing.
	DestinationOutside = "outside"
	// DestinationStatic and DestinationDNS are known by a ServiceEntry, with the server's address
	// or with its name.
	DestinationStatic = "outside-static"
	DestinationDNS    = "outside-dns"
	// DestinationEgress is known by name, and requests leave the mesh through an egress gateway.
	DestinationEgress = "egress-gateway"

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

// ArrivalDoc describes [FactorArrival] at any rate but max.
const ArrivalDoc = "Arrival process of requests: poisson (independent users), uniform (evenly spaced), or burst (all connections fire together, as fortio does by default)."

// Connections is the number of connections that a generator keeps.
var Connections = Factor{
	Name: FactorConnections, Scope: ScopeLoad, Unit: "connections", Default: "16", Numeric: true,
	Doc:      "Connections from the generator to the worker; with keep_alive false, concurrent requests.",
	Pattern:  `^[1-9][0-9]*$`,
	Examples: []string{"2", "16", "64"},
	Parse:    IntegerLevel(1, 10_000), Integer: true, Low: 1,
}.Labelled(Counts("connection")).Phrased(After("at", Counts("connection")))

// Rate is the request rate.
var Rate = Factor{
	Name: FactorRate, Scope: ScopeLoad, Unit: "requests/s", Default: "1000", Numeric: true,
	Doc:      "Requests scheduled per second over all connections (open loop); max sends as fast as the connections allow.",
	Pattern:  `^(max|[0-9]+(\.[0-9]+)?)$`,
	Examples: []string{"1000", "max"},
	Parse:    RateLevel, Plain: &PlainNumber{Max: maxRate, Word: rate.Word},
}.Labelled(Says("%s rps", rate.Word, "max rate")).Phrased(Grouped(Says("at %s requests per second", rate.Word, "as fast as possible")))

// Arrival is the distribution of requests over time.
var Arrival = Choice(FactorArrival, ScopeLoad, ArrivalPoisson,
	ArrivalDoc+" Not used at rate max.",
	ArrivalPoisson, ArrivalUniform, ArrivalBurst).
	Phrased(Says("with %s arrivals", ArrivalPoisson, "with Poisson arrivals")).
	IdleWhere(func(cell record.Cell) bool { return cell[FactorRate] == rate.Word })

// Payload is the size of requests.
var Payload = Factor{
	Name: FactorPayload, Scope: ScopeLoad, Unit: "bytes", Default: "1KiB", Numeric: true,
	Doc:      "Request body size, with its unit: 1KiB is 1,024 bytes, 1kB is 1,000.",
	Pattern:  `^[0-9]+(\.[0-9]+)?(B|kB|KiB|MB|MiB)$`,
	Examples: []string{"0B", "1KiB", "64KiB"},
	Parse:    payloadLevel, value: bytesValue,
}.Phrased(Says("with payloads of %s bytes"))

// KeepAlive is whether generators reuse connections.
var KeepAlive = Choice(FactorKeepAlive, ScopeLoad, "true",
	"Whether connections are reused; false opens one per request.",
	"true", "false").
	Labelled(Says("new connections", "true", "keep-alive"))
