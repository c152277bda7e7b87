package dataplane

import (
	"strings"

	"github.com/meshtrial/meshtrial/record"
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
