package generate

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/testing/must"
)

// now is when the tests' meshes are looked at.
var now = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// far is a host that no workload of the tests calls.
var far = Host{"shop", "other-03.shop.svc.cluster.local"}

// mesh is an inventory for tests.
type mesh struct {
	t   testing.TB
	inv *Inventory
	obs *Observations
}

func newMesh(t testing.TB) *mesh {
	return &mesh{t, NewInventory(), NewObservations()}
}

// has adds an object in short form: KIND NAMESPACE NAME and the JSON of its spec.
func (m *mesh) has(kind, namespace, name, spec string) *mesh {
	m.t.Helper()
	m.add(fmt.Sprintf(`{"kind":%q,"metadata":{"namespace":%q,"name":%q},"spec":%s}`, kind, namespace, name, spec))
	return m
}

func (m *mesh) add(object string) {
	m.t.Helper()
	if err := m.inv.Read(strings.NewReader(object), ""); err != nil {
		m.t.Fatalf("%v: %s", err, object)
	}
}

// service adds a Service with one HTTP port.
func (m *mesh) service(namespace, name string) *mesh {
	m.t.Helper()
	return m.has("Service", namespace, name, `{"ports":[{"name":"http","port":80}]}`)
}

// workload adds a pod with a sidecar.
func (m *mesh) workload(namespace, name string) *mesh {
	m.t.Helper()
	m.add(fmt.Sprintf(`{"kind":"Pod","metadata":{"namespace":%q,"name":"%s-7c9d8b6f5-x2x4z","labels":{"app":%q,"pod-template-hash":"7c9d8b6f5"},
		"ownerReferences":[{"kind":"ReplicaSet","name":"%s-7c9d8b6f5","controller":true}]},"spec":{"containers":[{"name":"app"},{"name":"istio-proxy","args":["proxy","sidecar"]}]}}`,
		namespace, name, name, name))
	return m
}

// pod adds a pod of a StatefulSet with a sidecar, and with the JSON of its status.
func (m *mesh) pod(namespace, name, status string) *mesh {
	m.t.Helper()
	m.add(fmt.Sprintf(`{"kind":"Pod","metadata":{"namespace":%q,"name":"%s-0","labels":{"app":%q},"ownerReferences":[{"kind":"StatefulSet","name":%q,"controller":true}]},
		"status":%s,"spec":{"containers":[{"name":"istio-proxy"}]}}`, namespace, name, name, name, status))
	return m
}

// counts adds requests that a metric counted.
func (m *mesh) counts(labels map[string]string, at Span) {
	m.obs.AddMetric(MetricRequests, labels, 50, at)
}

// reported returns a metric's labels for calls from a workload of shop; to and host may be zero.
func reported(reporter, from string, to Workload, host string) map[string]string {
	service, rest, _ := strings.Cut(host, ".")
	namespace, _, _ := strings.Cut(rest, ".")
	labels := map[string]string{
		"reporter": reporter, "source_workload": from, "source_workload_namespace": "shop",
		"destination_workload": to.Name, "destination_workload_namespace": to.Namespace,
		"destination_service": host, "destination_service_name": service, "destination_service_namespace": namespace,
	}
	maps.DeleteFunc(labels, func(_, value string) bool { return value == "" })
	return labels
}

// reads adds an access log of a workload of shop.
func (m *mesh) reads(workload, log string) {
	m.t.Helper()
	must.OK(m.t, must.Err(m.obs.ReadAccessLog(strings.NewReader(log), Workload{"shop", workload}, nil, m.inv.Knows)))
}

// logged adds logged calls of a workload of shop to cart, a span apart.
func (m *mesh) logged(workload string, span time.Duration) {
	for _, at := range []time.Time{now.Add(-span), now} {
		m.sees(Edge{From: Workload{"shop", workload}, Host: "cart.shop.svc.cluster.local", Count: 100, Sources: AccessLog, Span: At(at, at)})
	}
}

