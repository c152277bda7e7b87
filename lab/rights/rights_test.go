package rights_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	. "github.com/meshtrial/meshtrial/lab/rights"
	_ "github.com/meshtrial/meshtrial/mesh/meshes" // whose rights are in the table
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/studies"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

// verbs are the verbs that the API server knows; see kubernetes.io/docs, Authorization, Request
// verbs.
var verbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "escalate", "bind"}

// TestTable checks that every line says what, where and why, in the API's terms.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Features() {
		if f.Name == "" || f.Doc == "" || len(f.Rights) == 0 && f.Name != ConfigSteps || seen[f.Name] {
			t.Errorf("feature %q has no name of its own, no words or no rights", f.Name)
		}
		seen[f.Name] = true
		if f.Privileged != "" && f.Without == "" {
			t.Errorf("%s: what is lost without it?", f.Name)
		}
		for _, r := range f.Rights {
			name := f.Name + ": " + r.Name()
			if len(r.Verbs) == 0 || r.Why == "" || r.Where == "" || (r.URL != "") != (r.Where == OfURL) || (r.Resource != "") == (r.Where == OfURL) {
				t.Errorf("%s lacks something: %+v", name, r)
			}
			for _, v := range r.Verbs {
				if !slices.Contains(verbs, v) {
					t.Errorf("%s: no verb is called %q", name, v)
				}
			}
			if strings.HasSuffix(r.Subresource, "forward") && len(r.Verbs) != 2 {
				t.Errorf("%s: newer API servers ask for get and create", name)
			}
		}
	}
	for name := range seen {
		if f, err := Named(name); err != nil || len(f) != 1 || f[0].Name != name {
			t.Errorf("%s by its name: %v, %v", name, f, err)
		}
	}
	if _, err := Named(Reach, "nothing"); err == nil {
		t.Error("a feature that is not there was found")
	}
}

// words formats features' rights as "feature: verb name where".
func words(features []Feature) []string {
	var out []string
	for _, f := range features {
		for _, r := range f.Rights {
			for _, v := range r.Verbs {
				out = append(out, f.Name+": "+v+" "+r.Name()+" "+string(r.Where))
			}
		}
	}
	return out
}

const pods = "name: p\nquestion: q?\n"

const scenario = pods + `
story: One service.
graph: {services: {bar: {replicas: 3, service_time: {mean: 5ms}, response: 1KiB, concurrency: 10, queue: 100}}}
load: {to: bar, clients: 2, timeout: 3s}
settings: {rate: 100, connections: 2}
blocks: {min: 1, max: 1}
timeline:
  duration: 20s
  steps:
`

