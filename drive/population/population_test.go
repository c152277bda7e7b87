package population

import (
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
)

func drawSizes(t *rapid.T) Sizes {
	n := func(name string, most int) int { return rapid.IntRange(0, most).Draw(t, name) }
	return Sizes{Namespaces: 1 + n("namespaces", 5), Services: n("services", 30), EndpointsPerService: n("endpoints", 4), Proxies: n("proxies", 100),
		Gateways: n("gateways", 3), Ztunnels: n("ztunnels", 3), ServiceEntries: n("entries", 5), VirtualServices: n("virtual", 5), DestinationRules: n("rules", 40),
		GatewayResources: n("gateway resources", 5), AuthorizationPolicies: n("policies", 5), EndpointSlices: n("slices", 5), SliceNamespaces: n("slice namespaces", 3)}
}

func TestObjects(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSizes(t)
		objects, err := s.Objects(nil)
		must.OK(t, err)
		count, pods, seen := map[string]int{}, 0, map[string]bool{}
		namespaces := map[string]bool{}
		for _, o := range objects {
			if seen[Key(o)] {
				t.Fatalf("%s is there twice", Key(o))
			}
			seen[Key(o)] = true
			count[o.GetKind()]++
			if o.GetLabels()[Label] != LabelValue || o.GetLabels()[PartOf] != "meshtrial" || o.GetAnnotations()[specAnnotation] == "" {
				t.Fatalf("%s is not marked: %v %v", Key(o), o.GetLabels(), o.GetAnnotations())
			}
			r, err := ResourceOf(o)
			must.OK(t, err)
			switch {
			case o.GetKind() == "Namespace":
				namespaces[o.GetName()] = true
			case r.Namespaced && !namespaces[o.GetNamespace()]:
				t.Fatalf("%s comes before its namespace", Key(o))
			case r.Namespaced != (o.GetNamespace() != ""):
				t.Fatalf("%s: namespaced is %v", Key(o), r.Namespaced)
			}
			if o.GetKind() == "Deployment" {
				replicas, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
				pods += int(replicas)
				selector, _, _ := unstructured.NestedStringMap(o.Object, "spec", "selector", "matchLabels")
				labels, _, _ := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels")
				if selector[AppLabel] != labels[AppLabel] || labels["sidecar.istio.io/inject"] != "false" || labels["security.istio.io/tlsMode"] != "istio" {
					t.Fatalf("%s selects %v, its pods have %v", Key(o), selector, labels)
				}
			}
		}
		if want := max(s.Services*s.EndpointsPerService, s.Proxies) + s.Gateways + s.Ztunnels; pods != want {
			t.Fatalf("%d pods, want %d", pods, want)
		}
		gatewayServices := min(s.Gateways, 1)
		want := map[string]int{"Service": s.Services + gatewayServices + s.EndpointSlices, "EndpointSlice": s.EndpointSlices, "ServiceEntry": s.ServiceEntries, "VirtualService": s.VirtualServices,
			"DestinationRule": s.DestinationRules, "Gateway": s.GatewayResources, "AuthorizationPolicy": s.AuthorizationPolicies, "Namespace": s.Namespaces + gatewayServices + min(s.Ztunnels, 1) + min(s.EndpointSlices, max(s.SliceNamespaces, 1))}
		for kind, n := range want {
			if count[kind] != n {
				t.Fatalf("%d of kind %s, want %d", count[kind], kind, n)
			}
		}
		if count["Node"]*podsPerNode < pods || pods > 0 && count["Node"] == 0 {
			t.Fatalf("%d pods on %d nodes", pods, count["Node"])
		}
		again, err := s.Objects(nil)
		if err != nil || !reflect.DeepEqual(objects, again) {
			t.Fatalf("the same sizes gave other objects: %v", err)
		}
	})
}

// cluster returns the pods that a cluster would create for the Deployments.
func cluster(t rapid.TB, s Sizes) []corev1.Pod {
	objects, err := s.Objects(nil)
	must.OK(t, err)
	var pods []corev1.Pod
	for _, o := range objects {
		if o.GetKind() != "Deployment" {
			continue
		}
		text, err := json.Marshal(o.Object["spec"].(map[string]any)["template"])
		must.OK(t, err)
		replicas, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
		for i := range replicas {
			var pod corev1.Pod
			must.OK(t, json.Unmarshal(text, &pod))
			pod.Name, pod.Namespace = fmt.Sprintf("%s-%d", o.GetName(), i), o.GetNamespace()
			pod.Spec.NodeName = "mm-node-0"
			pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: fmt.Sprintf("240.0.%d.%d", len(pods)/256, len(pods)%256),
				Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
			pods = append(pods, pod)
		}
	}
	return pods
}

