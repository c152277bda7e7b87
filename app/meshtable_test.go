package app

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	admission "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/rest"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/kinds"
	"github.com/meshtrial/meshtrial/kinds/resilience/trial"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/rights"
	"github.com/meshtrial/meshtrial/mesh/istio"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/studies"
	"github.com/meshtrial/meshtrial/testing/golden"
	"github.com/meshtrial/meshtrial/testing/must"
	"sigs.k8s.io/yaml"
)

// theirs is an Istio as its users may have installed it.
type theirs struct {
	name      string
	revisions []string // of istiods; "" for the default one
	asked     string   // --revision
	config    string   // MeshConfig in addition to the access log providers
	bare      bool     // without the access log providers
	down      bool     // no istiod is ready
	plain     bool     // the cluster has no Gateway API
	hooks     string   // "none", or "labelled" for a webhook that requires a label on namespaces
	labels    map[string]string
	// root lists their objects in istio-system, each a kind and its spec.
	root []string
}

var selectors = "discoverySelectors: [{matchLabels: {mesh: shop}}]\n"

// meshesOfOthers are the rows of the table.
var meshesOfOthers = []theirs{
	{name: "as `meshtrial lab up --gateway-api` installs it", revisions: []string{""}},
	{name: "without the Gateway API, as `meshtrial lab up` installs it", revisions: []string{""}, plain: true},
	{name: "without access log providers of ours", revisions: []string{""}, bare: true},
	{name: "one revision, `canary`", revisions: []string{"canary"}},
	{name: "revisions `canary` and `stable`, with `--revision canary`", revisions: []string{"canary", "stable"}, asked: "canary"},
	{name: "revisions `canary` and `stable`, none named", revisions: []string{"canary", "stable"}},
	{name: "`REGISTRY_ONLY`", revisions: []string{""}, config: "outboundTrafficPolicy: {mode: REGISTRY_ONLY}\n"},
	{name: "`discoverySelectors` that select `istio-system` too", revisions: []string{""}, config: selectors, labels: map[string]string{"mesh": "shop"}},
	{name: "`discoverySelectors` that leave `istio-system` out", revisions: []string{""}, config: selectors},
	{name: "`discoverySelectors` by names of namespaces", revisions: []string{""}, config: "discoverySelectors: [{matchLabels: {kubernetes.io/metadata.name: shop}}]\n"},
	{name: "`defaultProviders` for tracing and access logs, `accessLogFile`", revisions: []string{""},
		config: "accessLogFile: /dev/stdout\ndefaultProviders: {tracing: [jaeger], accessLogging: [als], metrics: [prometheus]}\n"},
	{name: "a mesh-wide `Sidecar` of theirs", revisions: []string{""}, root: []string{"Sidecar {}"}},
	{name: "a mesh-wide `Sidecar` that imports their namespaces alone", revisions: []string{""}, root: []string{"Sidecar {egress: [{hosts: [istio-system/*, shop/*]}]}"}},
	{name: "a mesh-wide `AuthorizationPolicy` that allows nothing", revisions: []string{""}, root: []string{"AuthorizationPolicy {}"}},
	{name: "mesh-wide `AuthorizationPolicy` objects: one that allows nothing, one that allows the study", revisions: []string{""}, root: []string{"AuthorizationPolicy {}", "AuthorizationPolicy {selector: {matchLabels: {app.kubernetes.io/part-of: meshtrial}}, rules: [{}]}"}},
	{name: "a mesh-wide `AuthorizationPolicy` that denies everything", revisions: []string{""}, root: []string{"AuthorizationPolicy {action: DENY, rules: [{}]}"}},
	{name: "a mesh-wide `AuthorizationPolicy` that denies paths", revisions: []string{""}, root: []string{"AuthorizationPolicy {action: DENY, rules: [{to: [{operation: {paths: [/admin]}}]}]}"}},
	{name: "a mesh-wide `PeerAuthentication` of theirs, `STRICT`", revisions: []string{""}, root: []string{"PeerAuthentication {mtls: {mode: STRICT}}"}},
	{name: "a mesh-wide `RequestAuthentication` of theirs", revisions: []string{""}, root: []string{"RequestAuthentication {jwtRules: [{issuer: theirs}]}"}},
	{name: "a `DestinationRule` of theirs for `*.local`, `ISTIO_MUTUAL`", revisions: []string{""}, root: []string{"DestinationRule {host: '*.local', trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}}"}},
	{name: "a mesh-wide `EnvoyFilter`, `Telemetry`, `WasmPlugin`, `TrafficExtension` and `ProxyConfig` of theirs", revisions: []string{""},
		root: []string{"EnvoyFilter {configPatches: [{applyTo: HTTP_FILTER}]}", "Telemetry {tracing: [{randomSamplingPercentage: 1}]}", "WasmPlugin {url: 'oci://theirs'}", "TrafficExtension {lua: {inlineCode: theirs}}", "ProxyConfig {concurrency: 1}"}},
	{name: "no injection webhook", revisions: []string{""}, hooks: "none"},
	{name: "a webhook for labelled namespaces alone", revisions: []string{""}, hooks: "labelled"},
	{name: "istiod is not ready", revisions: []string{""}, down: true},
	{name: "no Istio in `istio-system`"},
}

