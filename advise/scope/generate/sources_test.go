package generate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/streamtest"
)

// textLine returns a line as Istio's proxies write it; the fields are those that clients and the
// configuration choose.
func textLine(path, agent, authority, cluster, server string) string {
	return fmt.Sprintf(`[2026-11-24T03:14:15.926Z] "GET %s HTTP/1.1" 200 - via_upstream - "-" 0 12 3 2 "-" "%s" "5f6b" "%s" "10.1.0.7:8080" %s 10.1.0.5:41234 10.96.0.9:80 10.1.0.5:51234 %s default`,
		path, agent, authority, cluster, server)
}

const cart, pay = "outbound|80||cart.shop.svc.cluster.local", "outbound|443|v2|pay.bank.svc.cluster.local"

// edges formats the calls, and calls that leave the mesh, in short form.
func edges(o *Observations) string {
	var out []string
	for _, e := range o.all() {
		out = append(out, fmt.Sprintf("%s>%s:%d", e.From, e.Host, e.Count))
	}
	for _, w := range o.workloads() {
		s := o.seen[w]
		if s.served > 0 {
			out = append(out, w.String()+"<")
		}
		for _, host := range slices.Sorted(maps.Keys(s.outside)) {
			out = append(out, w.String()+"!"+host)
		}
	}
	return strings.Join(out, " ")
}

// everything describes a mesh that knows all hosts except those of example.com.
func everything(host, _ string) bool { return !strings.HasSuffix(host, "example.com") }

func TestAccessLog(t *testing.T) {
	const toCart, toPay, both = "shop/front>cart.shop.svc.cluster.local:1", "shop/front>pay.bank.svc.cluster.local:1",
		"shop/front>cart.shop.svc.cluster.local:1 shop/front>pay.bank.svc.cluster.local:1"
	for name, c := range map[string]struct {
		log, want        string
		unknown, tooLong int64
	}{
		"text":                              {log: textLine("/", "curl", "cart", cart, "-"), want: toCart},
		"old Envoys end the cluster's name": {log: textLine("/", "curl", "cart", cart+";", "-"), want: toCart},
		"text around":                       {log: "2026-11-24T03:00:00Z info Envoy proxy is ready\n" + textLine("/", "curl", "pay", pay, "outbound_.443_.v2_.x") + "\n\n", want: toPay},
		"inbound":                           {log: textLine("/", "curl", "front", "inbound|8080||", "-"), want: "shop/front<"},
		"answered by the proxy":             {log: textLine("/", "curl", "cart", "-", "-") + "\n" + textLine("/", "curl", "front", "InboundPassthroughCluster", "-"), want: "shop/front<"},
		"outside":                           {log: textLine("/", "curl", "example.com:8443", "PassthroughCluster", "-"), want: "shop/front!example.com"},
		"quotes and spaces in a path":       {log: textLine(`/a" 200 - "x" "y`, `z" "w`, "cart", cart, "-"), want: toCart},
		"a path that names a cluster":       {log: textLine("/"+pay, "curl", "cart", cart, "-"), want: both},
		"one that the mesh does not know":   {log: textLine("/outbound|80||evil.example.com", "curl", "cart", cart, "-"), want: toCart, unknown: 1},
		"a server name that shifts fields":  {log: textLine("/", "curl", "cart", cart, "a "+pay+" b c d e f"), want: both},
		"another format":                    {log: "GET / 200 cluster=" + cart + "\n", want: toCart},
		"json":                              {log: `{"start_time":"2026-11-24T03:14:15.926Z","upstream_cluster":"` + pay + `","route_name":null}`, want: toPay},
		"json without a cluster":            {log: `{"upstream_cluster":null}` + "\n" + `{"upstream_cluster":"inbound|80||"}`, want: "shop/front<"},
		"json of another name":              {log: `{"upstream":{"cluster":"` + cart + `"}}`, want: toCart},
		"cut json":                          {log: `{"upstream_cluster":"` + cart + `","auth`, want: toCart},
		"waypoint":                          {log: textLine("/", "curl", "cart", "inbound-vip|80|http|cart.shop.svc.cluster.local;", "-") + "\n" + `{"upstream_cluster":"connect_originate"}`, want: "shop/front<"},
		"of kubectl": {log: "[pod/cart-1/istio-proxy] " + textLine("/", "curl", "pay", pay, "-") + "\n[pod/cart-2/istio-proxy] " + textLine("/", "curl", "pay", "inbound|80||", "-"),
			want: "shop/cart>pay.bank.svc.cluster.local:1 shop/cart<"},
		"a long line":                        {log: textLine("/"+strings.Repeat("x", 2*maxLine), "curl", "pay", pay, "-") + "\n" + textLine("/", "curl", "cart", cart, "-"), tooLong: 1, want: toCart},
		"as long as Envoy lets a request be": {log: `{"path":"` + strings.Repeat(`\u0001`, 96<<10) + `","upstream_cluster":"` + cart + `"}`, want: toCart},
		// The search for the end of a name is bounded: it would read 45 GB here.
		"names without an end": {log: cart + " " + strings.Repeat("outbound|", 50_000) + strings.Repeat("|", 2000), want: toCart},
	} {
		o := NewObservations()
		found, err := o.ReadAccessLog(strings.NewReader(c.log), Workload{"shop", "front"},
			func(pod string) Workload { return Workload{"shop", strings.TrimRight(pod, "-12")} }, everything)
		if got := edges(o); err != nil || got != c.want || found.TooLong != c.tooLong || found.Unknown != c.unknown {
			t.Errorf("%s: %v\n got %s\nwant %s\n%+v", name, err, got, c.want, found)
		}
	}
}

