package ledger

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
)

// A line as written by the proxy, with fields in order of their names.
const linkerdLine = `{"client.addr":"10.42.0.9:41234","client.id":"default.test.serviceaccount.identity.linkerd.cluster.local","host":"bar.test:8080","method":"GET","processing_ns":"61010","request_bytes":"","response_bytes":"1024","status":200,"timestamp":"2026-11-21T16:22:03.031598001Z","total_ns":"4690123","trace_id":"mm-1","uri":"http://bar.test:8080/","user_agent":"","version":"HTTP/1.1"}`

func TestReadLinkerdLine(t *testing.T) {
	good := ProxyEntry{ID: "mm-1", Side: SideServer, Service: "bar", Pod: "bar-0", StartNS: 1795278123031598001, DurationNS: 4690123,
		Status: 200, GRPC: -1, Details: viaUpstream, Host: "10.0.0.7", Attempts: 1}
	with := func(change func(*ProxyEntry)) *ProxyEntry { e := good; change(&e); return &e }
	for _, tt := range []struct {
		name, line string
		want       *ProxyEntry
		lines      Lines
	}{
		{"whole", linkerdLine, &good, Lines{Entries: 1}},
		{"of the proxy or its worker", strings.Replace(linkerdLine, `"status":200`, `"status":503`, 1),
			with(func(e *ProxyEntry) { e.Status, e.Details = 503, proxyOrWorker }), Lines{Entries: 1}},
		{"given up", strings.NewReplacer(`"status":200,`, "", `"total_ns":"4690123",`, "", `"processing_ns":"61010",`, "").Replace(linkerdLine),
			with(func(e *ProxyEntry) { e.Status, e.DurationNS, e.Details = 0, 0, givenUp }), Lines{Entries: 1}},
		{"somebody else's", strings.Replace(linkerdLine, "mm-1", "0123", 1), nil, Lines{Other: 1}},
		{"without an id", strings.Replace(linkerdLine, "mm-1", "", 1), nil, Lines{Other: 1}},
		{"bad status", strings.Replace(linkerdLine, `"status":200`, `"status":20000`, 1), nil, Lines{Damaged: 1}},
		{"bad time", strings.Replace(linkerdLine, "2026-11-21T", "yesterday ", 1), nil, Lines{Damaged: 1}},
		{"cut off", linkerdLine[:len(linkerdLine)-40], nil, Lines{Damaged: 1}},
		{"cut off before the id", linkerdLine[:60], nil, Lines{Foreign: 1}},
		{"the proxy's own words", `[     0.001233s]  INFO ThreadId(01) linkerd2_proxy: release 0.0.0-dev`, nil, Lines{Foreign: 1}},
		{"other JSON", `{"timestamp_of":"x","level":"INFO"}`, nil, Lines{Foreign: 1}},
	} {
		var got *ProxyEntry
		lines, err := ReadLinkerd(strings.NewReader(tt.line+"\n"), Source{Service: "bar", Pod: "bar-0", Addresses: []string{"10.0.0.7"}}, func(e ProxyEntry) { got = &e })
		if err != nil || lines != tt.lines || (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want {
			t.Errorf("%s: %+v, %+v, %v", tt.name, got, lines, err)
		}
	}
}

// Stations with Linkerd: proxies log what they receive.
var inbound = Options{
	Client: "load", InboundOnly: true, Entry: "front",
	Services: map[string]Station{"front": {Sidecar: true}, "bar": {Sidecar: true, CalledBy: []string{"front"}}},
}

func TestInboundOnly(t *testing.T) {
	at := func(service string, status int, details string) ProxyEntry {
		return ProxyEntry{ID: "mm-1", Side: SideServer, Service: service, Pod: service + "-0", StartNS: 30, DurationNS: 100, Status: status, GRPC: -1, Details: details, Host: "10.0.0.7", Attempts: 1}
	}
	worked := func(service string, status int, ended string) WorkerEntry {
		return WorkerEntry{ID: "mm-1", Service: service, Pod: service + "-0", StartNS: 40, EndNS: 50, Status: status, Ended: ended}
	}
	asked := func(outcome string, status int) ClientEntry {
		return ClientEntry{ID: "mm-1", IntendedNS: 5, SentNS: 10, DoneNS: 1000, Outcome: outcome, Status: status}
	}
	for _, tt := range []struct {
		name             string
		client           ClientEntry
		proxies          []ProxyEntry
		workers          []WorkerEntry
		class            Class
		hop              Hop
		attempts, hidden int
	}{
		{"good", asked(OutcomeOK, 200), []ProxyEntry{at("front", 200, viaUpstream), at("bar", 200, viaUpstream)}, []WorkerEntry{worked("front", 200, EndAnswered), worked("bar", 200, EndAnswered)},
			ClassOK, HopNone, 1, 0},
		{"tried again", asked(OutcomeOK, 200), []ProxyEntry{at("front", 503, proxyOrWorker), at("front", 200, viaUpstream)}, []WorkerEntry{worked("front", 503, EndAnswered), worked("front", 200, EndAnswered)},
			ClassRetried, HopNone, 2, 1},
		{"the worker fails", asked(OutcomeStatus, 503), []ProxyEntry{at("front", 503, proxyOrWorker)}, []WorkerEntry{worked("front", 503, EndAnswered)}, ClassFailed, HopWorker, 1, 0},
		{"the called proxy fails", asked(OutcomeStatus, 502), []ProxyEntry{at("front", 502, proxyOrWorker)}, nil, ClassFailed, HopServerProxy, 1, 0},
		{"the calling proxy fails", asked(OutcomeStatus, 504), nil, nil, ClassFailed, HopClientProxy, 1, 0},
		{"nobody waited", asked(OutcomeTimeout, 0), []ProxyEntry{at("front", 0, givenUp)}, []WorkerEntry{worked("front", 499, EndGone)}, ClassFailed, HopWorker, 1, 0},
		{"an answer from nowhere", asked(OutcomeOK, 200), nil, nil, ClassUnreconciled, HopNone, 1, 0},
		{"an answer that the worker does not know", asked(OutcomeOK, 200), []ProxyEntry{at("front", 200, viaUpstream)}, nil, ClassUnreconciled, HopNone, 1, 0},
		{"a worker that its proxy does not know", asked(OutcomeOK, 200), nil, []WorkerEntry{worked("front", 200, EndAnswered)}, ClassOK, HopNone, 1, 0},
	} {
		b := New(inbound)
		b.AddClient(tt.client)
		for _, p := range tt.proxies {
			b.AddProxy(p)
		}
		for _, w := range tt.workers {
			b.AddWorker(w)
		}
		b.Each(func(r *Request) bool {
			hop := HopNone
			if r.Fault != nil {
				hop = r.Fault.Hop
			}
			if r.Class != tt.class || hop != tt.hop || r.Attempts != tt.attempts || r.Hidden != tt.hidden {
				t.Errorf("%s: %s at %q, %d attempts, %d hidden, lacks %q", tt.name, r.Class, hop, r.Attempts, r.Hidden, r.Lacks)
			}
			if want := map[bool]int{true: 1}[tt.name == "a worker that its proxy does not know"]; r.Unwritten != want {
				t.Errorf("%s: %d lines are taken as left out, want %d", tt.name, r.Unwritten, want)
			}
			return true
		})
	}
}

// Logs of real proxies, as stored by the kubelet.
func TestReadLinkerdRecorded(t *testing.T) {
	text, err := os.ReadFile("testdata/linkerd/server.log")
	must.OK(t, err)
	var all []ProxyEntry
	lines, err := ReadLinkerd(bytes.NewReader(text), Source{Service: "bar", Pod: "bar-0", Addresses: []string{"10.0.0.7"}}, func(e ProxyEntry) { all = append(all, e) })
	if err != nil || lines.Damaged > 0 || lines.Entries != int64(len(all)) || len(all) == 0 || lines.Foreign == 0 {
		t.Fatalf("%d entries, %+v, %v", len(all), lines, err)
	}
	for _, status := range []int{200, 503} {
		if !slices.ContainsFunc(all, func(e ProxyEntry) bool { return e.Status == status && e.DurationNS > 0 && e.StartNS > 0 }) {
			t.Errorf("no line with status %d", status)
		}
	}
}

func FuzzReadLinkerd(f *testing.F) {
	f.Add([]byte(linkerdLine))
	if text, err := os.ReadFile("testdata/linkerd/server.log"); err == nil {
		for line := range bytes.Lines(text) {
			f.Add(line)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		n := int64(0)
		b := New(inbound)
		lines, err := ReadLinkerd(bytes.NewReader(text), Source{Service: "bar", Pod: "bar-0"}, func(e ProxyEntry) {
			n++
			if !strings.HasPrefix(e.ID, IDPrefix) || e.DurationNS < 0 || e.Status != 0 && (e.Status < 100 || e.Status > 999) {
				t.Fatalf("%+v", e)
			}
			b.AddProxy(e)
		})
		if err != nil || lines.Entries != n {
			t.Fatalf("%+v for %d entries: %v", lines, n, err)
		}
		b.Account()
	})
}
