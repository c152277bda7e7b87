package study

import (
	"strings"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// MaxGenerators bounds the client pods that send the requests of a trial.
const MaxGenerators = 100

// dataFactors is the table of the data plane's factors, in the order reports
// use.
var dataFactors = []Factor{
	Choice(FactorSidecars, ScopeTopology, SidecarsBoth,
		"Which of the two pods has a sidecar. ambient: neither; ztunnel on their nodes carries the requests. waypoint: the same, by way of a waypoint of the server's Service. gateway: neither; requests pass an ingress gateway of the mesh, in a pod of its own.",
		CarrierLevels("")...).
		Amongst(func() []string { return CarrierLevels("") }).
		Subjected(CarrierSubject),
	Connections,
	Factor{
		Name: FactorGenerators, Scope: ScopeLoad, Unit: "generators", Default: "1", Numeric: true, Implied: true,
		Doc:      "Load generators, each in a client pod of its own. They share the connections, and send together exactly the requests that one would.",
		Pattern:  `^[1-9][0-9]*$`,
		Examples: []string{"1", "2", "4"},
		Parse:    IntegerLevel(1, MaxGenerators), Integer: true, Low: 1,
	}.Labelled(Counts("generator")).Phrased(After("with", Counts("generator"))),
	Rate,
	Arrival,
	Choice(FactorProtocol, ScopeLoad, protocol.HTTP1,
		"What the generator speaks to the worker.",
		protocol.Names(nil)...).
		Phrased(Says("over %s")),
	Payload,
	Choice(FactorKeepAlive, ScopeLoad, "true",
		"Whether connections live on after a request; false opens a new one for each.",
		"true", "false").
		Labelled(Says("new connections", "true", "keep-alive")),
	ofServer(Choice(FactorMTLS, ScopeServer, MTLSStrict,
		"What the server's sidecar accepts: strict mutual TLS only, permissive also plain text, off plain text only. A client without a sidecar speaks plain text, so strict becomes permissive there.",
		MTLSStrict, MTLSPermissive, MTLSOff).
		Labelled(Says("mTLS %s")).Shortened(Says("mtls-%s")).Becoming(mtlsBecomes)),
	ofProxies(Choice(FactorTelemetry, ScopeProxies, TelemetryOff,
		"What the sidecars report about every request: an access log as text or JSON, with or without the mesh's request metrics.",
		TelemetryOff, TelemetryText, TelemetryJSON, TelemetryTextStats, TelemetryJSONStats).
		Labelled(Says("telemetry %s")).Shortened(strings.NewReplacer("access-log-", "log-", "+", "-").Replace)),
	ofProxies(Factor{
		Name: FactorConcurrency, Unit: "threads", Default: "2", Numeric: true,
		Doc:      "Worker threads per sidecar.",
		Pattern:  `^[1-9][0-9]*$`,
		Examples: []string{"1", "2", "4"},
		Parse:    IntegerLevel(1, 128), Integer: true, Low: 1,
	}.Labelled(Counts("thread")).Phrased(Says("with %s proxy threads")).Shortened(Says("c%s"))),
	ofProxies(Factor{
		Name: FactorCPULimit, Default: CPULimitNone,
		Doc:      "CPU limit of each sidecar's container, in Kubernetes notation (500m, 2), or none.",
		Pattern:  `^(none|[0-9]+(\.[0-9]+)?m?)$`,
		Examples: []string{"none", "500m", "2"},
		Parse:    CPULevel, Plain: &PlainNumber{},
	}.NumericIn("CPUs", CPUValue).Labelled(Says("CPU limit %s")).Shortened(Says("cpu%s"))),
	ofProxies(Factor{
		Name: FactorEnvoy, Default: EnvoyDefault,
		Doc:      "Version of Envoy in the sidecars; default is the one the proxy image comes with.",
		Pattern:  `^(default|[0-9]+\.[0-9]+\.[0-9]+)$`,
		Examples: []string{"default", "1.39.0"},
		Parse:    envoyLevel,
	}.Labelled(Says("Envoy %s")).Shortened(func(level string) string { return "envoy" + strings.ReplaceAll(level, ".", "-") })),
	interceptionFactor,
	ofServer(Factor{
		Name: FactorFilters, Default: FiltersNone,
		Doc:      filtersDoc,
		Pattern:  filtersPattern(),
		Examples: []string{"none", "lua", "authz-allow-100+jwt", "planted-200"},
		Parse:    filtersLevel,
	}.Labelled(filtersLabel).Shortened(func(level string) string { return strings.ReplaceAll(level, partSeparator, "-") })),
	plantedFactor,
	placementFactor,
}

// ofProxies is a factor of the sidecars of both pods.
func ofProxies(f Factor) Factor {
	f.Scope = ScopeProxies
	return f.IdleWhere(func(cell record.Cell) bool { return !Proxied(cell) })
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
