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

// tally adds up the counters of endpoints.
type tally struct {
	clusters map[string]*clusterTally
	hosts    int
}

type clusterTally struct {
	requests, connections int64
	hosts                 map[string]*hostTally // those with counters above 0
}

type hostTally struct {
	requests, connections, open int64
	ended                       bool // it told how some requests ended
}

// cluster returns a cluster, or nil if there is no room for it.
func (t *tally) cluster(name []byte) *clusterTally {
	c := t.clusters[string(name)]
	if c == nil && len(t.clusters) < maxNames {
		c = &clusterTally{hosts: map[string]*hostTally{}}
		t.clusters[string(name)] = c
	}
	return c
}

// add adds a counter of an endpoint.
func (t *tally) add(cluster, address, stat []byte, value int64) {
	c := t.cluster(cluster)
	if c == nil || value <= 0 {
		return
	}
	h := c.hosts[string(address)]
	if h == nil {
		h = &hostTally{}
		if t.hosts < maxNames {
			c.hosts[string(address)] = h
			t.hosts++
		}
	}
	switch string(stat) {
	case "rq_total":
		c.requests, h.requests = c.requests+value, h.requests+value
	case "cx_total":
		c.connections, h.connections = c.connections+value, h.connections+value
	case "cx_active":
		h.open += value
	case "rq_success", "rq_error":
		h.ended = true
	}
}

func (t *tally) counts() Counts {
	out := Counts{Calls: map[string]int64{}, Endpoints: map[string]map[string]Count{}}
	for name, c := range t.clusters {
		out.Calls[name] = max(c.requests, c.connections)
		for address, h := range c.hosts {
			if h.requests == 0 {
				continue
			}
			if out.Endpoints[name] == nil {
				out.Endpoints[name] = map[string]Count{}
			}
			out.Endpoints[name][address] = Count{h.requests, h.ended || h.connections > 0 && h.requests > h.connections, h.open}
		}
	}
	return out
}

// ReadCounts reads the answer of an Envoy's /clusters?format=json: what each cluster received, and
// each endpoint that received anything. These counters exist whatever statistics the proxy is
// configured to keep, unlike cluster.NAME.upstream_rq_total, which Istio omits by default. The
// counts of removed endpoints are lost. See envoy/admin/v3/clusters.proto.
func ReadCounts(r io.Reader) (Counts, error) {
	s := newStream(r, "/clusters?format=json", MaxResource)
	t := tally{clusters: map[string]*clusterTally{}}
	found := false
	err := s.object(func(key string) error {
		if key != "cluster_statuses" {
			return s.skip()
		}
		found = true
		return s.list(key, func() error { return s.cluster(&t) })
	})
	switch {
	case err == nil && found:
		return t.counts(), nil
	case err == nil:
		err = s.lacks("cluster_statuses")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = ErrCut
	}
	err = fmt.Errorf("list of clusters: byte %d, after %d clusters: %w", s.json.InputOffset(), len(t.clusters), err)
	if s.guard.err != nil {
		return Counts{}, err
	}
	return Counts{}, errs.WithHint(errs.WithCode(err, errs.CodeUsage), "it is what an Envoy answers to /clusters?format=json; take one with: kubectl -n NAMESPACE exec POD -c istio-proxy -- pilot-agent request GET 'clusters?format=json' > FILE")
}

// cluster reads the counters of a cluster.
func (s *stream) cluster(t *tally) error {
	raw, err := s.value()
	if err != nil {
		return err
	}
	var status struct {
		Name  string `json:"name"`
		Hosts []struct {
			Address json.RawMessage `json:"address"`
			Stats   []struct {
				Name  string `json:"name"`
				Value string `json:"value"`
			} `json:"stats"`
		} `json:"host_statuses"`
	}
	if err := json.Unmarshal(raw, &status); err != nil {
		return err
	}
	t.cluster([]byte(status.Name))
	for _, h := range status.Hosts {
		var address []byte
		for _, stat := range h.Stats {
			value, err := strconv.ParseInt(stat.Value, 10, 64) // absent for 0
			if err != nil || value <= 0 {
				continue
			}
			if address == nil {
				address = addressOf(h.Address)
			}
			t.add([]byte(status.Name), address, []byte(stat.Name), value)
		}
	}
	return nil
}

// addressOf returns an address as the text form of the page has it: IP:PORT. Others stay JSON.
func addressOf(address json.RawMessage) []byte {
	var a struct {
		Socket *struct {
			IP   string `json:"address"`
			Port int    `json:"port_value"`
		} `json:"socket_address"`
	}
	if json.Unmarshal(address, &a) != nil || a.Socket == nil {
		return address
	}
	ip := a.Socket.IP
	if strings.Contains(ip, ":") {
		ip = "[" + ip + "]"
	}
	return []byte(ip + ":" + strconv.Itoa(a.Socket.Port))
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
