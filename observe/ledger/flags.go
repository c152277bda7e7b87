package ledger

import "strings"

// Hop is where a request failed.
type Hop string

const (
	HopNone        Hop = ""
	HopClient      Hop = "client"       // the generator itself, or its connection to the first station
	HopClientProxy Hop = "client-proxy" // the caller's proxy
	HopGateway     Hop = "gateway"      // the gateway through which the request entered
	HopNetwork     Hop = "network"      // between two pods: sent by one, never received by the other
	HopServerProxy Hop = "server-proxy" // the proxy of the called service
	HopWorker      Hop = "worker"       // the service's own program
)

// Hops in the order in which a request passes them.
var Hops = []Hop{HopClient, HopClientProxy, HopGateway, HopNetwork, HopServerProxy, HopWorker}

// Locations of a flag's cause, from the perspective of the proxy that logged
// it.
const (
	hopHere Hop = "here" // the proxy itself
	hopNext Hop = "next" // the connection to the upstream, or the upstream itself
	hopWait Hop = "wait" // it waited for a response until someone timed out
)

// Flag is one of Envoy's response flags.
type Flag struct {
	Short, Long string
	Meaning     string
	Cause       string // the usual cause
	// Hop is where the cause lies, seen from the proxy that logged the flag;
	// empty if the flag alone is not a failure.
	Hop Hop
}

// Flags is the table of response flags, most significant first: if a line has
// several, the first one found here is the cause.
//
// Source: Envoy's documentation of %RESPONSE_FLAGS%, version 1.40; the wording
// is ours.
var Flags = []Flag{
	{"NR", "NoRouteFound", "no route matched the request, or no filter chain the connection", "a host or path that no VirtualService or Service covers, or outbound policy REGISTRY_ONLY", hopHere},
	{"NC", "NoClusterFound", "the route names a cluster the proxy does not have", "a subset that no DestinationRule defines, or configuration still on its way", hopHere},
	{"NFCF", "NoFilterConfigFound", "a filter's configuration did not arrive in time", "the control plane is away, or refuses the extension", hopHere},
	{"UH", "NoHealthyUpstream", "the cluster has no host that may be used", "every endpoint is gone, not ready, or ejected by outlier detection", hopHere},
	{"UO", "UpstreamOverflow", "a circuit breaker's limit was reached", "connectionPool limits of a DestinationRule, smaller than the load needs", hopHere},
	{"DO", "DropOverload", "dropped, as the endpoints' policy asks under overload", "drop_overloads sent by the control plane", hopHere},
	{"UDO", "UnconditionalDropOverload", "dropped, since the endpoints' policy drops everything", "drop_overloads of 100%", hopHere},
	{"OM", "OverloadManagerTerminated", "the proxy's overload manager ended it", "the proxy is short of memory or has too many connections", hopHere},
	{"FI", "FaultInjected", "aborted by fault injection", "fault.abort of a VirtualService", hopHere},
	{"RL", "RateLimited", "refused by a local rate limit", "more requests than the limit allows", hopHere},
	{"RLSE", "RateLimitServiceError", "the rate limit service failed", "the service is away or slow", hopHere},
	{"UAEX", "UnauthorizedExternalService", "denied by external authorization", "an AuthorizationPolicy with action CUSTOM", hopHere},
	{"IH", "InvalidEnvoyRequestHeaders", "an x-envoy header had a value that is checked strictly", "a client that sets such headers itself", hopHere},
	{"LH", "FailedLocalHealthCheck", "the local service fails its health check", "the proxy was told to fail health checks, as when draining", hopHere},
	{"DPE", "DownstreamProtocolError", "the request broke the rules of HTTP", "a client or proxy that speaks another protocol on this port", hopHere},
	{"DT", "DurationTimeout", "the connection or request lasted longer than allowed", "max_connection_duration", hopHere},
	{"DF", "DnsResolutionFailed", "the upstream's name could not be resolved", "the resolver is away, or the name does not exist", hopHere},
	{"UF", "UpstreamConnectionFailure", "no connection to the upstream could be made", "the pod is gone or not yet listening, its certificate is refused, or packets are lost", hopNext},
	{"UPE", "UpstreamProtocolError", "the upstream's answer broke the rules of HTTP", "the upstream speaks another protocol on this port", hopNext},
	{"UC", "UpstreamConnectionTermination", "the upstream closed the connection", "the process ended, or closed an idle connection just as the request was sent", hopNext},
	{"UR", "UpstreamRemoteReset", "the upstream reset the request", "the upstream refuses or drops requests, as when draining", hopNext},
	{"LR", "LocalReset", "the proxy itself reset the request", "its connection was closed by a change of configuration, or a limit of its own", hopHere},
	{"UT", "UpstreamRequestTimeout", "no answer within the route's timeout, or that of a try", "the upstream is slow, overloaded or paused; the timeout too short", hopWait},
	{"UMSDR", "UpstreamMaxStreamDurationReached", "the request lasted longer than a stream may", "max_stream_duration", hopWait},
	{"SI", "StreamIdleTimeout", "nothing moved for the idle timeout", "one side stopped in the middle of a request or answer", hopWait},
	{"DC", "DownstreamConnectionTermination", "whoever asked closed the connection before the whole answer", "its own timeout was shorter, or it ended", hopWait},
	{"DR", "DownstreamRemoteReset", "whoever asked reset the request", "its own timeout was shorter, or it cancelled", hopWait},
	{"URX", "UpstreamRetryLimitExceeded", "as many retries as allowed were made", "the failure outlasted the retries; the other flags say which", HopNone},
	{"DI", "DelayInjected", "delayed by fault injection", "fault.delay of a VirtualService", HopNone},
	{"RFCF", "ResponseFromCacheFilter", "answered from the proxy's cache", "a cache filter", HopNone},
}

var flagIndex = func() map[string]int {
	index := make(map[string]int, 2*len(Flags))
	for i, f := range Flags {
		index[f.Short], index[f.Long] = i, i
	}
	return index
}()

// FlagByName finds a flag by its short or long name.
func FlagByName(name string) (Flag, bool) {
	i, ok := flagIndex[name]
	if !ok {
		return Flag{}, false
	}
	return Flags[i], true
}

// causeOf returns the most significant of a line's flags; the zero value if
// none indicates a failure. A flag that is not in the table counts as caused by
// the proxy itself.
func causeOf(flags string) Flag {
	best := -1
	for len(flags) > 0 {
		var name string
		name, flags, _ = strings.Cut(flags, ",")
		if name == "-" || name == "" {
			continue
		}
		i, ok := flagIndex[name]
		if !ok {
			return Flag{Short: name, Long: name, Meaning: "not known here", Hop: hopHere}
		}
		if Flags[i].Hop != HopNone && (best < 0 || i < best) {
			best = i
		}
	}
	if best < 0 {
		return Flag{}
	}
	return Flags[best]
}
