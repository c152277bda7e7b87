package accesslog

import (
	"strings"
	"testing"
	"time"
)

const (
	istioLine = `[2026-11-24T03:14:15.926Z] "GET /a HTTP/1.1" 200 - via_upstream - "-" 7 12 3 2 "-" "curl" "5f6b" "cart:80" "10.1.0.7:8080" outbound|80||cart.shop.svc.cluster.local 10.1.0.5:41234 10.96.0.9:80 10.1.0.5:51234 - default`
	envoyLine = `[2026-11-24T03:14:15.926Z] "GET /a HTTP/2" 503 UH 7 12 3 - "-" "curl" "5f6b" "cart:80" "-"`
	tcpLine   = `[2026-11-24T03:14:15.926Z] "- - -" 0 - - - "-" 70 120 3000 - "-" "-" "-" "-" "10.1.0.9:5432" outbound|5432||db.shop.svc.cluster.local 10.1.0.5:4123 10.96.0.8:5432 10.1.0.5:5123 - -`
)

func TestParse(t *testing.T) {
	at := time.Date(2026, 11, 24, 3, 14, 15, 926e6, time.UTC).UnixNano()
	const cart = "outbound|80||cart.shop.svc.cluster.local"
	istio := Line{at, 3, 200, "", "HTTP/1.1", 7, 12, cart, "cart:80", "10.1.0.5:41234"}
	failed := istio
	failed.Status, failed.Flags = 503, "UF,URX"
	for name, c := range map[string]struct {
		line string
		want Line
	}{
		"Istio's":        {istioLine, istio},
		"with a return":  {istioLine + "\r\n", istio},
		"Envoy's own":    {envoyLine, Line{at, 3, 503, "UH", "HTTP/2", 7, 12, "", "cart:80", ""}},
		"TCP":            {tcpLine, Line{at, 3000, 0, "", "", 70, 120, "outbound|5432||db.shop.svc.cluster.local", "", "10.1.0.5:4123"}},
		"failed":         {strings.Replace(istioLine, `200 - via_upstream - "-"`, `503 UF,URX upstream_reset{connection_failure} - "connection refused, 111"`, 1), failed},
		"quotes in path": {strings.Replace(istioLine, "/a HTTP", `/a" "x" "y HTTP`, 1), istio},
		"an old Envoy's": {strings.Replace(istioLine, "svc.cluster.local 10", "svc.cluster.local; 10", 1), istio},
		"JSON": {`{"start_time":"2026-11-24T03:14:15.926Z","protocol":"HTTP/1.1","response_code":200,"response_flags":"-","bytes_received":7,"bytes_sent":12,"duration":3,"authority":"cart:80","upstream_cluster":"` + cart + `","upstream_local_address":"10.1.0.5:41234"}`,
			istio},
		"little JSON": {`{"start_time":"2026-11-24T03:14:15.926Z","response_code":"200"}`, Line{at, -1, 200, "", "", -1, -1, "", "", ""}},
	} {
		if got, ok := Parse([]byte(c.line)); !ok || got != c.want {
			t.Errorf("%s: %+v, %v\n want %+v", name, got, ok, c.want)
		}
	}
	for name, line := range map[string]string{"empty": "", "agent": "2026-11-24T03:14:15.926Z\tinfo\tEnvoy proxy is ready", "half": istioLine[:len(istioLine)/2],
		"half JSON": `{"start_time":"2026-11-24T03:14:15.926Z","response_code":200,"dur`, "no time": strings.Replace(istioLine, "2026-11-24T03:14:15.926Z", "soon", 1),
		"other JSON": `{"start_time":"2026-11-24T03:14:15.926Z","level":"info"}`, "NUL": "[\x00] \"\x00\" 200 - "} {
		if got, ok := Parse([]byte(line)); ok {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

const ztunnelLine = "2026-01-23T05:07:25.806642Z\tinfo\taccess\tconnection complete\tsrc.addr=10.129.0.48:40978 src.workload=\"web-57ff-vmb6z\" src.namespace=\"shop\" src.identity=\"spiffe://cluster.local/ns/shop/sa/web\" dst.addr=10.129.0.43:15008 dst.hbone_addr=10.129.0.43:9080 dst.service=\"cart.shop.svc.cluster.local\" dst.workload=\"cart-6cd6-mddv2\" dst.namespace=\"shop\" direction=\"outbound\" bytes_sent=283 bytes_recv=358 duration=\"2ms\""

func TestParseZtunnel(t *testing.T) {
	at := time.Date(2026, 1, 23, 5, 7, 25, 806642e3, time.UTC).UnixNano()
	want := Connection{at, 2, true, false, 283, 358, "shop", "web-57ff-vmb6z", "cart.shop.svc.cluster.local", "10.129.0.43:9080"}
	refused := want
	refused.Failed = true
	for name, c := range map[string]struct {
		line string
		want Connection
	}{
		"text":   {ztunnelLine, want},
		"spaces": {strings.ReplaceAll(ztunnelLine, "\t", "  ") + "\r\n", want},
		"bare":   {strings.ReplaceAll(ztunnelLine, `"`, ""), want},
		"failed": {ztunnelLine + ` error="io error: Connection refused (os error 111)"`, refused},
		"JSON": {`{"level":"info","time":"2026-01-23T05:07:25.806642Z","scope":"access","message":"connection complete","src.addr":"10.129.0.48:40978","src.workload":"web-57ff-vmb6z","src.namespace":"shop","dst.addr":"10.129.0.43:15008","dst.hbone_addr":"10.129.0.43:9080","dst.service":"cart.shop.svc.cluster.local","direction":"outbound","bytes_sent":283,"bytes_recv":358,"duration":"2ms"}`,
			want},
	} {
		if got, ok := ParseZtunnel([]byte(c.line)); !ok || got != c.want {
			t.Errorf("%s: %+v, %v\n want %+v", name, got, ok, c.want)
		}
	}
	for name, line := range map[string]string{"another": "2026-01-23T05:07:25.806642Z\tinfo\txds:xds{id=1}\treceived response", "half": ztunnelLine[:len(ztunnelLine)-80], "no time": ztunnelLine[5:],
		"half JSON": `{"time":"2026-01-23T05:07:25.806642Z","message":"connection complete","direction":"outbound"`} {
		if got, ok := ParseZtunnel([]byte(line)); ok {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// FuzzParse checks that no line crashes the parsers, and that what they accept has a time.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{istioLine, envoyLine, tcpLine, ztunnelLine, `{"time":"2026-01-23T05:07:25Z","message":"connection complete","direction":"x"}`, `[2026-11-24T03:14:15Z] "" 1 `} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if l, ok := Parse(line); ok && (l.StartNS < 0 || l.Status < 0 || l.DurationMS < -1) {
			t.Errorf("%+v", l)
		}
		if c, ok := ParseZtunnel(line); ok && (c.EndNS < 0 || c.Received < -1) {
			t.Errorf("%+v", c)
		}
	})
}
