package study

import (
	"slices"

	"github.com/meshtrial/meshtrial/record"
)

// usualHosts are the egress hosts that Istio's documentation advises.
const usualHosts = "./*,istio-system/*"

// Levers are the factors that set something of istiod or of the mesh. Each is left
// as installed ([LevelInstalled]) unless a study names a level. The caller must not
// change them.
func Levers() []Factor { return leverFactors }

// Lever finds a lever by its factor's name.
func LeverByName(name string) (Factor, bool) {
	i := slices.IndexFunc(leverFactors, func(f Factor) bool { return f.Name == name })
	if i < 0 {
		return Factor{}, false
	}
	return leverFactors[i], true
}

var leverFactors = append(slices.Clone(namedLevers), otherEnvironment(namedLevers), imageLever)

// namedLevers are the settings that have a name of their own.
var namedLevers = asInstalled([]Factor{
	controlChoice(FactorSidecarScope, ScopeMesh, SidecarScopeNone,
		"Which Sidecar resource there is: none, one for the mesh in its root namespace, one in control.scope_namespace, or one for a workload there.",
		SidecarScopeNone, SidecarScopeMesh, SidecarScopeNamespace, SidecarScopeWorkload).
		Labelled(Says("Sidecar of %s", SidecarScopeNone, "no Sidecar")),
	ControlText(FactorSidecarHosts, ScopeMesh, usualHosts,
		"Egress hosts of the Sidecar resource, as namespace/name, with a comma between them; ./*,istio-system/* where only sidecar_scope is named.",
		`^[^/, ]+/[^/, ]+(,[^/, ]+/[^/, ]+)*$`, hostsLevel, usualHosts, "istio-system/*,prometheus/*").
		Labelled(Says("egress %s")).IdleWhere(noSidecars).becoming(hostsOfOurs),
	controlChoice(FactorOutboundPolicy, ScopeMesh, OutboundAllowAny,
		"outboundTrafficPolicy of the Sidecar resource, or of the mesh where there is none: whether proxies pass on what they have no configuration for.",
		OutboundAllowAny, OutboundRegistryOnly),
	controlChoice(FactorExportTo, ScopeMesh, "*",
		"Where Services, VirtualServices and DestinationRules without exportTo are visible: everywhere (*), in their own namespace (.), nowhere (~).",
		"*", ".", "~").Labelled(Says("exportTo %s")),
	ControlText(FactorDiscoverySelectors, ScopeMesh, LevelNone,
		"Namespaces that istiod watches, by a label they have (key=value) or do not have (key!=value); none for all.",
		`^(none|[^=! ]+!?=[^=! ]*)$`, selectorLevel, "none", "istio-discovery=enabled", "team!=other").
		Labelled(Says("namespaces with %s", LevelNone, "all namespaces")),
	controlChoice(FactorDNSCapture, ScopeMesh, "false",
		"Whether sidecars answer DNS themselves, for which istiod sends them a table of names.", "true", "false").
		metadata("ISTIO_META_DNS_CAPTURE").Labelled(OnOff("DNS capture")),
	impliedly(controlChoice(FactorHBONE, ScopeMesh, "false",
		"ISTIO_META_ENABLE_HBONE: whether sidecars speak HBONE with the pods of an ambient mesh, as Istio's ambient profile has them. Their Envoys then subscribe to all workloads of the mesh.", "true", "false").
		metadata("ISTIO_META_ENABLE_HBONE").Labelled(OnOff("sidecars' HBONE"))),

	ControlText(FactorDebounceAfter, ScopeIstiod, "100ms",
		"PILOT_DEBOUNCE_AFTER: how long istiod waits for more changes after one.", durationPattern, debounceLevel, "100ms", "2500ms").
		numeric("s", secondsValue).env("PILOT_DEBOUNCE_AFTER").Labelled(Says("debounce %s")),
	ControlText(FactorDebounceMax, ScopeIstiod, "10s",
		"PILOT_DEBOUNCE_MAX: how long istiod waits at most while more changes come. Proved by the environment of the running istiod alone.", durationPattern, debounceLevel, "10s").
		numeric("s", secondsValue).env("PILOT_DEBOUNCE_MAX").Labelled(Says("debounce at most %s")),
	controlChoice(FactorEDSDebounce, ScopeIstiod, "true",
		"PILOT_ENABLE_EDS_DEBOUNCE: whether changes of endpoints are debounced too.", "true", "false").
		env("PILOT_ENABLE_EDS_DEBOUNCE").Labelled(OnOff("EDS debounce")),
	ControlText(FactorPushThrottle, ScopeIstiod, LevelDefault,
		"PILOT_PUSH_THROTTLE: proxies pushed to at a time; default is istiod's built-in number. Proved only by the environment of the running istiod, which shows it nowhere else.", `^(default|[1-9][0-9]*)$`, orInteger(LevelDefault, 1, 10_000), "default", "100").
		numeric("", nil).orPlain().env("PILOT_PUSH_THROTTLE").Labelled(Says("push throttle %s")),
	ControlText(FactorRequestLimit, ScopeIstiod, LevelDefault,
		"PILOT_MAX_REQUESTS_PER_SECOND: new streams and requests istiod accepts per second; default is istiod's built-in number. Proved only by the environment of the running istiod, which shows it nowhere else.", `^(default|[0-9]+(\.[0-9]+)?)$`, orNumber(LevelDefault, 1_000_000), "default", "100").
		numeric("requests/s", nil).orPlain().env("PILOT_MAX_REQUESTS_PER_SECOND").Labelled(Says("request limit %s")),
	count(FactorIstiodReplicas, ScopeIstiod, "1", "replicas", "Replicas of istiod.", 1, "1", "2").
		Labelled(Counts("replica")),
	ControlText(FactorConnectionAge, ScopeIstiod, "30m",
		"--keepaliveMaxServerConnectionAge: how old istiod lets a proxy's connection become, give or take a random tenth; then it has the proxy reconnect, perhaps to another replica, and ends the connection 10 s later. none for any age. Proved by the command line of istiod's pods.",
		TimeOrNone, ageLevel, "30m", "1m", LevelNone).
		numeric("s", secondsValue).flag("keepaliveMaxServerConnectionAge").Labelled(Says("connections of up to %s", LevelNone, "connections of any age")),
	ControlText(FactorIstiodCPU, ScopeIstiod, LevelNone,
		"CPU limit of istiod as Kubernetes writes it, or none.", `^(none|[0-9]+(\.[0-9]+)?m?)$`, cpuLevel, "none", "1", "500m").
		numeric("CPUs", cpuValue).orPlain().Labelled(Says("istiod CPU %s")),
	ControlText(FactorIstiodMemory, ScopeIstiod, LevelNone,
		"Memory limit of istiod as Kubernetes writes it, or none.", `^(none|[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|k|M|G)?)$`, memoryLevel, "none", "1536Mi", "2Gi").
		numeric("bytes", memoryBytes).Labelled(Says("istiod memory %s")),
	ControlText(FactorIstiodCPURequest, ScopeIstiod, "",
		"CPU request of istiod as Kubernetes writes it. It decides where istiod fits, and its share where CPU is short.",
		`^[0-9]+(\.[0-9]+)?m?$`, given(cpuLevel), "1", "500m").
		numeric("CPUs", cpuValue).orPlain().Labelled(Says("istiod CPU request %s")),
	ControlText(FactorIstiodMemRequest, ScopeIstiod, "",
		"Memory request of istiod as Kubernetes writes it.",
		`^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|k|M|G)?$`, given(memoryLevel), "1Gi").
		numeric("bytes", memoryBytes).Labelled(Says("istiod memory request %s")),
	controlChoice(FactorDelta, ScopeMesh, "true",
		"ISTIO_DELTA_XDS: whether real sidecars are told to speak delta xDS; simulated ones do what factor xds says.", "true", "false").
		metadata("ISTIO_DELTA_XDS").Labelled(OnOff("sidecars' delta")),
	controlChoice(FactorXDSCache, ScopeIstiod, "true",
		"PILOT_ENABLE_XDS_CACHE: whether istiod keeps generated resources.", "true", "false").
		env("PILOT_ENABLE_XDS_CACHE").Labelled(OnOff("XDS cache")),
})

