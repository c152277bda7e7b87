package app

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/testing/must"
)

// archived is a file of an archive.
type archived struct {
	name, text string
	typ        byte
}

// reportOf is an archive as istioctl bug-report writes it, taken at a time.
func reportOf(t testing.TB, at time.Time, entries ...archived) string {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: 0o600, Typeflag: e.typ, ModTime: at, Size: int64(len(e.text))}
		if e.typ == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Typeflag != tar.TypeReg {
			h.Size, h.Linkname = 0, e.text
		}
		must.OK(t, w.WriteHeader(h))
		if h.Size > 0 {
			_, err := w.Write([]byte(e.text))
			must.OK(t, err)
		}
	}
	must.OK(t, w.Close())
	must.OK(t, z.Close())
	return out.String()
}

// sidecarYAML is a pod with a sidecar, in a list.
func sidecarYAML(workload, node, ip string) string {
	return fmt.Sprintf(`- apiVersion: v1
  kind: Pod
  metadata:
    name: %[1]s-7d9f8c7b6d-abcde
    namespace: shop
    ownerReferences:
    - kind: ReplicaSet
      name: %[1]s-7d9f8c7b6d
      controller: true
    labels:
      pod-template-hash: 7d9f8c7b6d
  spec:
    nodeName: %[2]s
    containers:
    - name: app
    - name: istio-proxy
      image: istio/proxyv2:1.30.0
      args: [proxy, sidecar]
  status:
    phase: Running
    podIP: %[3]s
`, workload, node, ip)
}

var reportObjects = "apiVersion: v1\nitems:\n" + sidecarYAML("cart", "one", "10.1.0.5") + sidecarYAML("pay", "two", "10.1.0.6") + `- apiVersion: v1
  kind: Service
  metadata:
    name: pay
    namespace: shop
  spec:
    ports:
    - name: http
      port: 80
- apiVersion: serving.knative.dev/v1
  kind: Service
  metadata:
    name: other
    namespace: shop
  spec: {}
- apiVersion: security.istio.io/v1
  kind: AuthorizationPolicy
  metadata:
    name: allow
    namespace: shop
kind: List
`

// proxyClusters are counters of a proxy that called pay and served so many times.
func proxyClusters(called, served int) string {
	return fmt.Sprintf("outbound|80||pay.shop.svc.cluster.local::default_priority::max_connections::1024\n"+
		"outbound|80||pay.shop.svc.cluster.local::10.1.0.6:8080::cx_total::2\noutbound|80||pay.shop.svc.cluster.local::10.1.0.6:8080::rq_success::%d\noutbound|80||pay.shop.svc.cluster.local::10.1.0.6:8080::rq_total::%[1]d\n"+
		"inbound|8080||::10.1.0.5:8080::rq_success::%d\ninbound|8080||::10.1.0.5:8080::rq_total::%[2]d\n", called, served)
}

