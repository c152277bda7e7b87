package scope

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// ReadCalls reads the answer of an Envoy's /clusters?format=json: how many
// requests (or connections, if there are more) each cluster's endpoints
// received. These counters exist whatever statistics the proxy is configured to
// keep, unlike cluster.NAME.upstream_rq_total, which Istio omits by default.
// The counts of removed endpoints are lost. See envoy/admin/v3/clusters.proto.
func ReadCalls(r io.Reader) (map[string]int64, error) {
	s := newStream(r, "/clusters?format=json", MaxResource)
	calls := map[string]int64{}
	err := s.document("cluster_statuses", func() error {
		raw, err := s.value()
		if err != nil {
			return err
		}
		var status clusterStatus
		if err := json.Unmarshal(raw, &status); err != nil {
			return err
		}
		if len(calls) < maxNames {
			calls[status.Name] += status.calls()
		}
		return nil
	})
	if err == nil {
		return calls, nil
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = ErrCut
	}
	err = fmt.Errorf("list of clusters: byte %d, after %d clusters: %w", s.json.InputOffset(), len(calls), err)
	if s.guard.err != nil {
		return nil, err
	}
	return nil, errs.WithHint(errs.WithCode(err, errs.CodeUsage), "it is what an Envoy answers to /clusters?format=json; take one with: kubectl -n NAMESPACE exec POD -c istio-proxy -- pilot-agent request GET 'clusters?format=json' > FILE")
}

type clusterStatus struct {
	Name  string `json:"name"`
	Hosts []struct {
		Stats []struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"stats"`
	} `json:"host_statuses"`
}

func (c clusterStatus) calls() int64 {
	var requests, connections int64
	for _, h := range c.Hosts {
		for _, s := range h.Stats {
			n, err := strconv.ParseInt(s.Value, 10, 64) // absent for 0
			if err != nil || n < 0 {
				continue
			}
			switch s.Name {
			case "rq_total":
				requests += n
			case "cx_total":
				connections += n
			}
		}
	}
	return max(requests, connections)
}

// SetCalls records on each outbound cluster how often it was called; clusters
// missing from calls stay unknown.
func (p *Proxy) SetCalls(calls map[string]int64) {
	p.Calls = calls
	for i := range p.Clusters {
		if n, ok := calls[p.Clusters[i].Name]; ok {
			p.Clusters[i].Calls = &n
		}
	}
}