// keepAll checks which workloads of a namespace keep all hosts, as those do that were not observed.
func (m *mesh) keepAll(r Result, namespace string, want map[string]bool) {
	m.t.Helper()
	for w, all := range want {
		if got := lets(r, m, Workload{namespace, w}, far); got != all {
			m.t.Errorf("%s lets in all: %v, want %v: %s", w, got, all, sidecar(r, namespace+"/"+w))
		}
	}
}

// checkLets checks whether the Sidecar that will govern a workload admits hosts.
func (m *mesh) checkLets(r Result, w Workload, want bool, hosts ...Host) {
	m.t.Helper()
	for _, h := range hosts {
		if got := lets(r, m, w, h); got != want {
			m.t.Errorf("%s is let in: %v, want %v: %s", h, got, want, sidecar(r, w.String()))
		}
	}
}

func (m *mesh) calls(namespace, workload, host string) *mesh {
	m.t.Helper()
	return m.sees(Edge{From: Workload{namespace, workload}, Host: host, Count: 100, Sources: Counters})
}

func (m *mesh) sees(e Edge) *mesh {
	m.t.Helper()
	m.obs.Call(e)
	return m
}

func (m *mesh) serves(namespace, workload string) *mesh {
	m.t.Helper()
	m.obs.Served(Workload{namespace, workload}, Counters, Span{})
	return m
}

func (m *mesh) generate(o Options) Result {
	m.t.Helper()
	r, err := Generate(m.inv, m.obs, Accounts{}, o)
	must.OK(m.t, err)
	return r
}

// sidecar formats a Sidecar of the result in short form.
func sidecar(r Result, name string) string {
	for _, s := range r.Sidecars {
		if s.String() == name {
			return s.Change + " " + strings.Join(s.Hosts, " ")
		}
	}
	return "-"
}

