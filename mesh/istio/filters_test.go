package istio

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

func withParts(level string) mesh.Workload {
	return mesh.Workload{Name: "server-a", Namespace: "ns", Proxy: &mesh.Proxy{Levels: record.Cell{"mtls": "strict", "telemetry": "off", "concurrency": "2", "cpu_limit": "none", "filters": level}}}
}

// everyPart returns a level with all compatible kinds of parts.
func everyPart() string {
	var words []string
	for _, k := range dataplane.PartKinds() {
		switch {
		case k.File != "" || k.Name == dataplane.PartJWT:
		case k.Number != "":
			words = append(words, k.Name+"-20")
		default:
			words = append(words, k.Name)
		}
	}
	return strings.Join(words, "+")
}

// TestPartsBecomeSomething verifies that each part changes the pod, its
// Service's ports, or its objects, and that all objects apply only to the
// workload.
func TestPartsBecomeSomething(t *testing.T) {
	m := &Mesh{}
	plainPod, plain := decorated(t, m, withParts("")), m.Policies([]mesh.Workload{withParts("")})
	for _, level := range strings.Split(everyPart(), "+") {
		w := withParts(level)
		objects := m.Policies([]mesh.Workload{w})
		changed := decorated(t, m, w) != plainPod && (strings.HasPrefix(level, "ecdsa") || strings.HasPrefix(level, "dns"))
		if len(objects) == len(plain) && !changed {
			t.Errorf("%s changes nothing", level)
		}
		for _, o := range objects {
			text := fmt.Sprint(o.Object["spec"])
			if !strings.Contains(text, mesh.AppLabel+":server-a") || o.GetNamespace() != "ns" {
				t.Errorf("%s: %s %s is not for the workload alone: %s", level, o.GetKind(), o.GetName(), text)
			}
		}
	}
	names := map[string]bool{}
	for _, o := range m.Policies([]mesh.Workload{withParts(everyPart())}) {
		id := o.GetKind() + "/" + o.GetName()
		if names[id] {
			t.Errorf("%s is there twice", id)
		}
		names[id] = true
		if _, err := o.MarshalJSON(); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		_ = o.DeepCopy() // panics on values that Kubernetes's JSON does not support
	}
}

func decorated(t *testing.T, m *Mesh, w mesh.Workload) string {
	t.Helper()
	var pod corev1.PodTemplateSpec
	must.OK(t, m.Decorate(w, &pod))
	return pod.Annotations["proxy.istio.io/config"]
}

// TestManyPatches verifies the limit of an EnvoyFilter.
func TestManyPatches(t *testing.T) {
	filters, patches := 0, 0
	for _, o := range (&Mesh{}).Policies([]mesh.Workload{withParts("listeners-700+routes-600")}) {
		if o.GetKind() != "EnvoyFilter" {
			continue
		}
		filters++
		list, _, err := unstructured.NestedSlice(o.Object, "spec", "configPatches")
		if err != nil || len(list) > maxPatches {
			t.Errorf("%s has %d patches (%v)", o.GetName(), len(list), err)
		}
		patches += len(list)
	}
	if filters != 3 || patches != 1300 {
		t.Errorf("%d EnvoyFilters with %d patches", filters, patches)
	}
}

// TestManyRules verifies that policies stay within the limit of their
// definition, and that of allow policies only the last rule in Envoy's order
// matches.
func TestManyRules(t *testing.T) {
	for _, n := range []int{1, 20, 500, 501, 2000} {
		for _, kind := range []string{dataplane.PartAuthzAllow, dataplane.PartAuthzDeny} {
			var names, matching []string
			for _, o := range authorization(withParts(""), dataplane.Part{Kind: kind, N: n}) {
				rules, _, err := unstructured.NestedSlice(o.Object, "spec", "rules")
				if err != nil || len(rules) > 512 {
					t.Fatalf("%d rules (%v)", len(rules), err)
				}
				for i, r := range rules {
					name := fmt.Sprintf("ns[a]-policy[%s]-rule[%d]", o.GetName(), i)
					names = append(names, name)
					if strings.Contains(fmt.Sprint(r), "/*") {
						matching = append(matching, name)
					}
				}
			}
			sort.Strings(names)
			var want []string
			if kind == dataplane.PartAuthzAllow {
				want = names[n-1:]
			}
			if len(names) != n || !slices.Equal(matching, want) {
				t.Errorf("%s-%d: %d rules, %v match, expected %v", kind, n, len(names), matching, want)
			}
		}
	}
}