// Two bug reports tell the rates of proxies. Their pods count once, also beside a list of them, and what is hostile or of no
// use in them harms nothing.
func TestAssessBugReport(t *testing.T) {
	page, err := os.ReadFile(recordedPages + "before.txt")
	must.OK(t, err)
	const proxy = "bug-report/proxies/shop/cart-7d9f8c7b6d-abcde/"
	report := func(at time.Time, called int, uptime string) string {
		return reportOf(t, at, archived{name: "bug-report/cluster/k8s-resources", text: reportObjects}, archived{name: "bug-report/cluster/crs", text: "apiVersion: v1\nitems: []\nkind: List\nmetadata:\n  resourceVersion: \"\"\n"}, archived{name: "bug-report/cluster/secrets", text: "apiVersion: v1\nkind: Secret\n"},
			archived{name: "bug-report/istio/istio-system/istiod-1/metrics", text: string(page)}, archived{name: "bug-report/istio/istio-system/istiod-1/debug/configz", text: "[{}]"},
			archived{name: "bug-report/istio/istio-system/istiod-1/debug/syncz", text: `[{"proxy":"cart-7d9f8c7b6d-abcde.shop","cluster_sent":"a/1","cluster_acked":"a/1","route_sent":"","route_acked":""},{"proxy":"pay-7d9f8c7b6d-abcde.shop","cluster_sent":"b/2","cluster_acked":"a/1"}]`},
			archived{name: proxy + "clusters", text: proxyClusters(called, 2*called)}, archived{name: proxy + "config_dump?include_eds", text: string(recordedDump(t))},
			archived{name: proxy + "server_info", text: `{"uptime_current_epoch":"` + uptime + `","command_line_options":{"concurrency":3}}`}, archived{name: proxy + "certs", text: "{}"}, archived{name: proxy + "istio-proxy.log", text: "2026-11-30T00:00:00Z\tinfo\tready\n"},
			archived{name: strings.Replace(proxy, "cart", "pay", 1) + "server_info", text: `{"uptime_current_epoch":"9s","command_line_options":{"concurrency":3}}`},
			archived{name: "/etc/passwd", text: "root\x00"}, archived{name: "../../link", text: "/etc/passwd", typ: tar.TypeSymlink}, archived{name: "a\x1b[31m\nb.json", text: `{"configs":[7`},
			archived{name: "bug-report/versions", text: "1.30"})
	}
	at := time.Unix(1_790_000_000, 0)
	files := map[string]string{"later.tgz": report(at.Add(100*time.Second), 1600, "5100s"), "earlier.tgz": report(at, 600, "5000s"), "pods.json": fakePodList}
	a := fromFiles(t, Assessment{}, files, []string{"later.tgz", "earlier.tgz", "pods.json"})
	if n := a.Mesh.Count(assess.Sidecar); n != 3 || a.Mesh.Objects["Service"] != 1 || a.Mesh.Objects["AuthorizationPolicy"] != 1 || a.Mesh.Nodes != 2 {
		t.Errorf("%+v", a.Mesh)
	}
	if s := a.Mesh.Sync; s == nil || *s != (assess.Sync{Proxies: 2, Behind: 1, Example: "pay-7d9f8c7b6d-abcde.shop"}) {
		t.Errorf("acknowledged: %+v", s)
	}
	if a.Configuration == nil || len(a.Configuration.Held.Proxies) != 1 {
		t.Errorf("configuration: %+v", a.Configuration)
	}
	if i := slices.IndexFunc(a.Settle, func(s assess.Study) bool { return s.Name == assess.StudyLatency }); i < 0 || !strings.Contains(a.Settle[i].File, "concurrency: 3") {
		t.Errorf("studies: %+v", a.Settle)
	}
	if assess.NoPolicies.In(a.Unknown) || a.Mesh.Objects["VirtualService"] != 0 {
		t.Errorf("kinds of which there are none: %v", a.Unknown)
	}
	tr := a.Traffic
	if tr == nil || tr.Read != 1 || math.Abs(tr.Called-10) > 1e-9 || math.Abs(tr.Served-20) > 1e-9 || tr.WindowS != 100 || len(tr.Calls) != 1 || tr.Calls[0].From.String() != "shop/cart" {
		t.Errorf("traffic: %+v", tr)
	}
	for _, u := range a.Unknown {
		if strings.ContainsAny(u.What.String(), "\x1b\n\x00") {
			t.Errorf("a hostile name is shown: %q", u.What)
		}
	}
	if broken := howMany(assess.FileNotRead, a.Unknown); broken != 2 || !assess.FileUnknown.In(a.Unknown) {
		t.Errorf("%d broken: %v", broken, a.Unknown)
	}
	// A proxy that restarted between the two gives no rates.
	files["later.tgz"] = report(at.Add(100*time.Second), 1600, "40s")
	a = fromFiles(t, Assessment{}, files, []string{"earlier.tgz", "later.tgz"})
	if a.Traffic != nil || !assess.CountersFell.In(a.Unknown) {
		t.Errorf("restarted: %+v, %v", a.Traffic, a.Unknown)
	}
}