// TestOf checks that a plan needs exactly what its cells and steps require.
func TestOf(t *testing.T) {
	const (
		observe    = "observe: create daemonsets.apps run's namespace"
		hooks      = "every run: list mutatingwebhookconfigurations.admissionregistration.k8s.io everywhere"
		tls        = "data plane: patch peerauthentications.security.istio.io run's namespace"
		filter     = "data plane: patch envoyfilters.networking.istio.io run's namespace"
		unfilter   = "data plane: delete envoyfilters.networking.istio.io run's namespace"
		policy     = "data plane: create authorizationpolicies.security.istio.io run's namespace"
		jwt        = "data plane: patch requestauthentications.security.istio.io run's namespace"
		bare       = "data plane: patch sidecars.networking.istio.io run's namespace"
		renew      = "data plane: delete pods run's namespace"
		perf       = "profiles: create secrets run's namespace"
		lease      = "journal: update leases.coordination.k8s.io journal's namespace"
		looked     = "levers: get deployments.apps mesh's namespace"
		istiod     = "levers: update deployments.apps mesh's namespace"
		autoscaled = "levers: update horizontalpodautoscalers.autoscaling mesh's namespace"
		meshed     = "levers: update configmaps mesh's namespace"
		sidecar    = "levers: create sidecars.networking.istio.io everywhere"
		nodes      = "population: create nodes everywhere"
		listed     = "data plane: list nodes everywhere"
		entries    = "population: create serviceentries.networking.istio.io everywhere"
		token      = "control plane: create serviceaccounts/token everywhere"
		changeSvc  = "changes: patch services everywhere"
		flap       = "changes: patch pods/status everywhere"
		ownSlice   = "changes: create endpointslices.discovery.k8s.io everywhere"
		real       = "real pods: create deployments.apps everywhere"
		attempts   = "real pods: get pods/log everywhere"
		deleted    = "resilience: deletecollection pods run's namespace"
		scaled     = "resilience: patch deployments.apps run's namespace"
		ended      = "resilience: delete pods run's namespace"
		addresses  = "faults on nodes: get services run's namespace"
		retried    = "resilience: patch virtualservices.networking.istio.io run's namespace"
		outliers   = "resilience: patch destinationrules.networking.istio.io run's namespace"
		onNode     = "faults on nodes: create daemonsets.apps run's namespace"
		plane      = "control plane away: list pods mesh's namespace"
		gone       = "control plane away: update deployments.apps mesh's namespace"
		note       = "config steps: delete ConfigMap run's namespace"
		profile    = "profile: create namespaces everywhere"
		sets       = "data plane: list daemonsets.apps mesh's namespace"
		ztunnel    = "data plane: create pods/portforward mesh's namespace"
		living     = "data plane: get nodes everywhere"
		agent      = "data plane: get daemonsets.apps kube-system"
		agents     = "data plane: list pods kube-system"
		graphAgent = "resilience: list pods kube-system"
		gateway    = "data plane: patch gateways.gateway.networking.k8s.io run's namespace"
		graphSets  = "resilience: list daemonsets.apps mesh's namespace"
		behind     = "resilience: delete gateways.gateway.networking.k8s.io run's namespace"
		ingress    = "data plane: patch gateways.networking.istio.io run's namespace"
		cordoned   = "resilience: update nodes everywhere"
		rolled     = "resilience: update daemonsets.apps mesh's namespace"
		renewed    = "resilience: delete pods mesh's namespace"
		beforeAway = "resilience: list deployments.apps run's namespace"
	)
	every := []string{observe, hooks, tls, filter, unfilter, policy, jwt, bare, renew, perf, lease, looked, istiod, autoscaled, meshed, sidecar, nodes, entries, token, changeSvc, flap,
		ownSlice, real, attempts, deleted, scaled, ended, addresses, retried, outliers, onNode, plane, gone, note, profile, listed, sets, ztunnel, living, agent, agents, graphAgent, gateway, graphSets, behind, rolled, renewed, beforeAway, cordoned, ingress}
	control := pods + "kind: control-plane\nblocks: {min: 1, max: 1}\n"
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"no mesh":       {pods + "mesh: none\nsettings: {sidecars: none}\nfactors: {connections: [1, 2]}", []string{observe, lease}},
		"no sidecar":    {pods + "settings: {sidecars: none}\nfactors: {connections: [1, 2]}", []string{observe, hooks, lease}},
		"sidecars":      {pods + "factors: {sidecars: [none, both]}", []string{observe, hooks, tls, lease}},
		"ambient":       {pods + "factors: {sidecars: [none, ambient]}", []string{observe, hooks, sets, ztunnel, living, agent, agents, lease}},
		"waypoint":      {pods + "factors: {sidecars: [ambient, waypoint]}", []string{observe, hooks, sets, ztunnel, living, agent, agents, gateway, lease}},
		"ambient graph": {strings.NewReplacer("rate: 100,", "rate: 100, sidecars: ambient,", "  steps:\n", "measures: [latency, cpu]\n").Replace(scenario), []string{observe, hooks, lease, deleted, graphSets, graphAgent}},
		"graph behind a waypoint": {strings.NewReplacer("rate: 100,", "rate: 100, sidecars: waypoint,", "  steps:\n", "measures: [latency, cpu]\n").Replace(scenario),
			[]string{observe, hooks, lease, deleted, graphSets, graphAgent, behind}},
		"a gateway":     {pods + "factors: {sidecars: [none, gateway]}", []string{observe, hooks, ingress, lease}},
		"linkerd":       {pods + "mesh: linkerd\nfactors: {sidecars: [none, both]}", []string{observe, hooks, lease}},
		"authorization": {pods + "settings: {sidecars: both}\nfactors: {filters: [none, authz-allow-10]}", []string{observe, hooks, tls, policy, lease}},
		"tokens":        {pods + "settings: {sidecars: both}\nfactors: {filters: [none, jwt+lua]}", []string{observe, hooks, tls, filter, jwt, lease}},
		"intercepted":   {pods + "settings: {sidecars: both}\nfactors: {interception: [redirect, none]}", []string{observe, hooks, tls, bare, lease}},
		"scheduled":     {pods + "settings: {sidecars: none, placement: as-scheduled}\nfactors: {connections: [1, 2]}", []string{observe, hooks, lease}},
		"placed":        {pods + "settings: {sidecars: none, placement: other-node}\nfactors: {connections: [1, 2]}", []string{observe, hooks, lease, listed}},
		"kept":          {pods + "factors: {sidecars: [none, both]}\nblocks: {redeploy: 0}", []string{observe, hooks, tls, lease}},
		"profiles":      {pods + "factors: {sidecars: [none, both]}\nmeasures: [latency, profile]", []string{observe, hooks, tls, perf, lease}},
		"services":      {control + "control: {changes: 1}\nfactors: {change: [service]}", []string{observe, hooks, lease, looked, nodes, token, changeSvc}},
		"plain text":    {control + "control: {changes: 1, security: plaintext}\nfactors: {change: [gateway]}", []string{observe, hooks, lease, looked, nodes}},
		"endpoints": {control + "control: {changes: 1}\nsettings: {service_entries: 5, sidecar_scope: mesh}\nfactors: {change: [endpoints-flap]}",
			[]string{observe, hooks, lease, looked, sidecar, nodes, entries, token, flap}},
		"slices": {control + "control: {changes: 1, endpoints_by: slices}\nfactors: {change: [endpoints-flap]}",
			[]string{observe, hooks, lease, looked, nodes, token, ownSlice}},
		"real pods": {control + "control: {changes: 1}\nsettings: {real_pods: 1}\nfactors: {change: [gateway]}",
			[]string{observe, hooks, lease, looked, nodes, token, real}},
		"replicas": {scenario + "  - {name: gone, at: 2s, remove: {service: bar, replicas: 1}}", []string{observe, hooks, lease, deleted, scaled}},
		"at once":  {scenario + "  - {name: gone, at: 2s, remove: {service: bar, replicas: 1, abrupt: true}}", []string{observe, hooks, lease, deleted, scaled, ended}},
		"packets": {strings.Replace(scenario, "rate: 100,", "rate: 100, retries: 2,", 1) + "  - {name: slow, at: 2s, network: {from: clients, to: bar, delay: 5ms}}",
			[]string{observe, hooks, lease, deleted, retried, onNode, addresses}},
		"istiod paused": {strings.Replace(scenario, "rate: 100,", "rate: 100, outlier_detection: errors=5,", 1) + "  - {name: away, at: 2s, process: {of: istiod, do: pause}}",
			[]string{observe, hooks, lease, deleted, outliers, onNode, plane}},
		"istiod killed": {scenario + "  - {name: away, at: 2s, process: {of: istiod, do: kill}}", []string{observe, hooks, lease, deleted, onNode, plane, gone}},
		"ztunnel killed": {strings.Replace(scenario, "rate: 100,", "rate: 100, sidecars: ambient,", 1) + "  - {name: gone, at: 2s, process: {of: ztunnel, do: kill}}",
			[]string{observe, hooks, lease, deleted, onNode, graphSets, graphAgent, renewed}},
		"ztunnel out of memory": {strings.Replace(scenario, "rate: 100,", "rate: 100, sidecars: ambient,", 1) + "  - {name: gone, at: 2s, process: {of: ztunnel, do: oom}}",
			[]string{observe, hooks, lease, deleted, onNode, graphSets, graphAgent, renewed}},
		"ztunnel restarted": {strings.Replace(scenario, "rate: 100,", "rate: 100, sidecars: ambient,", 1) + "  - {name: gone, at: 2s, restart: {of: ztunnel}}",
			[]string{observe, hooks, lease, deleted, scaled, graphSets, graphAgent, rolled}},
		"node drained": {scenario + "  - {name: gone, at: 2s, for: 5s, drain: {service: bar}}", []string{observe, hooks, lease, deleted, ended, cordoned}},
		"waypoint away": {strings.Replace(scenario, "rate: 100,", "rate: 100, sidecars: waypoint,", 1) + "  - {name: gone, at: 2s, for: 2s, process: {of: waypoint, do: kill}}",
			[]string{observe, hooks, lease, deleted, scaled, ended, onNode, graphSets, graphAgent, behind, beforeAway}},
		"debounce": {strings.Replace(scenario, "rate: 100,", "rate: 100, debounce_after: 1s,", 1) + "  - {name: sale, at: 14s, for: 2s, load: {rate: 200}}", []string{observe, hooks, lease, looked, istiod, deleted, scaled}},
		"objects":  {scenario + "  - {name: harm, at: 2s, config: {delete: [{apiVersion: v1, kind: ConfigMap, name: x}]}}", []string{observe, hooks, lease, deleted, note}},
		"replicas of istiod": {control + "control: {changes: 1}\nsettings: {istiod_replicas: 2}\nfactors: {change: [service]}",
			[]string{observe, hooks, lease, looked, istiod, autoscaled, nodes, token, changeSvc}},
		"mesh configuration": {control + "control: {changes: 1}\nsettings: {export_to: .}\nfactors: {change: [service]}",
			[]string{observe, hooks, lease, looked, meshed, nodes, token, changeSvc}},
		"left as installed": {control + "control: {changes: 1}\nsettings: {istiod_replicas: installed}\nfactors: {change: [service], export_to: [installed, .]}",
			[]string{observe, hooks, lease, looked, meshed, nodes, token, changeSvc}},
	} {
		t.Run(name, func(t *testing.T) {
			got := words(Of(studytest.Plan(t, c.text)))
			if name != "kept" && strings.Contains(strings.Join(got, "\n"), "data plane: ") {
				c.want = append(c.want, renew) // by default
			}
			for _, line := range every {
				if has, want := slices.Contains(got, line), slices.Contains(c.want, line); has != want {
					t.Errorf("%s: needed %v, want %v", line, has, want)
				}
			}
		})
	}
}