// objects returns the objects of the mesh that a run reads.
func (m theirs) objects(t *testing.T) []runtime.Object {
	t.Helper()
	out := []runtime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: istio.Namespace, Labels: m.labels}}}
	config := m.config
	if !m.bare {
		config += "extensionProviders: ["
		for _, s := range istio.ManifestSettings() {
			if key, name, _ := strings.Cut(s, "="); strings.HasSuffix(key, "].name") {
				config += "{name: " + name + "}, "
			}
		}
		config += "]\n"
	}
	for _, revision := range m.revisions {
		suffix, label := "", "default"
		if revision != "" {
			suffix, label = "-"+revision, revision
		}
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: istio.Namespace, Name: "istiod" + suffix, Labels: map[string]string{"app": "istiod", "istio.io/rev": label}}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "discovery", Image: "hub/pilot:1.31.0"}}
		if !m.down {
			d.Status.AvailableReplicas = 1
		}
		out = append(out, d, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: istio.Namespace, Name: "istio" + suffix}, Data: map[string]string{"mesh": config}})
		if m.hooks != "none" {
			out = append(out, m.hook(label))
		}
	}
	return out
}

// hook returns the injector webhook of a revision, as the chart creates it.
func (m theirs) hook(revision string) *admission.MutatingWebhookConfiguration {
	is := func(key string, operator metav1.LabelSelectorOperator, values ...string) metav1.LabelSelectorRequirement {
		return metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: values}
	}
	selector := func(all ...metav1.LabelSelectorRequirement) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: all}
	}
	const inject, rev, injection = "sidecar.istio.io/inject", "istio.io/rev", "istio-injection"
	byNamespace, byPod := selector(is(rev, metav1.LabelSelectorOpIn, revision)), selector(is(inject, metav1.LabelSelectorOpNotIn, "false"), is(rev, metav1.LabelSelectorOpIn, revision))
	if revision == "default" {
		byNamespace, byPod = selector(is(injection, metav1.LabelSelectorOpIn, "enabled")), selector(is(inject, metav1.LabelSelectorOpIn, "true"), is(rev, metav1.LabelSelectorOpDoesNotExist))
	}
	out := &admission.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "istio-sidecar-injector-" + revision, Labels: map[string]string{"app": "sidecar-injector", rev: revision}},
		Webhooks: []admission.MutatingWebhook{{Name: "namespace.sidecar-injector.istio.io", NamespaceSelector: byNamespace, ObjectSelector: selector(is(inject, metav1.LabelSelectorOpNotIn, "false"))}}}
	if m.hooks != "labelled" {
		out.Webhooks = append(out.Webhooks, admission.MutatingWebhook{Name: "object.sidecar-injector.istio.io", ObjectSelector: byPod,
			NamespaceSelector: selector(is(injection, metav1.LabelSelectorOpDoesNotExist), is(rev, metav1.LabelSelectorOpDoesNotExist))})
	}
	return out
}

// rootVersions maps the kinds with mesh-wide effect to their API versions.
var rootVersions = map[string]string{"Sidecar": "networking.istio.io/v1", "AuthorizationPolicy": "security.istio.io/v1", "PeerAuthentication": "security.istio.io/v1",
	"RequestAuthentication": "security.istio.io/v1", "DestinationRule": "networking.istio.io/v1", "EnvoyFilter": "networking.istio.io/v1alpha3",
	"Telemetry": "telemetry.istio.io/v1", "WasmPlugin": "extensions.istio.io/v1alpha1", "TrafficExtension": "extensions.istio.io/v1alpha1", "ProxyConfig": "networking.istio.io/v1beta1"}

// rootClient returns a client of a cluster with the mesh-wide objects.
func rootClient(t *testing.T, wide ...runtime.Object) dynamic.Interface {
	t.Helper()
	lists := map[schema.GroupVersionResource]string{}
	for kind, version := range rootVersions {
		gv, err := schema.ParseGroupVersion(version)
		must.OK(t, err)
		plural, _ := meta.UnsafeGuessKindToResource(gv.WithKind(kind))
		lists[plural] = kind + "List"
	}
	return dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, wide...)
}

