package components

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

// linkerdKeys is what one installation trusts, as PEM. Linkerd wants ECDSA
// on P-256 for both; the trust anchor's own key is forgotten once it has
// signed the issuer.
type linkerdKeys struct {
	anchor            string
	issuer, issuerKey string
}

// linkerdKeysLast is how long an installation's certificates are valid.
const linkerdKeysLast = 365 * 24 * time.Hour

func newLinkerdKeys(now time.Time) (linkerdKeys, error) {
	root, rootKey, err := authority("root.linkerd.cluster.local", now, nil, nil)
	if err != nil {
		return linkerdKeys{}, fmt.Errorf("Linkerd's trust anchor: %w", err)
	}
	issuer, issuerKey, err := authority("identity.linkerd.cluster.local", now, root, rootKey)
	if err != nil {
		return linkerdKeys{}, fmt.Errorf("Linkerd's issuer: %w", err)
	}
	key, err := x509.MarshalECPrivateKey(issuerKey)
	if err != nil {
		return linkerdKeys{}, err
	}
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return linkerdKeys{anchor: text("CERTIFICATE", root.Raw), issuer: text("CERTIFICATE", issuer.Raw), issuerKey: text("EC PRIVATE KEY", key)}, nil
}

// authority makes a certificate that may sign others, signed by parent, or
// by itself.
func authority(name string, now time.Time, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: now.Add(-time.Minute), NotAfter: now.Add(linkerdKeysLast), // clocks of a cluster's nodes differ
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	if parent == nil {
		parent, parentKey = template, key
	} else {
		template.MaxPathLen, template.MaxPathLenZero = 0, true
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		return nil, nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return certificate, key, err
}
