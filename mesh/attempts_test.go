package mesh

import (
	"net/netip"
	"testing"
)

func TestParseAttempt(t *testing.T) {
	const start = 1_700_000_000_123_456_000
	host := netip.MustParseAddrPort("10.160.0.7:8080")
	for _, c := range []struct {
		name, line string
		want       AttemptLine
		ours, fail bool
		ok, noConn bool
	}{
		{name: "answered", line: "mm-attempt 1700000000.123456 3 10.160.0.7:8080 200 - a-1",
			want: AttemptLine{StartNS: start, TookMS: 3, Host: host, Code: 200, Flags: "-", ID: "a-1"}, ours: true, ok: true},
		{name: "an endpoint's own error", line: "mm-attempt 1700000000.123456 3 10.160.0.7:8080 503 - a-1",
			want: AttemptLine{StartNS: start, TookMS: 3, Host: host, Code: 503, Flags: "-", ID: "a-1"}, ours: true},
		{name: "no connection", line: "mm-attempt 1700000000.123456 10001 10.160.0.7:8080 0 UF a-1",
			want: AttemptLine{StartNS: start, TookMS: 10001, Host: host, Flags: "UF", ID: "a-1"}, ours: true, noConn: true},
		{name: "a request after its last retry", line: "mm-request 1700000000.123456 20002 10.160.0.7:8080 503 URX,UF a-1",
			want: AttemptLine{Request: true, StartNS: start, TookMS: 20002, Host: host, Code: 503, Flags: "URX,UF", ID: "a-1"}, ours: true, noConn: true},
		{name: "no endpoint, no duration", line: "mm-request 1700000000.123456 - - 503 UH a-1",
			want: AttemptLine{Request: true, StartNS: start, Code: 503, Flags: "UH", ID: "a-1"}, ours: true},
		{name: "IPv6", line: "mm-attempt 1700000000.123456 3 [fd00::7]:8080 200 - a-1",
			want: AttemptLine{StartNS: start, TookMS: 3, Host: netip.MustParseAddrPort("[fd00::7]:8080"), Code: 200, Flags: "-", ID: "a-1"}, ours: true, ok: true},
		{name: "through a tunnel", line: "mm-attempt 1700000000.123456 3 envoy://connect_originate/10.160.0.7:8080 200 - a-1",
			want: AttemptLine{StartNS: start, TookMS: 3, Host: host, Code: 200, Flags: "-", ID: "a-1"}, ours: true, ok: true},
		{name: "something else", line: "2026-11-21T10:00:00Z info Envoy proxy is ready"},
		{name: "nothing"},
		{name: "cut short", line: "mm-attempt 1700000000.123456 3 10.160.0.7:8080 200", ours: true, fail: true},
		{name: "no time", line: "mm-attempt yesterday 3 10.160.0.7:8080 200 - a-1", ours: true, fail: true},
		{name: "milliseconds", line: "mm-attempt 1700000000.123 3 10.160.0.7:8080 200 - a-1", ours: true, fail: true},
		{name: "a name for an address", line: "mm-attempt 1700000000.123456 3 somewhere:8080 200 - a-1", ours: true, fail: true},
		{name: "a tunnel to nowhere", line: "mm-attempt 1700000000.123456 3 envoy://connect_originate/ 200 - a-1", ours: true, fail: true},
		{name: "no code", line: "mm-attempt 1700000000.123456 3 10.160.0.7:8080 OK - a-1", ours: true, fail: true},
		{name: "a negative duration", line: "mm-attempt 1700000000.123456 -3 10.160.0.7:8080 200 - a-1", ours: true, fail: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ours, err := ParseAttempt(c.line)
			if got != c.want || ours != c.ours || (err != nil) != c.fail {
				t.Errorf("%+v, %v, %v", got, ours, err)
			}
			if got.OK() != c.ok || got.Unconnected() != c.noConn {
				t.Errorf("OK %v, without a connection %v", got.OK(), got.Unconnected())
			}
		})
	}
}

func FuzzParseAttempt(f *testing.F) {
	f.Add("mm-attempt 1700000000.123456 3 10.160.0.7:8080 200 - a-1")
	f.Add("mm-request 1700000000.123456 - - 503 UH a-1")
	f.Add("mm-attempt 99999999999999999999.123456 3 [::]:0 999 - -")
	f.Fuzz(func(t *testing.T, line string) {
		l, ours, err := ParseAttempt(line)
		if (!ours || err != nil) && l != (AttemptLine{}) {
			t.Errorf("%q: %+v beside %v, %v", line, l, ours, err)
		}
		if l.StartNS < 0 || l.TookMS < 0 || l.Code < 0 {
			t.Errorf("%q: %+v", line, l)
		}
	})
}