// answers returns, for each shipped study, the error that a run of it would report on the mesh
// before it begins, or "" if it runs.
func (m theirs) answers(t *testing.T, plans map[string]*study.Plan) map[string]string {
	t.Helper()
	var wide []runtime.Object
	for i, text := range m.root {
		kind, spec, _ := strings.Cut(text, " ")
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": rootVersions[kind], "kind": kind, "metadata": map[string]any{"namespace": istio.Namespace, "name": "theirs" + strings.Repeat("-too", i)}}}
		var of map[string]any
		must.OK(t, yaml.Unmarshal([]byte(spec), &of))
		o.Object["spec"] = of
		wide = append(wide, o)
	}
	kube := fakecluster.New(m.objects(t)...)
	if !m.plain {
		kube.Resources = append(kube.Resources, &metav1.APIResourceList{GroupVersion: "gateway.networking.k8s.io/v1", APIResources: []metav1.APIResource{{Name: "httproutes", Kind: "HTTPRoute"}}})
	}
	objects := rootClient(t, wide...)
	out := map[string]string{}
	for name, plan := range plans {
		out[name] = ""
		if !slices.Contains(rights.Meshes(plan), study.MeshIstio) {
			continue
		}
		if err := fitsIstio(t, &istio.Mesh{}, kube, objects, m.asked, plan); err != nil {
			out[name] = strings.TrimPrefix(err.Error(), "istio: ")
		}
	}
	return out
}

// fitsIstio makes an adapter use the Istio of a revision, and fails if that Istio cannot run the
// plan.
func fitsIstio(t *testing.T, m *istio.Mesh, kube kubernetes.Interface, objects dynamic.Interface, revision string, plan *study.Plan) error {
	t.Helper()
	asked, err := kinds.Asks(plan, study.MeshIstio)
	if err == nil {
		_, _, err = m.Choose(t.Context(), kube, objects, revision, asked)
	}
	return err
}

// row returns the table's row for the mesh: which studies run, and why others do not.
func (m theirs) row(t *testing.T, plans map[string]*study.Plan) string {
	answers := m.answers(t, plans)
	byReason := map[string][]string{}
	for name, why := range answers {
		byReason[why] = append(byReason[why], name)
	}
	list := func(names []string) string {
		slices.Sort(names)
		switch {
		case len(names) == len(plans):
			return "all"
		case len(names) == 0:
			return "none"
		case len(names) > len(plans)/2:
			return "all others"
		}
		return strings.Join(names, ", ")
	}
	var refused []string
	for why, names := range byReason {
		if why != "" {
			refused = append(refused, fmt.Sprintf("%s: %s", list(names), strings.ReplaceAll(why, "|", "\\|")))
		}
	}
	slices.Sort(refused)
	return fmt.Sprintf("| %s | %s |", list(byReason[""]), strings.Join(refused, "; "))
}

// shippedPlans returns the plans of all shipped studies.
func shippedPlans(t *testing.T) map[string]*study.Plan {
	t.Helper()
	plans := map[string]*study.Plan{}
	for _, name := range studies.Names() {
		data, err := studies.Read(name)
		must.OK(t, err)
		s, err := study.Parse(data, name, nil)
		must.OK(t, err)
		plans[name], err = study.NewPlan(s, 1)
		must.OK(t, err)
	}
	return plans
}

// Every shipped study runs on the Istio of a lab, which a run starts with the Gateway API if the
// mesh supports it. The exceptions are studies that need an ambient mesh, and they say so.
func TestShippedStudiesFitTheLab(t *testing.T) {
	plans := shippedPlans(t)
	for name, why := range meshesOfOthers[0].answers(t, plans) {
		ambient := slices.ContainsFunc(plans[name].Cells, study.Ambient)
		if ambient != strings.HasPrefix(why, "no ambient mesh in namespace") || why != "" && !ambient {
			t.Errorf("%s: %s", name, why)
		}
	}
}

// TestMeshesOfOthers checks the answers that runs of shipped studies get against a golden table.
// Meshes with equal answers share a row. The table omits studies of an ambient mesh, because none
// of its meshes has one.
func TestMeshesOfOthers(t *testing.T) {
	plans := shippedPlans(t)
	maps.DeleteFunc(plans, func(_ string, p *study.Plan) bool { return slices.ContainsFunc(p.Cells, study.Ambient) })
	var order []string
	names := map[string][]string{}
	for _, m := range meshesOfOthers {
		row := m.row(t, plans)
		if names[row] == nil {
			order = append(order, row)
		}
		names[row] = append(names[row], m.name)
	}
	var table []string
	for _, row := range order {
		table = append(table, "| "+strings.Join(names[row], "; ")+" "+row)
	}
	golden.File(t, "testdata/meshes.md", []byte("| Istio | runs | refused, and what is said |\n|---|---|---|\n"+strings.Join(table, "\n")+"\n"))
}

