package ledger

import (
	"cmp"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/meshtrial/meshtrial/record"
)

// edge is the traffic from one service to another as seen by the callers'
// proxies.
type edge struct {
	record.ScenarioEdge
	micros []uint32
}

type edgeKey struct{ from, to string }

func (a *Account) addEdge(p *ProxyEntry) {
	if p.Side == SideServer || p.To == "" {
		return
	}
	key := edgeKey{p.Service, p.To}
	e := a.edges[key]
	if e == nil {
		e = &edge{ScenarioEdge: record.ScenarioEdge{From: p.Service, To: p.To, Flags: map[string]int64{}}}
		a.edges[key] = e
	}
	e.Requests++
	e.Attempts += int64(p.left())
	e.micros = append(e.micros, uint32(min(p.DurationNS/1000, math.MaxUint32)))
	if p.failed() {
		e.Failed++
		e.Flags[cmp.Or(causeOf(p.Flags).Short, "none")]++
	}
}

func (a *Account) finishEdges() {
	for _, key := range slices.SortedFunc(maps.Keys(a.edges), func(x, y edgeKey) int {
		return cmp.Or(cmp.Compare(x.from, y.from), cmp.Compare(x.to, y.to))
	}) {
		e := a.edges[key]
		slices.Sort(e.micros)
		e.Latency = record.QuantilesOf(func(q float64) float64 { return float64(quantile(e.micros, q)) / 1e3 })
		a.Edges = append(a.Edges, e.ScenarioEdge)
	}
}

// Gone is an address, from when it stopped belonging to a ready pod of a
// service.
type Gone struct {
	Address string // an IP address, optionally with a port
	FromNS  int64
	UntilNS int64 // when a new pod got it; 0 or Never if none did
}

// Phantom is what was still sent to addresses that were already gone. If
// proxies keep a log of attempts, each attempt counts by its own time and host.
// Otherwise it is a lower bound: a line has only the host of its last attempt,
// which was made at an unknown time after the line's start, so lines that began
// before the address was gone are not counted, nor are attempts before the
// last.
type Phantom struct {
	Requests int64 `json:"requests"`
	Attempts int64 `json:"attempts"`
}

// goneAt reports whether an attempt at host, started at ns, is a phantom.
func (b *Book) goneAt(host string, ns int64) bool {
	if host == "" || len(b.gone) == 0 {
		return false
	}
	for _, address := range [...]string{host, withoutPort(host)} {
		for _, g := range b.gone[address] {
			if ns >= g.FromNS && (g.UntilNS == 0 || g.UntilNS == record.Never || ns < g.UntilNS) {
				return true
			}
		}
	}
	return false
}

// withoutPort returns the IP address of "address:port"; "" if it has no port.
func withoutPort(host string) string {
	host = strings.TrimPrefix(host, "tcp://")
	at, err := netip.ParseAddrPort(host)
	if err != nil {
		return ""
	}
	return at.Addr().String()
}

func (p *Phantom) add(b *Book, r *Request) {
	if len(b.gone) == 0 {
		return
	}
	before := p.Attempts
	for i := range r.Tries {
		p.attempt(b, &r.Tries[i])
	}
	for i := range r.Proxies {
		if !r.Proxies[i].tried(r) {
			p.attempt(b, &r.Proxies[i])
		}
	}
	if p.Attempts > before {
		p.Requests++
	}
}

// sameWay reports whether two lines are from the same proxy to the same
// service.
func (p *ProxyEntry) sameWay(q *ProxyEntry) bool {
	return p.Side == q.Side && p.Service == q.Service && p.Pod == q.Pod && p.To == q.To
}

// tried reports whether the attempts of a request's line have their own lines.
func (p *ProxyEntry) tried(r *Request) bool {
	return slices.ContainsFunc(r.Tries, func(q ProxyEntry) bool { return p.sameWay(&q) })
}

// hidden reports whether an attempt was retried by its proxy. If one request
// took the same path several times, as with a call made twice, it is unknown
// whose attempt it is.
func (p *ProxyEntry) hidden(r *Request) bool {
	lines, attempts := 0, 0
	for i := range r.Proxies {
		if p.sameWay(&r.Proxies[i]) {
			lines++
			attempts = r.Proxies[i].Attempts
		}
	}
	return lines == 1 && p.Attempt < attempts
}

func (p *Phantom) attempt(b *Book, line *ProxyEntry) {
	if line.Side == SideServer {
		return
	}
	if b.goneAt(line.Host, line.StartNS) {
		p.Attempts++
	}
}