// checkSidecars checks Sidecars of the result by name, in short form.
func checkSidecars(t *testing.T, r Result, want map[string]string) {
	t.Helper()
	for name, want := range want {
		if got := sidecar(r, name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// shop returns a mesh of two namespaces in which front calls cart and pay, and cart and
// pay call nothing.
func shop(t testing.TB) *mesh {
	m := newMesh(t)
	m.inv.read["Pod"] = true
	for i := range 20 {
		m.service("shop", fmt.Sprintf("other-%02d", i))
	}
	for _, name := range []string{"front", "cart"} {
		m.service("shop", name).workload("shop", name)
	}
	m.service("bank", "pay").service("bank", "audit").workload("bank", "pay").service("istio-system", "istiod")
	m.calls("shop", "front", "cart.shop.svc.cluster.local").calls("shop", "front", "pay.bank.svc.cluster.local")
	m.serves("shop", "cart").serves("bank", "pay")
	return m
}

func TestGenerate(t *testing.T) {
	r := shop(t).generate(Options{})
	checkSidecars(t, r, map[string]string{
		"istio-system/default": "create ./* istio-system/*",
		"shop/default":         "create ./cart.shop.svc.cluster.local bank/pay.bank.svc.cluster.local",
		"shop/cart":            "create ~/*",
		"bank/default":         "create ~/*", // ./* would admit two Services of 25
	})
	if len(r.Open) != 0 || r.Edges != 2 {
		t.Errorf("%d edges, uncovered: %+v", r.Edges, r.Open)
	}
	if p := r.Saving; p.Proxies != 3 || p.Now.Clusters != 75 || p.OfExact < 0.9 || p.After.Clusters >= 10 {
		t.Errorf("%+v", p)
	}
}

// An existing Sidecar's other fields are inherited, and it is replaced in place.
func TestExisting(t *testing.T) {
	m := shop(t).
		has("Sidecar", "istio-system", "base", `{"egress":[{"hosts":["*/*"]}],"outboundTrafficPolicy":{"mode":"REGISTRY_ONLY"}}`).
		has("Sidecar", "bank", "pay-only", `{"workloadSelector":{"labels":{"app":"pay"}},"egress":[{"hosts":["istio-system/*"]}]}`)
	r := m.generate(Options{})
	checkSidecars(t, r, map[string]string{"istio-system/base": "change ./* istio-system/*", "bank/pay-only": "none istio-system/*"})
	for _, s := range r.Sidecars {
		if s.Change == Create && !strings.Contains(manifest(s.after()), "mode: REGISTRY_ONLY") {
			t.Errorf("%s loses the outbound policy:\n%s", s, manifest(s.after()))
		}
	}
	if len(r.Open) != 1 || r.Open[0].Code != OpenOwn {
		t.Errorf("%+v", r.Open)
	}
	if diff := r.Diff(); !strings.Contains(diff, "--- a/istio-system/base\n+++ b/istio-system/base\n") || !strings.Contains(diff, "\n-    - '*/*'\n") || !strings.Contains(diff, "--- /dev/null\n+++ b/shop/cart\n") {
		t.Error(diff)
	}
}

func TestFixedNamespace(t *testing.T) {
	m := shop(t).has("Sidecar", "shop", "ports", `{"egress":[{"port":{"number":9080,"protocol":"HTTP","name":"x"},"hosts":["./*"]},{"hosts":["istio-system/*"]}]}`)
	r := m.generate(Options{})
	checkSidecars(t, r, map[string]string{"shop/ports": "none ./* istio-system/*", "shop/cart": "-"})
	if o := opened(r, "", "front"); o == nil || !slices.Equal(o.Hosts, []string{"bank/pay.bank.svc.cluster.local"}) {
		t.Errorf("%+v", r.Open)
	}
}

// An unobserved workload keeps what it has.
func TestUncovered(t *testing.T) {
	m := shop(t).workload("shop", "nightly").workload("dark", "a").workload("dark", "b").service("dark", "a")
	m.add(`{"kind":"Pod","metadata":{"namespace":"bank","name":"bare","labels":{}},"spec":{"containers":[{"name":"istio-proxy"}]}}`)
	m.add(`{"kind":"Pod","metadata":{"namespace":"bank","name":"db","labels":{"app":"db"}},"spec":{"containers":[{"name":"db"}]}}`)
	r := m.generate(Options{})
	checkSidecars(t, r, map[string]string{"shop/nightly": "create */*", "dark/default": "create */*", "dark/a": "-", "bank/default": "create */*", "bank/pay": "create ~/*"})
	what := map[OpenCode]int{}
	for _, o := range r.Open {
		what[o.Code]++
	}
	if what[OpenUnseen] != 4 || what[OpenProxyless] != 1 {
		t.Errorf("%v", what)
	}
}

// Routes: a VirtualService in another namespace is admitted along with its hosts, and
// with what the app requests if only its destination was counted.
func TestRoutes(t *testing.T) {
	m := shop(t).service("shop", "catalog").service("shop", "catalog-v2").
		has("VirtualService", "edge", "catalog", `{"hosts":["catalog.shop.svc.cluster.local"],"http":[{"route":[{"destination":{"host":"catalog-v2.shop.svc.cluster.local"}}]}]}`).
		has("VirtualService", "edge", "at-gateway", `{"hosts":["*"],"gateways":["edge/public"],"http":[{"route":[{"destination":{"host":"catalog-v2.shop.svc.cluster.local"}}]}]}`).
		calls("shop", "cart", "catalog-v2.shop.svc.cluster.local")
	checkSidecars(t, m.generate(Options{}), map[string]string{
		"shop/cart": "create ./catalog-v2.shop.svc.cluster.local ./catalog.shop.svc.cluster.local edge/catalog.shop.svc.cluster.local"})
}

// Hosts that the mesh itself names are admitted.
func TestNeeds(t *testing.T) {
	m := shop(t).service("tracing", "otel").service("limits", "ratelimit")
	m.add(`{"kind":"ConfigMap","metadata":{"namespace":"istio-system","name":"istio"},"data":{"mesh":"extensionProviders:\n- name: otel\n  opentelemetry: {service: tracing/otel.tracing.svc.cluster.local, port: 4317}\n"}}`)
	m.has("EnvoyFilter", "shop", "limit", `{"configPatches":[{"patch":{"value":{"cluster_name":"outbound|8081||ratelimit.limits.svc.cluster.local"}}}]}`)
	checkSidecars(t, m.generate(Options{}), map[string]string{
		"istio-system/default": "create ./* istio-system/* tracing/otel.tracing.svc.cluster.local",
		"shop/cart":            "create limits/ratelimit.limits.svc.cluster.local tracing/otel.tracing.svc.cluster.local",
	})
}

// If no source observes connections, Services without requests are admitted.
func TestConnections(t *testing.T) {
	m := shop(t).has("Service", "bank", "ledger", `{"ports":[{"name":"tcp-db","port":5432}]}`).workload("shop", "logged").
		sees(Edge{From: Workload{"shop", "logged"}, Host: "cart.shop.svc.cluster.local", Count: 100, Sources: AccessLog})
	r := m.generate(Options{})
	if got := sidecar(r, "shop/default"); !strings.Contains(got, "bank/ledger.bank.svc.cluster.local") {
		t.Error(got)
	}
	if got := sidecar(r, "shop/cart"); strings.Contains(got, "ledger") { // its counters were read
		t.Error(got)
	}
	if o := opened(r, OpenConnections, ""); o == nil || o.Count != 1 {
		t.Errorf("%+v", r.Open)
	}
}

func TestOnly(t *testing.T) {
	r := shop(t).generate(Options{Only: []string{"bank"}})
	for _, s := range r.Sidecars {
		if s.Namespace != "bank" {
			t.Errorf("%s", s)
		}
	}
	checkSidecars(t, r, map[string]string{"bank/default": "create ~/*"})
}

// Durations are formatted in whole units.
func TestSpell(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0s", 30 * time.Second: "30s", 20 * time.Minute: "20m", 30 * time.Minute: "30m", 90 * time.Second: "1m30s",
		10 * hour: "10h", 10*hour + 30*time.Minute: "10h30m", 24 * hour: "24 h", 30 * 24 * hour: "30 days", 30 * hour: "30h"} {
		if got := spell(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
}

func TestAdmits(t *testing.T) {
	h := Host{"shop", "cart.shop.svc.cluster.local"}
	for entry, want := range map[string]bool{
		"*/*": true, "./*": true, "shop/*": true, "bank/*": false, "*/cart.shop.svc.cluster.local": true, "shop/*.svc.cluster.local": true,
		"shop/*.other": false, "~/*": false, "shop/art.shop.svc.cluster.local": false, "~shop/*": false,
	} {
		if got := admits([]string{entry}, "shop", h); got != want {
			t.Errorf("%s: %v", entry, got)
		}
	}
	if admits([]string{"*/*", "~shop/cart.shop.svc.cluster.local"}, "x", h) {
		t.Error("what is excluded is let in")
	}
	if !admits([]string{"*/*.com"}, "x", Host{"a", "*.example.com"}) || admits([]string{"*/*.example.com"}, "x", Host{"a", "*.com"}) {
		t.Error("wildcards")
	}
}

// Calls from before the window are listed and not kept, whatever else is known about
// them.
func TestOld(t *testing.T) {
	m := shop(t).workload("shop", "report").service("bank", "yearly")
	for host, at := range map[string]time.Time{"audit.bank.svc.cluster.local": now.Add(-20 * time.Hour), "cart.shop.svc.cluster.local": now,
		"yearly.bank.svc.cluster.local": now.Add(-300 * 24 * time.Hour)} {
		m.sees(Edge{From: Workload{"shop", "report"}, Host: host, Count: 1, Sources: AccessLog, Span: At(at, at)})
	}
	r := m.generate(Options{Window: 30 * 24 * time.Hour})
	m.checkLets(r, Workload{"shop", "report"}, true, Host{"bank", "audit.bank.svc.cluster.local"})
	m.checkLets(r, Workload{"shop", "report"}, false, Host{"bank", "yearly.bank.svc.cluster.local"})
	if len(r.Old) != 1 || r.Old[0].Host != "yearly.bank.svc.cluster.local" {
		t.Errorf("%+v", r.Old)
	}
}

// A call around the mesh to a host that it knows is one that today's scope omits.
func TestPassthroughToAService(t *testing.T) {
	m := shop(t)
	for _, host := range []string{"audit.bank", "example.com"} {
		m.obs.left(Workload{"shop", "cart"}, host, Metrics, Span{})
	}
	r := m.generate(Options{})
	checkSidecars(t, r, map[string]string{"shop/cart": "create bank/audit.bank.svc.cluster.local"})
	if o := opened(r, OpenPassthrough, ""); o == nil || !slices.Equal(o.Hosts, []string{"audit.bank", "example.com"}) {
		t.Errorf("%+v", r.Open)
	}
}

// opened returns the result's entry for a code and a workload; "" stands for any.
func opened(r Result, code OpenCode, name string) *Open {
	for i, o := range r.Open {
		if (code == "" || o.Code == code) && (name == "" || o.Name == name) {
			return &r.Open[i]
		}
	}
	return nil
}

// drawn returns a random mesh.
func drawn(t *rapid.T) *mesh {
	m := &mesh{nil, NewInventory(), NewObservations()}
	m.inv.read["Pod"], m.inv.read["Sidecar"] = true, true
	read := func(object string) {
		must.OK(t, m.inv.Read(strings.NewReader(object), ""))
	}
	namespaces := []string{"a", "b", "c", "istio-system"}
	var hosts []string
	for i := range rapid.IntRange(1, 12).Draw(t, "services") {
		namespace := rapid.SampledFrom(namespaces).Draw(t, "namespace")
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			host := rapid.SampledFrom([]string{"x.example.com", "*.example.com", "db.example.com"}).Draw(t, "host")
			read(fmt.Sprintf(`{"kind":"ServiceEntry","metadata":{"namespace":%q,"name":"e%d"},"spec":{"hosts":[%q],"ports":[{"protocol":%q}],"resolution":%q}}`, namespace, i, host, rapid.SampledFrom([]string{"HTTP", "TCP"}).Draw(t, "protocol"), rapid.SampledFrom([]string{"", "NONE", "DNS"}).Draw(t, "resolution")))
			hosts = append(hosts, strings.TrimPrefix(host, "*."))
		case 1:
			if len(hosts) > 0 {
				read(fmt.Sprintf(`{"kind":"Service","metadata":{"namespace":%q,"name":"alias%d"},"spec":{"type":"ExternalName","externalName":%q}}`, namespace, i, rapid.SampledFrom(hosts).Draw(t, "target")))
			}
		default:
			read(fmt.Sprintf(`{"kind":"Service","metadata":{"namespace":%q,"name":"s%d"},"spec":{"ports":[{"name":%q}]}}`, namespace, i, rapid.SampledFrom([]string{"http", "tcp", "grpc-x"}).Draw(t, "port")))
			hosts = append(hosts, serviceHost(fmt.Sprintf("s%d", i), namespace, "cluster.local"))
		}
	}
	if len(hosts) == 0 {
		read(`{"kind":"Service","metadata":{"namespace":"a","name":"only"},"spec":{"ports":[{"name":"http"}]}}`)
		hosts = []string{"only.a.svc.cluster.local"}
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "gateway routes") {
		read(fmt.Sprintf(`{"kind":"HTTPRoute","metadata":{"namespace":%q,"name":"r%d"},"spec":{"parentRefs":[{"kind":"Service","name":"s%d","namespace":%q}],"rules":[{"backendRefs":[{"kind":"Hostname","name":%q}]}]}}`,
			rapid.SampledFrom(namespaces).Draw(t, "namespace"), i, rapid.IntRange(0, 11).Draw(t, "parent"), rapid.SampledFrom(namespaces).Draw(t, "parent's"), rapid.SampledFrom(hosts).Draw(t, "to")))
	}
	if rapid.Bool().Draw(t, "delegated") {
		at := rapid.SampledFrom(namespaces).Draw(t, "namespace")
		read(fmt.Sprintf(`{"kind":"VirtualService","metadata":{"namespace":"b","name":"root"},"spec":{"hosts":[%q],"http":[{"delegate":{"name":"part","namespace":%q}}]}}`, rapid.SampledFrom(hosts).Draw(t, "host"), at))
		read(fmt.Sprintf(`{"kind":"VirtualService","metadata":{"namespace":%q,"name":"part"},"spec":{"http":[{"route":[{"destination":{"host":%q}}]}]}}`, at, rapid.SampledFrom(hosts).Draw(t, "to")))
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "routes") {
		read(fmt.Sprintf(`{"kind":"VirtualService","metadata":{"namespace":%q,"name":"v%d"},"spec":{"hosts":[%q],"http":[{"route":[{"destination":{"host":%q}}]}]}}`,
			rapid.SampledFrom(namespaces).Draw(t, "namespace"), i, rapid.SampledFrom(hosts).Draw(t, "host"), rapid.SampledFrom(hosts).Draw(t, "to")))
	}
	for i := range rapid.IntRange(1, 10).Draw(t, "workloads") {
		w := Workload{rapid.SampledFrom(namespaces).Draw(t, "namespace"), fmt.Sprintf("w%d", i)}
		labels := rapid.SampledFrom([]string{"{}", `{"app":"x"}`, fmt.Sprintf(`{"app":"w%d"}`, i), fmt.Sprintf(`{"app":"x","version":"%d"}`, i)}).Draw(t, "labels")
		read(fmt.Sprintf(`{"kind":"Pod","metadata":{"namespace":%q,"name":%q,"labels":%s},"spec":{"containers":[{"name":"istio-proxy","args":["proxy","sidecar"]}]}}`, w.Namespace, w.Name, labels))
		source := rapid.SampledFrom([]Sources{Counters, AccessLog, Metrics, Kiali}).Draw(t, "source")
		switch rapid.IntRange(0, 3).Draw(t, "seen") {
		case 0:
		case 1:
			m.obs.Served(w, source, Span{})
		default:
			for range rapid.IntRange(1, 4).Draw(t, "calls") {
				m.obs.Call(Edge{From: w, Host: rapid.SampledFrom(append(hosts, "gone.b.svc.cluster.local", "nowhere.org")).Draw(t, "host"), Count: 1, Sources: source})
			}
		}
	}
	for i, namespace := range namespaces {
		switch rapid.IntRange(0, 5).Draw(t, "existing") {
		case 0:
			read(fmt.Sprintf(`{"kind":"Sidecar","metadata":{"namespace":%q,"name":"mine"},"spec":{"egress":[{"hosts":[%q]}]}}`, namespace, rapid.SampledFrom([]string{"./*", "*/*", "~/*", "b/*"}).Draw(t, "hosts")))
		case 1:
			read(fmt.Sprintf(`{"kind":"Sidecar","metadata":{"namespace":%q,"name":"mine%d"},"spec":{"workloadSelector":{"labels":{"app":"x"}},"egress":[{"hosts":["./*"]}]}}`, namespace, i))
		}
	}
	return m
}

// For any mesh, no observed workload loses a host that it calls, no unobserved one
// loses anything ([Generate] fails otherwise), the same mesh gives the same result, and
// applying it twice changes nothing.
func TestGenerateProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawn(t)
		o := Options{Always: rapid.SampledFrom([][]string{nil, {}, {"b/*"}}).Draw(t, "always")}
		r, err := Generate(m.inv, m.obs, Accounts{}, o)
		if err != nil && strings.Contains(err.Error(), "no workload") {
			t.Skip("this mesh has nothing to scope")
		}
		must.OK(t, err)
		again, err := Generate(m.inv, m.obs, Accounts{}, o)
		if err != nil || again.Manifests() != r.Manifests() || again.Diff() != r.Diff() {
			t.Fatalf("another result for the same: %v", err)
		}
		loss := r.Saving.Now.Clusters - r.Saving.Exact.Clusters - (r.Saving.Now.Clusters - r.Saving.After.Clusters)
		if loss < 0 {
			t.Fatalf("less than exact: %+v", r.Saving)
		}
		stepwise(t, m, r, o)
		applied(t, m, r)
		after, err := Generate(m.inv, m.obs, Accounts{}, o)
		must.OK(t, err)
		for _, s := range after.Sidecars {
			if s.Change != Same {
				t.Fatalf("%s is changed again (%s) to %v; first it was\n%s", s, s.Change, s.Hosts, r.Manifests())
			}
		}
	})
}

