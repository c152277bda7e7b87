package xds

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/meshtrial/meshtrial/drive/xds/stream"
	"github.com/meshtrial/meshtrial/internal/errs"
)

// prepareSecurity prepares the credentials of the proxies.
func (f *Fleet) prepareSecurity(ctx context.Context) error {
	s := &f.spec.Security
	if s.Mode == SecurityPlaintext {
		return nil
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(s.RootCA)) {
		return errs.Usage("xds: the root certificate is not PEM")
	}
	base := &tls.Config{RootCAs: roots, ServerName: cmp.Or(s.ServerName, defaultServerName), NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
	f.security = map[string]*tls.Config{"": base}
	if s.Mode == SecurityToken {
		f.tokens = map[string][]stream.Header{}
		for identity, token := range s.Tokens {
			f.tokens[identity] = []stream.Header{{Name: "authorization", Value: "Bearer " + strings.TrimSpace(token), Sensitive: true}}
		}
		return nil
	}
	certificates, err := f.certificates(ctx)
	if err != nil {
		return err
	}
	for identity, c := range certificates {
		pair, err := tls.X509KeyPair([]byte(c.Chain), []byte(c.Key))
		if err != nil {
			return errs.Usage("xds: certificate of %q: %v", identity, err)
		}
		config := base.Clone()
		config.Certificates = []tls.Certificate{pair}
		f.security[identity] = config
	}
	return nil
}

// signers limits concurrent signing requests, because each costs istiod a
// signature.
const signers = 4

// certificates returns the given certificates and, for each identity without
// one, a certificate signed by istiod for a new key, which stays in memory.
// Proxies of one service account share a certificate.
func (f *Fleet) certificates(ctx context.Context) (map[string]Certificate, error) {
	s := &f.spec.Security
	out := maps.Clone(s.Certificates)
	if out == nil {
		out = map[string]Certificate{}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(signers)
	var mu sync.Mutex
	begun := map[string]bool{}
	for i := range f.spec.Proxies {
		p := &f.spec.Proxies[i]
		identity := p.identity()
		if _, given := lookup(s.Certificates, identity); given || begun[identity] {
			continue
		}
		begun[identity] = true
		group.Go(func() error {
			c, err := Sign(ctx, SignRequest{Address: cmp.Or(s.CAAddress, f.spec.Addresses[0]), RootCA: s.RootCA, ServerName: s.ServerName, Token: s.Tokens[identity],
				Namespace: p.Namespace, ServiceAccount: p.account(), TrustDomain: s.TrustDomain, ClusterID: f.spec.Mesh.ClusterID})
			mu.Lock()
			defer mu.Unlock()
			out[identity] = c
			return err
		})
	}
	return out, group.Wait()
}

// metadata returns the headers of a proxy's stream: its token, if any.
func (f *Fleet) metadata(p *Proxy) []stream.Header {
	h, _ := lookup(f.tokens, p.identity())
	return h
}