func TestToken(t *testing.T) {
	now := time.Now()
	made, err := newToken(now)
	must.OK(t, err)
	other, err := newToken(now)
	if err != nil || other.jwks == made.jwks {
		t.Errorf("a second key is the same (%v)", err)
	}
	var keys struct{ Keys []struct{ N, E, Alg string } }
	if err := json.Unmarshal([]byte(made.jwks), &keys); err != nil || len(keys.Keys) != 1 {
		t.Fatalf("%s: %v", made.jwks, err)
	}
	decode := func(s string) []byte {
		b, err := base64.RawURLEncoding.DecodeString(s)
		must.OK(t, err)
		return b
	}
	key := rsa.PublicKey{N: new(big.Int).SetBytes(decode(keys.Keys[0].N)), E: int(new(big.Int).SetBytes(decode(keys.Keys[0].E)).Int64())}
	part := strings.Split(made.text, ".")
	sum := sha256.Sum256([]byte(part[0] + "." + part[1]))
	if err := rsa.VerifyPKCS1v15(&key, crypto.SHA256, sum[:], decode(part[2])); err != nil {
		t.Error(err)
	}
	var claims struct {
		Iss      string
		Exp, Iat int64
	}
	if err := json.Unmarshal(decode(part[1]), &claims); err != nil || claims.Iss != jwtIssuer || claims.Exp < now.Add(24*time.Hour).Unix() || claims.Iat > now.Unix() {
		t.Errorf("claims %+v (%v)", claims, err)
	}
}

func TestRequestHeaders(t *testing.T) {
	m := &Mesh{}
	if h, err := m.RequestHeaders([]string{"lua", "jwt"}); err != nil || len(h) != 0 {
		t.Errorf("headers %v (%v) where no cell needs any", h, err)
	}
	a, err := m.RequestHeaders([]string{"lua", "jwt-token+lua"})
	if err != nil || !strings.HasPrefix(a["Authorization"], "Bearer ey") {
		t.Errorf("headers %v (%v)", a, err)
	}
	b, _ := m.RequestHeaders([]string{"jwt-token"})
	policy := fmt.Sprint(m.Policies([]mesh.Workload{withParts("jwt-token")})[2].Object)
	if a["Authorization"] != b["Authorization"] || !strings.Contains(policy, m.made.jwks) {
		t.Error("token and policy are not of one key")
	}
}

// chainDump returns a configuration with an inbound chain for port 8080.
func chainDump(filters, rest string) []byte {
	return []byte(`{"configs": [
	{"@type": "type.googleapis.com/envoy.admin.v3.BootstrapConfigDump", "bootstrap": {"node": {"metadata": {}}}},
	{"@type": "type.googleapis.com/envoy.admin.v3.ListenersConfigDump", "dynamic_listeners": [
	  {"name": "virtualInbound", "active_state": {"listener": {"filter_chains": [
	    {"filter_chain_match": {"destination_port": 8080}, "filters": [
	      {"name": "envoy.filters.network.http_connection_manager", "typed_config": {"http_filters": [` + filters + `]` + rest + `}}]},
	    {"filter_chain_match": {"destination_port": 9090}, "filters": [
	      {"name": "envoy.filters.network.http_connection_manager", "typed_config": {"http_filters": [{"name": "meshtrial.lua"}]}}]}
	  ]}}}]}]}`)
}

