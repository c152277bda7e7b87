package ledger

import (
	"bufio"
	"encoding/json"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
)

// recorded loads testdata/envoy: the logs of a client, a worker and two Envoys
// 1.40.0 with access logs in Format, as the client's proxy and the server's,
// about 21 requests with different outcomes; with attempts, also their attempt
// logs. The client's proxy had a cluster for each possible state of service
// bar.
func recorded(t *testing.T, attempts bool) (*Book, map[string]string) {
	t.Helper()
	b := New(Options{Client: "load", ClientProxy: true, Entry: "bar", Services: map[string]Station{"bar": {Sidecar: true}}})
	cases := map[string]string{}
	eachLine(t, "testdata/envoy/client.jsonl", func(line []byte) {
		var c struct {
			ID, Case, Outcome string
			Status            int
			IntendedNS        int64 `json:"intended_ns"`
			SentNS            int64 `json:"sent_ns"`
			DoneNS            int64 `json:"done_ns"`
		}
		must.OK(t, json.Unmarshal(line, &c))
		cases[c.ID] = c.Case
		b.AddClient(ClientEntry{c.ID, c.IntendedNS, c.SentNS, c.DoneNS, c.Outcome, c.Status})
	})
	files := []string{"client.log", "server.log"}
	if attempts {
		files = append(files, "client-attempts.log", "server-attempts.log")
	}
	for _, name := range files {
		source := Source{Service: "load", Pod: "load-0"}
		if strings.HasPrefix(name, "server") {
			source = Source{Service: "bar", Pod: "bar-0", Addresses: []string{"127.0.0.1"}}
		}
		file, err := os.Open("testdata/envoy/" + name)
		must.OK(t, err)
		defer file.Close()
		lines, err := ReadEnvoy(file, source, func(p ProxyEntry) {
			if p.To != "" {
				p.To = "bar"
			}
			b.AddProxy(p)
		})
		if err != nil || lines.Damaged+lines.Foreign != 0 {
			t.Fatalf("%+v, %v", lines, err)
		}
		if want := map[string]int64{"server.log": 1}[name]; lines.Other != want {
			t.Errorf("%d lines without an id in %s, want %d (the TLS handshake)", lines.Other, name, want)
		}
	}
	eachLine(t, "testdata/envoy/worker.jsonl", func(line []byte) {
		var w struct {
			ID, Ended string
			Status    int
			StartNS   int64 `json:"start_ns"`
			EndNS     int64 `json:"end_ns"`
		}
		must.OK(t, json.Unmarshal(line, &w))
		b.AddWorker(WorkerEntry{w.ID, "bar", "bar-0", w.StartNS, w.EndNS, w.Status, w.Ended})
	})
	return b, cases
}

func eachLine(t *testing.T, name string, each func([]byte)) {
	t.Helper()
	file, err := os.Open(name)
	must.OK(t, err)
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		each(lines.Bytes())
	}
}

// TestRecorded verifies that every outcome between real proxies reconciles, and
// is attributed to where it was caused.
func TestRecorded(t *testing.T) {
	t.Run("lines of requests", func(t *testing.T) { testRecorded(t, false) })
	t.Run("and of attempts", func(t *testing.T) { testRecorded(t, true) })
}

func testRecorded(t *testing.T, attempts bool) {
	b, cases := recorded(t, attempts)
	type fate struct {
		class  Class
		hop    Hop
		flag   string
		seen   string
		hidden int
	}
	want := map[string]fate{
		"bar/ok":          {class: ClassOK},
		"di":              {class: ClassOK},
		"half/a":          {class: ClassRetried, hidden: 1},
		"half/b":          {class: ClassRetried, hidden: 1},
		"bar/500":         {ClassFailed, HopWorker, "", "", 0},
		"retry503/503":    {ClassFailed, HopWorker, "", "URX", 2},
		"bar/reset":       {ClassFailed, HopWorker, "UC", "", 0},
		"pertry/hang":     {ClassFailed, HopWorker, "UT", "URX,UT", 1},
		"bar/hang":        {ClassFailed, HopWorker, "UT", "UT", 0},
		"gives up":        {ClassFailed, HopWorker, "DC", "DC", 0},
		"circuit/hang":    {ClassFailed, HopWorker, "UT", "UT", 0},
		"circuit pending": {ClassFailed, HopWorker, "UT", "UT", 0},
		"worker dead":     {ClassFailed, HopWorker, "UF", "", 0},
		"dead":            {ClassFailed, HopNetwork, "UF", "UF", 0},
		"retryall":        {ClassFailed, HopNetwork, "UF", "URX,UF", 2},
		"tls":             {ClassFailed, HopNetwork, "UF", "UF", 0},
		"stopped/hang":    {ClassFailed, HopNetwork, "UT", "UT", 0},
		"none":            {ClassFailed, HopClientProxy, "UH", "UH", 0},
		"nowhere":         {ClassFailed, HopClientProxy, "NR", "NR", 0},
		"fi":              {ClassFailed, HopClientProxy, "FI", "FI", 0},
		"circuit open":    {ClassFailed, HopClientProxy, "UO", "UO", 0},
	}
	b.Each(func(r *Request) bool {
		got := fate{class: r.Class, hidden: r.Hidden}
		if r.Fault != nil {
			got.hop, got.flag, got.seen = r.Fault.Hop, r.Fault.Flag, strings.TrimPrefix(r.Fault.Seen, "-")
		}
		if name := cases[r.ID]; got != want[name] {
			t.Errorf("%s: %+v, want %+v (lacks %v)", name, got, want[name], r.Lacks)
		} else {
			delete(want, name)
		}
		return true
	})
	if len(want) > 0 {
		t.Errorf("never seen, or wrong: %v", want)
	}

	a := b.Account()
	if !a.Reconciled || a.Requests != 21 || a.Classes[ClassFailed] != 17 || a.Failed[OutcomeTimeout] != 1 || a.Failed[OutcomeStatus] != 16 {
		t.Errorf("account %+v", a)
	}
	for i, name := range []string{"requests of the client at its proxy", "attempts to bar at its proxy", "attempts of the proxy of bar at its worker"} {
		if got := a.Equations[i]; got.Name != name || !got.Holds || got.Left != got.Arrived+sum(got.Lost) {
			t.Errorf("equation %d: %+v, want %s to hold", i, got, name)
		}
	}
	at := a.Equations[1]
	// 17 requests were sent, and retried 2 + 1 + 1 + 1 + 2 times.
	lost, hidden := map[string]int64{"UF": 3, LostRetried: 4, "UT": 1}, map[string]int64{}
	if attempts {
		lost, hidden = map[string]int64{"UF": 7, "UT": 1}, map[string]int64{"UF": 4, "UT": 1, "status 503": 2}
	}
	if at.Left != 24 || at.Arrived != 16 || !maps.Equal(at.Lost, lost) {
		t.Errorf("attempts to bar: %+v", at)
	}
	if a.Hidden != 7 || !maps.Equal(a.HiddenBy, hidden) {
		t.Errorf("%d hidden, %v; want %v", a.Hidden, a.HiddenBy, hidden)
	}
	if on := a.Equations[2]; on.Left != 16 || on.Arrived != 15 || on.Lost["UF"] != 1 {
		t.Errorf("attempts at the worker: %+v", on)
	}
}

func sum(m map[string]int64) (n int64) {
	for _, v := range m {
		n += v
	}
	return n
}
