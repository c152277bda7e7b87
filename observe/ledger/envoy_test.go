package ledger

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/meshtrial/meshtrial/testing/must"
)

// TestFieldsAgree verifies that field names are unique, and that the attempt log
// uses the names of the access log.
func TestFieldsAgree(t *testing.T) {
	got := map[string]string{}
	for _, f := range Fields {
		if got[f[0]] != "" {
			t.Errorf("%s is there twice", f[0])
		}
		got[f[0]] = f[1]
	}
	for _, f := range AttemptFields[1:] {
		if got[f[0]] != f[1] {
			t.Errorf("a log of attempts has %s as %q, the access log has %q", f[0], f[1], got[f[0]])
		}
	}
}

func TestReadEnvoyLine(t *testing.T) {
	const base = `{"id":"mm-1","start":"1795278123.031598000","us":4690,"ms":4,"status":200,"grpc":null,"flags":"-","details":"via_upstream","cluster":"outbound|8080|v1|bar.test.svc.cluster.local","authority":"x","local":"10.0.0.9:80","host":"10.0.0.1:8080","attempts":2,"attempt":"2"}`
	good := ProxyEntry{ID: "mm-1", Side: SideClient, Service: "front", Pod: "front-0", To: "bar", StartNS: 1795278123031598000,
		DurationNS: 4690_000, Status: 200, GRPC: -1, Details: "via_upstream", Host: "10.0.0.1:8080", Attempts: 2, Attempt: 2}
	with := func(change func(*ProxyEntry)) *ProxyEntry { e := good; change(&e); return &e }
	for _, test := range []struct {
		name, line string
		want       *ProxyEntry
		lines      Lines
	}{
		{"whole", base, &good, Lines{Entries: 1}},
		{"strings for numbers", strings.NewReplacer(`"us":4690`, `"us":"-"`, `"status":200`, `"status":"503"`, `"flags":"-"`, `"flags":"URX,UF"`, `"grpc":null`, `"grpc":14`).Replace(base),
			with(func(e *ProxyEntry) { e.DurationNS, e.Status, e.Flags, e.GRPC = 4e6, 503, "URX,UF", 14 }), Lines{Entries: 1}},
		{"inbound", strings.ReplaceAll(base, "outbound|8080|v1|bar.test.svc.cluster.local", "inbound|8080||"),
			with(func(e *ProxyEntry) { e.Side, e.To = SideServer, "" }), Lines{Entries: 1}},
		{"passthrough", strings.ReplaceAll(base, "outbound|8080|v1|bar.test.svc.cluster.local", "PassthroughCluster"),
			with(func(e *ProxyEntry) { e.To = "x" }), Lines{Entries: 1}},
		{"no cluster, own address", strings.NewReplacer(`"outbound|8080|v1|bar.test.svc.cluster.local"`, `null`, "10.0.0.9", "10.0.0.7").Replace(base),
			with(func(e *ProxyEntry) { e.Side, e.To = SideServer, "" }), Lines{Entries: 1}},
		{"no cluster, other address", strings.Replace(base, `"outbound|8080|v1|bar.test.svc.cluster.local"`, `null`, 1),
			with(func(e *ProxyEntry) { e.To = "x" }), Lines{Entries: 1}},
		{"Istio's own format", `{"request_id":"mm-1","start_time":"2026-11-21T16:22:03.031598Z","duration":4,"response_code":200,"response_flags":"-","response_code_details":"via_upstream","upstream_cluster":"outbound|8080|v1|bar.test.svc.cluster.local","upstream_host":"10.0.0.1:8080","method":"GET"}`,
			with(func(e *ProxyEntry) { e.DurationNS, e.Attempts, e.Attempt = 4e6, 1, 0 }), Lines{Entries: 1}},
		{"one attempt", `{"kind":"attempt","id":"mm-1","start":"1795278123.031598000","ms":4,"status":0,"flags":"UF","transport":"refused","cluster":"outbound|8080|v1|bar.test.svc.cluster.local","host":"10.0.0.1:8080","attempts":0,"attempt":"2"}`,
			with(func(e *ProxyEntry) {
				e.One, e.DurationNS, e.Status, e.Flags, e.Details, e.Transport, e.Attempts = true, 4e6, 0, "UF", "", "refused", 1
			}), Lines{Entries: 1}},
		{"names of others", `{"timestamp":"1795278123.031598","x-request-id":"mm-1","duration_ms":"4","status_code":"200","code":"503","details":"via_upstream","upstreamCluster":"outbound|8080|v1|bar.test.svc.cluster.local","upstream_host":"10.0.0.1:8080","method":"GET"}`,
			with(func(e *ProxyEntry) { e.DurationNS, e.Attempts, e.Attempt = 4e6, 1, 0 }), Lines{Entries: 1}},
		{"a text called status", `{"timestamp":"1795278123.031598","code":"E17","x-request-id":"mm-1","duration_ms":4,"response_code":"200","status":"OK","host":"bar.test","details":"via_upstream","upstream_cluster":"outbound|8080|v1|bar.test.svc.cluster.local","upstream_host":"10.0.0.1:8080"}`,
			with(func(e *ProxyEntry) { e.DurationNS, e.Attempts, e.Attempt = 4e6, 1, 0 }), Lines{Entries: 1}},
		{"objects in each other", `{"start":"1795278123.031598","id":"mm-1","duration":4,"response":{"code":200.0},"details":"via_upstream","upstream":{"cluster":"outbound|8080|v1|bar.test.svc.cluster.local","host":"10.0.0.1:8080"},"tags":["x"]}`,
			with(func(e *ProxyEntry) { e.DurationNS, e.Attempts, e.Attempt = 4e6, 1, 0 }), Lines{Entries: 1}},
		{"through a tunnel", strings.Replace(base, `"10.0.0.1:8080"`, `"envoy://connect_originate/10.0.0.1:8080"`, 1), &good, Lines{Entries: 1}},
		{"waypoint", strings.Replace(base, "outbound|8080|v1|", "inbound-vip|8080|http|", 1), &good, Lines{Entries: 1}},
		{"another id", strings.Replace(base, "mm-1", "nn-1", 1), nil, Lines{Other: 1}},
		{"no id", strings.Replace(base, `"mm-1"`, "null", 1), nil, Lines{Other: 1}},
		{"a log of something else", `2026-11-21T16:13:19Z info Envoy proxy is ready`, nil, Lines{Foreign: 1}},
		{"JSON of something else", `{"level":"info","msg":"x"}`, nil, Lines{Foreign: 1}},
		{"JSON of something else with a time", `{"level":"info","time":"2026-11-21T16:13:19.031598Z","msg":"x"}`, nil, Lines{Foreign: 1}},
		{"cut off", base[:len(base)-9], nil, Lines{Damaged: 1}},
		{"an impossible status", strings.Replace(base, `"status":200`, `"status":20000`, 1), nil, Lines{Damaged: 1}},
		{"a negative count", strings.Replace(base, `"attempts":2`, `"attempts":-2`, 1), nil, Lines{Damaged: 1}},
		{"no time", strings.Replace(base, `1795278123.031598000`, `yesterday`, 1), nil, Lines{Damaged: 1}},
		{"too long", strings.Replace(base, "via_upstream", strings.Repeat("x", maxLine), 1), nil, Lines{Damaged: 1}},
		{"too long and not ours", strings.Repeat("x", 3*maxLine), nil, Lines{Foreign: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []ProxyEntry
			text := "\n" + test.line + "\r\n" + `{"id":"mm-last","start":"1.5"}`
			lines, err := ReadEnvoy(iotest.OneByteReader(strings.NewReader(text)), Source{Service: "front", Pod: "front-0", Addresses: []string{"10.0.0.7"}}, func(e ProxyEntry) { got = append(got, e) })
			test.lines.Entries++
			if err != nil || lines != test.lines {
				t.Fatalf("%+v, %v; want %+v", lines, err, test.lines)
			}
			if last := got[len(got)-1]; last.ID != "mm-last" || last.StartNS != 1_500_000_000 {
				t.Errorf("the line after it: %+v", last)
			}
			if test.want != nil && got[0] != *test.want {
				t.Errorf("got  %+v\nwant %+v", got[0], *test.want)
			}
		})
	}
}

