package istio

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3" // of clusters
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// filledIn parses a value of a patch as Envoy's message, strictly.
func filledIn(t *testing.T, value map[string]any, to proto.Message) {
	t.Helper()
	delete(value, "@type")
	text, err := json.Marshal(value)
	must.OK(t, err)
	if err := protojson.Unmarshal(text, to); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if v, ok := to.(interface{ ValidateAll() error }); ok {
		must.OK(t, v.ValidateAll())
	}
}

// asking returns a workload whose sidecar has the factor callout.
func asking(level string) mesh.Workload {
	w := withParts("none")
	w.Proxy.Levels[study.FactorCallout] = level
	return w
}

// TestCalloutMessages parses what each filter adds as Envoy's own messages.
func TestCalloutMessages(t *testing.T) {
	for _, filter := range study.Callouts() {
		for _, fail := range []string{study.FailOpen, study.FailClosed} {
			c, ok := askedBy(asking("filter=" + filter + " to=checker fail=" + fail + " timeout=250ms"))
			if !ok {
				t.Fatalf("%s: no filter", filter)
			}
			patches := c.patches("")
			var cluster clusterv3.Cluster
			filledIn(t, patches[0]["patch"].(map[string]any)["value"].(map[string]any), &cluster)
			host := cluster.GetLoadAssignment().GetEndpoints()[0].GetLbEndpoints()[0].GetEndpoint().GetAddress().GetSocketAddress()
			if http2 := len(cluster.GetTypedExtensionProtocolOptions()) > 0; host.GetAddress() != "checker.ns.svc.cluster.local" || http2 != (filter != study.CalloutAuthzHTTP) ||
				host.GetPortValue() != uint32(c.endpoint().Port) {
				t.Errorf("%s: cluster %v", filter, &cluster)
			}
			config := patches[1]["patch"].(map[string]any)["value"].(map[string]any)["typed_config"].(map[string]any)
			var open bool
			var timeout float64
			var names string
			if filter == study.CalloutRateLimit {
				var f ratelimitv3.RateLimit
				filledIn(t, config, &f)
				open, timeout, names = !f.GetFailureModeDeny(), f.GetTimeout().AsDuration().Seconds(), f.GetRateLimitService().GetGrpcService().GetEnvoyGrpc().GetClusterName()
				if len(f.GetRateLimits()) != 1 {
					t.Errorf("%s asks about %d descriptors, so nothing", filter, len(f.GetRateLimits()))
				}
			} else {
				var f authzv3.ExtAuthz
				filledIn(t, config, &f)
				open = f.GetFailureModeAllow()
				timeout, names = f.GetGrpcService().GetTimeout().AsDuration().Seconds(), f.GetGrpcService().GetEnvoyGrpc().GetClusterName()
				if uri := f.GetHttpService().GetServerUri(); uri != nil {
					timeout, names = uri.GetTimeout().AsDuration().Seconds(), uri.GetCluster()
				}
			}
			if open != (fail == study.FailOpen) || timeout != 0.25 || names != cluster.GetName() {
				t.Errorf("%s fail=%s: open %v, timeout %v s, cluster %s", filter, fail, open, timeout, names)
			}
		}
	}
	for _, level := range []string{"", study.LevelOff, study.NotApplicable} {
		if c, ok := askedBy(asking(level)); ok {
			t.Errorf("level %q asks %+v", level, c)
		}
	}
}

// TestCheckCallout: a filter that is absent, or fails or waits otherwise, is found.
func TestCheckCallout(t *testing.T) {
	const level = "filter=ext-authz-grpc to=checker fail=open"
	filter := func(name, typ, config string) []byte {
		return chainDump(`{"name": "meshtrial.`+name+`", "typed_config": {"@type": "`+typ+`", `+config+`}}`, "")
	}
	open := filter("ext-authz-grpc", authzType, `"failure_mode_allow": true, "grpc_service": {"timeout": "1s"}`)
	for name, tt := range map[string]struct {
		level string
		dump  []byte
		ok    bool
	}{
		"as set":        {level, open, true},
		"otherwise":     {strings.Replace(level, "open", "closed", 1), open, false},
		"for less time": {level + " timeout=250ms", open, false},
		"that time":     {level + " timeout=250ms", filter("ext-authz-grpc", authzType, `"failure_mode_allow": true, "grpc_service": {"timeout": "0.250s"}`), true},
		"no time":       {level, filter("ext-authz-grpc", authzType, `"failure_mode_allow": true`), false},
		"by HTTP":       {"filter=ext-authz-http to=checker", filter("ext-authz-http", authzType, `"http_service": {"server_uri": {"timeout": "1s"}}`), true},
		"absent":        {level, chainDump("", ""), false},
		"another":       {level, chainDump(`{"name": "meshtrial.ext-authz-http"}`, ""), false},
		"rate limit":    {"filter=rate-limit-global to=checker", filter("rate-limit-global", globalLimitType, `"failure_mode_deny": true, "timeout": "1s"`), true},
		"unreadable":    {level, []byte("{"), false},
	} {
		checks := (&Mesh{}).CheckCallout(tt.dump, 8080, asking(tt.level))
		if len(checks) != 1 || checks[0].OK != tt.ok || checks[0].Detail == "" {
			t.Errorf("%s: %+v", name, checks)
		}
	}
	if checks := (&Mesh{}).CheckCallout(open, 9090, asking(level)); len(checks) != 1 || checks[0].OK {
		t.Errorf("a filter on another port: %+v", checks)
	}
	if checks := (&Mesh{}).CheckCallout(open, 8080, asking(study.LevelOff)); len(checks) != 0 {
		t.Errorf("checks of a cell without a callout: %+v", checks)
	}
}