// usersMesh returns the API of a cluster whose Istio others use: two replicas of istiod without
// limits, as its chart starts them.
func usersMesh(t *testing.T) *rest.Config {
	t.Helper()
	answers := map[string]any{"/apis/autoscaling/v2/namespaces/istio-system/horizontalpodautoscalers": map[string]any{}}
	for version, plural := range map[string]string{"v1": "virtualservices VirtualService", "v1alpha3": "envoyfilters EnvoyFilter"} {
		name, kind, _ := strings.Cut(plural, " ")
		answers["/apis/networking.istio.io/"+version] = metav1.APIResourceList{GroupVersion: "networking.istio.io/" + version, APIResources: []metav1.APIResource{{Name: name, Kind: kind, Namespaced: true}}}
	}
	for _, o := range meshesOfOthers[0].objects(t) {
		switch o := o.(type) {
		case *appsv1.Deployment:
			two := int32(2)
			o.Spec.Replicas, o.Spec.Template.Spec.Containers[0].Args = &two, []string{"discovery", "--keepaliveMaxServerConnectionAge", "30m"}
			at := "/apis/apps/v1/namespaces/istio-system/deployments"
			answers[at], answers[at+"/"+o.Name] = appsv1.DeploymentList{Items: []appsv1.Deployment{*o}}, o
		case *corev1.ConfigMap:
			answers["/api/v1/namespaces/istio-system/configmaps/"+o.Name] = o
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, there := answers[r.URL.Path]
		if r.Method != http.MethodGet || !there {
			t.Errorf("the plan of changes asks for %s %s", r.Method, r.URL.Path)
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

// clusterAt is a user's cluster for which plans are made.
type clusterAt struct {
	lab.Lab
	config *rest.Config
}

func (c clusterAt) RESTConfig() *rest.Config { return c.config }

// felt returns what others notice of a study's changes, without its simulated population, and what
// affects their proxies.
func felt(changes []journal.Planned) (outside, wide string) {
	var done, by []string
	for _, p := range changes {
		switch i := slices.IndexFunc(done, func(text string) bool { return strings.HasPrefix(text, p.Object+": ") }); {
		case p.Done == journal.Made && (strings.Contains(p.Object, "mm-") || p.Object == "simulated Nodes"):
		case i < 0:
			done = append(done, p.Object+": "+string(p.Done))
		case !strings.Contains(done[i]+",", " "+string(p.Done)+","):
			done[i] += ", " + string(p.Done)
		}
		for _, text := range p.Wide {
			what := "`" + strings.Fields(text)[0] + "`"
			if what == "`step`" {
				what = "its steps"
			}
			if !slices.Contains(by, what) {
				by = append(by, what)
			}
		}
	}
	return strings.Join(done, "; "), strings.Join(by, ", ")
}

// docs/cluster.md lists the changes of shipped studies to what belongs to others. They are
// the same changes for which its run asks for consent.
func TestChangesOfShippedStudies(t *testing.T) {
	config, plans := usersMesh(t), shippedPlans(t)
	studiesOf := map[[2]string][]string{}
	for name, plan := range plans {
		o := runner.Options{Study: plan.Study, Lab: clusterAt{config: config}}
		if plan.Study.Kind == study.ControlPlane || trial.SetsControl(plan) {
			plane, err := istio.NewControlPlane(t.Context(), config, "", nil)
			must.OK(t, err)
			o.Control = plane
		}
		changes, err := kinds.Of(plan.Study).Trial.Changes(t.Context(), &o, plan)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		outside, wide := felt(changes)
		if outside != "" {
			studiesOf[[2]string{outside, wide}] = append(studiesOf[[2]string{outside, wide}], name)
		}
	}
	var rows []string
	for changed, names := range studiesOf {
		slices.Sort(names)
		rows = append(rows, fmt.Sprintf("| %s | %s | %s |", strings.Join(names, ", "), changed[0], changed[1]))
	}
	slices.Sort(rows)
	golden.Section(t, "../docs/cluster.md", "| study | outside its own namespace | mesh-wide |\n|---|---|---|\n", "\n\n", strings.Join(rows, "\n"))
}
