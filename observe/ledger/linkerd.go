package ledger

import (
	"cmp"
	"io"
	"net/netip"
	"strconv"

	"github.com/meshtrial/meshtrial/internal/accesslog"
)

// Details of Linkerd's lines, in our words.
const (
	// proxyOrWorker: the response may come from the proxy or its worker; the log
	// does not distinguish them.
	proxyOrWorker = "proxy or worker"
	// givenUp: the caller went away before the response.
	givenUp = "given up"
)

// ReadLinkerd reads the access log of a Linkerd proxy, in its JSON format, and
// calls each for every line whose request has one of our IDs, like ReadEnvoy.
// Linkerd logs what a proxy receives for its own pod, never what it sends. The
// field trace_id is the header x-request-id if there is no x-b3-traceid. A
// request that the caller gave up has a line without a status.
//
// Source: linkerd2-proxy, linkerd/http/access-log.
func ReadLinkerd(r io.Reader, source Source, each func(ProxyEntry)) (Lines, error) {
	source.Prefix = cmp.Or(source.Prefix, IDPrefix)
	p := &parser{source: source, shared: map[string]string{}}
	host := ""
	for _, address := range source.Addresses {
		if _, err := netip.ParseAddr(address); err == nil {
			host = address
			break
		}
	}
	err := p.read(r, func(line []byte) { p.linkerd(line, host, each) })
	return p.lines, err
}

// linkerd parses a line. The pod's own address stands for the worker's.
func (p *parser) linkerd(line []byte, host string, each func(ProxyEntry)) {
	if line[0] != '{' {
		p.lines.Foreign++
		return
	}
	e := ProxyEntry{Side: SideServer, Service: p.source.Service, Pod: p.source.Pod, GRPC: -1, Attempts: 1, Host: host, Details: viaUpstream}
	var id []byte
	start, total, bad := false, false, false
	object := accesslog.Scan(line, func(key, value []byte) {
		if len(value) == 0 {
			return
		}
		switch string(key) {
		case "trace_id":
			id = append(id[:0], value...)
		case "timestamp":
			e.StartNS, start = accesslog.Time(string(value))
			bad = bad || !start
		case "status":
			status, err := strconv.Atoi(string(value))
			bad = bad || err != nil || status < 100 || status > 999
			e.Status = status
		case "total_ns":
			ns, err := strconv.ParseInt(string(value), 10, 64)
			bad = bad || err != nil || ns < 0
			e.DurationNS, total = ns, true
		}
	})
	if !p.takes(line, id, object, start, bad) {
		return
	}
	e.ID = string(id)
	e.StartNS -= p.source.ZeroNS
	switch {
	case e.Status == 0 || !total:
		e.Status, e.Details = 0, givenUp
	case e.Status >= 400:
		e.Details = proxyOrWorker
	}
	p.lines.Entries++
	each(e)
}