// TestAskingWaypoint: only requests to the workload's own Service pass the filters, and each cluster
// is added once.
func TestAskingWaypoint(t *testing.T) {
	w := func(name string) mesh.Workload {
		return mesh.Workload{Name: name, Namespace: "ns", Carrier: study.SidecarsWaypoint, Levels: record.Cell{"filters": "ext-authz-grpc+rate-limit-global"}}
	}
	objects := (&Mesh{}).Policies([]mesh.Workload{w("server-a"), w("server-b"), {Name: "server-c", Namespace: "ns", Carrier: study.SidecarsWaypoint}})
	clusters, chains := map[string]bool{}, map[string]bool{}
	filters := 0
	for _, o := range objects {
		if o.GetKind() != "EnvoyFilter" {
			continue
		}
		filters++
		if refs, _, _ := unstructured.NestedSlice(o.Object, "spec", "targetRefs"); len(refs) != 1 || strings.Contains(fmt.Sprint(o.Object), "workloadSelector") {
			t.Errorf("%s selects %v", o.GetName(), refs)
		}
		list, _, err := unstructured.NestedSlice(o.Object, "spec", "configPatches")
		must.OK(t, err)
		for _, one := range list {
			name, _, _ := unstructured.NestedString(one.(map[string]any), "patch", "value", "name")
			chain, _, _ := unstructured.NestedString(one.(map[string]any), "match", "listener", "filterChain", "name")
			if of := one.(map[string]any)["applyTo"]; of == "CLUSTER" {
				if clusters[name] {
					t.Errorf("cluster %s is added twice", name)
				}
				clusters[name] = true
				continue
			}
			if !strings.HasSuffix(chain, "|"+o.GetName()+".ns.svc.cluster.local") || chains[name+chain] {
				t.Errorf("EnvoyFilter %s: filter %s in chain %q", o.GetName(), name, chain)
			}
			chains[name+chain] = true
		}
	}
	if filters != 2 || len(clusters) != 4 || !chains["meshtrial.ext-authz-grpcinbound-vip|8080|http|server-a.ns.svc.cluster.local"] {
		t.Errorf("%d EnvoyFilters, clusters %v, chains %v", filters, clusters, chains)
	}
}

func TestWaypointFilters(t *testing.T) {
	const chain = "inbound-vip|8080|http|server-a.ns.svc.cluster.local"
	dump := func(filters, rest string) []byte {
		return []byte(`{"configs": [{"dynamic_listeners": [{"name": "main_internal"` + rest + `, "active_state": {"listener": {"filter_chains": [
			{"name": "inbound-vip|8080|http|server-b.ns.svc.cluster.local", "filters": [{"typed_config": {"http_filters": [{"name": "meshtrial.ext-authz-http"}]}}]},
			{"name": "` + chain + `", "filters": [{"typed_config": {"http_filters": [` + filters + `]}}]}]}}}]}]}`)
	}
	const ok = "http.inbound-vip;.ext_authz.meshtrial_ext-authz-grpc.ok"
	there := dump(`{"name": "meshtrial.ext-authz-grpc"}, {"name": "envoy.filters.http.router"}`, "")
	opaque := mesh.Evidence{Cell: record.Cell{"filters": "-"}, FiltersVary: true, Endpoint: mesh.Endpoint{Service: "server-a", Namespace: "ns", Port: 9000, Opaque: true}}
	if checks := waypointFilters(opaque, &mesh.Passed{Config: there}); len(checks) > 0 {
		t.Errorf("connections without requests: %+v", checks)
	}
	for name, tt := range map[string]struct {
		level  string
		vary   bool
		dump   []byte
		stats  map[string]float64
		failed []string
	}{
		"active":      {"ext-authz-grpc", true, there, map[string]float64{ok: 100}, nil},
		"asked less":  {"ext-authz-grpc", true, there, map[string]float64{ok: 90}, []string{"waypoint-ext-authz-grpc"}},
		"denied":      {"ext-authz-grpc", true, there, map[string]float64{ok: 100, "http.inbound-vip;.ext_authz.meshtrial_ext-authz-grpc.denied": 1}, []string{"waypoint-ext-authz-grpc"}},
		"absent":      {"ext-authz-grpc", true, dump("", ""), nil, []string{"waypoint-ext-authz-grpc", "waypoint-filters"}},
		"left over":   {"-", true, there, nil, []string{"waypoint-filters"}},
		"none":        {"-", true, dump("", ""), nil, nil},
		"not studied": {"-", false, []byte("{"), nil, nil},
		"refused":     {"-", true, dump("", `, "error_state": {"details": "no such filter"}`), nil, []string{"waypoint-filters"}},
		"no chain":    {"-", true, []byte(`{"configs": []}`), nil, []string{"waypoint-filters"}},
		"unreadable":  {"-", true, []byte("{"), nil, []string{"waypoint-filters"}},
		"limit": {"rate-limit-global", true, dump(`{"name": "meshtrial.rate-limit-global"}`, ""),
			map[string]float64{"cluster.inbound-vip|8080|http|server-a;.ratelimit.meshtrial_rate-limit-global.ok": 100}, nil},
	} {
		checks := waypointFilters(mesh.Evidence{Cell: record.Cell{"filters": tt.level}, FiltersVary: tt.vary, Requests: 100,
			Endpoint: mesh.Endpoint{Service: "server-a", Namespace: "ns", Port: 8080}}, &mesh.Passed{Rise: tt.stats, Config: tt.dump})
		if !slices.Equal(failed(checks), tt.failed) {
			t.Errorf("%s: expected that %v fail: %+v", name, tt.failed, checks)
		}
	}
}