// A truncated archive is reported and read as far as it goes; a decompression bomb is one unread file.
func TestAssessBrokenArchives(t *testing.T) {
	noise := strings.Repeat("x", 200_000)
	whole := reportOf(t, time.Unix(1_790_000_000, 0), archived{name: "bug-report/cluster/k8s-resources", text: reportObjects}, archived{name: "noise", text: noise})
	bomb := reportOf(t, time.Unix(1_790_000_000, 0), archived{name: "bug-report/cluster/crs", text: strings.Repeat("#\n", 4<<20)})
	nested := archiveOf(t, map[string]string{"inner.tar": archiveOf(t, map[string]string{"pods": fakePodList})})
	files := map[string]string{"cut.tgz": whole[:len(whole)-20], "bomb.tgz": bomb, "nested.tar": nested, "a.zip": "PK\x03\x04", "nul": strings.Repeat("\x00", 1<<20)}
	a := fromFiles(t, Assessment{}, files, []string{"nul", "a.zip", "nested.tar", "bomb.tgz", "cut.tgz"})
	if a.Mesh.Count(assess.Sidecar) != 2 || !assess.FileNotRead.In(a.Unknown) || !assess.FileUnknown.In(a.Unknown) {
		t.Errorf("%+v, %v", a.Mesh, a.Unknown)
	}
}

// Pages of counters outside of a report are of the pod that their names have, and --apart gives the time between them.
func TestAssessPagesOfCounters(t *testing.T) {
	files := map[string]string{"pods.yaml": reportObjects, "cart-7d9f8c7b6d-abcde-1": proxyClusters(600, 0), "cart-7d9f8c7b6d-abcde-2": proxyClusters(1200, 0), "somebody": proxyClusters(1, 1), "pay-7d9f8c7b6d-abcde": proxyClusters(5, 5)}
	names := []string{"cart-7d9f8c7b6d-abcde-1", "somebody", "cart-7d9f8c7b6d-abcde-2", "pay-7d9f8c7b6d-abcde", "pods.yaml"}
	a := fromFiles(t, Assessment{Apart: time.Minute}, files, names)
	if tr := a.Traffic; tr == nil || tr.Read != 1 || math.Abs(tr.Called-10) > 1e-9 || !assess.CountersNameless.In(a.Unknown) || !assess.CountedOnce.In(a.Unknown) {
		t.Errorf("%+v, %v", tr, a.Unknown)
	}
	a = fromFiles(t, Assessment{}, files, names)
	if a.Traffic != nil || !assess.CountedOnce.In(a.Unknown) {
		t.Errorf("without a time: %+v, %v", a.Traffic, a.Unknown)
	}
}