func TestReadParts(t *testing.T) {
	script := strings.ReplaceAll(fmt.Sprintf(luaPlanted, 250), "\n", `\n`)
	script = strings.ReplaceAll(script, `"`, `\"`)
	for name, tt := range map[string]struct {
		dump []byte
		want string
	}{
		"usual":   {chainDump(`{"name": "envoy.filters.http.fault"}, {"name": "envoy.filters.http.router"}`, ""), ""},
		"ours":    {chainDump(`{"name": "meshtrial.wasm"}, {"name": "meshtrial.fault"}`, ""), "wasm fault"},
		"planted": {chainDump(`{"name": "meshtrial.planted", "typed_config": {"default_source_code": {"inline_string": "`+script+`"}}}`, ""), "planted-250"},
		"rules": {chainDump(`{"name": "envoy.filters.http.rbac", "typed_config": {"rules": {"policies": {"a": {}, "b": {}}}}},
			{"name": "envoy.filters.http.rbac", "typed_config": {"rules": {"action": "DENY", "policies": {"a": {}}}}}`, ""), "authz-allow-2 authz-deny-1"},
		"token": {chainDump(`{"name": "envoy.filters.http.jwt_authn"}`, ""), "jwt"},
		"inspector": {[]byte(`{"configs": [{"dynamic_listeners": [{"name": "virtualInbound", "active_state": {"listener": {"listener_filters": [
			{"name": "envoy.filters.listener.http_inspector"}, {"name": "meshtrial.inspector"}]}}}]}]}`), "inspector"},
		"tracing": {chainDump("", `, "tracing": {"provider": {"name": "x"}}`), "tracing"},
		"log":     {chainDump("", `, "access_log": [{"name": "envoy.access_loggers.file"}, {"name": "meshtrial.otlp-log"}]`), "otlp-log"},
		"sampled": {chainDump("", `, "tracing": {"random_sampling": {"value": 1}}`), ""},
		"routes":  {chainDump("", `, "route_config": {"virtual_hosts": [{"routes": [{"name": "meshtrial-route-0"}, {"name": "meshtrial-route-1"}, {"name": "default"}]}]}`), "routes-2"},
	} {
		got, err := readParts(tt.dump, 8080)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var words []string
		for _, p := range got.parts {
			words = append(words, p.String())
		}
		if strings.Join(words, " ") != tt.want {
			t.Errorf("%s: parts %v, expected %s", name, words, tt.want)
		}
	}
	if _, err := readParts([]byte("{"), 8080); err == nil {
		t.Error("half a document is read")
	}
}

func TestVerifyFilters(t *testing.T) {
	lua := chainDump(`{"name": "meshtrial.lua"}`, "")
	jwt := chainDump(`{"name": "envoy.filters.http.jwt_authn"}`, "")
	refused := []byte(`{"configs": [{"@type": "x.ListenersConfigDump", "dynamic_listeners": [{"name": "virtualInbound", "error_state": {"details": "no such filter"}}]}]}`)
	ran := map[string]float64{"http.inbound_0.0.0.0_8080;.lua.meshtrial_lua.executions": 100}
	for name, tt := range map[string]struct {
		level  string
		vary   bool
		dump   []byte
		stats  map[string]float64
		worker float64
		ext    map[string]mesh.Extended
		failed string // the check that fails, "" for none
	}{
		"none":              {"none", true, chainDump("", ""), nil, 0, nil, ""},
		"none, but there":   {"none", true, lua, nil, 0, nil, "server-filters"},
		"of the mesh":       {"none", false, jwt, nil, 0, nil, ""},
		"of the mesh, told": {"none", true, jwt, nil, 0, nil, "server-filters"},
		"ours is never":     {"none", false, lua, nil, 0, nil, "server-filters"},
		"active":            {"lua", true, lua, ran, 100, nil, ""},
		"missing":           {"lua", true, chainDump("", ""), ran, 100, nil, "server-filters"},
		"never run":         {"lua", true, lua, nil, 100, nil, "server-lua"},
		"no effect":         {"lua", true, lua, ran, 0, nil, "server-lua"},
		"refused":           {"none", true, refused, nil, 0, nil, "server-filters"},
		"extended":          {"envoyfilter-a", true, lua, nil, 0, map[string]mesh.Extended{"a": {Names: []string{"meshtrial.lua"}}}, "server-filters"},
		"extended, own":     {"envoyfilter-a", true, chainDump(`{"name": "their"}`, ""), nil, 0, map[string]mesh.Extended{"a": {Names: []string{"their"}}}, ""},
		"extended, gone":    {"envoyfilter-a", true, chainDump("", ""), nil, 0, map[string]mesh.Extended{"a": {Names: []string{"their"}}}, "server-envoyfilter-a"},
		"problem":           {"envoyfilter-a", true, chainDump("", ""), nil, 0, map[string]mesh.Extended{"a": {Problem: "refused"}}, "server-envoyfilter-a"},
	} {
		t.Run(name, func(t *testing.T) {
			checks := verifyFilters(mesh.Evidence{Cell: record.Cell{"filters": tt.level}, Endpoint: mesh.Endpoint{Port: 8080}, Requests: 100,
				Worker: map[string]float64{"lua_header": tt.worker}, FiltersVary: tt.vary, Extensions: tt.ext},
				&mesh.Passed{Rise: tt.stats, Config: tt.dump})
			if bad := strings.Join(failed(checks), " "); bad != tt.failed {
				t.Errorf("%q fail, expected %q: %+v", bad, tt.failed, checks)
			}
		})
	}
}