// TestOfKubelets checks that a run with kubelets needs no privileged pod.
func TestOfKubelets(t *testing.T) {
	plan := studytest.Plan(t, pods+"factors: {sidecars: [none, both]}\nblocks: {redeploy: 0}")
	got := words(OfKubelets(plan))
	want := slices.DeleteFunc(words(Of(plan)), func(line string) bool { return strings.HasPrefix(line, "observe: ") })
	want = append(want, "kubelets: get nodes/proxy everywhere")
	if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("%q", got)
	}
	for _, f := range OfKubelets(plan) {
		if f.Privileged != "" {
			t.Errorf("%s: %s", f.Name, f.Privileged)
		}
	}
	if slices.ContainsFunc(Of(plan), func(f Feature) bool { return f.Name == Kubelets }) {
		t.Error("a run with observers asks for the kubelets as well")
	}
}

// TestFor checks that a pull Secret is copied into the run's namespace, and to real pods only
// if there are any.
func TestFor(t *testing.T) {
	const everywhere = "pull secret: create secrets everywhere"
	for settings, want := range map[string]bool{"service_entries: 1": false, "real_pods: 1": true} {
		got := words(For(studytest.Plan(t, pods+"kind: control-plane\nblocks: {min: 1, max: 1}\ncontrol: {changes: 1}\nsettings: {"+settings+"}\nfactors: {change: [gateway]}"), PullSecret))
		if !slices.Contains(got, "pull secret: get secrets namespace named") || !slices.Contains(got, "pull secret: create secrets run's namespace") || slices.Contains(got, everywhere) != want {
			t.Errorf("%s: %q", settings, got)
		}
	}
}

