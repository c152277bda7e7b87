package ledger_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/observe/ledger"
	"github.com/meshtrial/meshtrial/record"
)

// The stations of most tests: load -> front -> bar, all with proxies; old has none.
var chain = ledger.Options{
	Client: "load", ClientProxy: true, Entry: "front",
	Services: map[string]ledger.Station{
		"front": {Sidecar: true, Calls: []ledger.Call{{To: "bar", Least: 1}, {To: "old"}}},
		"bar":   {Sidecar: true, CalledBy: []string{"front"}},
		"old":   {CalledBy: []string{"front"}},
	},
}

// inner is a chain in an ambient mesh: front always calls bar, and by chance old, which
// calls deep.
var inner = ledger.Options{Client: "load", Entry: "front", Carried: true, Services: map[string]ledger.Station{
	"front": {Calls: []ledger.Call{{To: "bar", Least: 1}, {To: "old"}}},
	"bar":   {CalledBy: []string{"front"}},
	"old":   {CalledBy: []string{"front"}, Calls: []ledger.Call{{To: "deep", Least: 1}}},
	"deep":  {CalledBy: []string{"old"}},
}}

func client(outcome string, status int) ledger.ClientEntry {
	return ledger.ClientEntry{ID: "mm-1", IntendedNS: 5, SentNS: 10, DoneNS: 1000, Outcome: outcome, Status: status}
}

// out returns a line of the caller's proxy about the server.
func out(from, to, flags string, status, attempts int) ledger.ProxyEntry {
	p := ledger.ProxyEntry{ID: "mm-1", Side: ledger.SideClient, Service: from, Pod: from + "-0", To: to, StartNS: 20,
		DurationNS: 100_000, Status: status, GRPC: -1, Flags: flags, Host: "10.0.0.1:8080", Attempts: attempts}
	if flags == "" || flags == "URX" {
		p.Details = "via_upstream"
	}
	return p
}

func in(service, flags string, status int) ledger.ProxyEntry {
	p := out(service, "", flags, status, 1)
	p.Side, p.StartNS = ledger.SideServer, 30
	return p
}

func work(service string, status int, ended string) ledger.WorkerEntry {
	return ledger.WorkerEntry{ID: "mm-1", Service: service, Pod: service + "-0", StartNS: 40, EndNS: 50, Status: status, Ended: ended}
}

// slow returns a worker's line about a request that ended after its caller gave up.
func slow(w ledger.WorkerEntry) ledger.WorkerEntry { w.EndNS = 990; return w }

func nowhere(p ledger.ProxyEntry) ledger.ProxyEntry { p.Host = ""; return p }

type story struct {
	name    string
	options *ledger.Options // nil: chain
	clients []ledger.ClientEntry
	proxies []ledger.ProxyEntry
	workers []ledger.WorkerEntry

	class   ledger.Class
	hop     ledger.Hop
	service string
	flag    string
	lacks   string // "" for none
}

var fine = []ledger.ProxyEntry{out("load", "front", "", 200, 1), in("front", "", 200)}

func with(more ...ledger.ProxyEntry) []ledger.ProxyEntry { return append(slices.Clone(fine), more...) }

