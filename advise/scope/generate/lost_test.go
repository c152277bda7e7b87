package generate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/testing/must"
)

// lets reports whether the Sidecar that will govern a workload admits a host.
func lets(r Result, m *mesh, w Workload, h Host) bool {
	after := slices.DeleteFunc(slices.Clone(r.Sidecars), func(s Sidecar) bool { return s.Change == Delete })
	return admits(effective(after, m.inv.Root, w.Namespace, m.inv.workloads[w].labels).Hosts, w.Namespace, h)
}

// Hosts that an app requests by a name that no counter has, as the request was routed to
// another Service.
func TestHostsBehindRoutes(t *testing.T) {
	for _, c := range []struct {
		name   string
		has    func(*mesh)
		called string
		want   []Host
	}{
		{"a delegate", func(m *mesh) {
			m.has("VirtualService", "edge", "root", `{"hosts":["shop.edge.svc.cluster.local"],"http":[{"match":[{"uri":{"prefix":"/a"}}],"delegate":{"name":"part","namespace":"team"}}]}`)
			m.has("VirtualService", "team", "part", `{"http":[{"route":[{"destination":{"host":"audit.bank.svc.cluster.local"}}]}]}`)
			m.service("edge", "shop")
		}, "audit.bank.svc.cluster.local", []Host{{"edge", "shop.edge.svc.cluster.local"}}},
		{"a delegate of its own namespace", func(m *mesh) {
			m.has("VirtualService", "edge", "root", `{"hosts":["shop.edge.svc.cluster.local"],"http":[{"delegate":{"name":"part"}}]}`)
			m.has("VirtualService", "edge", "part", `{"http":[{"route":[{"destination":{"host":"audit.bank.svc.cluster.local"}}]}]}`)
			m.service("edge", "shop")
		}, "audit.bank.svc.cluster.local", []Host{{"edge", "shop.edge.svc.cluster.local"}}},
		{"a route of the Gateway API", func(m *mesh) {
			m.has("HTTPRoute", "bank", "split", `{"parentRefs":[{"kind":"Service","group":"","name":"ledger","port":80}],"rules":[{"backendRefs":[{"name":"audit","port":80}]}]}`)
			m.service("bank", "ledger")
		}, "audit.bank.svc.cluster.local", []Host{{"bank", "ledger.bank.svc.cluster.local"}}},
		{"a route of the Gateway API for a ServiceEntry", func(m *mesh) {
			m.has("TLSRoute", "bank", "out", `{"parentRefs":[{"kind":"ServiceEntry","group":"networking.istio.io","name":"api"}],"rules":[{"backendRefs":[{"name":"audit","port":443}]}]}`)
			m.has("ServiceEntry", "bank", "api", `{"hosts":["api.example.com"],"resolution":"DNS","ports":[{"protocol":"TLS"}]}`)
		}, "audit.bank.svc.cluster.local", []Host{{"bank", "api.example.com"}}},
		{"the other side of a split", func(m *mesh) {
			m.has("VirtualService", "bank", "split", `{"hosts":["audit"],"http":[{"route":[{"destination":{"host":"audit"},"weight":99},{"destination":{"host":"canary.team.svc.cluster.local"},"weight":1}],"mirrors":[{"destination":{"host":"shadow.team.svc.cluster.local"}}]}]}`)
			m.service("team", "canary").service("team", "shadow")
		}, "audit.bank.svc.cluster.local", []Host{{"team", "canary.team.svc.cluster.local"}, {"team", "shadow.team.svc.cluster.local"}}},
		{"an egress gateway", func(m *mesh) {
			m.has("VirtualService", "istio-system", "out", `{"hosts":["api.example.com"],"gateways":["mesh","egress"],"http":[{"match":[{"gateways":["mesh"]}],"route":[{"destination":{"host":"egress.istio-system.svc.cluster.local"}}]}]}`)
			m.has("ServiceEntry", "bank", "api", `{"hosts":["api.example.com"],"resolution":"DNS","ports":[{"protocol":"HTTP"}]}`)
			m.service("istio-system", "egress")
		}, "egress.istio-system.svc.cluster.local", []Host{{"bank", "api.example.com"}, {"istio-system", "api.example.com"}}},
		{"a route within a wildcard", func(m *mesh) {
			m.has("ServiceEntry", "bank", "all", `{"hosts":["*.example.com"],"resolution":"DNS","ports":[{"protocol":"HTTP"}]}`)
			m.has("VirtualService", "edge", "one", `{"hosts":["api.example.com"],"http":[{"route":[{"destination":{"host":"audit.bank.svc.cluster.local"}}]}]}`)
		}, "*.example.com", []Host{{"edge", "api.example.com"}, {"bank", "audit.bank.svc.cluster.local"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := shop(t)
			c.has(m)
			m.calls("shop", "cart", c.called)
			r := m.generate(Options{})
			m.checkLets(r, Workload{"shop", "cart"}, true, c.want...)
			m.checkLets(r, Workload{"shop", "cart"}, false, far, Host{"shop", "front.shop.svc.cluster.local"})
		})
	}
}

// A Service of type ExternalName is an alias of the Service that it points to, and istiod
// looks for it in that Service's namespace.
func TestExternalName(t *testing.T) {
	m := shop(t).has("Service", "shop", "ledger", `{"type":"ExternalName","externalName":"Audit.bank.svc.cluster.local"}`).
		has("Service", "shop", "books", `{"type":"ExternalName","externalName":"ledger.shop.svc.cluster.local"}`).
		has("Service", "shop", "loop", `{"type":"ExternalName","externalName":"loop.shop.svc.cluster.local"}`).
		calls("shop", "cart", "audit.bank.svc.cluster.local")
	m.checkLets(m.generate(Options{}), Workload{"shop", "cart"}, true, Host{"bank", "ledger.shop.svc.cluster.local"},
		Host{"bank", "books.shop.svc.cluster.local"}, Host{"bank", "audit.bank.svc.cluster.local"})
}

// Proxies forget the counters of endpoints that do not come from EDS (headless Services,
// ServiceEntries without resolution) within seconds, so counters alone do not show that nobody
// calls them.
func TestCountersForgetDirectEndpoints(t *testing.T) {
	m := shop(t).has("Service", "bank", "kafka", `{"clusterIP":"None","ports":[{"name":"http","port":80}]}`).
		has("ServiceEntry", "bank", "legacy", `{"hosts":["legacy.example.com"],"ports":[{"protocol":"HTTP"}]}`).
		has("ServiceEntry", "bank", "db", `{"hosts":["db.example.com"],"resolution":"NONE","ports":[{"protocol":"TCP"}]}`).
		workload("shop", "logged").
		sees(Edge{From: Workload{"shop", "logged"}, Host: "cart.shop.svc.cluster.local", Count: 100, Sources: AccessLog})
	r := m.generate(Options{})
	for host, want := range map[string][2]bool{"kafka.bank.svc.cluster.local": {true, true}, "legacy.example.com": {true, false}, "db.example.com": {true, true}} {
		for i, w := range []Workload{{"shop", "cart"}, {"shop", "logged"}} {
			if got := lets(r, m, w, Host{"bank", host}); got != want[i] {
				t.Errorf("%s, %s: let in: %v, want %v", w, host, got, want[i])
			}
		}
	}
	if o := opened(r, OpenConnections, ""); o == nil || !slices.Contains(o.Hosts, "bank/legacy.example.com") {
		t.Errorf("%+v", r.Open)
	}
}

// Envoy's counters belong to endpoints and are removed with them. For a name whose addresses
// change in DNS, and for a Service whose pods are all younger than the required watch time,
// counters alone do not show that nobody calls them.
func TestCountersForgetReplacedEndpoints(t *testing.T) {
	pod := func(m *mesh, namespace, name, started, ready string) {
		m.pod(namespace, name, `{"startTime":"`+started+`","conditions":[{"type":"Ready","status":"True","lastTransitionTime":"`+ready+`"}]}`)
	}
	service := func(m *mesh, name string) {
		m.has("Service", "bank", name, `{"selector":{"app":"`+name+`"},"ports":[{"name":"http","port":80}]}`)
	}
	const long, young = "2026-11-01T00:00:00Z", "2026-11-25T09:00:00Z"
	m := shop(t)
	for name, times := range map[string][2]string{"kept": {long, long}, "rolled": {young, young}, "flapped": {long, young}} {
		service(m, name)
		pod(m, "bank", name, times[0], times[1])
	}
	service(m, "scaled-to-none")
	m.has("Service", "bank", "by-hand", `{"ports":[{"name":"http","port":80}]}`) // the age of its endpoints is unknown
	for name, resolution := range map[string]string{"dns": "DNS", "dynamic": "DYNAMIC_DNS", "logical": "DNS_ROUND_ROBIN", "static": "STATIC"} {
		m.has("ServiceEntry", "bank", name, `{"hosts":["`+name+`.example.com"],"resolution":"`+resolution+`","ports":[{"protocol":"HTTP"}]}`)
	}
	for _, name := range []string{"counted", "logged"} {
		pod(m, "shop", name, long, long)
		m.serves("shop", name)
	}
	m.logged("logged", 30*time.Hour)
	r := m.generate(Options{Now: now, Watched: 24 * time.Hour})
	for host, want := range map[string]bool{"kept.bank.svc.cluster.local": false, "rolled.bank.svc.cluster.local": true, "flapped.bank.svc.cluster.local": true, "scaled-to-none.bank.svc.cluster.local": true,
		"by-hand.bank.svc.cluster.local": false, "dns.example.com": true, "dynamic.example.com": true, "logical.example.com": false, "static.example.com": false} {
		if got := lets(r, m, Workload{"shop", "counted"}, Host{"bank", host}); got != want {
			t.Errorf("%s by counters alone: let in: %v, want %v: %s", host, got, want, sidecar(r, "shop/counted"))
		}
		if lets(r, m, Workload{"shop", "logged"}, Host{"bank", host}) {
			t.Errorf("%s is let in where a log would have it", host)
		}
		o := opened(r, OpenConnections, "")
		if listed := o != nil && slices.Contains(o.Hosts, "bank/"+host); listed != want {
			t.Errorf("%s is listed: %v, want %v", host, listed, want)
		}
	}
	// Without a required watch time, the result is what was observed.
	m.checkLets(m.generate(Options{Now: now}), Workload{"shop", "counted"}, false, Host{"bank", "rolled.bank.svc.cluster.local"})
}

// Counters of one workload say nothing about the connections of another, whose metrics only
// cover requests.
func TestConnectionsOfOthers(t *testing.T) {
	m := shop(t).has("Service", "bank", "ledger", `{"ports":[{"name":"tcp-db","port":5432}]}`).workload("shop", "scraped")
	m.obs.AddCounters(Workload{"shop", "cart"}, map[string]int64{"inbound|80||": 1})
	series := reported("source", "scraped", Workload{}, "cart.shop.svc.cluster.local")
	m.counts(series, Span{})
	ledger := Host{"bank", "ledger.bank.svc.cluster.local"}
	m.checkLets(m.generate(Options{}), Workload{"shop", "scraped"}, true, ledger)
	m.obs.AddMetric(MetricConnections, series, 5, Span{})
	m.checkLets(m.generate(Options{}), Workload{"shop", "scraped"}, false, ledger)
}

// If only servers report, or only served requests are logged, a workload's calls to hosts
// outside the mesh were not observed.
func TestOnlyServersReport(t *testing.T) {
	const host = "cart.shop.svc.cluster.local"
	for name, see := range map[string]func(m *mesh){
		"metrics": func(m *mesh) { m.counts(reported("destination", "quiet", Workload{"shop", "leaf"}, host), Span{}) },
		"logs":    func(m *mesh) { m.reads("leaf", `{"upstream_cluster":"inbound|80||"}`) },
	} {
		m := shop(t).workload("shop", "quiet").workload("shop", "leaf")
		see(m)
		m.keepAll(m.generate(Options{}), "shop", map[string]bool{"quiet": true, "leaf": true})
		// Once callers report too, a server without calls counts as one that makes none.
		m.counts(reported("source", "front", Workload{}, host), Span{})
		m.reads("front", `{"upstream_cluster":"`+cart+`"}`)
		r := m.generate(Options{})
		m.keepAll(r, "shop", map[string]bool{"leaf": false})
		if name == "metrics" { // its own proxy says nothing of its calls
			m.keepAll(r, "shop", map[string]bool{"quiet": true})
		}
	}
}

// A proxy that started a minute ago has not shown what it calls.
func TestWatchedTooShort(t *testing.T) {
	m := shop(t).workload("shop", "logged").workload("shop", "long")
	m.logged("logged", time.Hour)
	m.logged("long", 30*time.Hour)
	for name, age := range map[string]time.Duration{"young": time.Minute, "old": 48 * time.Hour} {
		m.pod("shop", name, `{"startTime":"`+now.Add(-age).Format(time.RFC3339)+`"}`).serves("shop", name)
	}
	r := m.generate(Options{Now: now, Watched: 24 * time.Hour})
	m.keepAll(r, "shop", map[string]bool{"young": true, "old": false, "logged": true, "long": false})
	if o := opened(r, "", "young"); o == nil || o.Why.For.Round(time.Second) != time.Minute {
		t.Errorf("%+v", r.Open)
	}
}

// A nightly job has no pods by day.
func TestIdleWorkloads(t *testing.T) {
	m := shop(t)
	m.add(`{"kind":"Namespace","metadata":{"name":"shop","labels":{"istio-injection":"enabled"}}}`)
	m.add(`{"kind":"Pod","metadata":{"namespace":"shop","name":"nightly-29384756-abcde","labels":{"app":"nightly"},"ownerReferences":[{"kind":"Job","name":"nightly-29384756","controller":true}]},"status":{"phase":"Succeeded"},"spec":{"initContainers":[{"name":"istio-proxy"}]}}`)
	m.add(`{"kind":"Pod","metadata":{"namespace":"bank","name":"migrate-abcde","labels":{"app":"pay"},"ownerReferences":[{"kind":"Job","name":"migrate","controller":true}]},"status":{"phase":"Succeeded"},"spec":{"containers":[{"name":"istio-proxy"}]}}`)
	m.has("Deployment", "shop", "asleep", `{"template":{"metadata":{"labels":{"app":"asleep"}}}}`)
	m.has("CronJob", "shop", "weekly", `{"jobTemplate":{"spec":{"template":{"metadata":{"labels":{"app":"weekly"}}}}}}`)
	m.has("Deployment", "shop", "bare", `{"template":{"metadata":{"labels":{"app":"bare","sidecar.istio.io/inject":"false"}}}}`)
	r := m.generate(Options{})
	m.keepAll(r, "shop", map[string]bool{"nightly": true, "asleep": true, "weekly": true})
	for _, w := range []string{"nightly", "asleep", "weekly"} {
		if opened(r, OpenUnseen, w) == nil {
			t.Errorf("%s is not listed: %+v", w, r.Open)
		}
	}
	if lets(r, m, Workload{"bank", "pay"}, far) {
		t.Errorf("a Job that has ended widens others: %+v", r.Open)
	}
	checkSidecars(t, r, map[string]string{"shop/bare": "-"})
	if r.Saving.Proxies != 3 {
		t.Errorf("%d proxies, want those that run", r.Saving.Proxies)
	}
}

// Age decides which of two Sidecars applies in istiod, and one with an empty selector is not
// the mesh's default.
func TestOldestHolds(t *testing.T) {
	m := shop(t)
	m.add(`{"kind":"Sidecar","metadata":{"namespace":"shop","name":"a-young","creationTimestamp":"2026-02-01T00:00:00Z"},"spec":{"workloadSelector":{"labels":{"app":"cart"}},"egress":[{"hosts":["./*"]}]}}`)
	m.add(`{"kind":"Sidecar","metadata":{"namespace":"shop","name":"z-old","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"workloadSelector":{"labels":{"app":"cart"}},"egress":[{"hosts":["bank/*"]}]}}`)
	m.add(`{"kind":"Sidecar","metadata":{"namespace":"istio-system","name":"all"},"spec":{"workloadSelector":{},"egress":[{"hosts":["~/*"]}]}}`)
	r := m.generate(Options{})
	if o := opened(r, OpenOwn, "cart"); o == nil || o.Sidecar != "shop/z-old" {
		t.Errorf("%+v", r.Open)
	}
	checkSidecars(t, r, map[string]string{"istio-system/default": "create ./* istio-system/*", "istio-system/all": "none ~/*"})
}

// An egress proxy named in a Sidecar is a host that its workloads need; so is the host from
// which token keys are fetched.
func TestNeedsOfOthers(t *testing.T) {
	m := shop(t).service("edge", "proxy").service("login", "keys").
		has("Sidecar", "istio-system", "base", `{"egress":[{"hosts":["*/*"]}],"outboundTrafficPolicy":{"mode":"ALLOW_ANY","egressProxy":{"host":"proxy.edge.svc.cluster.local","port":{"number":80}}}}`).
		has("RequestAuthentication", "shop", "jwt", `{"jwtRules":[{"issuer":"x","jwksUri":"http://keys.login.svc.cluster.local:8080/keys"},{"issuer":"y","jwksUri":"https://login.example.com/keys"}]}`).
		has("WasmPlugin", "shop", "w", `{"pluginConfig":{"upstream":"outbound|80||audit.bank.svc.cluster.local"}}`)
	r := m.generate(Options{})
	keys := Host{"login", "keys.login.svc.cluster.local"}
	m.checkLets(r, Workload{"shop", "cart"}, true, Host{"edge", "proxy.edge.svc.cluster.local"}, keys, Host{"bank", "audit.bank.svc.cluster.local"})
	m.checkLets(r, Workload{"bank", "pay"}, false, keys) // where no token is checked
}

// Names in a different case than istiod's would admit nothing.
func TestCaseOfHosts(t *testing.T) {
	m := shop(t).has("ServiceEntry", "bank", "api", `{"hosts":["API.Example.com"],"resolution":"DNS","ports":[{"protocol":"HTTP"}]}`).
		sees(Edge{From: Workload{"shop", "cart"}, Host: "api.example.com", Count: 100, Sources: Metrics})
	m.checkLets(m.generate(Options{}), Workload{"shop", "cart"}, true, Host{"bank", "API.Example.com"})
}

// Labels that change with a release do not select for a scope that must stay.
func TestPassingLabels(t *testing.T) {
	m := shop(t)
	for name, labels := range map[string]string{"unseen": `"app":"web","version":"v7"`, "seen": `"app":"web","version":"v8"`} {
		m.add(`{"kind":"Pod","metadata":{"namespace":"web","name":"` + name + `","labels":{` + labels + `}},"spec":{"containers":[{"name":"istio-proxy"}]}}`)
	}
	m.calls("web", "seen", "audit.bank.svc.cluster.local")
	// A release would take the selector of web/unseen away.
	checkSidecars(t, m.generate(Options{}), map[string]string{"web/default": "create */*", "web/unseen": "-"})
}

// The mesh's default export determines what namespaces see.
func TestDefaultExportTo(t *testing.T) {
	m := shop(t)
	m.add(`{"kind":"ConfigMap","metadata":{"namespace":"istio-system","name":"istio"},"data":{"mesh":"defaultServiceExportTo: [\".\"]"}}`)
	if r := m.generate(Options{}); r.Saving.Now.Clusters != 2*22+2 {
		t.Errorf("%+v", r.Saving.Now)
	}
}

// A workload that is called with a cluster name in the path does not thereby report calls.
func TestClientsTellOfNoCalls(t *testing.T) {
	m := shop(t).workload("shop", "leaf")
	m.reads("leaf", textLine("/"+cart, "curl", "leaf", "inbound|8080||", "-"))
	m.keepAll(m.generate(Options{}), "shop", map[string]bool{"leaf": true})
}

// Machines that registered themselves have proxies; others are unknown.
func TestMachines(t *testing.T) {
	m := shop(t)
	m.add(`{"kind":"WorkloadEntry","metadata":{"namespace":"shop","name":"vm-1","labels":{"app":"vm"},"annotations":{"istio.io/autoRegistrationGroup":"vm"}},"spec":{"address":"10.0.0.1"}}`)
	m.add(`{"kind":"WorkloadEntry","metadata":{"namespace":"bank","name":"old-db"},"spec":{"address":"10.0.0.2"}}`)
	r := m.generate(Options{})
	m.keepAll(r, "shop", map[string]bool{"vm": true})
	if o := opened(r, OpenMachines, ""); o == nil || o.Namespace != "bank" || o.Count != 1 {
		t.Errorf("%+v", r.Open)
	}
}

// A ztunnel's container has the name of a sidecar's, but Sidecars do not concern it.
func TestZtunnelIsNoSidecar(t *testing.T) {
	m := shop(t)
	m.add(`{"kind":"Pod","metadata":{"namespace":"istio-system","name":"ztunnel-x2x4z","ownerReferences":[{"kind":"DaemonSet","name":"ztunnel","controller":true}]},"spec":{"containers":[{"name":"istio-proxy","args":["proxy","ztunnel"]}]}}`)
	for _, o := range m.generate(Options{}).Open {
		if o.Workload == (Workload{"istio-system", "ztunnel"}) {
			t.Errorf("%+v", o)
		}
	}
	if p := m.inv.workloads[Workload{"istio-system", "ztunnel"}]; p != nil {
		t.Errorf("it counts as a caller that nobody saw: %+v", p)
	}
}

// A deleted pod is attributed to its workload, even by its ordinal; a log with a truncated
// prefix is still read.
func TestPodsThatAreGone(t *testing.T) {
	m := shop(t)
	m.pod("shop", "db", "{}")
	m.inv.addPod(Workload{"shop", "known"}, "strange-name", nil, true, false)
	m.add(`{"kind":"Pod","metadata":{"namespace":"shop","name":"node-x2x4z","ownerReferences":[{"kind":"StatefulSet","name":"node","controller":true}]},"spec":{"containers":[{"name":"istio-proxy"}]}}`)
	for pod, want := range map[string]string{"db-0": "db", "db-7": "db", "node-abc12": "node", "other-7": "other-7", "front-7c9d8b6f5-zzzzz": "front", "strange-name": "known"} {
		if got := m.inv.WorkloadOf("shop", pod); got.Name != want {
			t.Errorf("%s: %s, want %s", pod, got, want)
		}
	}
	if _, err := m.obs.ReadAccessLog(strings.NewReader("[pod/db-7 "+cart), Workload{"shop", "db"}, m.inv.podOf("shop"), m.inv.Knows); err != nil || !strings.Contains(edges(m.obs), "shop/db>cart.shop") {
		t.Errorf("%v %s", err, edges(m.obs))
	}
}

// podOf returns the function that ReadAccessLog calls.
func (inv *Inventory) podOf(namespace string) func(string) Workload {
	return func(pod string) Workload { return inv.WorkloadOf(namespace, pod) }
}

// Counters restart with the proxy's container, not with its pod.
func TestRestartedProxy(t *testing.T) {
	m := shop(t).serves("shop", "again").
		pod("shop", "again", `{"startTime":"2026-01-01T00:00:00Z","containerStatuses":[{"name":"istio-proxy","state":{"running":{"startedAt":"2026-11-25T11:00:00Z"}}}]}`)
	m.keepAll(m.generate(Options{Now: now, Watched: 24 * time.Hour}), "shop", map[string]bool{"again": true})
}

// A query for one namespace's callers says nothing about those of other namespaces, which only
// served.
func TestCallersOfOneNamespace(t *testing.T) {
	m := shop(t).workload("team", "leaf").service("team", "leaf")
	for _, reporter := range []string{"source", "destination"} {
		m.counts(reported(reporter, "front", Workload{"team", "leaf"}, "leaf.team.svc.cluster.local"), Span{})
	}
	m.keepAll(m.generate(Options{}), "team", map[string]bool{"leaf": true})
	m.obs.Whole(Metrics)
	m.keepAll(m.generate(Options{}), "team", map[string]bool{"leaf": false})
}

// Counters of some pods of a workload do not cover all.
func TestCountersOfSomePods(t *testing.T) {
	m := shop(t)
	for _, pod := range []string{"a", "b"} {
		m.add(`{"kind":"Pod","metadata":{"namespace":"shop","name":"two-` + pod + `","labels":{"app":"two"},"ownerReferences":[{"kind":"StatefulSet","name":"two","controller":true}]},"spec":{"containers":[{"name":"istio-proxy"}]}}`)
	}
	for i, all := range []bool{true, false} {
		m.obs.AddCounters(Workload{"shop", "two"}, map[string]int64{cart: 5})
		r := m.generate(Options{})
		m.keepAll(r, "shop", map[string]bool{"two": all})
		o := opened(r, "", "two")
		if listed := o != nil && o.Why.Code == UncoveredPart && o.Why.N == 1 && o.Why.Of == 2; listed != all {
			t.Errorf("after %d: %+v", i+1, r.Open)
		}
	}
}

// A Prometheus with 30 days of data has not observed for 30 days what was deployed an hour
// ago.
func TestNewWorkload(t *testing.T) {
	m := shop(t)
	for name, created := range map[string]string{"fresh": "2026-11-25T11:00:00Z", "settled": "2026-01-01T00:00:00Z", "unmade": ""} {
		m.workload("shop", name)
		if created != "" {
			m.add(`{"kind":"Deployment","metadata":{"namespace":"shop","name":"` + name + `","creationTimestamp":"` + created + `"},"spec":{"template":{"metadata":{"labels":{"app":"` + name + `"}}}}}`)
		}
		m.counts(reported("source", name, Workload{}, "cart.shop.svc.cluster.local"), At(now.Add(-30*24*time.Hour), now))
	}
	r := m.generate(Options{Now: now, Watched: 24 * time.Hour})
	m.keepAll(r, "shop", map[string]bool{"fresh": true, "settled": false, "unmade": false})
	if o := opened(r, "", "fresh"); o == nil || o.Why.For != hour {
		t.Errorf("%+v", r.Open)
	}
}

// Metrics that reach back an unknown time do not narrow anything alone, unless that is
// accepted; additional counters are as old as their proxy.
func TestUndatedMetrics(t *testing.T) {
	for _, c := range []struct {
		name     string
		watched  time.Duration
		at       Span
		counters time.Time // start of the counters, if any
		narrowed bool
		why      UncoveredCode
	}{
		{"alone", 30 * time.Minute, Span{}, time.Time{}, false, UncoveredUndated},
		{"by wish", 0, Span{}, time.Time{}, true, ""},
		{"of an hour", 30 * time.Minute, At(now.Add(-hour), now), time.Time{}, true, ""},
		{"of minutes", 30 * time.Minute, At(now.Add(-5*time.Minute), now), time.Time{}, false, UncoveredShort},
		{"beside old counters", 30 * time.Minute, Span{}, now.Add(-hour), true, ""},
		{"beside young counters", 30 * time.Minute, Span{}, now.Add(-time.Minute), false, UncoveredShort},
	} {
		m, w := shop(t), Workload{"shop", "scraped"}
		m.workload("shop", "scraped")
		m.counts(reported("source", "scraped", Workload{}, "cart.shop.svc.cluster.local"), c.at)
		if !c.counters.IsZero() {
			m.calls("shop", "scraped", "cart.shop.svc.cluster.local")
			m.inv.workloads[w].since = c.counters
		}
		r := m.generate(Options{Now: now, Watched: c.watched})
		m.checkLets(r, w, !c.narrowed, far)
		if o := opened(r, OpenUnseen, "scraped"); (o != nil) == c.narrowed || o != nil && o.Why.Code != c.why {
			t.Errorf("%s: %+v", c.name, r.Open)
		}
	}
}

// Metrics from which the label with the called host was removed do not reveal it: their
// workloads cannot count as calling nothing.
func TestMetricsWithoutHosts(t *testing.T) {
	m := shop(t).workload("shop", "mute").workload("shop", "told")
	for w, host := range map[string]string{"mute": "", "told": "pay.bank.svc.cluster.local"} {
		m.counts(reported("source", w, Workload{"bank", "pay"}, host), Span{})
		m.counts(reported("destination", "front", Workload{"shop", w}, ""), Span{})
	}
	r := m.generate(Options{})
	m.keepAll(r, "shop", map[string]bool{"mute": true, "told": false})
	if o := opened(r, "", "mute"); o == nil || o.Why.Code != UncoveredLabels {
		t.Errorf("%+v", r.Open)
	}
}

// A log with cluster names as spelled by outboundClusterStatName hides its workload's calls.
func TestStrangeClusters(t *testing.T) {
	m := shop(t).workload("shop", "named")
	for _, log := range []string{`{"upstream_cluster":"` + cart + `"}`, `{"upstream_cluster":"audit.bank.svc.cluster.local_80"}`, `{"upstream_cluster":"PassthroughCluster;"}`} {
		m.reads("named", log+"\n"+`{"upstream_cluster":"`+cart+"\"}\n")
	}
	r := m.generate(Options{})
	if o := opened(r, "", "named"); o == nil || o.Why.Code != UncoveredCluster {
		t.Errorf("%+v", r.Open)
	}
}

// A host that a person admitted by name is not removed silently, for a namespace or for the
// mesh; a host that is called or always admitted is not removed.
func TestLetInByHand(t *testing.T) {
	yearly := "billing/yearly.billing.svc.cluster.local"
	for name, c := range map[string]struct {
		namespace, hosts string
		o                Options
		gone             string
	}{
		"a namespace's":           {"shop", `"./*","bank/pay.bank.svc.cluster.local","` + yearly + `","*/audit.bank.svc.cluster.local"`, Options{}, "bank/audit.bank.svc.cluster.local " + yearly},
		"its own":                 {"shop", `"./other-03.shop.svc.cluster.local","./cart.shop.svc.cluster.local","*/pay.bank.svc.cluster.local"`, Options{}, "shop/other-03.shop.svc.cluster.local"},
		"the mesh's":              {"istio-system", `"*/*","` + yearly + `"`, Options{}, yearly},
		"always":                  {"shop", `"` + yearly + `"`, Options{Always: []string{"billing/*"}}, ""},
		"always, of any":          {"shop", `"*/audit.bank.svc.cluster.local"`, Options{Always: []string{"bank/*"}}, ""},
		"excluded, or a wildcard": {"shop", `"billing/*","~billing/yearly.billing.svc.cluster.local"`, Options{}, ""},
		"of another namespace":    {"shop", `"./*","` + yearly + `"`, Options{Only: []string{"bank"}}, ""},
	} {
		m := shop(t).service("billing", "yearly").has("Sidecar", c.namespace, "ours", `{"egress":[{"hosts":[`+c.hosts+`]}]}`)
		r, gone := m.generate(c.o), ""
		for _, o := range r.Open {
			if o.Code == OpenByHand {
				gone += strings.Join(o.Hosts, " ")
				if o.Namespace != c.namespace || o.Sidecar != c.namespace+"/ours" {
					t.Errorf("%s: %+v", name, o)
				}
			}
		}
		if gone != c.gone {
			t.Errorf("%s: %q, want %q; %s", name, gone, c.gone, sidecar(r, c.namespace+"/ours"))
		}
	}
	// A workload that keeps what it has loses nothing.
	m := shop(t).workload("dark", "a").has("Sidecar", "dark", "ours", `{"egress":[{"hosts":["`+yearly+`"]}]}`)
	if r := m.generate(Options{}); opened(r, OpenByHand, "") != nil {
		t.Errorf("%+v", r.Open)
	}
}

// A Kiali graph contains neighbours of the requested namespaces, but not their calls.
func TestKialiNeighbours(t *testing.T) {
	m := shop(t).workload("team", "peer").workload("team", "caller").workload("team", "second").service("team", "peer").service("team", "far")
	graph := `{"timestamp":1795600000,"duration":3600,"elements":{"nodes":[
	 {"data":{"id":"f","nodeType":"workload","namespace":"shop","workload":"front"}},
	 {"data":{"id":"p","nodeType":"workload","namespace":"team","workload":"peer","isOutside":true,"destServices":[{"namespace":"team","name":"peer"}]}},
	 {"data":{"id":"c","nodeType":"workload","namespace":"team","workload":"caller","isInaccessible":true}},
	 {"data":{"id":"s","nodeType":"service","namespace":"shop","service":"cart"}}],
	 "edges":[{"data":{"source":"f","target":"p","traffic":{"protocol":"http","rates":{"http":"1"}}}},{"data":{"source":"c","target":"s","traffic":{"protocol":"http","rates":{"http":"1"}}}}]}}`
	must.OK(t, m.obs.ReadKiali(strings.NewReader(graph), "cluster.local"))
	r := m.generate(Options{})
	for _, w := range []string{"peer", "caller"} {
		m.checkLets(r, Workload{"team", w}, true, Host{"team", "far.team.svc.cluster.local"}, far)
	}
}
