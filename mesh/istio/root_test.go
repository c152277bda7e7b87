package istio

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// calledMesh is a study whose sidecars send and receive requests.
var calledMesh = mesh.Asked{Served: true, Sent: true, Ports: []int{8080}, Proxies: []mesh.Proxy{{Levels: record.Cell{study.FactorTelemetry: study.TelemetryOff}}}}

// rootCluster returns an Istio with objects in its root namespace, given as YAML: KIND, and
// a spec.
func rootCluster(t *testing.T, config string, labels map[string]string, namespace string, texts ...string) (AsFound, *dynamicfake.FakeDynamicClient, func() (AsFound, error)) {
	t.Helper()
	scheme, lists := runtime.NewScheme(), map[schema.GroupVersionResource]string{}
	for kind, k := range rootKinds {
		lists[k.resource] = kind + "List"
	}
	var objects []runtime.Object
	for i, text := range texts {
		kind, rest, _ := strings.Cut(text, " ")
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte("{"+rest+"}"), &o.Object); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		k, ok := rootKinds[kind]
		if !ok {
			t.Fatalf("no kind %s", kind)
		}
		o.SetAPIVersion(k.resource.GroupVersion().String())
		o.SetKind(kind)
		o.SetNamespace(namespace)
		o.SetName(string(rune('a' + i)))
		objects = append(objects, o)
	}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "istiod", Labels: map[string]string{"app": "istiod"}}}
	kube := fakecluster.New(d, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: labels}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "istio"}, Data: map[string]string{"mesh": config}})
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(scheme, lists, objects...)
	read := func() (AsFound, error) { return readForStudy(t.Context(), kube, client, "", mesh.Asked{}) }
	found, err := read()
	must.OK(t, err)
	return found, client, read
}

const (
	denyAll = "AuthorizationPolicy spec: {}"
	ours    = "AuthorizationPolicy spec: {selector: {matchLabels: {app.kubernetes.io/part-of: meshtrial}}, rules: [{}]}"
)

