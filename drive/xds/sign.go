package xds

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/rawgrpc"
	"github.com/meshtrial/meshtrial/internal/wake"
)

// SignRequest describes a workload certificate to request and the authority to ask.
type SignRequest struct {
	Address    string // of the certificate authority, HOST:PORT: istiod's port 15012
	RootCA     string // as in Security
	ServerName string // as in Security
	// Token proves the identity that the certificate is for. Its audience is
	// istio-ca.
	Token          string
	Namespace      string
	ServiceAccount string // "" means default
	// TrustDomain is the trust domain of the mesh; "" accepts any that istiod puts into
	// the certificate.
	TrustDomain string
	ClusterID   string // "" means Kubernetes
}

const (
	createCertificate = "/istio.v1.auth.IstioCertificateService/CreateCertificate"
	signLimit         = 20 * time.Second
	reachLimit        = 3 * time.Second
	reachEvery        = 100 * time.Millisecond
	maxChain          = 1 << 20 // bytes of an answer
)

// Sign asks an authority to sign a new key for an identity, as pilot-agent does when it
// starts (IstioCertificateService in istio.io/api, security/v1alpha1/ca.proto). The
// authority certifies the identity that the token proves, not the requested one; Sign
// fails if the two differ.
func Sign(ctx context.Context, r SignRequest) (Certificate, error) {
	fail := func(err error) (Certificate, error) {
		return Certificate{}, fmt.Errorf("xds: a certificate from %s: %w", r.Address, err)
	}
	if r.Token == "" {
		return fail(errs.Usage("no token to prove the identity"))
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(r.RootCA)) {
		return fail(errs.Usage("the root certificate is not PEM"))
	}
	id := &url.URL{Scheme: "spiffe", Host: cmp.Or(r.TrustDomain, "cluster.local"), Path: "/ns/" + r.Namespace + "/sa/" + cmp.Or(r.ServiceAccount, "default")}
	if id.Host != (&url.URL{Host: id.Host}).Hostname() || strings.ContainsAny(id.Host, "/?#@ ") {
		return fail(errs.Usage("trust domain %q: must be a DNS name, such as cluster.local", r.TrustDomain))
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fail(err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{URIs: []*url.URL{id}}, key)
	if err != nil {
		return fail(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fail(err)
	}
	chain, err := r.call(ctx, roots, csr)
	if err != nil {
		return fail(err)
	}
	out := Certificate{Chain: strings.Join(chain, ""), Key: string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))}
	pair, err := tls.X509KeyPair([]byte(out.Chain), []byte(out.Key))
	if err != nil {
		return fail(fmt.Errorf("the response is not a certificate for our key: %w", err))
	}
	// SPIFFE-ID, section 2: the trust domain is the URI's authority, the rest
	// of the name its path.
	switch got := pair.Leaf.URIs; {
	case len(got) != 1 || got[0].Scheme != id.Scheme || got[0].Path != id.Path:
		return fail(errs.WithHint(fmt.Errorf("it is for %v, not %v", got, id), "the token must be for the proxies' namespace and service account"))
	case r.TrustDomain != "" && got[0].Host != r.TrustDomain:
		return fail(errs.WithHint(fmt.Errorf("its trust domain is %s, not %s", got[0].Host, r.TrustDomain), "omit the trust domain to use the mesh's own"))
	}
	return out, nil
}

// call sends the request to the authority. The chain is PEM, leaf first.
func (r *SignRequest) call(ctx context.Context, roots *x509.CertPool, csr []byte) (chain []string, err error) {
	conn, err := grpc.NewClient("passthrough:///"+r.Address, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		RootCAs: roots, ServerName: cmp.Or(r.ServerName, defaultServerName), MinVersion: tls.VersionTLS12})),
		grpc.WithContextDialer(reach), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawgrpc.Codec{}), grpc.MaxCallRecvMsgSize(maxChain)))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, signLimit, fmt.Errorf("no answer within %v", signLimit))
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+strings.TrimSpace(r.Token), "clusterid", cmp.Or(r.ClusterID, "Kubernetes"))
	// IstioCertificateRequest: csr = 1. It asks for the authority's default lifetime, a day;
	// certificates are not renewed.
	body := protowire.AppendTag(nil, 1, protowire.BytesType)
	body = protowire.AppendBytes(body, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr}))
	var answer rawgrpc.Message
	if err := conn.Invoke(ctx, createCertificate, &rawgrpc.Message{Body: body}, &answer); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	return parseChain(answer.Body)
}

// reach connects to the authority, with retries: shortly after its start, its Service may
// still lead to a Pod that has ended.
func reach(ctx context.Context, address string) (net.Conn, error) {
	limited, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil || wake.Pause(limited, reachEvery) != nil {
			return conn, err
		}
	}
}

// parseChain reads an IstioCertificateResponse: cert_chain = 1, repeated.
func parseChain(b []byte) (chain []string, err error) {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, fmt.Errorf("invalid response: %w", protowire.ParseError(n))
		}
		b = b[n:]
		if number == 1 && kind == protowire.BytesType {
			one, n := protowire.ConsumeBytes(b)
			if n < 0 {
				return nil, fmt.Errorf("invalid response: %w", protowire.ParseError(n))
			}
			chain = append(chain, strings.TrimSpace(string(one))+"\n")
			b = b[n:]
			continue
		}
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return nil, fmt.Errorf("invalid response: %w", protowire.ParseError(n))
		}
		b = b[n:]
	}
	if len(chain) == 0 {
		return nil, errors.New("the response has no certificate")
	}
	return chain, nil
}