func TestIdentities(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSizes(t)
		pods := cluster(t, s)
		byIP := map[string]corev1.Pod{}
		for _, pod := range pods {
			byIP[pod.Status.PodIP] = pod
		}
		pods = append(pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "real", Namespace: Namespace(0), Labels: map[string]string{AppLabel: "svc-0"}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1"}})
		for i := len(pods) - 1; i > 0; i-- { // in any order
			j := rapid.IntRange(0, i).Draw(t, "shuffle")
			pods[i], pods[j] = pods[j], pods[i]
		}
		ids, err := s.Identities(pods)
		must.OK(t, err)
		if len(ids) != s.Proxies+s.Gateways+s.Ztunnels {
			t.Fatalf("%d identities of %d proxies, %d gateways and %d ztunnels", len(ids), s.Proxies, s.Gateways, s.Ztunnels)
		}
		seen, perService, perType := map[string]bool{}, map[string]int{}, map[string]int{}
		for i, id := range ids {
			pod, there := byIP[id.IP]
			if !there || seen[id.IP] || id.Name != pod.Name || id.Namespace != pod.Namespace || id.ServiceAccount != ServiceAccount || id.Node != "mm-node-0" {
				t.Fatalf("identity %d: %+v", i, id)
			}
			seen[id.IP] = true
			perType[id.Type]++
			if (id.Type == Router) != (id.Labels[GatewayLabel] == "true") || id.Labels["istio"] != "" || (id.Type == Ztunnel) != (id.Namespace == ZtunnelNamespace) {
				t.Fatalf("identity %d of %d sidecars and %d gateways: %+v", i, s.Proxies, s.Gateways, id)
			}
			if strings.HasPrefix(id.Workload, "svc-") {
				perService[id.Workload]++
				if len(id.Ports) != 1 || id.Ports[0].ContainerPort != TargetPort {
					t.Fatalf("ports of %+v", id)
				}
			}
		}
		of := map[string]int{Sidecar: s.Proxies, Router: s.Gateways, Ztunnel: s.Ztunnels}
		for kind, n := range of {
			if perType[kind] != n {
				t.Fatalf("%d of type %s, want %d", perType[kind], kind, n)
			}
		}
		// Every prefix has as many of each type as its share, plus or minus two.
		sofar := map[string]int{}
		for i, id := range ids {
			sofar[id.Type]++
			for kind, n := range of {
				if share := float64(n) * float64(i+1) / float64(len(ids)); math.Abs(float64(sofar[kind])-share) > 2 {
					t.Fatalf("%d of %d %ss among the first %d of %d proxies", sofar[kind], n, kind, i+1, len(ids))
				}
			}
		}
		// No Service has two sidecars more than another.
		for i := range s.Services {
			n := perService[fmt.Sprintf("svc-%d", i)]
			if even := min(s.Proxies, s.Services*s.EndpointsPerService) / s.Services; n < even || n > even+1 {
				t.Fatalf("Service %d has %d sidecars, where others have %d", i, n, even)
			}
		}
	})
}

// Simulators that divide a cell's proxies get one of its ztunnels each, if there are
// enough: only then do ztunnels answer independently, as real ones do.
func TestIdentitiesOfSimulators(t *testing.T) {
	s := Sizes{Namespaces: 1, Services: 30, EndpointsPerService: 10, Proxies: 300, Gateways: 1, Ztunnels: 16}
	ids, err := s.Identities(cluster(t, s))
	must.OK(t, err)
	parts := xds.Divide(len(ids), s.Ztunnels)
	for i := range s.Ztunnels {
		n := 0
		for _, id := range ids[parts[i]:parts[i+1]] {
			if id.Type == Ztunnel {
				n++
			}
		}
		if n != 1 {
			t.Errorf("simulator %d of %d has %d of the %d ztunnels", i, s.Ztunnels, n, s.Ztunnels)
		}
	}
}

