package istio

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes/fakecluster"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

// A gateway's pod requests the injector's gateway template, with the levels and the image
// of a sidecar, and has no label that other users' Gateways use to select ingress
// gateways.
func TestDecorateGateway(t *testing.T) {
	pod := corev1.PodTemplateSpec{}
	m := &Mesh{ProxyImage: func(string) (string, error) { return "hub/proxyv2:1", nil }}
	must.OK(t, m.DecorateGateway(mesh.Workload{Name: "gateway", Proxy: proxy(nil)}, &pod))
	for name, want := range map[string]string{"inject.istio.io/templates": "gateway", "sidecar.istio.io/proxyImage": "hub/proxyv2:1"} {
		if got := pod.Annotations[name]; got != want {
			t.Errorf("annotation %s is %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{"sidecar.istio.io/inject": "true", "istio": ""} {
		if got := pod.Labels[name]; got != want {
			t.Errorf("label %s is %q, want %q", name, got, want)
		}
	}
	if c := pod.Spec.Containers; len(c) != 1 || c[0].Name != proxyContainer || c[0].Image != "auto" || c[0].ImagePullPolicy != corev1.PullIfNotPresent ||
		c[0].StartupProbe == nil || c[0].StartupProbe.PeriodSeconds != 1 {
		t.Errorf("containers %+v", c)
	}
	bad := mesh.Workload{Name: "gateway", Proxy: proxy(func(p *mesh.Proxy) { p.Levels["concurrency"] = "many" })}
	if err := m.DecorateGateway(bad, &corev1.PodTemplateSpec{}); err == nil {
		t.Error("a gateway of many threads")
	}
}

// A cluster without the Gateway API is refused if its routes are required.
func TestRefuseGatewayAPI(t *testing.T) {
	for name, tt := range map[string]struct {
		served []*metav1.APIResourceList
		bad    bool
	}{
		"none":       {nil, true},
		"no routes":  {[]*metav1.APIResourceList{{GroupVersion: gatewayAPI, APIResources: []metav1.APIResource{{Name: "gateways", Kind: "Gateway"}}}}, true},
		"all there":  {[]*metav1.APIResourceList{{GroupVersion: gatewayAPI, APIResources: []metav1.APIResource{{Name: "httproutes", Kind: "HTTPRoute"}}}}, false},
		"other ones": {[]*metav1.APIResourceList{{GroupVersion: "gateway.networking.k8s.io/v1beta1", APIResources: []metav1.APIResource{{Name: "httproutes", Kind: "HTTPRoute"}}}}, true},
	} {
		cluster := fakecluster.New()
		cluster.Resources = tt.served
		var f AsFound
		asked := mesh.Asked{GatewayAPI: true}
		if err := f.readGatewayAPI(t.Context(), cluster, asked); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		err := f.refuseGatewayAPI(asked)
		if (err != nil) != tt.bad || err != nil && (errs.Code(err) != errs.CodeUsage || !strings.Contains(errs.Hint(err), "meshtrial lab down, then run again (the run starts a lab that has them), or first meshtrial lab up --gateway-api")) {
			t.Errorf("%s: %v, hint %q", name, err, errs.Hint(err))
		}
		if err := f.refuseGatewayAPI(mesh.Asked{}); err != nil {
			t.Errorf("%s, not asked for: %v", name, err)
		}
		// istiod watches the Gateway API if it exists, so a run's header records whether
		// it does.
		m := &Mesh{found: f}
		components, err := m.check(t.Context(), fakecluster.New(installation{images: []string{"hub/pilot:1.31.0"}, available: 1}.objects()...), nil)
		want := record.Component{Name: record.GatewayAPI, Version: "off", Source: record.SourceOfCluster}
		if name == "all there" || name == "no routes" {
			want.Version = "on"
		}
		is := func(c record.Component) bool { return reflect.DeepEqual(c, want) }
		if err != nil || !slices.ContainsFunc(components, is) {
			t.Errorf("%s: the header has %v, %v", name, components, err)
		}
	}
}

// A failed read does not count as absence, even if the plan does not need the API, because
// the run's header records it. A user without permission continues without it.
func TestReadGatewayAPIFails(t *testing.T) {
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "resource"}, "", errors.New("ask an administrator"))
	for name, tt := range map[string]struct {
		err   error
		asked mesh.Asked
		fails bool
	}{
		"once":               {errors.New("no leader"), mesh.Asked{}, true},
		"refused":            {refused, mesh.Asked{}, false},
		"refused, routes":    {refused, mesh.Asked{GatewayAPI: true}, true},
		"refused, waypoints": {refused, mesh.Asked{Waypoint: true}, true},
	} {
		cluster := fakecluster.New()
		cluster.PrependReactor("get", "resource", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tt.err })
		var f AsFound
		if err := f.readGatewayAPI(t.Context(), cluster, tt.asked); (err != nil) != tt.fails || f.noGatewayAPI || f.gatewayAPI != nil {
			t.Errorf("%s: %v, and it is taken for %q, absent %v", name, err, f.gatewayAPI, f.noGatewayAPI)
		}
	}
}
