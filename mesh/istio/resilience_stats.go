package istio

import (
	"fmt"
	"strings"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
)

// ejectedStat is the number of currently ejected endpoints of a cluster. See
// envoyproxy.io/docs, Cluster manager, Statistics, Outlier detection.
const ejectedStat = ".outlier_detection.ejections_active"

// resilienceStats lists statistics in addition to [verifiedStats] that proxies
// keep in resilience studies: about outlier detection, circuit breakers,
// retries and rejected configuration. Istio omits them by default, except
// rejected clusters and listeners.
var resilienceStats = []string{
	`cluster\.outbound\|.*\.outlier_detection\.ejections_(active|enforced_total|overflow)`,
	`cluster\.outbound\|.*\.circuit_breakers\.default\.(cx|rq|rq_pending|rq_retry)_open`,
	`cluster\.outbound\|.*\.upstream_(cx|rq|rq_pending)_active`,
	`cluster\.outbound\|.*\.upstream_(cx|rq_pending|rq_retry)_overflow`,
	`cluster\.outbound\|.*\.upstream_rq_(retry|retry_success|retry_limit_exceeded|timeout|per_try_timeout)`,
	`.*\.update_rejected`,
}

// enteringStats are a gateway's statistics about clients' connections and requests. See
// envoyproxy.io/docs, HTTP connection manager, Statistics.
const enteringStats = `http\.outbound_.*\.downstream_(cx_total|cx_active|cx_destroy_local|rq_total)`

// EnteredFilter selects the statistics of Entered.
func (*Mesh) EnteredFilter() string { return "^" + enteringStats + "$" }

// Entered sums the statistics of all listeners.
func (*Mesh) Entered(stats observe.ProxyStats) mesh.Entered {
	sum := func(of map[string]float64, suffix string) (n int64) {
		for name, value := range of {
			if strings.HasSuffix(name, ".downstream_"+suffix) {
				n += int64(value)
			}
		}
		return n
	}
	return mesh.Entered{Connections: sum(stats.Counters, "cx_total"), Closed: sum(stats.Counters, "cx_destroy_local"),
		Requests: sum(stats.Counters, "rq_total"), Active: sum(stats.Gauges, "cx_active")}
}

// EjectedFilter selects the statistics of Ejected.
func (*Mesh) EjectedFilter() string {
	return `^cluster\.outbound\|.*` + strings.ReplaceAll(ejectedStat, ".", `\.`) + "$"
}

// Ejected counts ejected endpoints. Clusters of a service's ports and subsets
// share endpoints, so the one with the most counts.
func (*Mesh) Ejected(stats map[string]float64, namespace string) map[string]int {
	out := map[string]int{}
	for name, value := range stats {
		cluster, isEjected := strings.CutSuffix(name, ejectedStat)
		cluster, isOutbound := strings.CutPrefix(cluster, "cluster.outbound|")
		if !isEjected || !isOutbound || value <= 0 {
			continue
		}
		host := cluster[strings.LastIndexByte(cluster, '|')+1:]
		service, rest, _ := strings.Cut(host, ".")
		if strings.HasPrefix(rest, namespace+".svc.") {
			out[service] = max(out[service], int(value))
		}
	}
	return out
}

// CertificatePath returns Envoy's path.
func (*Mesh) CertificatePath() string { return "/certs" }

// Certificate returns the newest of the workload's own certificates: Envoy also
// lists those of connections from before a rotation. A workload's certificate
// has a SPIFFE identity; those of intermediate authorities do not.
func (*Mesh) Certificate(answer []byte) (mesh.Certificate, error) {
	list, err := observe.ParseEnvoyCertificates(answer)
	if err != nil {
		return mesh.Certificate{}, err
	}
	var out mesh.Certificate
	for _, c := range list {
		if c.Authority || len(c.Names) == 0 || !strings.HasPrefix(c.Names[0], "spiffe://") {
			continue
		}
		if out.Serial == "" || c.ValidFrom.After(out.From) || c.ValidFrom.Equal(out.From) && c.Expiration.After(out.Expire) {
			out = mesh.Certificate{Serial: c.Serial, From: c.ValidFrom, Expire: c.Expiration}
		}
	}
	if out.Serial == "" {
		return out, fmt.Errorf("none of the proxy's %d certificates is its workload's", len(list))
	}
	return out, nil
}
