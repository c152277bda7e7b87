package xds_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/rawgrpc"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/loopback"
	"github.com/meshtrial/meshtrial/testing/must"
)

// authority is a certificate authority of a test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	a.key = newKey(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "root"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	must.OK(t, err)
	a.cert, err = x509.ParseCertificate(der)
	must.OK(t, err)
	a.pem = encoded("CERTIFICATE", der)
	return a
}

func encoded(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	return key
}

// issue returns a certificate for a DNS name or a SPIFFE identity.
func (a *authority) issue(dns, spiffe string) xds.Certificate {
	a.t.Helper()
	key := newKey(a.t)
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	if dns != "" {
		template.DNSNames = []string{dns}
	}
	if spiffe != "" {
		id, err := url.Parse(spiffe)
		must.OK(a.t, err)
		template.URIs = []*url.URL{id}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	must.OK(a.t, err)
	raw, err := x509.MarshalECPrivateKey(key)
	must.OK(a.t, err)
	return xds.Certificate{Chain: encoded("CERTIFICATE", der), Key: encoded("EC PRIVATE KEY", raw)}
}

// istiod returns the credentials of a server with istiod's certificate.
func (a *authority) istiod(client tls.ClientAuthType) grpc.ServerOption {
	a.t.Helper()
	c := a.issue("istiod.istio-system.svc", "")
	pair, err := tls.X509KeyPair([]byte(c.Chain), []byte(c.Key))
	must.OK(a.t, err)
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: client, ClientCAs: pool}))
}

// secureFake starts a fake behind TLS.
func secureFake(t *testing.T, options ...grpc.ServerOption) *fake {
	t.Helper()
	s := newFake(t) // for its resources
	server := grpc.NewServer(options...)
	discovery.RegisterAggregatedDiscoveryServiceServer(server, s)
	s.address = loopback.Serve(t, server.Serve, server.Stop)
	return s
}

func bearer(ctx context.Context) string {
	md, _ := metadata.FromIncomingContext(ctx)
	if v := md.Get("authorization"); len(v) == 1 {
		return v[0]
	}
	return ""
}

func TestTokens(t *testing.T) {
	a := newAuthority(t)
	s := secureFake(t, a.istiod(tls.NoClientCert), grpc.StreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		if b := bearer(ss.Context()); b != "Bearer one" && b != "Bearer other" {
			return status.Error(codes.Unauthenticated, "who is that?")
		}
		return next(srv, ss)
	}))
	spec := testSpec(s.address, 4)
	spec.Proxies[3].ServiceAccount = "special"
	spec.Security = xds.Security{Mode: xds.SecurityToken, RootCA: a.pem, Tokens: map[string]string{"": "one\n", "ns/special": "other"}}
	synced(t, start(t, spec))

	spec.Security.Tokens = map[string]string{"": "wrong"}
	f := start(t, spec)
	eventually.Holds(t, "to be turned away", func() bool { return f.Account().Reconnects["unauthenticated"] > 0 })

	spec.Security.RootCA = newAuthority(t).pem
	f = start(t, spec)
	eventually.Holds(t, "the server's certificate to be refused", func() bool { return f.Account().Reconnects["dial"] > 0 })
}

// signer starts a certificate authority, and returns its address.
func (a *authority) signer(identities map[string]string) string {
	server := a.signing(identities)
	return loopback.Serve(a.t, server.Serve, server.Stop)
}

// signing returns a certificate authority that behaves like istiod: it signs what
// a token proves.
func (a *authority) signing(identities map[string]string) *grpc.Server {
	a.t.Helper()
	sign := func(_ any, s grpc.ServerStream) error {
		if method, _ := grpc.MethodFromServerStream(s); method != "/istio.v1.auth.IstioCertificateService/CreateCertificate" {
			return status.Error(codes.Unimplemented, method)
		}
		identity, ok := identities[bearer(s.Context())]
		if md, _ := metadata.FromIncomingContext(s.Context()); !ok || md.Get("clusterid")[0] != "Kubernetes" {
			return status.Error(codes.Unauthenticated, "request authenticate failure")
		}
		var in rawgrpc.Message
		if err := s.RecvMsg(&in); err != nil {
			return err
		}
		_, _, n := protowire.ConsumeTag(in.Body)
		text, _ := protowire.ConsumeBytes(in.Body[n:])
		block, _ := pem.Decode(text)
		csr, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil || csr.CheckSignature() != nil || len(csr.URIs) != 1 {
			return status.Errorf(codes.InvalidArgument, "%v", err)
		}
		id, err := url.Parse(identity)
		if err != nil {
			return err
		}
		der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(3), URIs: []*url.URL{id},
			NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, a.cert, csr.PublicKey, a.key)
		if err != nil {
			return err
		}
		var out []byte
		for _, one := range []string{encoded("CERTIFICATE", der), a.pem} {
			out = protowire.AppendString(protowire.AppendTag(out, 1, protowire.BytesType), one)
		}
		return s.SendMsg(&rawgrpc.Message{Body: out})
	}
	return grpc.NewServer(a.istiod(tls.NoClientCert), grpc.ForceServerCodecV2(rawgrpc.Codec{}), grpc.UnknownServiceHandler(sign))
}

