//go:build integration

package xds_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/must"
)

// TestIstiodSigns makes a real istiod sign a certificate for a token, connects
// a fleet with it and without the token, and checks that istiod limits the
// fleet to the certificate's identity.
func TestIstiodSigns(t *testing.T) {
	const namespace = "signed"
	kube := openLab(t)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	address, root, token := istiodFor(ctx, t, kube, namespace)
	request := xds.SignRequest{Address: address, RootCA: root, Token: token, Namespace: namespace}
	certificate, err := xds.Sign(ctx, request)
	must.OK(t, err)
	spec := xds.DefaultSpec(address)
	spec.StreamsPerConnection = 2
	spec.Security = xds.Security{Mode: xds.SecurityMTLS, RootCA: root, Certificates: map[string]xds.Certificate{"": certificate}}
	for i := range 5 {
		spec.Proxies = append(spec.Proxies, xds.Proxy{Name: fmt.Sprintf("p-%d", i), Namespace: namespace, IP: fmt.Sprintf("10.250.1.%d", i+1)})
	}
	f := start(t, spec)
	eventually.Within(t, 3*time.Minute, "all synced", func() bool { s := f.Status(); return s.Synced == s.Proxies })
	if a := f.Account(); len(a.Reconnects) != 0 || a.Config["cds"] == 0 {
		t.Errorf("%+v", a)
	}
	// A proxy of another namespace does not match the certificate.
	other := spec
	other.Proxies = []xds.Proxy{{Name: "p", Namespace: "default", IP: "10.250.1.99"}}
	g := start(t, other)
	defer func() { t.Logf("%+v, %+v", g.Account().Reconnects, g.Status()) }()
	eventually.Within(t, 2*time.Minute, "to be turned away", func() bool { return g.Account().Reconnects["permission-denied"] > 0 })
	request.Token = "eyJhbGciOiJub25lIn0.e30."
	if _, err := xds.Sign(ctx, request); err == nil {
		t.Error("a certificate for a token of nobody's")
	}
}
