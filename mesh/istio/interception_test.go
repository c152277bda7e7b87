package istio

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/must"
)

func TestUncapturedWorkloads(t *testing.T) {
	proxy := mesh.Proxy{Levels: record.Cell{"mtls": "strict", "telemetry": "off", "concurrency": "2", "cpu_limit": "none", "interception": "none"}}
	redirected := mesh.Proxy{Levels: proxy.Levels.With(record.Cell{"interception": "redirect"})}
	for _, c := range []struct {
		w    mesh.Workload
		want []string // in the Sidecar
	}{
		{mesh.Workload{Name: "server", Namespace: "ns", Proxy: &proxy}, []string{"~/*", "127.0.0.1:8080", "NONE", "18080", "18082"}},
		{mesh.Workload{Name: "client", Namespace: "ns", Client: true, Proxy: &proxy}, []string{"./*"}},
		{mesh.Workload{Name: "usual", Namespace: "ns", Proxy: &redirected}, nil},
		{mesh.Workload{Name: "plain", Namespace: "ns"}, nil},
	} {
		var pod corev1.PodTemplateSpec
		m := &Mesh{}
		must.OK(t, m.Decorate(c.w, &pod))
		if got := pod.Annotations[interceptionMode]; (got == "NONE") != (c.want != nil) {
			t.Errorf("%s: interception mode %q", c.w.Name, got)
		}
		said := ""
		for _, o := range m.Policies([]mesh.Workload{c.w}) {
			if o.GetKind() == "Sidecar" {
				text, err := o.MarshalJSON()
				must.OK(t, err)
				said += string(text)
			}
		}
		if (said == "") != (c.want == nil) {
			t.Errorf("%s: Sidecar %s", c.w.Name, said)
		}
		for _, part := range append(c.want, c.w.Name) {
			if c.want != nil && !strings.Contains(said, part) {
				t.Errorf("%s: no %s in %s", c.w.Name, part, said)
			}
		}
	}
}

func TestInterceptionIsProved(t *testing.T) {
	usualIn, usualOut := []string{"virtualInbound", "virtualOutbound", "0.0.0.0_8080"}, []string{"virtualOutbound", "virtualInbound", "10.0.0.1_443"}
	for _, c := range []struct {
		name, side, level string
		listeners         []string
		ok                bool
	}{
		{"redirected server", "server", "redirect", usualIn, true},
		{"redirected client", "client", "redirect", usualOut, true},
		{"server by itself", "server", "none", []string{"0.0.0.0_18080", "0.0.0.0_18081"}, true},
		{"client by itself", "client", "none", []string{"127.0.0.1_8080"}, true},
		{"redirected all the same", "server", "none", append([]string{"0.0.0.0_18080"}, usualIn...), false},
		{"not redirected", "client", "redirect", []string{"127.0.0.1_8080"}, false},
		{"no port of its own", "server", "none", []string{"0.0.0.0_18081"}, false},
		{"nothing", "client", "none", nil, false},
	} {
		e := mesh.Evidence{Cell: map[string]string{"interception": c.level}, Endpoint: mesh.Endpoint{Port: 8080}}
		if got := intercepted(c.side, e, c.listeners); got.OK != c.ok {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	e := mesh.Evidence{Cell: map[string]string{"interception": "none"}, Endpoint: mesh.Endpoint{Port: 8080}}
	if inboundPort(e) != 18080 {
		t.Errorf("the server's sidecar knows it by port %d", inboundPort(e))
	}
	e.Cell = map[string]string{}
	if inboundPort(e) != 8080 {
		t.Errorf("the server's sidecar knows it by port %d", inboundPort(e))
	}
}