// TestSignedCertificates exchanges a token for a certificate, and connects a
// fleet with it.
func TestSignedCertificates(t *testing.T) {
	a := newAuthority(t)
	request := xds.SignRequest{RootCA: a.pem, Token: "one\n", Namespace: "ns",
		Address: a.signer(map[string]string{"Bearer one": "spiffe://cluster.local/ns/ns/sa/default", "Bearer other": "spiffe://cluster.local/ns/ns/sa/other"})}
	c, err := xds.Sign(t.Context(), request)
	must.OK(t, err)
	s := secureFake(t, a.istiod(tls.RequireAndVerifyClientCert))
	spec := testSpec(s.address, 3)
	spec.Security = xds.Security{Mode: xds.SecurityMTLS, RootCA: a.pem, Certificates: map[string]xds.Certificate{"": c}}
	synced(t, start(t, spec))

	spec.Security.Certificates = map[string]xds.Certificate{"": newAuthority(t).issue("", "spiffe://cluster.local/ns/ns/sa/default")}
	f := start(t, spec)
	eventually.Holds(t, "to be refused", func() bool { return f.Account().Reconnects["connection"]+f.Account().Reconnects["dial"] > 0 })

	// A fleet gets its own certificates signed, one for each identity without
	// one.
	spec = testSpec(s.address, 4)
	spec.Proxies[1].ServiceAccount, spec.Proxies[2].ServiceAccount = "other", "given"
	spec.Security = xds.Security{Mode: xds.SecurityMTLS, RootCA: a.pem, CAAddress: request.Address, Tokens: map[string]string{"ns/default": "one", "ns/other": "other"},
		Certificates: map[string]xds.Certificate{"ns/given": a.issue("", "spiffe://cluster.local/ns/ns/sa/given")}}
	synced(t, start(t, spec))
	spec.Security.Tokens["ns/other"] = "one"
	if _, err := xds.Start(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "not spiffe://cluster.local/ns/ns/sa/other") {
		t.Errorf("a token of another's: %v", err)
	}
	delete(spec.Security.Tokens, "ns/other")
	if _, err := xds.Start(t.Context(), spec); errs.Code(err) != errs.CodeUsage {
		t.Errorf("neither a certificate nor a token: %v", err)
	}

	// In a mesh with another trust domain, the certificates state it.
	corp := request
	corp.Address = a.signer(map[string]string{"Bearer one": "spiffe://corp.example/ns/ns/sa/default", "Bearer path": "spiffe://corp.example/ns/ns"})
	for _, domain := range []string{"", "corp.example"} {
		corp.TrustDomain = domain
		if _, err := xds.Sign(t.Context(), corp); err != nil {
			t.Errorf("trust domain %q: %v", domain, err)
		}
	}
	for domain, want := range map[string]string{"cluster.local": "its trust domain is corp.example, not cluster.local", "a/b": "must be a DNS name"} {
		corp.TrustDomain = domain
		if _, err := xds.Sign(t.Context(), corp); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("trust domain %q: %v", domain, err)
		}
	}
	corp.TrustDomain, corp.Token = "", "path"
	if _, err := xds.Sign(t.Context(), corp); err == nil || !strings.Contains(errs.Hint(err), "namespace and service account") {
		t.Errorf("no service account: %v", err)
	}

	other := newAuthority(t)
	for name, change := range map[string]func(r *xds.SignRequest){
		"token":            func(r *xds.SignRequest) { r.Token = "wrong" },
		"no token":         func(r *xds.SignRequest) { r.Token = "" },
		"another identity": func(r *xds.SignRequest) { r.Token = "other" },
		"root":             func(r *xds.SignRequest) { r.RootCA = other.pem },
		"no root":          func(r *xds.SignRequest) { r.RootCA = "x" },
		"server":           func(r *xds.SignRequest) { r.ServerName = "somebody.else" },
		"nobody there":     func(r *xds.SignRequest) { r.Address = "127.0.0.1:1" },
		"no authority":     func(r *xds.SignRequest) { r.Address = s.address },
	} {
		r := request
		change(&r)
		if _, err := xds.Sign(t.Context(), r); err == nil || !strings.Contains(err.Error(), "a certificate from "+r.Address) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Sign waits for an authority that cannot be reached yet.
func TestSignWaitsForAuthority(t *testing.T) {
	a := newAuthority(t)
	server := a.signing(map[string]string{"Bearer one": "spiffe://cluster.local/ns/ns/sa/default"})
	closed, err := net.Listen("tcp", ownAddress())
	must.OK(t, err)
	address := closed.Addr().String()
	must.OK(t, closed.Close())
	done := make(chan error, 1)
	go func() {
		_, err := xds.Sign(t.Context(), xds.SignRequest{Address: address, RootCA: a.pem, Token: "one", Namespace: "ns"})
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("nobody was waited for: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	l, err := net.Listen("tcp", address)
	must.OK(t, err)
	defer server.Stop()
	go func() { _ = server.Serve(l) }()
	must.OK(t, <-done)
}