// TestShippedStudiesNeedWhatTheTableHas does not cover the studies' own objects.
func TestShippedStudiesNeedWhatTheTableHas(t *testing.T) {
	table := words(Features())
	for _, name := range studies.Names() {
		text, err := studies.Read(name)
		must.OK(t, err)
		s, err := study.Parse(text, name, nil)
		must.OK(t, err)
		plan, err := study.NewPlan(s, 1)
		must.OK(t, err)
		got := Of(plan)
		if len(got) < 4 {
			t.Errorf("%s needs %d features", name, len(got))
		}
		for _, f := range got {
			f.Rights = slices.DeleteFunc(f.Rights, func(r Right) bool { return r.Kind != "" })
			for _, line := range words([]Feature{f}) {
				if !slices.Contains(table, line) {
					t.Errorf("%s: %s is not in the table", name, line)
				}
			}
		}
	}
}

// TestSteps checks that rights for objects named in steps are requested in their namespaces.
func TestSteps(t *testing.T) {
	plan := studytest.Plan(t, scenario+`
  - name: harm
    at: 2s
    config:
      apply: |
        apiVersion: networking.istio.io/v1
        kind: VirtualService
        metadata: {name: a}
        spec: {}
        ---
        apiVersion: networking.istio.io/v1
        kind: VirtualService
        metadata: {name: b, namespace: shop}
        spec: {}
      delete:
      - {apiVersion: v1, kind: ConfigMap, namespace: shop, name: c}
  - {name: again, at: 4s, config: {delete: [{apiVersion: v1, kind: ConfigMap, namespace: shop, name: d}]}}
`)
	var got []string
	for _, f := range Place(Of(plan), Places{Journal: "meshtrial-journal", Run: "run", Meshes: map[string]string{study.MeshIstio: "istio-system"}}) {
		for _, r := range f.Rights {
			if r.Kind != "" {
				got = append(got, strings.Join(r.Verbs, " ")+" "+r.Name()+" "+r.Version+" in "+r.Namespace)
			}
		}
	}
	const all = "get create update patch delete "
	if want := []string{all + "VirtualService.networking.istio.io v1 in run", all + "VirtualService.networking.istio.io v1 in shop", all + "ConfigMap v1 in shop"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if _, err := Manifests(Of(plan), Subject{Kind: "User", Name: "u"}); err == nil {
		t.Error("manifests were written for objects whose resource is not known")
	}
}

// TestPlace checks that a right in a mesh's namespace is requested once for each mesh that
// needs it.
func TestPlace(t *testing.T) {
	named, err := Named(EveryRun)
	must.OK(t, err)
	found := map[string][]string{}
	for _, f := range Place(named, Places{Journal: "meshtrial-journal", Run: "meshtrial-x", Meshes: map[string]string{study.MeshIstio: "istio-system", study.MeshLinkerd: "linkerd"}}) {
		for _, r := range f.Rights {
			key := strings.Join(r.Verbs, " ") + " " + r.Name()
			found[key] = append(found[key], r.Namespace)
		}
	}
	for key, want := range map[string][]string{
		"list deployments.apps":       {"istio-system", "linkerd"},
		"get configmaps":              {"meshtrial-x", "istio-system"},
		"list namespaces":             {""},
		"get create pods/portforward": {"meshtrial-x"},
	} {
		if !slices.Equal(found[key], want) {
			t.Errorf("%s in %q, want %q", key, found[key], want)
		}
	}
	for _, f := range Place(named, Places{Journal: "meshtrial-journal", Run: "meshtrial-x"}) {
		for _, r := range f.Rights {
			if r.Where == InMesh {
				t.Errorf("without a mesh: %+v", r)
			}
		}
	}
}

// The rights of an ambient mesh in Kubernetes' own namespace are requested there, and are
// optional.
func TestSystemNamespace(t *testing.T) {
	n := 0
	for _, f := range Place(Of(studytest.Plan(t, pods+"factors: {sidecars: [none, ambient]}")), Places{Meshes: map[string]string{study.MeshIstio: "istio-system"}}) {
		for _, r := range f.Rights {
			if r.Where == InSystem {
				if n++; r.Namespace != "kube-system" || !r.Optional() {
					t.Errorf("%s: %s in %q, optional %v", f.Name, r.Name(), r.Namespace, r.Optional())
				}
			}
		}
	}
	if n != 2 {
		t.Errorf("%d rights in kube-system, want 2", n)
	}
}

// TestJoin checks that rights of several plans are requested once.
func TestJoin(t *testing.T) {
	one, two := studytest.Plan(t, pods+"factors: {sidecars: [none, both]}"), studytest.Plan(t, pods+"settings: {sidecars: both}\nfactors: {filters: [none, lua]}")
	joined := words(Join(Of(one), Of(two)))
	if sorted := slices.Sorted(slices.Values(joined)); len(slices.Compact(sorted)) != len(joined) {
		t.Errorf("twice: %q", joined)
	}
	for _, line := range slices.Concat(words(Of(one)), words(Of(two))) {
		if !slices.Contains(joined, line) {
			t.Errorf("%s is lost", line)
		}
	}
}

// TestManifests checks that, whatever the features, roles grant their rights where they must
// hold, and nothing else.
func TestManifests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var some []Feature
		for _, f := range Features() {
			if rapid.Bool().Draw(t, f.Name) {
				some = append(some, f)
			}
		}
		placed := Place(some, Places{Journal: "meshtrial-journal", Run: "meshtrial-x", Meshes: map[string]string{study.MeshIstio: "istio-system"}, Named: "shop"})
		want := map[string]bool{}
		for _, f := range placed {
			for _, r := range f.Rights {
				place := r.Namespace
				if r.Where == InRun {
					place = ""
				}
				name, group := r.Resource, r.Group
				if r.Subresource != "" {
					name += "/" + r.Subresource
				}
				if r.Where == OfURL {
					name, group = r.URL, "path"
				}
				for _, v := range r.Verbs {
					want[strings.Join([]string{place, group, name, v}, " ")] = true
				}
			}
		}
		text, err := Manifests(placed, Subject{Kind: "ServiceAccount", Namespace: "ci", Name: "runner"})
		must.OK(t, err)
		got, roles, bound := map[string]bool{}, map[string]bool{}, map[string]bool{}
		for _, document := range strings.Split(string(text), "---\n") {
			var o struct {
				Kind     string
				Metadata struct{ Name, Namespace string }
				RoleRef  struct{ Kind, Name string }
				Subjects []struct{ Kind, Name, Namespace, APIGroup string }
				Rules    []struct{ APIGroups, Resources, NonResourceURLs, Verbs []string }
			}
			if err := yaml.Unmarshal([]byte(document), &o); err != nil {
				t.Fatalf("%v\n%s", err, document)
			}
			switch o.Kind {
			case "Role", "ClusterRole":
				roles[o.Kind+" "+o.Metadata.Namespace] = true
			case "RoleBinding", "ClusterRoleBinding":
				bound[o.RoleRef.Kind+" "+o.Metadata.Namespace] = true
				if s := o.Subjects; len(s) != 1 || s[0].Kind != "ServiceAccount" || s[0].Name != "runner" || s[0].Namespace != "ci" || s[0].APIGroup != "" {
					t.Errorf("subjects %+v", s)
				}
			}
			for _, r := range o.Rules {
				if len(r.NonResourceURLs) > 0 {
					r.APIGroups, r.Resources = []string{"path"}, r.NonResourceURLs
				}
				for _, group := range r.APIGroups {
					for _, name := range r.Resources {
						for _, v := range r.Verbs {
							got[strings.Join([]string{o.Metadata.Namespace, group, name, v}, " ")] = true
						}
					}
				}
			}
		}
		for line := range want {
			if !got[line] {
				t.Errorf("not granted: %s", line)
			}
		}
		for line := range got {
			if !want[line] {
				t.Errorf("granted, but not needed: %s", line)
			}
		}
		for role := range roles {
			if !bound[role] {
				t.Errorf("nobody has %s", role)
			}
		}
		if len(bound) != len(roles) {
			t.Errorf("roles %v, bindings %v", roles, bound)
		}
	})
}
