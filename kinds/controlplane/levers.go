package controlplane

import (
	"slices"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

// usualHosts are the egress hosts that Istio's documentation recommends.
const usualHosts = "./*,istio-system/*"

// Levers returns the factors that change a setting of istiod or of the mesh. Each stays as
// installed ([LevelInstalled]) unless a study names a level. The caller must not modify them.
func Levers() []study.Factor { return leverFactors }

// LeverByName finds a lever by its factor's name.
func LeverByName(name string) (study.Factor, bool) {
	i := slices.IndexFunc(leverFactors, func(f study.Factor) bool { return f.Name == name })
	if i < 0 {
		return study.Factor{}, false
	}
	return leverFactors[i], true
}

var leverFactors = append(slices.Clone(namedLevers), otherEnvironment(namedLevers), imageLever)

// namedLevers are the settings with their own factor.
var namedLevers = asInstalled([]study.Factor{
	study.Choice(FactorSidecarScope, study.ScopeMesh, SidecarScopeNone,
		"Sidecar resource: none, one for the mesh in its root namespace, one in control.scope_namespace, or one for a workload there.",
		SidecarScopeNone, SidecarScopeMesh, SidecarScopeNamespace, SidecarScopeWorkload).
		Labelled(study.Says("Sidecar of %s", SidecarScopeNone, "no Sidecar")),
	study.Text(FactorSidecarHosts, study.ScopeMesh, usualHosts,
		"Egress hosts of the Sidecar resource: namespace/name, separated by commas; ./*,istio-system/* if only sidecar_scope is set.",
		`^[^/, ]+/[^/, ]+(,[^/, ]+/[^/, ]+)*$`, hostsLevel, usualHosts, "istio-system/*,prometheus/*").
		Labelled(study.Says("egress %s")).IdleWhere(noSidecars).Becoming(hostsOfOurs),
	study.Choice(FactorOutboundPolicy, study.ScopeMesh, OutboundAllowAny,
		"outboundTrafficPolicy of the Sidecar resource, or of the mesh if there is none: whether proxies pass through requests to unknown hosts.",
		OutboundAllowAny, OutboundRegistryOnly),
	study.Choice(FactorExportTo, study.ScopeMesh, "*",
		"Where Services, VirtualServices and DestinationRules without exportTo are visible: everywhere (*), in their own namespace (.), nowhere (~).",
		"*", ".", "~").Labelled(study.Says("exportTo %s")),
	study.Text(FactorDiscoverySelectors, study.ScopeMesh, study.LevelNone,
		"Namespaces that istiod watches, by a label they have (key=value) or lack (key!=value); none for all.",
		`^(none|[^=! ]+!?=[^=! ]*)$`, orWord(study.LevelNone, "key=value or key!=value", selectorLevel), "none", "istio-discovery=enabled", "team!=other").
		Labelled(study.Says("namespaces with %s", study.LevelNone, "all namespaces")),
	study.Choice(FactorDNSCapture, study.ScopeMesh, "false",
		"Whether sidecars answer DNS themselves, from a table of names that istiod sends.", "true", "false").
		InMetadata("ISTIO_META_DNS_CAPTURE").Labelled(study.OnOff("DNS capture")),
	study.Choice(FactorHBONE, study.ScopeMesh, "false",
		"ISTIO_META_ENABLE_HBONE: whether sidecars use HBONE with pods of an ambient mesh, as in Istio's ambient profile. Their Envoys then subscribe to all workloads of the mesh.", "true", "false").
		InMetadata("ISTIO_META_ENABLE_HBONE").Labelled(study.OnOff("sidecars' HBONE")).OmittedAtDefault(),

	study.DebounceAfter,
	study.Text(FactorDebounceMax, study.ScopeIstiod, "10s",
		"PILOT_DEBOUNCE_MAX: how long istiod waits at most while changes continue. Proved only by the running istiod's environment.", study.DurationPattern, study.DebounceLevel, "10s").
		NumericIn("s", study.SecondsValue).InEnv("PILOT_DEBOUNCE_MAX").Labelled(study.Says("debounce at most %s")),
	study.Choice(FactorEDSDebounce, study.ScopeIstiod, "true",
		"PILOT_ENABLE_EDS_DEBOUNCE: whether changes of endpoints are debounced too.", "true", "false").
		InEnv("PILOT_ENABLE_EDS_DEBOUNCE").Labelled(study.OnOff("EDS debounce")),
	study.Text(FactorPushThrottle, study.ScopeIstiod, study.LevelDefault,
		"PILOT_PUSH_THROTTLE: concurrent pushes; default is istiod's built-in number. Proved only by the running istiod's environment.", `^(default|[1-9][0-9]*)$`, orWord(study.LevelDefault, "a whole number", study.IntegerLevel(1, 10_000)), "default", "100").
		NumericIn("", nil).OrPlain().InEnv("PILOT_PUSH_THROTTLE").Labelled(study.Says("push throttle %s")),
	study.Text(FactorRequestLimit, study.ScopeIstiod, study.LevelDefault,
		"PILOT_MAX_REQUESTS_PER_SECOND: new streams and requests istiod accepts per second; default is istiod's built-in number. Proved only by the running istiod's environment.", `^(default|[0-9]+(\.[0-9]+)?)$`, orWord(study.LevelDefault, "a number", numberLevel("requests per second", 1_000_000)), "default", "100").
		NumericIn("requests/s", nil).OrPlain().InEnv("PILOT_MAX_REQUESTS_PER_SECOND").Labelled(study.Says("request limit %s")),
	count(FactorIstiodReplicas, study.ScopeIstiod, "1", "replicas", "Replicas of istiod.", 1, "1", "2").
		Labelled(study.Counts("replica")),
	study.Text(FactorConnectionAge, study.ScopeIstiod, "30m",
		"--keepaliveMaxServerConnectionAge: maximum age of a proxy's connection, varied at random by up to 10%; istiod then asks the proxy to reconnect, perhaps to another replica, and closes the connection 10 s later. none for no limit. Proved by the command line of istiod's pods.",
		study.TimeOrNone, orWord(study.LevelNone, "a time such as 30m", ageLevel), "30m", "1m", study.LevelNone).
		NumericIn("s", study.SecondsValue).InFlag("keepaliveMaxServerConnectionAge").Labelled(study.Says("connections of up to %s", study.LevelNone, "connections of any age")),
	study.Text(FactorIstiodCPU, study.ScopeIstiod, study.LevelNone,
		"CPU limit of istiod in Kubernetes notation, or none.", `^(none|[0-9]+(\.[0-9]+)?m?)$`, study.CPULevel, "none", "1", "500m").
		NumericIn("CPUs", study.CPUValue).OrPlain().Labelled(study.Says("istiod CPU %s")),
	study.Text(FactorIstiodMemory, study.ScopeIstiod, study.LevelNone,
		"Memory limit of istiod in Kubernetes notation, or none.", `^(none|[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|k|M|G)?)$`, orWord(study.LevelNone, "an amount such as 512Mi", memoryLevel), "none", "1536Mi", "2Gi").
		NumericIn("bytes", memoryBytes).Labelled(study.Says("istiod memory %s")),
	study.Text(FactorIstiodCPURequest, study.ScopeIstiod, "",
		"CPU request of istiod in Kubernetes notation: decides on scheduling, and its share when CPU is short.",
		`^[0-9]+(\.[0-9]+)?m?$`, cpuRequest, "1", "500m").
		NumericIn("CPUs", study.CPUValue).OrPlain().Labelled(study.Says("istiod CPU request %s")),
	study.Text(FactorIstiodMemRequest, study.ScopeIstiod, "",
		"Memory request of istiod in Kubernetes notation.",
		`^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|k|M|G)?$`, memoryLevel, "1Gi").
		NumericIn("bytes", memoryBytes).Labelled(study.Says("istiod memory request %s")),
	study.Choice(FactorDelta, study.ScopeMesh, "true",
		"ISTIO_DELTA_XDS: whether real sidecars use delta xDS; for simulated ones see xds.", "true", "false").
		InMetadata("ISTIO_DELTA_XDS").Labelled(study.OnOff("sidecars' delta")),
	study.Choice(FactorXDSCache, study.ScopeIstiod, "true",
		"PILOT_ENABLE_XDS_CACHE: whether istiod caches generated resources.", "true", "false").
		InEnv("PILOT_ENABLE_XDS_CACHE").Labelled(study.OnOff("XDS cache")),
})

// otherEnvironment returns the factor for the rest of istiod's environment, without the variables
// of levers.
func otherEnvironment(levers []study.Factor) study.Factor {
	return study.AsLever(study.Text(FactorIstiodEnv, study.ScopeIstiod, "",
		"More environment variables of istiod: NAME=VALUE, separated by semicolons; variables with a lever are set by that lever.",
		`^[A-Za-z_][A-Za-z0-9_]*=[^;]*(;[A-Za-z_][A-Za-z0-9_]*=[^;]*)*$`, envLevel(levers), "PILOT_ENABLE_CDS_CACHE=false"))
}

var imageLever = study.AsLever(study.Text(FactorIstiod, study.ScopeIstiod, "",
	"Image of istiod.", `^[A-Za-z0-9][A-Za-z0-9._/:@-]*$`, imageLevel, "docker.io/istio/pilot:1.30.0").
	Labelled(study.Says("istiod %s")))

// asInstalled turns factors into levers.
func asInstalled(factors []study.Factor) []study.Factor {
	for i, f := range factors {
		if !f.IsLever() {
			factors[i] = study.AsLever(f)
		}
	}
	return factors
}

// noSidecars reports whether a cell has no Sidecar resource created by us.
func noSidecars(cell record.Cell) bool {
	scope := cell[FactorSidecarScope]
	return scope == SidecarScopeNone || scope == study.LevelInstalled
}

// hostsOfOurs returns the egress hosts of a Sidecar resource created by us, none of which was
// installed before.
func hostsOfOurs(cell record.Cell) string {
	if level := cell[FactorSidecarHosts]; level != study.LevelInstalled {
		return level
	}
	return usualHosts
}