func TestIdentitiesNeedPods(t *testing.T) {
	s := Sizes{Namespaces: 1, Services: 1, EndpointsPerService: 2, Proxies: 2}
	pod := func(name, ip string, ready corev1.ConditionStatus) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "mm-0", Labels: labels(AppLabel, "svc-0")},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}}}
	}
	for want, pods := range map[string][]corev1.Pod{
		"there are 1":                               {pod("a", "240.0.0.1", corev1.ConditionTrue), pod("b", "240.0.0.2", corev1.ConditionFalse)},
		"have the same address 240.0.0.1":           {pod("a", "240.0.0.1", corev1.ConditionTrue), pod("b", "240.0.0.1", corev1.ConditionTrue)},
		"need as many running pods, but there are ": nil,
	} {
		if _, err := s.Identities(pods); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestSizesErrors(t *testing.T) {
	for want, s := range map[string]Sizes{
		"services -1":                  {Namespaces: 1, Services: -1},
		"need at least one name":       {Services: 1},
		"need a namespace":             {GatewayResources: 1},
		"resolution \"dns\"":           {Namespaces: 1, ServiceEntry: ServiceEntryOptions{Resolution: "dns"}},
		"port 70000":                   {Namespaces: 1, ServiceEntry: ServiceEntryOptions{Port: 70000}},
		"pods are more than":           {Namespaces: 1, Services: 1000, EndpointsPerService: 1000},
		"namespaces 2000000: must be ": {Namespaces: 2_000_000},
	} {
		_, err := s.Objects(nil)
		if err == nil || !strings.Contains(err.Error(), want) || errs.Code(err) != errs.CodeUsage {
			t.Errorf("%+v: %v, want %s", s, err, want)
		}
	}
}

// Each of the population's EndpointSlices has its own address, and belongs to a Service
// for which no controller creates one.
func TestSlices(t *testing.T) {
	s := Sizes{Namespaces: 1, EndpointSlices: 66_000, SliceNamespaces: 100}
	objects, err := s.Objects(nil)
	must.OK(t, err)
	addresses, services := map[string]bool{}, map[string]bool{} // Services by namespace and name
	in := map[string]int{}
	for _, o := range objects {
		switch o.GetKind() {
		case "Service":
			if _, selects, _ := unstructured.NestedMap(o.Object, "spec", "selector"); selects {
				t.Fatalf("%s selects pods", Key(o))
			}
			services[o.GetNamespace()+"/"+o.GetName()] = true
		case "EndpointSlice":
			in[o.GetNamespace()]++
			endpoints, _, _ := unstructured.NestedSlice(o.Object, "endpoints")
			one, _ := endpoints[0].(map[string]any)
			all, _, _ := unstructured.NestedStringSlice(one, "addresses")
			addresses[all[0]] = true
			if ip := netip.MustParseAddr(all[0]); !netip.MustParsePrefix("198.18.0.0/15").Contains(ip) {
				t.Fatalf("%s has the address %s", Key(o), ip)
			}
			if l := o.GetLabels(); !services[o.GetNamespace()+"/"+l["kubernetes.io/service-name"]] || l["endpointslice.kubernetes.io/managed-by"] != sliceManager {
				t.Fatalf("%s: %v", Key(o), l)
			}
		}
	}
	if len(addresses) != s.EndpointSlices || len(services) != s.EndpointSlices {
		t.Errorf("%d addresses, %d Services", len(addresses), len(services))
	}
	if len(in) != s.SliceNamespaces || in[SlicesNamespace] != 660 || in[SlicesNamespace+"-99"] != 660 {
		t.Errorf("in %d namespaces: %v", len(in), in)
	}
}

// TestDummies checks what the published studies ask for.
func TestDummies(t *testing.T) {
	s := Sizes{Namespaces: 1, Services: 1, EndpointsPerService: 1, ServiceEntries: 2, DummyNamespace: "istio-system", VirtualServices: 2, GatewayResources: 1,
		DestinationRules: 2, ServiceEntry: ServiceEntryOptions{Host: "httpbin.org", Port: 80, Resolution: "DNS"}}
	objects, err := s.Objects(nil)
	must.OK(t, err)
	got := map[string]string{}
	for _, o := range objects {
		text, err := json.Marshal(o.Object["spec"])
		must.OK(t, err)
		got[Key(o)] = string(text)
	}
	for name, parts := range map[string][]string{
		"ServiceEntry/istio-system/dummy-0":   {`"hosts":["httpbin.org"]`, `"resolution":"DNS"`, `"number":80`},
		"ServiceEntry/istio-system/dummy-1":   {`"hosts":["httpbin.org"]`},
		"VirtualService/istio-system/dummy-0": {`"gateways":["dummy-0"]`, `"hosts":["gateway-0.meshtrial.test"]`, `"host":"svc-0.mm-0.svc.cluster.local"`},
		"VirtualService/istio-system/dummy-1": {`"hosts":["route-1.meshtrial.test"]`},
		"Gateway/istio-system/dummy-0":        {`"selector":{"meshtrial.dev/gateway":"true"}`, `gateway-0.meshtrial.test`},
		"DestinationRule/mm-0/dummy-0":        {`"host":"svc-0.mm-0.svc.cluster.local"`},
		"DestinationRule/mm-0/dummy-1":        {`"host":"rule-1.meshtrial.test"`},
	} {
		for _, part := range parts {
			if !strings.Contains(got[name], part) {
				t.Errorf("%s is %s, want %s in it", name, got[name], part)
			}
		}
	}
	if strings.Contains(got["VirtualService/istio-system/dummy-1"], "gateways") {
		t.Error("the second VirtualService is bound to a gateway that there is not")
	}
}
