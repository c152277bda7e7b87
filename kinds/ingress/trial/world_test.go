package trial

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/kinds/ingress"
	"github.com/meshtrial/meshtrial/testing/must"
)

// Each route is attached to a listener that exists and whose host name includes the route's host,
// and the listener's certificate is valid for that host.
func TestWorld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := ingress.Levels{Listeners: rapid.IntRange(1, 200).Draw(t, "listeners"), Routes: rapid.IntRange(1, 300).Draw(t, "routes")}
		if rapid.Bool().Draw(t, "TLS") {
			l.Certificates = rapid.IntRange(1, min(l.Listeners, 3)).Draw(t, "certificates")
		}
		w, err := newWorld("ns", "b000-t00", l, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		certificates := map[string]*x509.Certificate{}
		for _, s := range w.secrets {
			certificates[s.GetName()] = leaf(t, s)
		}
		if len(certificates) != l.Certificates {
			t.Fatalf("%d certificates, want %d", len(certificates), l.Certificates)
		}
		roots := x509.NewCertPool()
		if l.Certificates > 0 && !roots.AppendCertsFromPEM([]byte(w.root)) {
			t.Fatal("no root")
		}
		listeners := map[string]map[string]any{}
		for _, o := range append(w.sets(), w.gateway()) {
			all, _, _ := unstructured.NestedSlice(o.Object, "spec", "listeners")
			if len(all) == 0 || len(all) > ownListeners {
				t.Fatalf("%s has %d listeners", o.GetName(), len(all))
			}
			for _, one := range all {
				of := one.(map[string]any)
				listeners[fmt.Sprint(o.GetKind(), o.GetName(), of["name"])] = of
			}
		}
		if len(listeners) != l.Listeners {
			t.Fatalf("%d listeners, want %d", len(listeners), l.Listeners)
		}
		n := rapid.IntRange(0, l.Routes-1).Draw(t, "route")
		route := w.route(firstRoute(n), n)
		parents, _, _ := unstructured.NestedSlice(route.Object, "spec", "parentRefs")
		parent := parents[0].(map[string]any)
		listener := listeners[fmt.Sprint(parent["kind"], parent["name"], parent["sectionName"])]
		if listener == nil {
			t.Fatalf("route %d is attached to %v, which does not exist", n, parent)
		}
		host := w.host(firstRoute(n), n)
		if want := "*" + host[len(firstRoute(n)):]; listener["hostname"] != want {
			t.Fatalf("host %s at the listener of %v", host, listener["hostname"])
		}
		if l.Certificates == 0 {
			return
		}
		refs, _, _ := unstructured.NestedSlice(listener, "tls", "certificateRefs")
		certificate := certificates[refs[0].(map[string]any)["name"].(string)]
		if _, err := certificate.Verify(x509.VerifyOptions{DNSName: host, Roots: roots}); err != nil {
			t.Fatal(err)
		}
	})
}

func leaf(t *rapid.T, secret *unstructured.Unstructured) *x509.Certificate {
	t.Helper()
	data, _, _ := unstructured.NestedStringMap(secret.Object, "data")
	var pair [2][]byte
	for i, name := range []string{"tls.crt", "tls.key"} {
		text, err := base64.StdEncoding.DecodeString(data[name])
		if err != nil {
			t.Fatal(err)
		}
		pair[i] = text
	}
	made, err := tls.X509KeyPair(pair[0], pair[1])
	if err != nil {
		t.Fatal(err)
	}
	return made.Leaf
}

// Certificates are made at random: none is ever the same.
func TestCertificatesAreNew(t *testing.T) {
	l := ingress.Levels{Listeners: 2, Routes: 1, Certificates: 2}
	seen := map[string]bool{}
	for range 2 {
		w, err := newWorld("ns", "t", l, time.Now())
		must.OK(t, err)
		for _, s := range w.secrets {
			key, _, _ := unstructured.NestedString(s.Object, "data", "tls.key")
			if seen[key] {
				t.Error("the same key twice")
			}
			seen[key] = true
		}
	}
}

func TestUnattached(t *testing.T) {
	w, err := newWorld("ns", "t", ingress.Levels{Listeners: 1, Routes: 1}, time.Now())
	must.OK(t, err)
	route := w.route("r", 0)
	unattached(route)
	parents, _, _ := unstructured.NestedSlice(route.Object, "spec", "parentRefs")
	if at := parents[0].(map[string]any)["sectionName"]; at == listenerName(0) {
		t.Errorf("attached to %v", at)
	}
}

// A Gateway is programmed if its status says so for its present specification.
func TestProgrammed(t *testing.T) {
	gateway := func(generation, observed int64, status string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"generation": generation}, "status": map[string]any{
			"addresses":  []any{map[string]any{"type": "IPAddress", "value": "10.0.0.1"}},
			"conditions": []any{map[string]any{"type": "Accepted", "status": "True"}, map[string]any{"type": "Programmed", "status": status, "observedGeneration": observed}}}}}
	}
	for _, tt := range []struct {
		gateway    *unstructured.Unstructured
		programmed bool
	}{{gateway(1, 1, "True"), true}, {gateway(2, 1, "True"), false}, {gateway(1, 1, "False"), false}, {&unstructured.Unstructured{Object: map[string]any{}}, false}} {
		if _, got := programmedAt(tt.gateway); got != tt.programmed {
			t.Errorf("%v: %v", tt.gateway.Object, got)
		}
	}
	if address, _ := programmedAt(gateway(1, 1, "True")); address != "10.0.0.1" {
		t.Errorf("address %q", address)
	}
}
