//go:build integration

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

	"github.com/meshmark/meshmark/xds"
)

// TestIstiodSigns has a real istiod sign a certificate for a token, connects a
// fleet with it and without the token, and sees that istiod holds the fleet to
// what the certificate says.
func TestIstiodSigns(t *testing.T) {
	const namespace = "signed"
	kube := openLab(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if _, err := kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = kube.CoreV1().Namespaces().Delete(context.Background(), namespace, metav1.DeleteOptions{}) // the lab ends anyway
	})
	var token *authenticationv1.TokenRequest
	within(t, time.Minute, "the namespace's service account", func() (ok bool) {
		var err error
		token, err = kube.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, "default",
			&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"istio-ca"}}}, metav1.CreateOptions{})
		return err == nil
	})
	var root string
	within(t, time.Minute, "istiod's certificate", func() bool {
		m, err := kube.CoreV1().ConfigMaps(namespace).Get(ctx, "istio-ca-root-cert", metav1.GetOptions{})
		if err == nil {
			root = m.Data["root-cert.pem"]
		}
		return root != ""
	})
	istiod, err := kube.CoreV1().Services("istio-system").Get(ctx, "istiod", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort(istiod.Spec.ClusterIP, "15012")
	request := xds.SignRequest{Address: address, RootCA: root, Token: token.Status.Token, Namespace: namespace, Validity: time.Hour}
	certificate, err := xds.Sign(ctx, request)
	if err != nil {
		t.Fatal(err)
	}
	spec := xds.DefaultSpec(address)
	spec.StreamsPerConnection = 2
	spec.Security = xds.Security{Mode: xds.SecurityMTLS, RootCA: root, Certificates: map[string]xds.Certificate{"": certificate}}
	for i := range 5 {
		spec.Proxies = append(spec.Proxies, xds.Proxy{Name: fmt.Sprintf("p-%d", i), Namespace: namespace, IP: fmt.Sprintf("10.250.1.%d", i+1)})
	}
	f := start(t, spec)
	within(t, time.Minute, "all synced", func() bool { s := f.Status(); return s.Synced == s.Proxies })
	if a := f.Account(); len(a.Reconnects) != 0 || a.Config["cds"] == 0 {
		t.Errorf("%+v", a)
	}
	// A proxy of another namespace is not who the certificate says.
	other := spec
	other.Proxies = []xds.Proxy{{Name: "p", Namespace: "default", IP: "10.250.1.99"}}
	g := start(t, other)
	defer func() { t.Logf("%+v, %+v", g.Account().Reconnects, g.Status()) }()
	within(t, 20*time.Second, "to be turned away", func() bool { return g.Account().Reconnects["permission-denied"] > 0 })
	request.Token = "eyJhbGciOiJub25lIn0.e30."
	if _, err := xds.Sign(ctx, request); err == nil {
		t.Error("a certificate for a token of nobody's")
	}
}