// What clients write into paths does not get into any Sidecar, and in any amount it disables
// nothing. Actual calls in the same log are kept.
func TestClientsWriteHosts(t *testing.T) {
	m, logged := shop(t).workload("shop", "logged"), Workload{"shop", "logged"}
	m.inv.read["Service"], m.inv.read["ServiceEntry"] = true, true
	lines := []string{textLine("/", "curl", "cart", cart, "-"), textLine("/outbound|80||evil.example.com", "curl", "pay", pay, "-")}
	for i := range 180 {
		var path strings.Builder
		for k := range 3000 {
			fmt.Fprintf(&path, "outbound|1||a%d,", 3000*i+k)
		}
		lines = append(lines, textLine("/?"+path.String(), "curl", "cart", cart, "-"))
	}
	found, err := m.obs.ReadAccessLog(strings.NewReader(strings.Join(lines, "\n")), logged, nil, m.inv.Knows)
	if err != nil || found.Unknown != 540_001 {
		t.Fatalf("%v, %+v", err, found)
	}
	r := m.generate(Options{})
	if text := r.Manifests(); strings.Contains(text, "evil") || strings.Contains(text, "/a1") {
		t.Errorf("%.2000s", text)
	}
	m.checkLets(r, logged, true, Host{"shop", "cart.shop.svc.cluster.local"}, Host{"bank", "pay.bank.svc.cluster.local"})
	m.checkLets(r, logged, false, far)
}

// A log with unknown hosts, which clients may have invented, does not narrow anything.
func TestHostsOfNoList(t *testing.T) {
	m := shop(t).workload("shop", "logged")
	log := textLine("/", "curl", "cart", cart, "-") + "\n" + textLine("/outbound|80||evil.example.com", "curl", "pay", pay, "-")
	m.reads("logged", log)
	r := m.generate(Options{})
	if o := opened(r, OpenUnseen, "logged"); o == nil || o.Why.Code != UncoveredHosts || strings.Contains(r.Manifests(), "evil") {
		t.Errorf("%+v", r.Open)
	}
}

