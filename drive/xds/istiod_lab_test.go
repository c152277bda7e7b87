//go:build integration || verify

package xds_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// openLab returns a client of a lab.
func openLab(t *testing.T) kubernetes.Interface {
	t.Helper()
	kube, err := kubernetes.NewForConfig(labtest.Start(t).RESTConfig())
	must.OK(t, err)
	return kube
}

// istiodFor creates a namespace that is deleted after the test, and returns
// what a proxy there needs: istiod's address, the root of its certificate and a
// token.
func istiodFor(ctx context.Context, t *testing.T, kube kubernetes.Interface, namespace string) (address, root, token string) {
	t.Helper()
	must.OK(t, must.Err(kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})))
	t.Cleanup(func() {
		_ = kube.CoreV1().Namespaces().Delete(context.Background(), namespace, metav1.DeleteOptions{}) // the lab ends anyway
	})
	eventually.Within(t, 3*time.Minute, "the namespace's service account", func() bool {
		request, err := kube.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, "default",
			&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"istio-ca"}}}, metav1.CreateOptions{})
		if err == nil {
			token = request.Status.Token
		}
		return err == nil
	})
	eventually.Within(t, 3*time.Minute, "istiod's certificate", func() bool {
		m, err := kube.CoreV1().ConfigMaps(namespace).Get(ctx, "istio-ca-root-cert", metav1.GetOptions{})
		if err == nil {
			root = m.Data["root-cert.pem"]
		}
		return root != ""
	})
	istiod, err := kube.CoreV1().Services("istio-system").Get(ctx, "istiod", metav1.GetOptions{})
	must.OK(t, err)
	return net.JoinHostPort(istiod.Spec.ClusterIP, "15012"), root, token
}

// realIstiod connects a fleet to istiod, makes and reverts a change that every
// sidecar must see, and kills istiod.
func realIstiod(t *testing.T, mode string) {
	const sidecars, gateways = 20, 2
	namespace := "fleet-" + mode
	kube := openLab(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	address, root, token := istiodFor(ctx, t, kube, namespace)
	spec := xds.DefaultSpec(address)
	spec.Mode, spec.StreamsPerConnection, spec.DNSCapture = mode, 7, true
	spec.Security = xds.Security{Mode: xds.SecurityToken, RootCA: root, Tokens: map[string]string{"": token}}
	for i := range sidecars + gateways {
		p := xds.Proxy{Name: fmt.Sprintf("p-%d", i), Namespace: namespace, IP: fmt.Sprintf("10.250.0.%d", i+1)}
		if i >= sidecars {
			p.Type = xds.NodeRouter
		}
		spec.Proxies = append(spec.Proxies, p)
	}
	f := start(t, spec)
	eventually.Within(t, 3*time.Minute, "all synced", func() bool { s := f.Status(); return s.Synced == s.Proxies })

	name := "seen-" + mode
	text := name + "." + namespace
	must.OK(t, must.Err(f.Announce([]record.Marker{{Change: 0, Type: "cds", Text: text}, {Change: 0, Type: "nds", Text: text},
		{Change: 1, Type: "cds", Text: text, Gone: true}})))
	before := time.Now().UnixNano()
	must.OK(t, must.Err(kube.CoreV1().Services(namespace).Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}, metav1.CreateOptions{})))
	// Gateways get the cluster too, but no name table.
	eventually.Within(t, 3*time.Minute, "the new service", func() bool {
		seen := f.Sightings(0)
		return len(seen[0].Proxy) == sidecars+gateways && len(seen[1].Proxy) == sidecars
	})
	for i, at := range f.Sightings(0)[0].ReceivedNS {
		if at < before || at > time.Now().UnixNano() {
			t.Errorf("proxy %d got it at %d, it was made after %d", i, at, before)
		}
	}

	reconnects := f.Account().Reconnects
	lost := func() (n int64) { // since then, of answered streams
		for reason, count := range f.Account().Reconnects {
			if reason != "dial" {
				n += count - reconnects[reason]
			}
		}
		return n
	}
	must.OK(t, kube.CoreV1().Pods("istio-system").DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64)},
		metav1.ListOptions{LabelSelector: "app=istiod"}))
	eventually.Within(t, 3*time.Minute, "that all have lost it", func() bool { return f.Status().Connected == 0 || lost() >= sidecars+gateways })
	must.OK(t, kube.CoreV1().Services(namespace).Delete(ctx, name, metav1.DeleteOptions{}))
	eventually.Within(t, 5*time.Minute, "all synced with the new istiod", func() bool { s := f.Status(); return s.Synced == s.Proxies })
	eventually.Within(t, 3*time.Minute, "that the service has gone", func() bool { return len(f.Sightings(2)[0].Proxy) == sidecars+gateways })
	if seen := f.Sightings(0); len(seen[0].Proxy) != sidecars+gateways || len(seen[1].Proxy) != sidecars {
		t.Errorf("counted again after the reconnect: %d and %d", len(seen[0].Proxy), len(seen[1].Proxy))
	}
	a := f.Account()
	if lost() < sidecars+gateways || a.Errors != 0 || a.Connected != sidecars+gateways || a.Wire["cds"].Nacks != 0 {
		t.Errorf("%d streams lost; %+v", lost(), a)
	}
	t.Logf("reconnects %v, lag %+v", a.Reconnects, a.Lag)
}
