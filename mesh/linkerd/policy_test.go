package linkerd

import (
	"slices"
	"testing"
	"time"

	"github.com/linkerd/linkerd2-proxy-api/go/http_route"
	"github.com/linkerd/linkerd2-proxy-api/go/outbound"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// told returns the policy controller's answer about a Service whose ports do
// not specify a protocol.
func told(http1 *outbound.ProxyProtocol_Http1) *outbound.OutboundPolicy {
	return &outbound.OutboundPolicy{Protocol: &outbound.ProxyProtocol{Kind: &outbound.ProxyProtocol_Detect_{Detect: &outbound.ProxyProtocol_Detect{Http1: http1}}}}
}

func routes(rule *outbound.HttpRoute_Rule) []*outbound.HttpRoute {
	return []*outbound.HttpRoute{{Rules: []*outbound.HttpRoute_Rule{rule}}}
}

func TestTold(t *testing.T) {
	plain := told(&outbound.ProxyProtocol_Http1{Routes: routes(&outbound.HttpRoute_Rule{})})
	all := told(&outbound.ProxyProtocol_Http1{
		Routes: routes(&outbound.HttpRoute_Rule{
			Timeouts: &http_route.Timeouts{Request: durationpb.New(2 * time.Second)},
			Retry: &outbound.HttpRoute_Retry{MaxRetries: 3, Timeout: durationpb.New(time.Second), Conditions: &outbound.HttpRoute_Retry_Conditions{
				StatusRanges: []*outbound.HttpRoute_Retry_Conditions_StatusRange{{Start: 500, End: 599}, {Start: 429, End: 429}}}},
		}),
		FailureAccrual: &outbound.FailureAccrual{Kind: &outbound.FailureAccrual_ConsecutiveFailures_{ConsecutiveFailures: &outbound.FailureAccrual_ConsecutiveFailures{
			MaxFailures: 5, Backoff: &outbound.ExponentialBackoff{MinBackoff: durationpb.New(5 * time.Second), MaxBackoff: durationpb.New(time.Minute)}}}},
	})
	asked := cellOf("retries", "3", "retry_on", "5xx,429", "per_try_timeout", "1s", "request_timeout", "2s", "outlier_detection", "errors=5 ejection=5s")
	for _, tt := range []struct {
		name   string
		policy *outbound.OutboundPolicy
		cell   record.Cell
		wrong  []string
	}{
		{"defaults", plain, cellOf(), nil},
		{"everything", all, asked, nil},
		{"not yet told", plain, asked, []string{"retries", "request-timeout", "outlier-detection"}},
		{"somebody else's", all, cellOf(), []string{"retries", "request-timeout", "outlier-detection"}},
		{"other conditions", all, cellOf("retries", "3", "retry_on", "5xx", "per_try_timeout", "1s", "request_timeout", "2s", "outlier_detection", "errors=5 ejection=5s"), []string{"retries"}},
		{"sooner", all, cellOf("retries", "3", "retry_on", "5xx,429", "per_try_timeout", "1s", "request_timeout", "2s", "outlier_detection", "errors=4 ejection=5s"), []string{"outlier-detection"}},
	} {
		of, err := policyOf(tt.policy, protocol.HTTP1)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		of.service = "bar"
		var wrong []string
		for _, c := range checkRoutes([]routePolicy{of}, wantedOf(tt.cell)) {
			if c.Detail == "" {
				t.Errorf("%s: %s says nothing", tt.name, c.Name)
			}
			if !c.OK {
				wrong = append(wrong, c.Name)
			}
		}
		if !slices.Equal(wrong, tt.wrong) {
			t.Errorf("%s: wrong is %v, want %v", tt.name, wrong, tt.wrong)
		}
	}
}

// Anything other than a Service's default route verifies nothing about it.
func TestToldRefuses(t *testing.T) {
	for name, p := range map[string]*outbound.OutboundPolicy{
		"nothing": {},
		"opaque":  {Protocol: &outbound.ProxyProtocol{Kind: &outbound.ProxyProtocol_Opaque_{}}},
		"routes":  told(&outbound.ProxyProtocol_Http1{Routes: append(routes(&outbound.HttpRoute_Rule{}), routes(&outbound.HttpRoute_Rule{})...)}),
		"none":    told(&outbound.ProxyProtocol_Http1{}),
	} {
		if _, err := policyOf(p, protocol.HTTP1); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