func stories() []story {
	direct := chain
	direct.ClientProxy = false
	bare := ledger.Options{Client: "load", Entry: "front", Services: map[string]ledger.Station{"front": {}}}
	ztunnel, waypoint := bare, bare
	ztunnel.Carried, waypoint.Carried, waypoint.Answering = true, true, true
	gated := ledger.Options{Client: "load", Entry: "edge", Services: map[string]ledger.Station{
		"edge":  {Sidecar: true, Gateway: true, Calls: []ledger.Call{{To: "front", Least: 1}}},
		"front": {Sidecar: true, CalledBy: []string{"edge"}},
	}}
	between := inner
	between.Answering = true
	ok, no := ledger.OutcomeOK, ledger.OutcomeStatus
	answered := ledger.EndAnswered
	type C = []ledger.ClientEntry
	type P = []ledger.ProxyEntry
	type W = []ledger.WorkerEntry
	unsent := client(ledger.OutcomeUnfinished, 0)
	unsent.SentNS, unsent.DoneNS = record.Never, record.Never
	refused := client(ledger.OutcomeConnect, 0)
	refused.SentNS = record.Never
	return []story{
		{"all is well", nil, C{client(ok, 200)}, with(out("front", "bar", "", 200, 1), in("bar", "", 200)), W{work("front", 200, answered), work("bar", 200, answered)}, ledger.ClassOK, "", "", "", ""},
		{"a call that a retry saved", nil, C{client(ok, 200)}, with(out("front", "bar", "", 200, 2), in("bar", "", 503), in("bar", "", 200)), W{work("front", 200, answered), work("bar", 503, answered), work("bar", 200, answered)}, ledger.ClassRetried, "", "", "", ""},
		{"the callee's worker says no", nil, C{client(no, 500)}, P{out("load", "front", "", 500, 1), in("front", "", 500), out("front", "bar", "", 503, 1), in("bar", "", 503)}, W{work("front", 500, answered), work("bar", 503, answered)}, ledger.ClassFailed, ledger.HopWorker, "bar", "", ""},
		{"the callee has no endpoint", nil, C{client(no, 503)}, P{out("load", "front", "", 503, 1), in("front", "", 503), nowhere(out("front", "bar", "UH", 503, 1))}, W{work("front", 503, answered)}, ledger.ClassFailed, ledger.HopClientProxy, "front", "UH", ""},
		{"the callee is gone", nil, C{client(no, 503)}, P{out("load", "front", "", 503, 1), in("front", "", 503), out("front", "bar", "URX,UF", 503, 3)}, W{work("front", 503, answered)}, ledger.ClassFailed, ledger.HopNetwork, "bar", "UF", ""},
		{"a callee without a proxy fails", nil, C{client(no, 500)}, P{out("load", "front", "", 500, 1), in("front", "", 500), out("front", "old", "", 500, 1)}, W{work("front", 500, answered), work("old", 500, answered)}, ledger.ClassFailed, ledger.HopWorker, "old", "", ""},
		{"everyone waits for the callee's worker", nil, C{client(ledger.OutcomeTimeout, 0)}, P{out("load", "front", "DC", 0, 1), in("front", "DC", 0), out("front", "bar", "DC", 0, 1), in("bar", "DC", 0)}, W{work("front", 0, ledger.EndGone), work("bar", 0, ledger.EndGone)}, ledger.ClassFailed, ledger.HopWorker, "bar", "DC", ""},
		{"one of two calls fails and the other is given up", nil, C{client(no, 502)}, P{out("load", "front", "", 502, 1), in("front", "", 502), out("front", "old", "UF", 503, 1), out("front", "bar", "DC", 0, 1), in("bar", "DC", 0)}, W{work("front", 502, answered), work("bar", 499, ledger.WorkerEnded(499, ""))}, ledger.ClassFailed, ledger.HopNetwork, "old", "UF", ""},
		{"a planned failure, after a call that a retry saved", nil, C{client(no, 503)}, P{out("load", "front", "", 503, 1), in("front", "", 503), out("front", "bar", "UF", 503, 1), out("front", "bar", "", 200, 1), in("bar", "", 200)}, W{work("front", 503, ledger.WorkerEnded(503, "status")), work("bar", 200, ledger.WorkerEnded(200, ""))}, ledger.ClassFailed, ledger.HopWorker, "front", "", ""},
		{"the server's proxy refuses", nil, C{client(no, 403)}, P{out("load", "front", "", 403, 1), nowhere(in("front", "", 403))}, nil, ledger.ClassFailed, ledger.HopServerProxy, "front", "", ""},
		{"the server's proxy is over its limit", nil, C{client(no, 503)}, P{out("load", "front", "", 503, 1), nowhere(in("front", "UO", 503))}, nil, ledger.ClassFailed, ledger.HopServerProxy, "front", "UO", ""},
		{"a circuit breaker, with a host chosen", nil, C{client(no, 503)}, P{out("load", "front", "UO", 503, 1)}, nil, ledger.ClassFailed, ledger.HopClientProxy, "load", "UO", ""},
		{"a circuit breaker after a retry", nil, C{client(no, 503)}, P{out("load", "front", "URX,UO", 503, 2), in("front", "", 503)}, W{work("front", 503, answered)}, ledger.ClassFailed, ledger.HopClientProxy, "load", "UO", ""},
		{"the worker's queue is full", nil, C{client(no, 503)}, P{out("load", "front", "", 503, 1), in("front", "", 503)}, W{work("front", 503, "queue full")}, ledger.ClassFailed, ledger.HopWorker, "front", "", ""},
		{"the worker resets", nil, C{client(no, 503)}, P{out("load", "front", "", 503, 1), in("front", "UC", 503)}, W{work("front", 0, "reset")}, ledger.ClassFailed, ledger.HopWorker, "front", "UC", ""},
		{"the worker was killed and wrote nothing", nil, C{client(no, 503)}, P{out("load", "front", "", 503, 1), in("front", "UC", 503)}, nil, ledger.ClassFailed, ledger.HopWorker, "front", "UC", ""},
		{"the server's proxy was killed", nil, C{client(no, 503)}, P{out("load", "front", "UC", 503, 1)}, nil, ledger.ClassFailed, ledger.HopNetwork, "front", "UC", ""},
		{"the server's proxy was killed while the worker worked", nil, C{client(no, 503)}, P{out("load", "front", "UC", 503, 1)}, W{work("front", 0, ledger.EndGone)}, ledger.ClassUnreconciled, ledger.HopNetwork, "front", "UC", "attempts of the proxy of front at its worker: 1 lines more"},
		{"packets are dropped", nil, C{client(no, 504)}, P{out("load", "front", "UT", 504, 1)}, nil, ledger.ClassFailed, ledger.HopNetwork, "front", "UT", ""},
		{"the client's proxy was killed", nil, C{client(ledger.OutcomeReset, 0)}, nil, nil, ledger.ClassUnreconciled, ledger.HopClientProxy, "load", "", "requests of the client at its proxy: 1 of 1 have no line"},
		{"the client's proxy was killed, the answer lost", nil, C{client(ledger.OutcomeReset, 0)}, P{in("front", "DC", 200)}, W{work("front", 200, answered)}, ledger.ClassUnreconciled, ledger.HopClientProxy, "load", "", "attempts to front at its proxy: 1 lines more"},
		{"no connection to the client's own proxy", nil, C{refused}, nil, nil, ledger.ClassFailed, ledger.HopClient, "load", "", ""},
		{"a good answer came too late", nil, C{client(ledger.OutcomeTimeout, 0)}, fine, W{work("front", 200, answered)}, ledger.ClassFailed, ledger.HopClient, "load", "", ""},
		{"a retry wrote to a worker twice", nil, C{client(ok, 200)}, fine, W{work("front", 200, answered), work("front", 200, answered)}, ledger.ClassUnreconciled, "", "", "", "1 lines more than the 1 sent"},
		{"the worker has no line of an answer", nil, C{client(ok, 200)}, fine, nil, ledger.ClassUnreconciled, "", "", "", "attempts of the proxy of front at its worker: 1 of 1 have no line"},
		{"a gRPC status", nil, C{client(no, 14)}, func() P { p := with(); p[0].GRPC, p[1].GRPC = 14, 14; return p }(), W{work("front", 14, answered)}, ledger.ClassFailed, ledger.HopWorker, "front", "", ""},
		{"never sent", nil, C{unsent}, nil, nil, ledger.ClassUnfinished, ledger.HopClient, "load", "", ""},
		{"still out", nil, C{client(ledger.OutcomeUnfinished, 0)}, P{out("load", "front", "DC", 0, 1), in("front", "DC", 0)}, W{work("front", 0, ledger.EndGone)}, ledger.ClassUnfinished, ledger.HopWorker, "front", "DC", ""},
		{"two with one id", nil, C{client(ok, 200), client(ok, 200)}, fine, W{work("front", 200, answered)}, ledger.ClassUnreconciled, "", "", "", "the client wrote 2 entries"},
		{"the client wrote nothing", nil, nil, fine, W{work("front", 200, answered)}, ledger.ClassOrphan, "", "", "", "requests of the client at its proxy: 1 lines more than the 0 sent; the client wrote nothing"},
		{"a flag nobody knows", nil, C{client(no, 503)}, P{out("load", "front", "XX", 503, 1)}, nil, ledger.ClassFailed, ledger.HopClientProxy, "load", "XX", ""},

		{"no proxy at the client", &direct, C{client(no, 503)}, P{in("front", "UC", 503)}, W{work("front", 0, "crashed")}, ledger.ClassFailed, ledger.HopWorker, "front", "UC", ""},
		{"no proxy at the client, pod gone", &direct, C{refused}, nil, nil, ledger.ClassFailed, ledger.HopNetwork, "front", "", ""},
		{"no proxy at the client, lost on the way", &direct, C{client(ledger.OutcomeReset, 0)}, nil, nil, ledger.ClassFailed, ledger.HopNetwork, "front", "", ""},
		{"no proxy at the client, an answer from nowhere", &direct, C{client(ok, 200)}, nil, nil, ledger.ClassUnreconciled, "", "", "", "attempts to front at its proxy: 1 of 1 have no line"},
		{"no proxies at all", &bare, C{client(ok, 200)}, nil, W{work("front", 200, answered)}, ledger.ClassOK, "", "", "", ""},
		{"no proxies at all, the worker fails", &bare, C{client(no, 500)}, nil, W{work("front", 500, answered)}, ledger.ClassFailed, ledger.HopWorker, "front", "", ""},
		{"no proxies at all, the worker is silent", &bare, C{client(ok, 200)}, nil, nil, ledger.ClassUnreconciled, "", "", "", "attempts to front at its worker: 1 of 1 have no line"},
		{"no proxies at all, the connection ends while the worker works", &bare, C{client(ledger.OutcomeReset, 0)}, nil, W{work("front", 0, ledger.EndGone)}, ledger.ClassFailed, ledger.HopWorker, "front", "", ""},

		{"through a gateway", &gated, C{client(ok, 200)}, P{out("edge", "front", "", 200, 1), in("front", "", 200)}, W{work("front", 200, answered)}, ledger.ClassOK, "", "", "", ""},
		{"through a gateway that retries", &gated, C{client(ok, 200)}, P{out("edge", "front", "", 200, 2), in("front", "", 503), in("front", "", 200)}, W{work("front", 503, answered), work("front", 200, answered)}, ledger.ClassRetried, "", "", "", ""},
		{"no connection to a gateway", &gated, C{refused}, nil, nil, ledger.ClassFailed, ledger.HopNetwork, "edge", "", ""},
		{"a gateway closes the connection unseen", &gated, C{client(ledger.OutcomeReset, 0)}, nil, nil, ledger.ClassFailed, ledger.HopNetwork, "edge", "", ""},
		{"a gateway ends with the answer", &gated, C{client(ledger.OutcomeReset, 0)}, P{out("edge", "front", "", 200, 1), in("front", "", 200)}, W{work("front", 200, answered)}, ledger.ClassFailed, ledger.HopGateway, "edge", "", ""},
		{"a gateway's answer comes too late", &gated, C{client(ledger.OutcomeTimeout, 0)}, P{out("edge", "front", "", 200, 1), in("front", "", 200)}, W{work("front", 200, answered)}, ledger.ClassFailed, ledger.HopClient, "edge", "", ""},
		{"a gateway without servers", &gated, C{client(no, 503)}, P{nowhere(out("edge", "front", "UH", 503, 1))}, nil, ledger.ClassFailed, ledger.HopGateway, "edge", "UH", ""},
		{"a gateway without a route", &gated, C{client(no, 404)}, P{func() ledger.ProxyEntry {
			p := nowhere(out("edge", "", "NR", 404, 0))
			p.Side = ledger.SideUnknown
			return p
		}()}, nil, ledger.ClassFailed, ledger.HopGateway, "edge", "NR", ""},
		{"behind a gateway the server is gone", &gated, C{client(no, 503)}, P{out("edge", "front", "URX,UF", 503, 3)}, nil, ledger.ClassFailed, ledger.HopNetwork, "front", "UF", ""},
		{"behind a gateway the worker says no", &gated, C{client(no, 503)}, P{out("edge", "front", "", 503, 1), in("front", "", 503)}, W{work("front", 503, answered)}, ledger.ClassFailed, ledger.HopWorker, "front", "", ""},
		{"a gateway was killed while the worker worked", &gated, C{client(ledger.OutcomeReset, 0)}, P{in("front", "DC", 0)}, W{work("front", 0, ledger.EndGone)}, ledger.ClassUnreconciled, ledger.HopNetwork, "edge", "", "attempts to front at its proxy: 1 lines more"},
		{"an answer that no gateway logged", &gated, C{client(ok, 200)}, nil, nil, ledger.ClassUnreconciled, "", "", "", "requests to gateway edge: 1 of 1 have no line"},

		{"ztunnel is killed before the request arrives", &ztunnel, C{client(ledger.OutcomeReset, 0)}, nil, nil, ledger.ClassFailed, ledger.HopNetwork, "front", "", ""},
		{"ztunnel is killed while the worker works", &ztunnel, C{client(ledger.OutcomeReset, 0)}, nil, W{work("front", 0, ledger.EndGone)}, ledger.ClassFailed, ledger.HopNetwork, "front", "", ""},
		{"ztunnel is killed with the answer", &ztunnel, C{client(ledger.OutcomeEOF, 0)}, nil, W{work("front", 200, answered)}, ledger.ClassFailed, ledger.HopNetwork, "front", "", ""},
		{"behind ztunnel the worker is slow", &ztunnel, C{client(ledger.OutcomeTimeout, 0)}, nil, W{work("front", 0, ledger.EndGone)}, ledger.ClassFailed, ledger.HopWorker, "front", "", ""},
		{"behind ztunnel the worker answers too late", &ztunnel, C{client(ledger.OutcomeTimeout, 0)}, nil, W{slow(work("front", 200, answered))}, ledger.ClassFailed, ledger.HopWorker, "front", "", ""},
		{"ztunnel keeps the answer back", &ztunnel, C{client(ledger.OutcomeTimeout, 0)}, nil, W{work("front", 200, answered)}, ledger.ClassFailed, ledger.HopNetwork, "front", "", ""},
		{"behind ztunnel the worker says no", &ztunnel, C{client(no, 503)}, nil, W{work("front", 503, answered)}, ledger.ClassFailed, ledger.HopWorker, "front", "", ""},
		{"behind ztunnel, an answer from nowhere", &ztunnel, C{client(no, 503)}, nil, nil, ledger.ClassUnreconciled, ledger.HopNetwork, "front", "", "attempts to front at its worker: 1 of 1 have no line"},
		{"behind ztunnel, asked twice", &ztunnel, C{client(ok, 200)}, nil, W{work("front", 200, answered), work("front", 200, answered)}, ledger.ClassUnreconciled, "", "", "", "1 lines more than the 1 sent"},
		{"ztunnel loses an inner call on its way", &inner, C{client(no, 502)}, nil, W{work("front", 502, answered)}, ledger.ClassFailed, ledger.HopNetwork, "bar", "", ""},
		{"ztunnel breaks an inner call off", &inner, C{client(no, 502)}, nil, W{work("front", 502, answered), work("bar", 0, ledger.EndGone)}, ledger.ClassFailed, ledger.HopNetwork, "bar", "", ""},
		{"ztunnel loses the answer of an inner call", &inner, C{client(no, 502)}, nil, W{work("front", 502, answered), work("bar", 200, answered)}, ledger.ClassFailed, ledger.HopNetwork, "bar", "", ""},
		{"ztunnel keeps the answer of an inner call back", &inner, C{client(no, 504)}, nil, W{slow(work("front", 504, answered)), work("bar", 200, answered)}, ledger.ClassFailed, ledger.HopNetwork, "bar", "", ""},
		{"ztunnel loses the call of a called service", &inner, C{client(no, 502)}, nil, W{work("front", 502, answered), work("bar", 200, answered), work("old", 502, answered)}, ledger.ClassFailed, ledger.HopNetwork, "deep", "", ""},
		{"ztunnel loses an inner call after another that took its time", &inner, C{client(no, 502)}, nil, W{work("front", 502, answered), work("old", 200, answered), work("deep", 200, answered)}, ledger.ClassFailed, ledger.HopNetwork, "bar", "", ""},
		{"behind ztunnel a called worker says no", &inner, C{client(no, 502)}, nil, W{work("front", 502, answered), work("bar", 503, answered)}, ledger.ClassFailed, ledger.HopWorker, "bar", "", ""},
		{"behind ztunnel a called worker is slow", &inner, C{client(no, 504)}, nil, W{slow(work("front", 504, answered)), slow(work("bar", 0, ledger.EndGone))}, ledger.ClassFailed, ledger.HopWorker, "bar", "", ""},
		{"behind ztunnel a called worker answers too late", &inner, C{client(no, 504)}, nil, W{slow(work("front", 504, answered)), slow(work("bar", 200, answered))}, ledger.ClassFailed, ledger.HopWorker, "bar", "", ""},
		{"behind ztunnel everyone waits for the called worker", &inner, C{client(ledger.OutcomeTimeout, 0)}, nil, W{slow(work("front", 0, ledger.EndGone)), slow(work("bar", 0, ledger.EndGone))}, ledger.ClassFailed, ledger.HopWorker, "bar", "", ""},
		{"behind ztunnel the first worker is slow", &inner, C{client(ledger.OutcomeTimeout, 0)}, nil, W{slow(work("front", 0, ledger.EndGone)), work("bar", 200, answered)}, ledger.ClassFailed, ledger.HopWorker, "front", "", ""},
		{"behind ztunnel the first worker has not called yet", &inner, C{client(ledger.OutcomeTimeout, 0)}, nil, W{slow(work("front", 0, ledger.EndGone))}, ledger.ClassFailed, ledger.HopWorker, "front", "", ""},
		{"behind ztunnel the first worker fails as planned", &inner, C{client(no, 502)}, nil, W{work("front", 502, "status")}, ledger.ClassFailed, ledger.HopWorker, "front", "", ""},
		{"behind ztunnel the first worker has no room", &inner, C{client(no, 503)}, nil, W{work("front", 503, answered)}, ledger.ClassFailed, ledger.HopWorker, "front", "", ""},
		{"behind ztunnel a good answer needs its calls", &inner, C{client(ok, 200)}, nil, W{work("front", 200, answered), work("bar", 200, answered)}, ledger.ClassOK, "", "", "", ""},
		{"behind ztunnel a call was made by chance", &inner, C{client(ok, 200)}, nil, W{work("front", 200, answered), work("bar", 200, answered), work("old", 200, answered), work("deep", 200, answered)}, ledger.ClassOK, "", "", "", ""},
		{"behind ztunnel a call from nowhere", &inner, C{client(ok, 200)}, nil, W{work("front", 200, answered)}, ledger.ClassUnreconciled, "", "", "", "attempts to bar at its worker: 1 of 1 have no line"},
		{"behind ztunnel a called service's call from nowhere", &inner, C{client(ok, 200)}, nil, W{work("front", 200, answered), work("bar", 200, answered), work("old", 200, answered)}, ledger.ClassUnreconciled, "", "", "", "attempts to deep at its worker: 1 of 1 have no line"},
		{"a waypoint asks a called worker again", &between, C{client(ok, 200)}, nil, W{work("front", 200, answered), work("bar", 503, answered), work("bar", 200, answered)}, ledger.ClassOK, "", "", "", ""},
		{"a waypoint answers in the worker's place", &waypoint, C{client(no, 503)}, nil, nil, ledger.ClassFailed, ledger.HopNetwork, "front", "", ""},
		{"a waypoint loses the worker's good answer", &waypoint, C{client(no, 503)}, nil, W{work("front", 200, answered)}, ledger.ClassFailed, ledger.HopNetwork, "front", "", ""},
		{"a waypoint does not wait for the worker", &waypoint, C{client(no, 504)}, nil, W{work("front", 0, ledger.EndGone)}, ledger.ClassFailed, ledger.HopWorker, "front", "", ""},
		{"a waypoint does not wait for the worker of gRPC", &waypoint, C{client(no, 4)}, nil, W{work("front", 0, ledger.EndGone)}, ledger.ClassFailed, ledger.HopWorker, "front", "", ""},
		{"a waypoint is cut off from the worker", &waypoint, C{client(no, 503)}, nil, W{work("front", 0, ledger.EndGone)}, ledger.ClassFailed, ledger.HopNetwork, "front", "", ""},
		{"a waypoint is cut off from the worker of gRPC", &waypoint, C{client(no, 14)}, nil, W{work("front", 0, ledger.EndGone)}, ledger.ClassFailed, ledger.HopNetwork, "front", "", ""},
		{"a waypoint is cut off, asks again, and the worker says no", &waypoint, C{client(no, 503)}, nil, W{work("front", 0, ledger.EndGone), work("front", 503, answered)}, ledger.ClassFailed, ledger.HopWorker, "front", "", ""},
		{"a waypoint is cut off while a worker calls", &between, C{client(no, 503)}, nil, W{slow(work("front", 0, ledger.EndGone)), slow(work("bar", 0, ledger.EndGone))}, ledger.ClassFailed, ledger.HopNetwork, "front", "", ""},
		{"a waypoint asks again", &waypoint, C{client(ok, 200)}, nil, W{work("front", 503, answered), work("front", 200, answered)}, ledger.ClassOK, "", "", "", ""},
		{"behind a waypoint, a good answer from nowhere", &waypoint, C{client(ok, 200)}, nil, nil, ledger.ClassUnreconciled, "", "", "", "attempts to front at its worker: 1 of 1 have no line"},
	}
}

