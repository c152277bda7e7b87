package study

import (
	"github.com/meshtrial/meshtrial/protocol"
	"github.com/meshtrial/meshtrial/record"
)

// Names of the factors.
const (
	FactorSidecars    = "sidecars"
	FactorConnections = "connections"
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

	RateMax = "max" // as fast as the connections allow

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

	// NotApplicable stands in a cell for a factor that means nothing there,
	// as the proxies' settings where there is no proxy.
	NotApplicable = "-"
)

// Scope is what a factor touches.
type Scope string

// Scopes of factors.
const (
	ScopeTopology Scope = "topology"     // which pods have a sidecar
	ScopeLoad     Scope = "load"         // what the generator does; the same pods serve every level
	ScopeProxies  Scope = "proxies"      // the sidecars of both pods
	ScopeServer   Scope = "server proxy" // the sidecar of the server pod
	ScopeTimeline Scope = "timeline"     // which steps happen
)

// Factor is something a study can vary or fix.
type Factor struct {
	Name    string
	Doc     string // what it is, one or two sentences
	Unit    string // of its levels; "" for names
	Kind    Kind
	Scope   Scope
	Default string // canonical
	// Levels are all its levels if it is a choice, else nil.
	Levels []string
	// Pattern and Examples describe the levels of a factor that is no
	// choice, for editors and error messages.
	Pattern  string
	Examples []string
	// Numeric says that levels order as numbers (for charts).
	Numeric bool
	parse   func(string) (string, *complaint)
	// integer says that levels are whole numbers from low on.
	integer bool
	low     int64
}

// FactorByName finds a factor of any kind.
func FactorByName(name string) (Factor, bool) {
	for _, f := range allFactors() {
		if f.Name == name {
			return f, true
		}
	}
	return Factor{}, false
}

var factors = []Factor{
	choice(FactorSidecars, ScopeTopology, SidecarsBoth,
		"Which of the two pods has a sidecar.",
		SidecarsNone, SidecarsServer, SidecarsClient, SidecarsBoth),
	{
		Name: FactorConnections, Kind: DataPlane, Scope: ScopeLoad, Unit: "connections", Default: "16", Numeric: true,
		Doc:      "Connections the generator keeps to the worker; with keep_alive false, requests at once.",
		Pattern:  `^[1-9][0-9]*$`,
		Examples: []string{"2", "16", "64"},
		parse:    integerLevel(1, 10_000), integer: true, low: 1,
	},
	{
		Name: FactorRate, Kind: DataPlane, Scope: ScopeLoad, Unit: "requests/s", Default: "1000", Numeric: true,
		Doc:      "Requests scheduled a second over all connections (open loop); max sends as fast as the connections allow.",
		Pattern:  `^(max|[0-9]+(\.[0-9]+)?)$`,
		Examples: []string{"1000", "max"},
		parse:    rateLevel,
	},
	choice(FactorArrival, ScopeLoad, ArrivalPoisson,
		"How requests are spread over time: poisson (independent users), uniform (evenly spaced), or burst (all connections fire together, as fortio does by default). Means nothing at rate max.",
		ArrivalPoisson, ArrivalUniform, ArrivalBurst),
	choice(FactorProtocol, ScopeLoad, protocol.HTTP1,
		"What the generator speaks to the worker.",
		protocol.Names(nil)...),
	{
		Name: FactorPayload, Kind: DataPlane, Scope: ScopeLoad, Unit: "bytes", Default: "1KiB", Numeric: true,
		Doc:      "Size of a request's body, with its unit: 1KiB is 1,024 bytes, 1kB is 1,000.",
		Pattern:  `^[0-9]+(\.[0-9]+)?(B|kB|KiB|MB|MiB)$`,
		Examples: []string{"0B", "1KiB", "64KiB"},
		parse:    payloadLevel,
	},
	choice(FactorKeepAlive, ScopeLoad, "true",
		"Whether connections live on after a request; false opens a new one for each.",
		"true", "false"),
	choice(FactorMTLS, ScopeServer, MTLSStrict,
		"What the server's sidecar accepts: strict mutual TLS only, permissive also plain text, off plain text only. A client without a sidecar speaks plain text, so strict becomes permissive there.",
		MTLSStrict, MTLSPermissive, MTLSOff),
	choice(FactorTelemetry, ScopeProxies, TelemetryOff,
		"What the sidecars report about every request: an access log as text or JSON, with or without the mesh's request metrics.",
		TelemetryOff, TelemetryText, TelemetryJSON, TelemetryTextStats, TelemetryJSONStats),
	{
		Name: FactorConcurrency, Kind: DataPlane, Scope: ScopeProxies, Unit: "threads", Default: "2", Numeric: true,
		Doc:      "Worker threads of each sidecar.",
		Pattern:  `^[1-9][0-9]*$`,
		Examples: []string{"1", "2", "4"},
		parse:    integerLevel(1, 128), integer: true, low: 1,
	},
	{
		Name: FactorCPULimit, Kind: DataPlane, Scope: ScopeProxies, Unit: "CPUs", Default: CPULimitNone, Numeric: true,
		Doc:      "CPU limit of each sidecar's container, as Kubernetes writes it (500m, 2), or none.",
		Pattern:  `^(none|[0-9]+(\.[0-9]+)?m?)$`,
		Examples: []string{"none", "500m", "2"},
		parse:    cpuLevel,
	},
	{
		Name: FactorEnvoy, Kind: DataPlane, Scope: ScopeProxies, Default: EnvoyDefault,
		Doc:      "Version of Envoy in the sidecars; default is the one the proxy image comes with.",
		Pattern:  `^(default|[0-9]+\.[0-9]+\.[0-9]+)$`,
		Examples: []string{"default", "1.39.0"},
		parse:    envoyLevel,
	},
	interceptionFactor,
	{
		Name: FactorFilters, Kind: DataPlane, Scope: ScopeServer, Default: FiltersNone,
		Doc:      filtersDoc,
		Pattern:  filtersPattern(),
		Examples: []string{"none", "lua", "authz-allow-100+jwt", "planted-200"},
		parse:    filtersLevel,
	},
}

// dataEffective is a full cell of the data plane as it takes effect: strict
// mutual TLS becomes permissive where the client has no sidecar to speak it.
func dataEffective(cell record.Cell) record.Cell {
	out := cell.With(nil)
	client, server := HasClientProxy(cell), HasServerProxy(cell)
	for _, f := range factors {
		none := false
		switch f.Scope {
		case ScopeProxies:
			none = !client && !server
		case ScopeServer:
			none = !server
		}
		if none {
			out[f.Name] = NotApplicable
		}
	}
	if server && !client && out[FactorMTLS] == MTLSStrict {
		out[FactorMTLS] = MTLSPermissive
	}
	if out[FactorRate] == RateMax {
		out[FactorArrival] = NotApplicable
	}
	return out
}

// HasClientProxy reports whether a cell's load pod has a sidecar.
func HasClientProxy(cell record.Cell) bool {
	s := cell[FactorSidecars]
	return s == SidecarsClient || s == SidecarsBoth
}

// HasServerProxy reports whether a cell's worker pod has a sidecar.
func HasServerProxy(cell record.Cell) bool {
	s := cell[FactorSidecars]
	return s == SidecarsServer || s == SidecarsBoth
}