func TestReadEnvoyPassesErrorsOn(t *testing.T) {
	broken := errors.New("the line went dead")
	_, err := ReadEnvoy(io.MultiReader(strings.NewReader("x\n"), iotest.ErrReader(broken)), Source{Pod: "front-0"}, func(ProxyEntry) {})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "front-0") {
		t.Errorf("error %v", err)
	}
}

// FuzzReadEnvoy verifies that every line of any log is counted once, and that the
// resulting entries can be added to a book and accounted for.
func FuzzReadEnvoy(f *testing.F) {
	for _, name := range []string{"client", "server"} {
		text, err := os.ReadFile("testdata/envoy/" + name + ".log")
		must.OK(f, err)
		for line := range bytes.Lines(text) {
			f.Add(line)
		}
	}
	f.Add([]byte("{\"id\":\"mm-\",\"start\":\"0\"}\nx\n\n{}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		b := New(Options{Client: "bar", ClientProxy: true, Entry: "bar", Services: map[string]Station{"bar": {Sidecar: true}}})
		n := int64(0)
		lines, err := ReadEnvoy(bytes.NewReader(text), Source{Service: "bar"}, func(e ProxyEntry) {
			n++
			if !strings.HasPrefix(e.ID, IDPrefix) || e.Status < 0 || e.Attempts < 0 || e.DurationNS < 0 {
				t.Fatalf("%+v", e)
			}
			b.AddProxy(e)
			b.AddClient(ClientEntry{ID: e.ID, Outcome: OutcomeOther})
		})
		must.OK(t, err)
		full := int64(0)
		for line := range bytes.SplitSeq(text, []byte{'\n'}) {
			if len(bytes.TrimSpace(line)) > 0 {
				full++
			}
		}
		if total := lines.Entries + lines.Other + lines.Foreign + lines.Damaged; total != full || lines.Entries != n {
			t.Fatalf("%+v of %d lines, %d handed on", lines, full, n)
		}
		if a := b.Account(); a.Requests+a.Duplicates != n {
			t.Fatalf("%d requests and %d duplicates of %d", a.Requests, a.Duplicates, n)
		}
	})
}
