package study

import "github.com/meshtrial/meshtrial/study/protocol"

// FactorCallout is a filter of the first service's proxy that asks another service of the graph about
// each request; a factor of resilience studies.
const FactorCallout = "callout"

// Filters of a proxy that ask a service about each request before they forward it: levels of the
// data plane's factor filters, and settings of [FactorCallout].
const (
	CalloutAuthzGRPC = "ext-authz-grpc"
	CalloutAuthzHTTP = "ext-authz-http"
	CalloutRateLimit = "rate-limit-global"
)

// What happens to requests about which the service does not answer.
const (
	FailOpen   = "open"   // they are forwarded
	FailClosed = "closed" // they are rejected
)

// Callouts lists the filters, in the order of reports.
func Callouts() []string { return []string{CalloutAuthzGRPC, CalloutAuthzHTTP, CalloutRateLimit} }

// CalloutProtocol returns the protocol in which a filter asks.
func CalloutProtocol(filter string) string {
	if filter == CalloutAuthzHTTP {
		return protocol.HTTP1
	}
	return protocol.GRPC
}