// TestStories verifies the class, the place of the failure and the missing lines for
// every possible course of a request.
func TestStories(t *testing.T) {
	for _, s := range stories() {
		t.Run(s.name, func(t *testing.T) {
			options := chain
			if s.options != nil {
				options = *s.options
			}
			b := ledger.New(options)
			for _, w := range s.workers { // the order of stations is irrelevant
				b.AddWorker(w)
			}
			for _, p := range s.proxies {
				b.AddProxy(p)
			}
			for _, c := range s.clients {
				b.AddClient(c)
			}
			b.Each(func(r *ledger.Request) bool {
				var fault ledger.Fault
				if r.Fault != nil {
					fault = *r.Fault
				}
				if r.Class != s.class || fault.Hop != s.hop || fault.Service != s.service || fault.Flag != s.flag {
					t.Errorf("%s at %s of %q, flag %q; want %s at %s of %q, flag %q", r.Class, fault.Hop, fault.Service, fault.Flag, s.class, s.hop, s.service, s.flag)
				}
				if lacks := strings.Join(r.Lacks, "; "); (lacks == "") != (s.lacks == "") || !strings.Contains(lacks, s.lacks) {
					t.Errorf("lacks %q, want %q", lacks, s.lacks)
				}
				return true
			})
			if a := b.Account(); a.Reconciled != (s.lacks == "") {
				t.Errorf("reconciled %v, equations %+v", a.Reconciled, a.Equations)
			}
		})
	}
}

