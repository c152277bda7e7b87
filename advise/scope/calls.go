package scope

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// Counts has what a proxy counted of its clusters, by their names.
type Counts struct {
	// Calls are the requests (or connections, if there are more) that each cluster's endpoints
	// received.
	Calls     map[string]int64
	Endpoints map[string]map[string]Count
}

// Count is what a proxy counted at one endpoint. Two readings tell a rate only by endpoint: the sum
// of a cluster can rise although an endpoint took its count with it.
type Count struct {
	Requests int64 // or connections, of a protocol that the proxy does not parse
	// Parsed says that the proxy told how some of the requests ended, as it does of HTTP and gRPC, or
	// counted more requests than connections, as it does of streams that have not ended.
	Parsed bool
	Open   int64 // connections that are open
}

func (c Count) plus(d Count) Count {
	return Count{c.Requests + d.Requests, c.Parsed || d.Parsed, c.Open + d.Open}
}

// ReadCounts reads the answer of an Envoy's /clusters?format=json: what each cluster received, and
// each endpoint that received anything. These counters exist whatever statistics the proxy is
// configured to keep, unlike cluster.NAME.upstream_rq_total, which Istio omits by default. The
// counts of removed endpoints are lost. See envoy/admin/v3/clusters.proto.
func ReadCounts(r io.Reader) (Counts, error) {
	s := newStream(r, "/clusters?format=json", MaxResource)
	calls, endpoints, kept := map[string]int64{}, map[string]map[string]Count{}, 0
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
		for _, h := range status.Hosts {
			if c := h.count(); c.Requests > 0 && kept < maxNames {
				if endpoints[status.Name] == nil {
					endpoints[status.Name] = map[string]Count{}
				}
				address := addressOf(h.Address)
				endpoints[status.Name][address] = endpoints[status.Name][address].plus(c)
				kept++
			}
		}
		return nil
	})
	if err == nil {
		return Counts{calls, endpoints}, nil
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = ErrCut
	}
	err = fmt.Errorf("list of clusters: byte %d, after %d clusters: %w", s.json.InputOffset(), len(calls), err)
	if s.guard.err != nil {
		return Counts{}, err
	}
	return Counts{}, errs.WithHint(errs.WithCode(err, errs.CodeUsage), "it is what an Envoy answers to /clusters?format=json; take one with: kubectl -n NAMESPACE exec POD -c istio-proxy -- pilot-agent request GET 'clusters?format=json' > FILE")
}

type clusterStatus struct {
	Name  string       `json:"name"`
	Hosts []hostStatus `json:"host_statuses"`
}

type hostStatus struct {
	Address json.RawMessage `json:"address"`
	Stats   []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"stats"`
}

// stat is a counter of a host.
func (h hostStatus) stat(name string) (sum int64) {
	for _, s := range h.Stats {
		if n, err := strconv.ParseInt(s.Value, 10, 64); err == nil && n > 0 && s.Name == name { // absent for 0
			sum += n
		}
	}
	return sum
}

func (h hostStatus) count() Count {
	n := h.stat("rq_total")
	return Count{n, h.stat("rq_success")+h.stat("rq_error") > 0 || n > h.stat("cx_total") && h.stat("cx_total") > 0, h.stat("cx_active")}
}

// addressOf returns an address as the text form of the page has it: IP:PORT. Others stay JSON.
func addressOf(address json.RawMessage) string {
	var a struct {
		Socket *struct {
			IP   string `json:"address"`
			Port int    `json:"port_value"`
		} `json:"socket_address"`
	}
	if json.Unmarshal(address, &a) != nil || a.Socket == nil {
		return string(address)
	}
	ip := a.Socket.IP
	if strings.Contains(ip, ":") {
		ip = "[" + ip + "]"
	}
	return ip + ":" + strconv.Itoa(a.Socket.Port)
}

func (c clusterStatus) calls() int64 {
	var requests, connections int64
	for _, h := range c.Hosts {
		requests, connections = requests+h.stat("rq_total"), connections+h.stat("cx_total")
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