// Names that Istio would reject do not get into Sidecars; a deleted Service is kept by name.
func TestHostsThatNobodyKnows(t *testing.T) {
	m := shop(t)
	for _, e := range []Edge{{Host: "*"}, {Host: "under_score.example.com"}, {Host: "x.example.com", Namespace: "a b"}, {Host: "remote.other.svc.cluster.local"}} {
		e.From, e.Count, e.Sources = Workload{"shop", "cart"}, 1, Metrics
		m.sees(e)
	}
	r := m.generate(Options{})
	checkSidecars(t, r, map[string]string{"shop/cart": "create other/remote.other.svc.cluster.local"})
	if o := opened(r, OpenUnwritable, "cart"); o == nil || len(o.Hosts) != 3 {
		t.Errorf("%+v", r.Open)
	}
	if o := opened(r, OpenUnknown, "cart"); o == nil || len(o.Hosts) != 1 {
		t.Errorf("%+v", r.Open)
	}
}

// Whatever clients put into their fields, the called host is kept.
func TestHostileFields(t *testing.T) {
	hostile := rapid.StringOf(rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune(` "|;{}[]`)))).Filter(func(s string) bool { return !strings.ContainsAny(s, "\r\n") })
	field := rapid.OneOf(hostile, rapid.SampledFrom([]string{"-", pay, `" "x" ` + pay + ` a b c d e`, `" a b c d e`, `{"upstream_cluster":"` + pay + `"}`, strings.Repeat(pay+" ", 40)}))
	rapid.Check(t, func(t *rapid.T) {
		path, agent, authority, server := field.Draw(t, "path"), field.Draw(t, "agent"), field.Draw(t, "authority"), field.Draw(t, "server")
		line := textLine(path, agent, authority, cart, server)
		if rapid.Bool().Draw(t, "json") {
			text, err := json.Marshal(map[string]any{"path": path, "user_agent": agent, "authority": authority, "upstream_cluster": cart, "requested_server_name": server})
			must.OK(t, err)
			line = string(text)
		}
		o := NewObservations()
		must.OK(t, must.Err(o.ReadAccessLog(strings.NewReader(line+"\n"), Workload{"a", "b"}, nil, everything)))
		if !slices.ContainsFunc(o.all(), func(e Edge) bool { return e.Host == "cart.shop.svc.cluster.local" }) {
			t.Fatalf("lost: %s", line)
		}
	})
}

// Start times in custom formats.
func TestAccessLogStart(t *testing.T) {
	for start, want := range map[string]string{
		`"start_time":"2026-11-24T03:14:15.926Z"`:      "2026-11-24T03:14:15.926Z",
		`"start_time":"1795490055.926"`:                "2026-11-24T03:14:15.926Z",
		`"start_time":1795490055.926`:                  "2026-11-24T03:14:15.926Z",
		`"timestamp":1795490055926`:                    "2026-11-24T03:14:15.926Z",
		`"@timestamp":"[2026-11-24T03:14:15.926Z] "`:   "2026-11-24T03:14:15.926Z",
		`"time":"2026/11/24T04:14:15+0100 1795490055"`: "2026-11-24T03:14:15Z",
		`"time":12,"start_time":"1795490055"`:          "2026-11-24T03:14:15Z",
		`"start_time":"1795490055","time":1795400000`:  "2026-11-24T03:14:15Z",
		`"start_time":"-","ts":1795490055`:             "2026-11-24T03:14:15Z",
		`"time":12`:                                    "",
		`"start_time":"-"`:                             "",
		`"start_time":null`:                            "",
		`"start_time":"soon"`:                          "",
		`"start_time":"99999999999999999999"`:          "",
	} {
		o := NewObservations()
		must.OK(t, must.Err(o.ReadAccessLog(strings.NewReader("{"+start+`,"upstream_cluster":"`+cart+`"}`), Workload{"shop", "front"}, nil, everything)))
		got := ""
		if first := o.all()[0].First; !first.IsZero() {
			got = first.Format(time.RFC3339Nano)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", start, got, want)
		}
	}
}