// TestCallersWithoutProxy verifies that more may arrive than was seen to leave, because
// calls of a service without a proxy are not logged.
func TestCallersWithoutProxy(t *testing.T) {
	options := chain
	options.Services = map[string]ledger.Station{"front": {}, "bar": {Sidecar: true, CalledBy: []string{"front"}}}
	b := ledger.New(options)
	b.AddClient(client(ledger.OutcomeOK, 200))
	b.AddProxy(out("load", "front", "", 200, 1))
	b.AddWorker(work("front", 200, ledger.EndAnswered))
	b.AddProxy(in("bar", "", 200))
	b.AddWorker(work("bar", 200, ledger.EndAnswered))
	if a := b.Account(); !a.Reconciled || !slices.ContainsFunc(a.Equations, func(e record.LedgerEquation) bool { return e.Service == "bar" && e.Open }) {
		t.Errorf("%+v", a.Equations)
	}
}

// TestOutcomes verifies that every kind of failure in package load is known here.
func TestOutcomes(t *testing.T) {
	known := []string{ledger.OutcomeConnect, ledger.OutcomeTimeout, ledger.OutcomeReset, ledger.OutcomeEOF, ledger.OutcomeProtocol, ledger.OutcomeStatus, ledger.OutcomeTLS, ledger.OutcomeStream, ledger.OutcomeOther}
	for _, kind := range []string{load.FailConnect, load.FailTimeout, load.FailReset, load.FailEOF, load.FailProtocol, load.FailStatus, load.FailTLS, load.FailStream, load.FailOther} {
		if !slices.Contains(known, kind) {
			t.Errorf("%q is not known", kind)
		}
	}
}

