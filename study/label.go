package study

import "strings"

func levelLabel(factor, level string) string {
	switch factor {
	case FactorConnections:
		return plural(level, "connection")
	case FactorRate:
		if level == RateMax {
			return "max rate"
		}
		return level + " rps"
	case FactorKeepAlive:
		if level == "true" {
			return "keep-alive"
		}
		return "new connections"
	case FactorMTLS:
		return "mTLS " + level
	case FactorTelemetry:
		return "telemetry " + level
	case FactorConcurrency:
		return plural(level, "thread")
	case FactorCPULimit:
		return "CPU limit " + level
	case FactorInterception:
		return "interception " + level
	case FactorEnvoy:
		return "Envoy " + level
	case FactorFilters:
		if level == FiltersNone {
			return "no filters"
		}
		return strings.ReplaceAll(level, partSeparator, " + ")
	}
	if label, ok := scenarioLabel(factor, level); ok {
		return label
	}
	return controlLabel(factor, level)
}

// scenarioLabel names a level of the factors of resilience.
func scenarioLabel(factor, level string) (string, bool) {
	switch factor {
	case FactorMesh:
		if level == MeshNone {
			return "no mesh", true
		}
		return level, true
	case FactorRetries:
		switch level {
		case LevelDefault:
			return "default retries", true
		case LevelOff:
			return "no retries", true
		}
		return plural(level, "retry"), true
	case FactorRetryOn:
		return "retry on " + level, true
	case FactorPerTryTimeout:
		return "per-try timeout " + level, true
	case FactorRequestTimeout:
		return "timeout " + level, true
	case FactorOutlierDetection:
		return "outlier detection " + level, true
	case FactorCircuitBreaker:
		return "circuit breaker " + level, true
	case FactorLoadBalancer:
		return "load balancer " + level, true
	case FactorDrain:
		return onOff("drain", level), true
	case FactorSkip:
		if level == LevelNone {
			return "every step", true
		}
		return "without " + strings.ReplaceAll(level, ",", ", "), true
	}
	return "", false
}

// controlLabel names a level of the control plane's factors.
func controlLabel(factor, level string) string {
	switch factor {
	case FactorProxies:
		return plural(level, "sidecar")
	case FactorGateways:
		return plural(level, "gateway")
	case FactorRealPods:
		return plural(level, "real pod")
	case FactorServices:
		return plural(level, "service")
	case FactorEndpoints:
		return plural(level, "endpoint") + " a service"
	case FactorNamespaces:
		return plural(level, "namespace")
	case FactorServiceEntries:
		return level + " ServiceEntries"
	case FactorVirtualServices:
		return plural(level, "VirtualService")
	case FactorDestinationRules:
		return plural(level, "DestinationRule")
	case FactorGatewayResources:
		return plural(level, "Gateway")
	case FactorAuthorizationPolicies:
		return level + " AuthorizationPolicies"
	case FactorXDS:
		if level == XDSSotW {
			return "state of the world"
		}
		return "delta xDS"
	case FactorClients:
		return "clients " + level
	case FactorChangeRate:
		if kind, rest, ok := strings.Cut(level, ":"); ok {
			return kind + " " + rest + " changes/s"
		}
		return level + " changes/s"
	case FactorChangeArrival:
		if size, ok := strings.CutPrefix(level, ArrivalBurst+":"); ok {
			return "bursts of " + size
		}
		return level
	case FactorSidecarScope:
		if level == SidecarScopeNone {
			return "no Sidecar"
		}
		return "Sidecar of " + level
	case FactorSidecarHosts:
		return "egress " + level
	case FactorExportTo:
		return "exportTo " + level
	case FactorDiscoverySelectors:
		if level == LevelNone {
			return "all namespaces"
		}
		return "namespaces with " + level
	case FactorDebounceAfter:
		return "debounce " + level
	case FactorDebounceMax:
		return "debounce at most " + level
	case FactorEDSDebounce:
		return onOff("EDS debounce", level)
	case FactorDNSCapture:
		return onOff("DNS capture", level)
	case FactorDelta:
		return onOff("sidecars' delta", level)
	case FactorXDSCache:
		return onOff("XDS cache", level)
	case FactorPushThrottle:
		return "push throttle " + level
	case FactorRequestLimit:
		return "request limit " + level
	case FactorIstiodReplicas:
		return plural(level, "replica")
	case FactorIstiodCPU:
		return "istiod CPU " + level
	case FactorIstiodMemory:
		return "istiod memory " + level
	case FactorIstiodCPURequest:
		return "istiod CPU request " + level
	case FactorIstiodMemRequest:
		return "istiod memory request " + level
	case FactorIstiodEnv:
		if level == LevelNone {
			return "environment as installed"
		}
		return level
	case FactorIstiod:
		return "istiod " + level
	}
	return level
}

func onOff(what, level string) string {
	if level == "true" {
		return what + " on"
	}
	return what + " off"
}

func plural(level, what string) string {
	if level == "1" {
		return "1 " + what
	}
	if stem, ok := strings.CutSuffix(what, "ry"); ok {
		return level + " " + stem + "ries"
	}
	return level + " " + what + "s"
}