// stepwise applies a result one object at a time: at every moment a workload has what
// it needs and had before.
func stepwise(t *rapid.T, m *mesh, r Result, o Options) {
	g := newGenerator(m.inv, m.obs, Accounts{}, o, &Result{})
	g.keep()
	now := slices.Clone(m.inv.existing)
	for _, step := range r.Steps() {
		if step.Before != nil && step.Before["metadata"].(map[string]any)["name"] != step.Name {
			t.Fatalf("%s: before it is %v", step, step.Before)
		}
		now = slices.DeleteFunc(now, func(s Sidecar) bool { return s.String() == step.String() })
		if step.Change != Delete {
			now = append(now, step.Sidecar)
		}
		for _, w := range m.inv.callers() {
			labels := m.inv.workloads[w].labels
			was, is := effective(m.inv.existing, m.inv.Root, w.Namespace, labels), effective(now, m.inv.Root, w.Namespace, labels)
			for h := range g.needed(w) {
				if admits(was.Hosts, w.Namespace, h) && !admits(is.Hosts, w.Namespace, h) {
					t.Fatalf("once %s is applied, %s leaves out %s for %s", step, is, h, w)
				}
			}
		}
	}
}

// applied makes the result the existing state.
func applied(t *rapid.T, m *mesh, r Result) {
	m.inv.existing = nil
	for _, s := range r.Sidecars {
		if s.Change == Delete {
			continue
		}
		object := s.after()
		if s.Change == Same {
			object = s.object(r.existing[s.String()].whole)
		}
		text, err := json.Marshal(object)
		if err == nil {
			err = m.inv.Read(strings.NewReader(string(text)), "")
		}
		must.OK(t, err)
	}
}