func TestFlags(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range ledger.Flags {
		if f.Short == "" || f.Long == "" || f.Meaning == "" || f.Cause == "" || seen[f.Short] || seen[f.Long] {
			t.Errorf("%+v", f)
		}
		seen[f.Short], seen[f.Long] = true, true
		for _, name := range []string{f.Short, f.Long} {
			if got, ok := ledger.FlagByName(name); !ok || got != f {
				t.Errorf("%s: %+v", name, got)
			}
		}
	}
	if _, ok := ledger.FlagByName("none of them"); ok {
		t.Error("found what is not there")
	}
}

// TestPhantoms covers what was still sent to an address after it was gone.
func TestPhantoms(t *testing.T) {
	options := chain
	options.Gone = []ledger.Gone{{Address: "10.0.0.1", FromNS: 20, UntilNS: 60}, {Address: "10.0.0.2:8080", FromNS: 20}}
	b := ledger.New(options)
	for i, p := range []struct {
		host   string
		start  int64
		flags  string
		status int
	}{
		{"10.0.0.1:8080", 19, "", 200}, // before
		{"10.0.0.1:8080", 20, "URX,UF", 503},
		{"tcp://10.0.0.1:8080", 45, "", 200}, // answered anyway
		{"10.0.0.1:8080", 60, "", 200},       // belongs to a new pod
		{"10.0.0.2:8080", 99, "UF", 503},
		{"10.0.0.2:8081", 99, "UF", 503}, // a different port
		{"", 99, "UH", 503},
	} {
		line := out("load", "front", p.flags, p.status, 1)
		line.ID, line.Host, line.StartNS = fmt.Sprint("mm-", i), p.host, p.start
		b.AddProxy(line)
	}
	// With an attempt log, an attempt hidden by a retry also counts.
	line := out("load", "front", "", 200, 2)
	line.ID, line.Host = "mm-retried", "10.0.0.9:8080"
	b.AddProxy(line)
	for n, host := range []string{"10.0.0.2:8080", "10.0.0.9:8080"} {
		one := line
		one.One, one.Host, one.StartNS, one.Attempt = true, host, int64(21+n), n+1
		if n == 0 {
			one.Status, one.Flags, one.Details = 0, "UF", ""
		}
		b.AddProxy(one)
	}
	got := b.Account().Phantom
	if got.Requests != 4 || got.Attempts != 4 {
		t.Errorf("%+v", got)
	}
}