// Mesh-wide objects of others cause a refusal if they prevent a study's requests, and are
// named if they affect its figures.
func TestRoot(t *testing.T) {
	parts := calledMesh
	parts.Proxies = []mesh.Proxy{{Levels: record.Cell{dataplane.FactorFilters: dataplane.PartJWT}}}
	plain := calledMesh
	plain.Plain = true
	for name, tt := range map[string]struct {
		objects []string
		asked   mesh.Asked
		err     string
		hint    string
		notes   string // combined; "" for none
		config  string // of the mesh
	}{
		"nothing": {},
		"allow nothing": {objects: []string{denyAll}, err: "with AuthorizationPolicy istio-system/a, sidecars of the whole mesh deny what no policy allows",
			hint: "an AuthorizationPolicy in namespace istio-system with spec: {selector: {matchLabels: {app.kubernetes.io/part-of: meshtrial}}, rules: [{}]}"},
		"allow nothing, where nothing is called":     {objects: []string{denyAll}, asked: mesh.Asked{Sent: true}, notes: "AuthorizationPolicy istio-system/a"},
		"allow nothing, and the study":               {objects: []string{denyAll, ours}, notes: "AuthorizationPolicy istio-system/a, AuthorizationPolicy istio-system/b"},
		"allow others":                               {objects: []string{"AuthorizationPolicy spec: {rules: [{from: [{source: {namespaces: [shop]}}]}]}"}, err: "no policy allows the study's requests"},
		"allow principals of others":                 {objects: []string{"AuthorizationPolicy spec: {rules: [{from: [{source: {principals: [cluster.local/ns/shop/sa/a]}}]}]}"}, err: "no policy allows"},
		"allow accounts of others":                   {objects: []string{"AuthorizationPolicy spec: {rules: [{from: [{source: {serviceAccounts: [shop/a]}}]}]}"}, err: "no policy allows"},
		"allow who has a token":                      {objects: []string{"AuthorizationPolicy spec: {rules: [{from: [{source: {requestPrincipals: ['*']}}]}]}"}, err: "no policy allows"},
		"allow by a claim":                           {objects: []string{"AuthorizationPolicy spec: {rules: [{when: [{key: 'request.auth.claims[a]', values: [b]}]}]}"}, err: "no policy allows"},
		"allow some of the mesh":                     {objects: []string{"AuthorizationPolicy spec: {rules: [{from: [{source: {principals: ['*']}}]}]}"}, notes: "whether they allow the study's is unknown"},
		"allow any namespace":                        {objects: []string{"AuthorizationPolicy spec: {rules: [{from: [{source: {namespaces: ['*']}}]}]}"}, notes: "is unknown"},
		"allow namespaces as ours":                   {objects: []string{"AuthorizationPolicy spec: {rules: [{from: [{source: {namespaces: ['mesh*']}}]}]}"}, notes: "is unknown"},
		"allow a path":                               {objects: []string{"AuthorizationPolicy spec: {rules: [{to: [{operation: {paths: ['/']}}]}]}"}, notes: "is unknown"},
		"deny everything":                            {objects: []string{"AuthorizationPolicy spec: {action: DENY, rules: [{}]}", ours}, err: "AuthorizationPolicy istio-system/a (action DENY) applies to every request", hint: "spec.selector"},
		"deny nothing":                               {objects: []string{"AuthorizationPolicy spec: {action: DENY}"}, notes: "figures: AuthorizationPolicy istio-system/a"},
		"deny a path":                                {objects: []string{"AuthorizationPolicy spec: {action: DENY, rules: [{to: [{operation: {paths: [/admin]}}]}]}"}, notes: "(action DENY) may apply to requests"},
		"deny other namespaces":                      {objects: []string{"AuthorizationPolicy spec: {action: DENY, rules: [{from: [{source: {notNamespaces: [istio-system, shop]}}]}]}"}, err: "(action DENY) applies to every request"},
		"deny other namespaces, perhaps ours":        {objects: []string{"AuthorizationPolicy spec: {action: DENY, rules: [{from: [{source: {notNamespaces: [shop, 'mesh*']}}]}]}"}, notes: "may apply to requests"},
		"deny other principals":                      {objects: []string{"AuthorizationPolicy spec: {action: DENY, rules: [{from: [{source: {notPrincipals: ['cluster.local/ns/shop/*']}}]}]}"}, err: "(action DENY) applies to every request"},
		"deny who has no principal":                  {objects: []string{"AuthorizationPolicy spec: {action: DENY, rules: [{from: [{source: {notPrincipals: ['*']}}]}]}"}, notes: "may apply to requests"},
		"deny other accounts":                        {objects: []string{"AuthorizationPolicy spec: {action: DENY, rules: [{from: [{source: {notServiceAccounts: [shop/a]}}]}]}"}, err: "(action DENY) applies to every request"},
		"deny who has no token":                      {objects: []string{"AuthorizationPolicy spec: {action: DENY, rules: [{from: [{source: {notRequestPrincipals: ['*']}}]}]}"}, err: "(action DENY) applies to every request"},
		"deny who has no token, on a path":           {objects: []string{"AuthorizationPolicy spec: {action: DENY, rules: [{from: [{source: {notRequestPrincipals: ['*']}}], to: [{operation: {paths: [/admin]}}]}]}"}, notes: "may apply to requests"},
		"deny other addresses":                       {objects: []string{"AuthorizationPolicy spec: {action: DENY, rules: [{from: [{source: {notIpBlocks: [10.0.0.0/8]}}]}]}"}, notes: "may apply to requests"},
		"deny a field of no name":                    {objects: []string{"AuthorizationPolicy spec: {action: DENY, rules: [{from: [{source: {not: [a]}}]}]}"}, notes: "may apply to requests"},
		"deny, to be tried":                          {objects: []string{"AuthorizationPolicy metadata: {annotations: {istio.io/dry-run: 'true'}}, spec: {action: DENY, rules: [{}]}"}, notes: "figures"},
		"deny, perhaps tried":                        {objects: []string{"AuthorizationPolicy metadata: {annotations: {istio.io/dry-run: 'yes'}}, spec: {action: DENY, rules: [{}]}"}, err: "applies to every request"},
		"deny at a gateway":                          {objects: []string{"AuthorizationPolicy spec: {action: DENY, rules: [{}], targetRefs: [{kind: Gateway, name: a}]}"}},
		"deny at gateways, of which none is named":   {objects: []string{"AuthorizationPolicy spec: {action: DENY, rules: [{}], targetRefs: []}"}, err: "applies to every request"},
		"deny at pods of theirs":                     {objects: []string{"AuthorizationPolicy spec: {action: DENY, rules: [{}], selector: {matchLabels: {tier: web}}}"}},
		"deny at apps of a name":                     {objects: []string{"AuthorizationPolicy spec: {action: DENY, rules: [{}], selector: {matchLabels: {app: web}}}"}, notes: "istio-system/a (depending on the pods' labels)\nAuthorizationPolicy istio-system/a (action DENY) may apply"},
		"of another revision":                        {objects: []string{"AuthorizationPolicy metadata: {labels: {istio.io/rev: canary}}, spec: {}"}},
		"of this revision":                           {objects: []string{"AuthorizationPolicy metadata: {labels: {istio.io/rev: default}}, spec: {}"}, err: "no policy allows"},
		"their authorizer":                           {objects: []string{"AuthorizationPolicy spec: {action: CUSTOM, provider: {name: opa}, rules: [{}]}"}, err: "ask the external provider opa"},
		"their auditor":                              {objects: []string{"AuthorizationPolicy spec: {action: AUDIT, rules: [{}]}"}, notes: "figures: AuthorizationPolicy istio-system/a"},
		"tokens":                                     {objects: []string{"RequestAuthentication spec: {jwtRules: [{issuer: a}]}"}, notes: "RequestAuthentication istio-system/a"},
		"tokens, where parts vary":                   {objects: []string{"RequestAuthentication spec: {jwtRules: [{issuer: a}]}"}, asked: parts, err: "RequestAuthentication istio-system/a adds a part of its own", hint: "spec.selector"},
		"tokens at pods of theirs, where parts vary": {objects: []string{"RequestAuthentication spec: {selector: {matchLabels: {tier: web}}}"}, asked: parts},
		"a filter":                                   {objects: []string{"EnvoyFilter spec: {configPatches: [{applyTo: HTTP_FILTER, match: {context: SIDECAR_INBOUND}}]}"}, notes: "EnvoyFilter istio-system/a"},
		"a filter of gateways":                       {objects: []string{"EnvoyFilter spec: {configPatches: [{applyTo: HTTP_FILTER, match: {context: GATEWAY}}]}"}},
		"a filter of theirs":                         {objects: []string{"EnvoyFilter spec: {workloadSelector: {labels: {tier: web}}, configPatches: [{applyTo: CLUSTER}]}"}},
		"a module":                                   {objects: []string{"WasmPlugin spec: {url: oci://a}"}, notes: "WasmPlugin istio-system/a"},
		"an extension":                               {objects: []string{"TrafficExtension spec: {lua: {inlineCode: a}}"}, notes: "TrafficExtension istio-system/a"},
		"an extension of gateways":                   {objects: []string{"TrafficExtension spec: {targetRefs: [{kind: Gateway, name: a}]}"}},
		"settings of proxies":                        {objects: []string{"ProxyConfig spec: {concurrency: 1}"}, notes: "ProxyConfig istio-system/a"},
		"imports of one namespace":                   {objects: []string{"Sidecar spec: {egress: [{hosts: [istio-system/*, ./*]}]}"}, notes: "Sidecar istio-system/a"},
		"imports of theirs":                          {objects: []string{"Sidecar spec: {egress: [{hosts: [istio-system/*, shop/*, ./a.shop.svc.cluster.local]}]}"}, err: "egress hosts of Sidecar istio-system/a", hint: "./*"},
		"imports of theirs, where nothing calls":     {objects: []string{"Sidecar spec: {egress: [{hosts: [shop/*]}]}"}, asked: mesh.Asked{Served: true}, notes: "Sidecar"},
		"imports of a workload":                      {objects: []string{"Sidecar spec: {workloadSelector: {labels: {a: b}}, egress: [{hosts: [shop/*]}]}"}},
		"imports of all on another port":             {objects: []string{"Sidecar spec: {egress: [{port: {number: 3306}, hosts: [./*]}, {hosts: [istio-system/*]}]}"}, err: "egress hosts of Sidecar istio-system/a"},
		"imports of all on the study's port":         {objects: []string{"Sidecar spec: {egress: [{port: {number: 8080}, hosts: [./*]}, {hosts: [istio-system/*]}]}"}, notes: "Sidecar istio-system/a"},
		"imports of theirs on the study's port":      {objects: []string{"Sidecar spec: {egress: [{port: {number: 8080}, hosts: [shop/*]}, {hosts: [./*]}]}"}, err: "egress hosts of Sidecar istio-system/a"},
		"imports of theirs on another port":          {objects: []string{"Sidecar spec: {egress: [{port: {number: 3306}, hosts: [shop/*]}, {hosts: [./*]}]}"}, notes: "Sidecar istio-system/a"},
		"mutual TLS by clients":                      {objects: []string{"DestinationRule spec: {host: '*.local', trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}}"}, notes: "DestinationRule istio-system/a"},
		"mutual TLS by clients, some without":        {objects: []string{"DestinationRule spec: {host: '*.local', trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}}"}, asked: plain, err: "DestinationRule istio-system/a sets TLS", hint: "enableAutoMtls"},
		"no TLS":                                     {objects: []string{"DestinationRule spec: {host: '*.svc.cluster.local', trafficPolicy: {tls: {mode: DISABLE}}}"}, err: "sets TLS"},
		"no TLS to a host":                           {objects: []string{"DestinationRule spec: {host: '*.shop.svc.cluster.local', trafficPolicy: {tls: {mode: DISABLE}}}"}},
		"no TLS, shown to itself":                    {objects: []string{"DestinationRule spec: {host: '*', exportTo: ['.'], trafficPolicy: {tls: {mode: DISABLE}}}"}},
		"limits of connections":                      {objects: []string{"DestinationRule spec: {host: '*', trafficPolicy: {connectionPool: {tcp: {maxConnections: 1}}}}"}, notes: "DestinationRule istio-system/a"},
		"no TLS, by the mesh shown to itself":        {objects: []string{"DestinationRule spec: {host: '*.local', trafficPolicy: {tls: {mode: DISABLE}}}"}, config: "defaultDestinationRuleExportTo: ['.']"},
		"no TLS, all the same shown to all":          {objects: []string{"DestinationRule spec: {host: '*.local', exportTo: ['*'], trafficPolicy: {tls: {mode: DISABLE}}}"}, config: "defaultDestinationRuleExportTo: ['.']", err: "sets TLS"},
		"no TLS on the study's port":                 {objects: []string{"DestinationRule spec: {host: '*.local', trafficPolicy: {portLevelSettings: [{port: {number: 8080}, tls: {mode: DISABLE}}]}}"}, err: "sets TLS", hint: "portLevelSettings"},
		"no TLS on another port":                     {objects: []string{"DestinationRule spec: {host: '*.local', trafficPolicy: {portLevelSettings: [{port: {number: 3306}, tls: {mode: DISABLE}}]}}"}, notes: "DestinationRule istio-system/a"},
		"no TLS but on the study's port":             {objects: []string{"DestinationRule spec: {host: '*.local', trafficPolicy: {tls: {mode: DISABLE}, portLevelSettings: [{port: {number: 8080}, connectionPool: {tcp: {maxConnections: 1}}}]}}"}, notes: "DestinationRule istio-system/a"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.asked.Proxies == nil && !tt.asked.Served && !tt.asked.Sent {
				tt.asked = calledMesh
			}
			f, _, _ := rootCluster(t, tt.config, nil, Namespace, tt.objects...)
			err := f.refuseRoot(tt.asked)
			if tells(t, name, err, tt.err, tt.hint); err != nil {
				return
			}
			if notes := strings.Join(f.Beside(tt.asked), "\n"); !strings.Contains(notes, tt.notes) || tt.notes == "" && notes != "" {
				t.Errorf("notes %q", notes)
			}
		})
	}
}

