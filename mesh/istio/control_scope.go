package istio

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"k8s.io/apimachinery/pkg/labels"
)

// checkSidecars compares the Sidecar that istiod selected for proxies, and
// their configuration, with the one that the cell requests; no checks if it
// requests none.
func checkSidecars(s state, l mesh.Levers, e mesh.ControlEvidence) []record.Check {
	if !l.Named(controlplane.FactorSidecarScope) {
		return nil
	}
	wanted, err := desiredSidecars(l, "")
	if err != nil {
		return []record.Check{{Name: "sidecar-scope", Detail: err.Error()}}
	}
	scope := l.Level(controlplane.FactorSidecarScope)
	var wrong []string
	looked := 0
	for _, proxy := range e.Proxies[:min(len(e.Proxies), maxAskedProxies)] {
		if proxy.Gateway { // Sidecars do not select gateways
			continue
		}
		has := s.scopes[proxy.ID]
		if err := has.err; err != nil {
			wrong = append(wrong, fmt.Sprintf("proxy %s: %v", proxy.ID, err))
			continue
		}
		looked++
		expected := ""
		for _, w := range wanted {
			own := w.GetNamespace() == proxy.Namespace && (scope != controlplane.SidecarScopeWorkload ||
				labels.SelectorFromSet(l.Workload).Matches(labels.Set(proxy.Labels)))
			if scope == controlplane.SidecarScopeMesh || own {
				expected = w.GetNamespace() + "/" + w.GetName()
			}
		}
		wrong = append(wrong, scopeDiffers(has.activeSidecar, expected, proxy, l)...)
		if expected != "" {
			wrong = append(wrong, outside(proxy, l.Hosts())...)
		}
	}
	if len(wanted) > 0 && looked == 0 && len(wrong) == 0 {
		wrong = append(wrong, "there is no connected proxy to check")
	}
	return []record.Check{check("sidecar-scope", wrong,
		fmt.Sprintf("%s: istiod's scopes of %d proxies match the cell", scope, looked))}
}

// scopeDiffers compares a proxy's scope with the expected Sidecar; "" for none.
func scopeDiffers(got activeSidecar, expected string, proxy mesh.ControlProxy, l mesh.Levers) []string {
	if expected == "" {
		if got.Name != noSidecar {
			return []string{fmt.Sprintf("proxy %s is under Sidecar %s/%s, expected none", proxy.ID, got.Namespace, got.Name)}
		}
		return nil
	}
	// A mesh-wide Sidecar keeps its name but is shown in the proxy's namespace.
	name := expected[strings.Index(expected, "/")+1:]
	if got.Name != name || got.Sidecar == nil {
		return []string{fmt.Sprintf("proxy %s is under scope %s/%s, expected Sidecar %s", proxy.ID, got.Namespace, got.Name, expected)}
	}
	var wrong, hosts []string
	for _, egress := range got.Sidecar.Egress {
		hosts = append(hosts, egress.Hosts...)
	}
	if !slices.Equal(hosts, l.Hosts()) {
		wrong = append(wrong, fmt.Sprintf("proxy %s: egress hosts are %v, expected %v", proxy.ID, hosts, l.Hosts()))
	}
	if mode := outboundMode(got.OutboundTrafficPolicy.Mode); l.Named(controlplane.FactorOutboundPolicy) && mode != l.Level(controlplane.FactorOutboundPolicy) {
		wrong = append(wrong, fmt.Sprintf("proxy %s: outbound policy is %s, expected %s", proxy.ID, mode, l.Level(controlplane.FactorOutboundPolicy)))
	}
	return wrong
}

// outside lists the clusters of Kubernetes Services in namespaces that hosts
// excludes: outbound|PORT|SUBSET|NAME.NAMESPACE.svc.DOMAIN.
func outside(proxy mesh.ControlProxy, hosts []string) []string {
	var namespaces []string
	for _, host := range hosts {
		namespace, _, _ := strings.Cut(host, "/")
		switch namespace {
		case "*", "~":
			return nil // all, or a host without a namespace
		case ".":
			namespace = proxy.Namespace
		}
		namespaces = append(namespaces, namespace)
	}
	count, example := 0, ""
	for _, cluster := range proxy.Clusters {
		parts := strings.Split(cluster, "|")
		if len(parts) != 4 || parts[0] != "outbound" {
			continue
		}
		host := strings.Split(parts[3], ".")
		if len(host) < 3 || host[2] != "svc" || slices.Contains(namespaces, host[1]) {
			continue
		}
		count, example = count+1, cluster
	}
	if count > 0 {
		return []string{fmt.Sprintf("proxy %s holds %d clusters of namespaces other than %v, such as %s", proxy.ID, count, namespaces, example)}
	}
	return nil
}

// Metrics of istiod's Go runtime that checks read.
const (
	metricGoMaxProcs = "go_sched_gomaxprocs_threads"
	metricGoMemLimit = "go_gc_gomemlimit_bytes"
)

// metrics reads the metrics of one of istiod's pods.
func (c *ControlPlane) metrics(ctx context.Context, pod string) ([]observe.Metric, error) {
	client := c.dialer.Client(Namespace, pod, monitoringPort)
	defer client.CloseIdleConnections()
	page, err := observe.Fetch(ctx, client, "http://istiod/metrics")
	if err != nil {
		return nil, fmt.Errorf("istio: pod %s: %w", pod, err)
	}
	return page, nil
}