func TestExtension(t *testing.T) {
	x := mesh.Extension{Name: "mine", Priority: 5, Patches: []any{
		map[string]any{"applyTo": "HTTP_FILTER", "patch": map[string]any{"operation": "INSERT_BEFORE", "value": map[string]any{"name": "their"}}},
		map[string]any{"applyTo": "CLUSTER", "patch": map[string]any{"operation": "MERGE", "value": map[string]any{"name": "merged"}}},
	}}
	m := &Mesh{}
	o := m.ExtensionObject(withParts(""), x)
	if o.GetName() != "server-a-mine" || o.GetNamespace() != "ns" || !strings.Contains(fmt.Sprint(o.Object["spec"]), mesh.AppLabel+":server-a") {
		t.Errorf("the object is %v", o.Object)
	}
	if n, _, _ := unstructured.NestedInt64(o.Object, "spec", "priority"); n != 5 {
		t.Errorf("priority %d", n)
	}
	if got := m.ExtensionNames(x); !slices.Equal(got, []string{"their"}) {
		t.Errorf("names %v", got)
	}
	before := chainDump("", "")
	for name, tt := range map[string]struct {
		after []byte
		want  mesh.Uptake
	}{
		"nothing": {before, mesh.Uptake{Absent: true}},
		"another": {chainDump(`{"name": "their"}`, ""), mesh.Uptake{InForce: true}},
		"refused": {[]byte(`{"configs": [{"dynamic_listeners": [{"name": "virtualInbound", "error_state": {"details": "no such filter"}}]}]}`), mesh.Uptake{Refusal: "no such filter"}},
	} {
		if got, err := m.Took(before, tt.after); err != nil || got != tt.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestVerifyLog covers access log entries sent later than their requests, as
// proxies do.
func TestVerifyLog(t *testing.T) {
	const own = "access_logs.open_telemetry_access_log."
	for name, tt := range map[string]struct {
		requests                     int64
		seconds                      float64
		written, dropped, ever, cpus float64
		ok                           bool
	}{
		"all":                    {1000, 10, 1000, 0, 1200, 2, true},
		"some held":              {1000, 10, 350, 0, 600, 2, true},
		"too few":                {1000, 10, 250, 0, 600, 2, false},
		"dropped":                {1000, 10, 1000, 2, 1200, 2, false},
		"a short trial":          {25, 0.5, 0, 0, 12, 1, true},
		"a short trial, dropped": {25, 0.5, 0, 25, 12, 1, false},
		"never":                  {25, 0.5, 0, 0, 0, 1, false},
		"none of many":           {1000, 0.5, 0, 0, 12, 8, false},
		"none, for long":         {25, 10, 0, 0, 12, 1, false},
		"more threads":           {1000, 10, 250, 0, 12, 8, false}, // an entry is buffered for a second
		"threads unknown":        {1000, 10, 450, 0, 500, 0, true},
	} {
		got := counted(dataplane.Part{Kind: dataplane.PartOTLPLog}, nil, mesh.Evidence{Requests: tt.requests, SentS: tt.seconds}, &mesh.Passed{
			Rise:  map[string]float64{own + "logs_written": tt.written, own + "logs_dropped": tt.dropped},
			Total: map[string]float64{own + "logs_written": tt.ever, "server.concurrency": tt.cpus}})
		if len(got) != 1 || got[0].OK != tt.ok || got[0].Name != "server-otlp-log" || got[0].Detail == "" {
			t.Errorf("%s: %+v, expected %v", name, got, tt.ok)
		}
	}
}