// The root namespace is that of the mesh configuration, read if istiod watches it. Kinds
// that may not be listed, or do not exist, do not prevent a run.
func TestReadRoot(t *testing.T) {
	shop := "discoverySelectors: [{matchLabels: {mesh: shop}}]\n"
	if f, _, _ := rootCluster(t, "rootNamespace: mesh-root\n", nil, "mesh-root", denyAll); len(f.others) != 1 || f.others[0].String() != "AuthorizationPolicy mesh-root/a" {
		t.Errorf("root namespace of another name: %v", f.others)
	}
	if f, _, _ := rootCluster(t, shop, nil, Namespace, denyAll); len(f.others) != 0 {
		t.Errorf("a namespace that istiod does not watch: %v", f.others)
	}
	if f, _, _ := rootCluster(t, shop, map[string]string{"mesh": "shop"}, Namespace, denyAll); len(f.others) != 1 {
		t.Errorf("one that it watches: %v", f.others)
	}

	_, elsewhere, readThere := rootCluster(t, "rootNamespace: mesh-root\n", nil, "mesh-root", denyAll)
	elsewhere.PrependReactor("list", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		hidden := a.GetResource().Resource == "authorizationpolicies" || a.GetResource().Resource == "sidecars"
		return hidden, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), "", nil)
	})
	// The roles of cluster check do not cover that namespace, so the note explains how to
	// create one.
	const grant = "kubectl -n mesh-root create role mesh-wide --verb=list --resource=authorizationpolicies.security.istio.io,sidecars.networking.istio.io, and"
	if f, err := readThere(); err != nil || !strings.Contains(strings.Join(f.Beside(calledMesh), "\n"), grant) {
		t.Errorf("%q, %v", f.Beside(calledMesh), err)
	}

	_, client, read := rootCluster(t, "", nil, Namespace, denyAll, "Sidecar spec: {}", "WasmPlugin spec: {}")
	client.PrependReactor("list", "authorizationpolicies", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "authorizationpolicies"}, "", nil)
	})
	client.PrependReactor("list", "wasmplugins", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "wasmplugins"}, "")
	})
	f, err := read()
	if err != nil || len(f.others) != 1 || f.refuseRoot(calledMesh) != nil {
		t.Fatalf("%v, %v", f.others, err)
	}
	if notes := strings.Join(f.Beside(calledMesh), "\n"); !strings.Contains(notes, "unknown, because this user may not list them: AuthorizationPolicy") || strings.Contains(notes, "WasmPlugin") || strings.Contains(notes, "kubectl") {
		t.Errorf("%q", notes)
	}
	client.PrependReactor("list", "sidecars", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInternalError(context.DeadlineExceeded)
	})
	if _, err := read(); err == nil || !strings.Contains(err.Error(), "list sidecars in namespace istio-system") {
		t.Errorf("%v", err)
	}
}

// What a mesh-wide Telemetry makes sidecars report is switched with the study's own, like
// the settings of the mesh configuration.
func TestReported(t *testing.T) {
	f, _, _ := rootCluster(t, "", nil, Namespace, "Telemetry spec: {metrics: [{overrides: [{disabled: false}]}, {providers: [{name: theirs}]}]}", "Telemetry spec: {tracing: [{providers: [{name: jaeger}]}]}",
		"Telemetry spec: {selector: {matchLabels: {tier: web}}, metrics: [{providers: [{name: not-ours}]}]}")
	if metrics, traces := f.reported(); metrics != "theirs" || !traces {
		t.Errorf("%q, %v", metrics, traces)
	}
	f, _, _ = rootCluster(t, "", nil, Namespace, "Telemetry spec: {accessLogging: [{disabled: true}]}")
	if metrics, traces := f.reported(); metrics != "" || traces {
		t.Errorf("%q, %v", metrics, traces)
	}
}