// A service that denies a request, or fails, makes the trial invalid, however many it allowed.
func TestAnsweredCheck(t *testing.T) {
	for _, filter := range study.Callouts() {
		prefix := "http.inbound_0.0.0.0_8080;.ext_authz." + statPrefix(filter)
		results := []string{"denied", "error"} // 403 and, from Envoy's client, 5xx
		if filter == study.CalloutRateLimit {
			prefix, results = "cluster.inbound|8080||.ratelimit."+statPrefix(filter), []string{"over_limit", "error"}
		}
		for _, planted := range append(results, "") {
			stats := map[string]float64{prefix + ".ok": 100}
			if planted != "" {
				stats[prefix+"."+planted] = 1
			}
			check := answeredCheck("server-", filter, mesh.Evidence{Requests: 100, Unknown: 2}, &mesh.Passed{Rise: stats})
			if check.OK != (planted == "") || check.Name != "server-"+filter {
				t.Errorf("%s, %q: %+v", filter, planted, check)
			}
		}
	}
}

// TestWasmExtension: the module is in the configuration once, and its digest is compared.
func TestWasmExtension(t *testing.T) {
	x := mesh.Extension{Name: "wasm-file.mine", Part: "wasm-file-mine", Wasm: wasmNoop}
	m := &Mesh{}
	text, err := m.ExtensionObject(withParts(""), x).MarshalJSON()
	must.OK(t, err)
	if n := strings.Count(string(text), `"inline_bytes"`); n != 1 {
		t.Errorf("the module is there %d times", n)
	}
	if names := m.ExtensionNames(x); !slices.Contains(names, "meshtrial.wasm-file-mine") {
		t.Errorf("names %v", names)
	}
	config, err := json.Marshal(wasmFilter(x.Part, wasmNoop))
	must.OK(t, err)
	in, err := readParts([]byte(`{"configs": [{"ecds_filters": [{"ecds_filter": {"name": "meshtrial.wasm-file-mine", "typed_config": `+string(config)+`}}]}]}`), 8080)
	must.OK(t, err)
	const filter = `{"listener": {"filter_chains": [{"filters": [{"typed_config": {"http_filters": [{"name": "meshtrial.wasm-file-mine", "config_discovery": {}}]}}]}]}}`
	const listener, waiting = `{"dynamic_listeners": [{"name": "virtualInbound", "active_state": ` + filter + `}]}`, `{"dynamic_listeners": [{"name": "virtualInbound", "warming_state": ` + filter + `}]}`
	const before = `{"dynamic_listeners": [{"name": "virtualInbound"}]}`
	module := `, {"ecds_filters": [{"ecds_filter": {"name": "meshtrial.wasm-file-mine", "typed_config": ` + string(config) + `}}]}`
	for after, want := range map[string]mesh.Uptake{
		before: {Absent: true}, waiting: {}, listener: {}, listener + module: {InForce: true},
	} {
		if got, err := m.Took([]byte(`{"configs": [`+before+`]}`), []byte(`{"configs": [`+after+`]}`)); err != nil || got != want {
			t.Errorf("%.200s: %+v, %v", after, got, err)
		}
	}
	part := dataplane.Part{Kind: dataplane.PartWasmFile, File: "mine"}
	for digest, ok := range map[string]bool{in.modules["meshtrial.wasm-file-mine"]: true, strings.Repeat("0", 64): false} {
		if c := in.extended(part, mesh.Extended{Names: []string{"meshtrial.wasm-file-mine"}, SHA256: digest}); c.OK != ok || len(digest) != 64 {
			t.Errorf("digest %q: %+v", digest, c)
		}
	}
	for vms, ok := range map[float64]bool{0: false, 2: true} {
		if c := runsModule(record.Check{OK: true}, &mesh.Passed{Total: map[string]float64{wasmVMs: vms}}); c.OK != ok {
			t.Errorf("%v VMs: %+v", vms, c)
		}
	}
}