// otherEnvironment is the rest of istiod's environment, without the variables
// that are levers.
func otherEnvironment(levers []Factor) Factor {
	return lever(ControlText(FactorIstiodEnv, ScopeIstiod, "",
		"More of istiod's environment, NAME=VALUE with semicolons between them; a variable that is a lever goes by the lever's name.",
		`^[A-Za-z_][A-Za-z0-9_]*=[^;]*(;[A-Za-z_][A-Za-z0-9_]*=[^;]*)*$`, envLevel(levers), "PILOT_ENABLE_CDS_CACHE=false"))
}

var imageLever = lever(ControlText(FactorIstiod, ScopeIstiod, "",
	"Image of istiod.", `^[A-Za-z0-9][A-Za-z0-9._/:@-]*$`, imageLevel, "docker.io/istio/pilot:1.30.0").
	Labelled(Says("istiod %s")))

// asInstalled makes levers of factors.
func asInstalled(factors []Factor) []Factor {
	for i, f := range factors {
		factors[i] = lever(f)
	}
	return factors
}

// lever is a factor whose default leaves things as installed; the default that it
// had is [Factor.Usual].
func lever(f Factor) Factor {
	f.Usual, f.Default = f.Default, LevelInstalled
	if f.Levels != nil {
		f = f.amongst(func() []string { return f.Levels })
		f.Levels = append([]string{LevelInstalled}, f.Levels...)
	} else {
		f.Pattern = "^" + LevelInstalled + "$|" + f.Pattern
		f.Examples = append([]string{LevelInstalled}, f.Examples...)
	}
	parse, label, words := f.Parse, f.Label, f.words()+" as installed"
	f.Parse = func(s string) (string, *Error) {
		if s == LevelInstalled {
			return LevelInstalled, nil
		}
		out, c := parse(s)
		if c != nil && f.Levels == nil && c.Hint != "" {
			c.Hint += "; or " + LevelInstalled
		}
		return out, c
	}
	f.label = func(level string) string {
		if level == LevelInstalled {
			return words
		}
		return label(level)
	}
	phrase, subject := f.Phrase, f.Subject
	f.phrase = func(level string) string {
		if level == LevelInstalled {
			return "with " + words
		}
		return phrase(level)
	}
	f.subject = func(level string) (string, bool) {
		if level == LevelInstalled {
			return words, false
		}
		return subject(level)
	}
	return f
}

// Sets says whether a level of a lever sets something: it is not as installed, and
// not one that means nothing.
func (f Factor) Sets(level string) bool {
	if level == "" || level == NotApplicable {
		return false
	}
	canonical, err := f.Canonical(level)
	return err != nil || canonical != LevelInstalled
}

// noSidecars says that a cell has no Sidecar resource of ours.
func noSidecars(cell record.Cell) bool {
	scope := cell[FactorSidecarScope]
	return scope == SidecarScopeNone || scope == LevelInstalled
}

// hostsOfOurs are the egress hosts of a Sidecar resource of ours: nothing of it
// was installed.
func hostsOfOurs(cell record.Cell) string {
	if level := cell[FactorSidecarHosts]; level != LevelInstalled {
		return level
	}
	return usualHosts
}