// Services say which ports of pods take requests, whatever their proxies could tell so far.
func TestServesRequests(t *testing.T) {
	inv := NewInventory()
	for _, text := range []string{`{"kind":"Pod","metadata":{"namespace":"shop","name":"cart-0","labels":{"app":"cart"},"ownerReferences":[{"kind":"StatefulSet","name":"cart","controller":true}]}}`,
		`{"kind":"Service","metadata":{"namespace":"shop","name":"cart"},"spec":{"selector":{"app":"cart"},"ports":[{"name":"grpc","port":80,"targetPort":9090},{"name":"tcp","port":81},{"name":"http","port":82,"targetPort":"web"},{"port":83,"appProtocol":"http"}]}}`,
		`{"kind":"Service","metadata":{"namespace":"bank","name":"cart"},"spec":{"selector":{"app":"cart"},"ports":[{"name":"http","port":84}]}}`} {
		must.OK(t, must.Err(inv.Add("", []byte(text))))
	}
	for port, want := range map[int]bool{9090: true, 80: false, 81: false, 82: false, 83: true, 84: false} {
		if got := inv.ServesRequests(Workload{"shop", "cart"}, port); got != want {
			t.Errorf("%d: %v", port, got)
		}
	}
	if inv.ServesRequests(Workload{"shop", "other"}, 9090) {
		t.Error("of an unknown workload")
	}
}