// Access logs tell who calls whom, of a pod by its address; counters are surer.
func TestAssessAccessLogs(t *testing.T) {
	line := func(second int, code, cluster string) string {
		return fmt.Sprintf(`[2026-11-24T03:14:%02d.000Z] "GET /a HTTP/1.1" %s - via_upstream - "-" 100 2000 3 2 "-" "curl" "5f6b" "pay:80" "10.1.0.6:8080" %s 10.1.0.5:41234 10.96.0.9:80 10.1.0.5:51234 - default`, second, code, cluster) + "\n"
	}
	const pay = "outbound|80||pay.shop.svc.cluster.local"
	log := "2026-11-24T03:14:00Z\tinfo\tEnvoy proxy is ready\n"
	for _, second := range []int{20, 0, 10, 5, 15} { // out of order
		log += line(second, "200", pay) + line(second, "503", pay) + strings.Replace(line(second, "200", "inbound|8080||"), "10.1.0.5:41234", "127.0.0.6:41234", 1)
	}
	log += strings.Repeat("x", 2<<20) + "\n" + line(59, "200", pay)[:150]
	failing := strings.Repeat(line(1, "503", pay)+line(9, "503", pay), 6)
	ztunnel := ""
	for second := range 11 {
		ztunnel += fmt.Sprintf("2026-11-24T03:14:%02d.0Z\tinfo\taccess\tconnection complete\tsrc.addr=10.1.0.9:1 src.workload=\"web-7d9f8c7b6d-xyzab\" src.namespace=\"shop\" dst.addr=10.1.0.6:15008 dst.hbone_addr=10.1.0.6:80 dst.service=\"pay.shop.svc.cluster.local\" direction=\"outbound\" bytes_sent=10 bytes_recv=20 duration=\"2ms\"\n", second)
	}
	files := map[string]string{"pods.yaml": reportObjects, "front": log, "pay-7d9f8c7b6d-abcde.log": failing, "ztunnel.log": ztunnel, "brief": line(1, "200", "inbound|1||")}
	a := fromFiles(t, Assessment{}, files, []string{"front", "pods.yaml", "pay-7d9f8c7b6d-abcde.log", "ztunnel.log", "brief"})
	tr := a.Traffic
	if tr == nil || tr.Read != 1 || tr.Logged != 1 || math.Abs(tr.Called-0.5) > 1e-9 || math.Abs(tr.Served-0.25) > 1e-9 || len(tr.Calls) != 2 {
		t.Fatalf("%+v, %v", tr, a.Unknown)
	}
	if c := tr.Calls[0]; c.From.String() != "shop/web" || !c.TCP || math.Abs(c.PerS-1.1) > 0.01 {
		t.Errorf("ztunnel's: %+v", c)
	}
	if c := tr.Calls[1]; c.From.String() != "shop/cart" || c.TCP || c.Host != "pay.shop.svc.cluster.local" {
		t.Errorf("the sidecar's: %+v", c)
	}
	l := a.Logged
	if l == nil || l.Left.Requests != 22 || l.Left.Connections != 11 || l.Entered.Requests != 6 || l.Left.Codes[503] != 17 || l.Left.Protocols["HTTP/1.1"] != 22 || *l.Left.Received != 100 || *l.Left.Sent != 2000 || *l.Left.P50MS != 3 {
		t.Errorf("%+v, %+v", l.Left, l.Entered)
	}
	if !assess.LogsFiltered.In(a.Unknown) || !assess.LogsBrief.In(a.Unknown) || !assess.LogsLong.In(a.Unknown) {
		t.Errorf("%v", a.Unknown)
	}
}

// A pipe is opened once: what was read of it is gone.
func TestAssessPipes(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pods")
	must.OK(t, unix.Mkfifo(pipe, 0o600))
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(pipe, []byte(fakePodList), 0o600) }()
	a := fromFiles(t, Assessment{}, nil, []string{pipe})
	must.OK(t, <-written)
	if a.Mesh.Count(assess.Sidecar) != 1 || assess.FileNotRead.In(a.Unknown) {
		t.Errorf("%+v, %v", a.Mesh, a.Unknown)
	}
}

// A list of more proxies than any istiod has, or with one of megabytes, takes bounded memory.
func TestSyncIsBounded(t *testing.T) {
	many := []byte("[")
	for i := range mostSynced + 10 {
		many = fmt.Appendf(many, `{"proxy":"%d.a"},`, i)
	}
	long := `[{"proxy":"a.b","x":"` + strings.Repeat("x", mostSyncBytes) + `"}]`
	for text, want := range map[string]int{string(many): mostSynced, long: 0} {
		r := &filesRead{meshRead: &meshRead{}, synced: map[string]bool{}}
		if err := r.sync(strings.NewReader(text)); err == nil || len(r.synced) != want || !strings.Contains(err.Error(), "more than") {
			t.Errorf("%d proxies, %v", len(r.synced), err)
		}
	}
}

// Any list of proxies is read or refused, and no more are behind than there are.
func FuzzSync(f *testing.F) {
	for _, text := range []string{`[{"proxy":"a.b","cluster_sent":"1","cluster_acked":"1"},{"proxy":"c.d","route_sent":"2"}]`, `[{"proxy":7,"x_sent":null},{"proxy":"a","x_sent":{},"x_acked":{}}]`, `{}`, `[`, ``} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := &filesRead{meshRead: &meshRead{}, synced: map[string]bool{}}
		_ = r.sync(bytes.NewReader(data)) // an error for most
		if s := r.e.Sync; s != nil && (s.Behind > s.Proxies || s.Proxies != len(r.synced) || (s.Example == "") != (s.Behind == 0)) {
			t.Errorf("%+v of %d", s, len(r.synced))
		}
	})
}