// A log without a successful request is rejected, however its lines express that.
func TestAccessLogEndings(t *testing.T) {
	text := func(code, flags string) string {
		return strings.Replace(textLine("/", "", "cart", cart, "-"), `" 200 - `, `" `+code+" "+flags+" ", 1)
	}
	fields := func(more string) string { return `{"upstream_cluster":"` + cart + `"` + more + `}` }
	for line, want := range map[string]ending{
		text("503", "UF"):                             endFailed,
		text("200", "-"):                              endSucceeded,
		text("0", "-"):                                endSucceeded, // a connection
		text("0", "UF,URX"):                           endFailed,
		text("0", "DC"):                               endUnknown,
		text("-", "-"):                                endUnknown,
		fields(``):                                    endUnknown,
		fields(`,"response_code":503`):                endFailed,
		fields(`,"response_code":"503"`):              endFailed,
		fields(`,"response_code":503.0`):              endFailed,
		fields(`,"responseCode":"200"`):               endSucceeded,
		fields(`,"status_code":"503"`):                endFailed,
		fields(`,"status":"404"`):                     endFailed,
		fields(`,"code":"200"`):                       endSucceeded,
		fields(`,"code":"200","response_code":"503"`): endFailed,
		fields(`,"response_code":"503","code":"200"`): endFailed,
		fields(`,"response":{"status_code":"503"}`):   endFailed,
		fields(`,"http.response.status_code":"503"`):  endFailed,
		fields(`,"status":"-"`):                       endUnknown,
		fields(`,"status":null`):                      endUnknown,
		fields(`,"status":"ok"`):                      endUnknown,
		fields(`,"status":7`):                         endUnknown,
		fields(`,"status":"0"`):                       endUnknown,
		fields(`,"status":"0","response_flags":"-"`):  endSucceeded,
		fields(`,"status":0,"response_flags":"UH"`):   endFailed,
	} {
		found, err := NewObservations().ReadAccessLog(strings.NewReader(line), Workload{"shop", "front"}, nil, everything)
		got := endSucceeded
		switch {
		case found.Failed == 1:
			got = endFailed
		case found.Unended == 1:
			got = endUnknown
		}
		if err != nil || found.Requests != 1 || got != want {
			t.Errorf("%s: %d, want %d, %+v, %v", line, got, want, found, err)
		}
	}
	failed, unknown, succeeded := fields(`,"response_code":"503"`)+"\n", fields(``)+"\n", fields(`,"response_code":"200"`)+"\n"
	for name, c := range map[string]struct {
		log     string
		refused bool
	}{
		"all failed":                       {strings.Repeat(failed, fewest), true},
		"all failed as far as it is known": {strings.Repeat(failed, fewest) + unknown, true},
		"one succeeded":                    {strings.Repeat(failed, fewest) + succeeded, false},
		"few failed":                       {strings.Repeat(failed, fewest-1), false},
		"nothing is known":                 {strings.Repeat(unknown, 2*fewest), false},
	} {
		_, err := NewObservations().ReadAccessLog(strings.NewReader(c.log), Workload{"shop", "front"}, nil, everything)
		if c.refused != (err != nil) || c.refused && errs.Code(err) != errs.CodeUsage {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAccessLogFailures(t *testing.T) {
	o := NewObservations()
	for _, log := range []string{"hello\nworld\n", ""} {
		_, err := o.ReadAccessLog(strings.NewReader(log), Workload{}, nil, everything)
		if errs.Code(err) != errs.CodeUsage || !errors.Is(err, ErrNoRequests) || !o.Empty() {
			t.Errorf("%q: %v, empty: %v", log, err, o.Empty())
		}
	}
	broken := errors.New("the disk is gone")
	_, err := o.ReadAccessLog(io.MultiReader(strings.NewReader(textLine("/", "", "x", cart, "-")+"\n"), iotest.ErrReader(broken)), Workload{}, nil, everything)
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "after line 1") {
		t.Error(err)
	}
}

// Names chosen by clients do not fill the memory.
func TestOutsideIsBounded(t *testing.T) {
	o := NewObservations()
	for i := range 10_000 {
		o.left(Workload{"a", "b"}, fmt.Sprintf("%d.example.com", i), Metrics, Span{})
	}
	if outside := o.seen[Workload{"a", "b"}].outside; len(outside) != maxOutside+1 || !outside[others] {
		t.Errorf("%d names", len(outside))
	}
}

func FuzzAccessLog(f *testing.F) {
	f.Add(textLine("/", "curl", "cart", cart, "-"))
	f.Add(`{"start_time":"x","upstream_cluster":"` + pay + `"}`)
	f.Add(`{"time":1795490055.9,"http":{"response":{"status_code":"503"}},"a":[{}],"upstream_cluster":"` + cart + `"}`)
	f.Add("[pod/a/b] " + textLine(`" "`, "\x00", "", "PassthroughCluster", `" `))
	f.Fuzz(func(t *testing.T, log string) {
		o := NewObservations()
		found, _ := o.ReadAccessLog(strings.NewReader(log), Workload{"a", "b"}, func(pod string) Workload { return Workload{"a", pod} }, everything)
		for _, e := range o.all() {
			if !isHost(e.Host) || e.Count < 1 || e.Count > found.Lines*int64(len(log)) {
				t.Errorf("%+v", e)
			}
		}
		// A cluster between quotes and spaces is found, whatever surrounds it.
		if !strings.ContainsAny(log, "\r\n") && len(log) < maxLine/2 && !strings.HasPrefix(log, "[pod/") && !strings.Contains(log, "|") && !strings.Contains(log, "_.") {
			o := NewObservations()
			if _, err := o.ReadAccessLog(strings.NewReader(log+` "`+cart+`" `), Workload{"a", "b"}, nil, everything); err != nil || len(o.all()) != 1 {
				t.Errorf("%v: %q hides the cluster behind it", err, log)
			}
		}
	})
}

func TestCounters(t *testing.T) {
	o := NewObservations()
	o.AddCounters(Workload{"shop", "front"}, map[string]int64{cart: 3, pay: 0, "inbound|8080||": 2, "PassthroughCluster": 4, "BlackHoleCluster": 0, "xds-grpc": 9})
	if got := edges(o); got != "shop/front>cart.shop.svc.cluster.local:3 shop/front< shop/front!(others)" {
		t.Error(got)
	}
}

func TestMetrics(t *testing.T) {
	labels := func(reporter, source, to string) map[string]string {
		return reported(reporter, source, Workload{"shop", "cart-v1"}, to)
	}
	o := NewObservations()
	outside := labels("source", "front", "api.example.com")
	outside["destination_service_name"] = "PassthroughCluster"
	bare := labels("destination", "unknown", "cart.shop.svc.cluster.local")
	bare["source_workload_namespace"] = "unknown"
	for _, s := range []struct {
		labels map[string]string
		n      float64
	}{{labels("source", "front", "cart.shop.svc.cluster.local"), 7.5}, {labels("destination", "front", "cart.shop.svc.cluster.local"), 7}, {bare, 2},
		{labels("source", "front", "never.shop.svc.cluster.local"), 0}, {labels("source", "front", "never.shop.svc.cluster.local"), math.NaN()}, {outside, 4}} {
		o.AddMetric(MetricRequests, s.labels, s.n, Span{})
	}
	if got := edges(o); got != "shop/front>cart.shop.svc.cluster.local:7 shop/cart-v1< shop/front!api.example.com" {
		t.Error(got)
	}
}

const kialiText = `{"timestamp":1795600000,"duration":3600,"graphType":"workload","elements":{"nodes":[
 {"data":{"id":"f","nodeType":"workload","namespace":"shop","workload":"front"}},
 {"data":{"id":"c","nodeType":"workload","namespace":"shop","workload":"cart-v1","destServices":[{"namespace":"shop","name":"cart"}]}},
 {"data":{"id":"s","nodeType":"service","namespace":"bank","service":"pay"}},
 {"data":{"id":"e","nodeType":"service","namespace":"shop","service":"api","isServiceEntry":{"location":"MESH_EXTERNAL","hosts":["api.example.com","*.cdn.example.com"],"namespace":"shop"}}},
 {"data":{"id":"x","nodeType":"service","namespace":"unknown","service":"PassthroughCluster"}},
 {"data":{"id":"u","nodeType":"workload","namespace":"unknown","workload":"unknown"}}],
 "edges":[
 {"data":{"source":"f","target":"c","traffic":{"protocol":"http","rates":{"http":"0.50"},"responses":{"200":{"hosts":{"cart.shop:80":"100.0"}}}}}},
 {"data":{"source":"f","target":"s","traffic":{"protocol":"tcp","rates":{"tcp":"900"}}}},
 {"data":{"source":"s","target":"c","traffic":{"protocol":"http","rates":{"http":"1"}}}},
 {"data":{"source":"c","target":"e","traffic":{"protocol":"http","rates":{"http":"1"}}}},
 {"data":{"source":"c","target":"x","traffic":{}}},
 {"data":{"source":"u","target":"c","traffic":{"protocol":"grpc","rates":{"grpc":"1"}}}}]}}`

func TestKiali(t *testing.T) {
	o := NewObservations()
	must.OK(t, o.ReadKiali(strings.NewReader(kialiText), "cluster.local"))
	want := "shop/cart-v1>*.cdn.example.com:3600 shop/cart-v1>api.example.com:3600 shop/front>cart.shop:1800 shop/front>pay.bank.svc.cluster.local:1 shop/front>cart.shop.svc.cluster.local:1800 shop/cart-v1< shop/cart-v1!(others)"
	got := strings.Split(edges(o), " ")
	for _, part := range strings.Split(want, " ") {
		if !slices.Contains(got, part) {
			t.Errorf("%s is not in %v", part, got)
		}
	}
	for text, says := range map[string]string{
		"":             "unexpected end of JSON",
		`{"nodes":[]}`: `no "elements"`,
		`{"elements":{"nodes":[{"data":{"id":"a"}}],"edges":[{"data":{"source":"a","target":"b"}}]}}`: `elements.edges[0]`,
		`{"elements":{"nodes":[{"data":{"id":7}}]}}`:                                                  "elements.nodes.data.id",
	} {
		if err := NewObservations().ReadKiali(strings.NewReader(text), "x"); err == nil || !strings.Contains(err.Error(), says) || errs.Code(err) != errs.CodeUsage {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A waypoint forwards others' calls and makes none: front calls cart through it, and it forwards
// calls to front.
const kialiAmbient = `{"timestamp":1795600000,"duration":10,"elements":{"nodes":[
 {"data":{"id":"f","nodeType":"workload","namespace":"shop","workload":"front","destServices":[{"namespace":"shop","name":"front"}]}},
 {"data":{"id":"b","nodeType":"workload","namespace":"bank","workload":"teller"}},
 {"data":{"id":"c","nodeType":"workload","namespace":"shop","workload":"cart","destServices":[{"namespace":"shop","name":"cart"}]}},
 {"data":{"id":"w","nodeType":"workload","namespace":"shop","workload":"waypoint","isWaypoint":true,"destServices":[{"namespace":"shop","name":"cart"},{"namespace":"shop","name":"stock"}]}}],
 "edges":[
 {"data":{"source":"f","target":"c","traffic":{"protocol":"http","rates":{"http":"0.5"},"responses":{"200":{"hosts":{"cart:80":"100.0"}}}}}},
 {"data":{"source":"f","target":"w","traffic":{"protocol":"tcp","rates":{"tcp":"90"},"responses":{"-":{"hosts":{"cart.shop.svc.cluster.local":"100.0"}}}},
  "waypoint":{"direction":"to","fromEdge":{"source":"f","target":"f","traffic":{"protocol":"tcp","rates":{"tcp":"70"},"responses":{"-":{"hosts":{"front.shop.svc.cluster.local":"100.0"}}}},"waypoint":{"direction":"from"}}}}},
 {"data":{"source":"b","target":"w","traffic":{"protocol":"tcp","rates":{"tcp":"90"}},"waypoint":{"direction":"to"}}},
 {"data":{"source":"w","target":"c","traffic":{"protocol":"tcp","rates":{"tcp":"50"},"responses":{"-":{"hosts":{"cart.shop.svc.cluster.local":"100.0"}}}}%s}}]}}`

func TestKialiAmbient(t *testing.T) {
	for _, marked := range []string{`,"waypoint":{"direction":"from"}`, ""} {
		o := NewObservations()
		must.OK(t, o.ReadKiali(strings.NewReader(fmt.Sprintf(kialiAmbient, marked)), "cluster.local"))
		const want = "bank/teller>cart.shop.svc.cluster.local:1 bank/teller>stock.shop.svc.cluster.local:1 " +
			"shop/front>cart:5 shop/front>cart.shop.svc.cluster.local:1 shop/front>cart.shop.svc.cluster.local:5 shop/cart< shop/front<"
		if got := edges(o); got != want {
			t.Errorf("%s\n got %s\nwant %s", marked, got, want)
		}
	}
}

func FuzzKiali(f *testing.F) {
	f.Add(kialiText)
	f.Add(fmt.Sprintf(kialiAmbient, ""))
	f.Fuzz(func(t *testing.T, text string) {
		_ = NewObservations().ReadKiali(strings.NewReader(text), "cluster.local")
	})
}

// Errors about invalid objects name them.
func TestObjectErrors(t *testing.T) {
	for text, says := range map[string]string{
		``:   "EOF",
		`[]`: "no object",
		`{"items":[{"kind":"Service","metadata":{"name":"a","namespace":"b"},"spec":{"ports":7}}]}`:                     "items[0]: Service b/a: spec.ports: unexpected number",
		`{"items":[{"kind":"Sidecar","metadata":{"name":"a","namespace":"b"},"spec":7}]}`:                               "items[0]: Sidecar b/a: spec: unexpected number",
		`{"items":[{},{"kind":"Sidecar","metadata":{"name":"a","namespace":"b"},"spec":{"egress":[{"hosts":["x"]}]}}]}`: "items[1]: Sidecar b/a: spec.egress[0].hosts[0]",
		`{"kind":"Sidecar","metadata":{"name":"a","namespace":"b"},"spec":{"egress":[{"port":{"number":80}}]}}`:         "spec.egress[0].hosts is empty",
		`{"kind":"ConfigMap","metadata":{"name":"istio"},"data":{"mesh":"a: ["}}`:                                       "data.mesh",
		`{"items":[{"kind":"Pod"`: "EOF",
	} {
		if err := NewInventory().Read(strings.NewReader(text), ""); err == nil || !strings.Contains(err.Error(), says) || errs.Code(err) != errs.CodeUsage {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzObjects(f *testing.F) {
	f.Add(`{"items":[{"kind":"VirtualService","metadata":{"name":"a"},"spec":{"hosts":["x"],"http":[{"mirror":{"host":"y"}}]}}]}`)
	f.Add(`{"kind":"ConfigMap","metadata":{"name":"istio"},"data":{"mesh":"extensionProviders: [{name: a, zipkin: {service: b}}]"}}`)
	f.Add(`{"kind":"Sidecar","metadata":{"name":"istio"},"spec":{"workloadSelector":{"labels":{"a":"b"}},"egress":[{"hosts":["./*"]}],"ingress":[]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		inv := NewInventory()
		if inv.Read(strings.NewReader(text), "") == nil {
			inv.addPod(Workload{"a", "b"}, "b-1", nil, true, false)
			if _, err := Generate(inv, NewObservations(), Accounts{}, Options{}); err != nil {
				t.Error(err)
			}
		}
	})
}

// A log is read line by line: only its pairs are kept.
func TestLongLogTakesLittleMemory(t *testing.T) {
	held := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	log := streamtest.Parts(200_000, func(i int) string {
		service := fmt.Sprintf("outbound|80||s%d.shop.svc.cluster.local", i%100)
		return textLine(fmt.Sprintf("/%d", i), fmt.Sprintf("agent %d", i), fmt.Sprintf("h%d", i), service, "-") + "\n"
	})
	o, before := NewObservations(), held()
	found, err := o.ReadAccessLog(log, Workload{"shop", "front"}, nil, everything)
	after := held()
	if err != nil || found.Requests != 200_000 || len(o.all()) != 100 {
		t.Fatalf("%v: %+v, %d pairs", err, found, len(o.all()))
	}
	if after > before+2<<20 {
		t.Errorf("%d kB are held of a log of 100 pairs", (after-before)>>10)
	}
	runtime.KeepAlive(o)
}
