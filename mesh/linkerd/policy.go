package linkerd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strconv"

	"github.com/linkerd/linkerd2-proxy-api/go/outbound"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// policyPort is the port on which the policy controller, a container of the destination
// pod, serves proxies.
const policyPort = 8090

// CheckPolicies queries the policy controller for what it tells proxies about each route,
// like `linkerd diagnostics policy`, and compares it with what the cell requests. The
// answer is the same for all callers in a namespace.
func (m *Mesh) CheckPolicies(ctx context.Context, routes []mesh.Route, cell record.Cell) ([]record.Check, error) {
	if m.cluster == nil {
		return nil, errors.New("linkerd: the cluster was not checked")
	}
	client, err := kubernetes.NewForConfig(m.cluster)
	if err != nil {
		return nil, fmt.Errorf("linkerd: %w", err)
	}
	pods, err := client.CoreV1().Pods(Namespace).List(ctx, metav1.ListOptions{LabelSelector: destinationPods})
	if err != nil {
		return nil, fmt.Errorf("linkerd: find the policy controller: %w", err)
	}
	at := slices.IndexFunc(pods.Items, func(p corev1.Pod) bool { return lab.PodReady(&p) })
	if at < 0 {
		return nil, fmt.Errorf("linkerd: the policy controller has no ready pod in namespace %s", Namespace)
	}
	pod := pods.Items[at].Name
	dialer := lab.NewDialer(m.cluster)
	defer dialer.Close()
	conn, err := grpc.NewClient("passthrough:///policy", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return dialer.DialPod(ctx, Namespace, pod, policyPort)
		}))
	if err != nil {
		return nil, fmt.Errorf("linkerd: %w", err)
	}
	defer conn.Close()
	policies := outbound.NewOutboundPoliciesClient(conn)
	var all []routePolicy
	for _, r := range routes {
		answer, err := policies.Get(ctx, &outbound.TrafficSpec{
			SourceWorkload: r.Namespace + ":meshtrial",
			Target:         &outbound.TrafficSpec_Authority{Authority: r.Name + "." + r.Namespace + ".svc.cluster.local:" + strconv.Itoa(r.Port)},
		})
		if err != nil {
			return nil, fmt.Errorf("linkerd: ask the policy controller about %s:%d: %w", r.Name, r.Port, err)
		}
		of, err := policyOf(answer, cell[study.FactorProtocol])
		if err != nil {
			return nil, fmt.Errorf("linkerd: answer of the policy controller about %s:%d: %w", r.Name, r.Port, err)
		}
		of.service = r.Name
		all = append(all, of)
	}
	return checkRoutes(all, wantedOf(cell)), nil
}

// routePolicy is what proxies are told about a route.
type routePolicy struct {
	service string
	policy
}

// policyOf parses a response. It returns the policy for the protocol of the callers, which
// proxies detect by the first bytes if a port does not specify one.
func policyOf(told *outbound.OutboundPolicy, speaks string) (routePolicy, error) {
	var routes []*outbound.HttpRoute
	var breaker *outbound.FailureAccrual
	switch p := told.GetProtocol().GetKind().(type) {
	case *outbound.ProxyProtocol_Detect_:
		if speaks == protocol.HTTP1 {
			routes, breaker = p.Detect.GetHttp1().GetRoutes(), p.Detect.GetHttp1().GetFailureAccrual()
		} else {
			routes, breaker = p.Detect.GetHttp2().GetRoutes(), p.Detect.GetHttp2().GetFailureAccrual()
		}
	case *outbound.ProxyProtocol_Http1_:
		routes, breaker = p.Http1.GetRoutes(), p.Http1.GetFailureAccrual()
	case *outbound.ProxyProtocol_Http2_:
		routes, breaker = p.Http2.GetRoutes(), p.Http2.GetFailureAccrual()
	default:
		return routePolicy{}, fmt.Errorf("its protocol is %T, not HTTP", p)
	}
	if len(routes) != 1 || len(routes[0].GetRules()) != 1 {
		return routePolicy{}, fmt.Errorf("%d routes, expected only the default route", len(routes))
	}
	rule := routes[0].GetRules()[0]
	out := routePolicy{policy: policy{timeout: rule.GetTimeouts().GetRequest().AsDuration()}}
	if r := rule.GetRetry(); r != nil {
		out.retries, out.try = int(r.GetMaxRetries()), r.GetTimeout().AsDuration()
		for _, s := range r.GetConditions().GetStatusRanges() {
			out.statuses = append(out.statuses, statuses{int(s.GetStart()), int(s.GetEnd())})
		}
		slices.SortFunc(out.statuses, inOrder)
	}
	if c := breaker.GetConsecutiveFailures(); c != nil {
		out.accrual, out.failures = true, int(c.GetMaxFailures())
		out.min, out.max = c.GetBackoff().GetMinBackoff().AsDuration(), c.GetBackoff().GetMaxBackoff().AsDuration()
	}
	return out, nil
}

// policyLevers are the separately verified parts of a policy, with their descriptions.
var policyLevers = []struct {
	name  string
	of    func(policy) policy
	words func(policy) string
}{
	{"retries", func(p policy) policy { return policy{retries: p.retries, statuses: p.statuses, try: p.try} }, func(p policy) string {
		if p.retries == 0 {
			return "no retries"
		}
		return fmt.Sprintf("%d retries for statuses %v, %v an attempt", p.retries, p.statuses, p.try)
	}},
	{"request-timeout", func(p policy) policy { return policy{timeout: p.timeout} }, func(p policy) string { return "timeout " + p.timeout.String() }},
	{"outlier-detection", func(p policy) policy {
		return policy{accrual: p.accrual, failures: p.failures, min: p.min, max: p.max}
	}, func(p policy) string {
		if !p.accrual {
			return "no failure accrual"
		}
		return fmt.Sprintf("failure accrual after %d in a row, for %v to %v", p.failures, p.min, p.max)
	}},
}

// checkRoutes compares what proxies are told with what the cell requests.
func checkRoutes(all []routePolicy, want policy) []record.Check {
	var out []record.Check
	for _, lever := range policyLevers {
		c := record.Check{Name: lever.name, OK: true, Detail: "the policy controller sends proxies: " + lever.words(want)}
		for _, p := range all {
			if !reflect.DeepEqual(lever.of(p.policy), lever.of(want)) {
				c.OK, c.Detail = false, fmt.Sprintf("for %s the policy controller sends proxies: %s; the cell sets: %s", p.service, lever.words(p.policy), lever.words(want))
				break
			}
		}
		out = append(out, c)
	}
	return out
}
