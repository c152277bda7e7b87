package trial

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshtrial/meshtrial/kinds/ingress"
)

const (
	gatewayAPI = "gateway.networking.k8s.io/v1"
	// domain is that of all hosts, none of which exists.
	domain = "meshtrial.test"
	// ownListeners is the number of listeners that a Gateway, or a ListenerSet, can have.
	ownListeners = 64
	httpPort     = 80
	httpsPort    = 443
	// trialLabel marks the objects of a trial.
	trialLabel = "meshtrial.dev/trial"
)

// world describes a trial's Gateway and everything that belongs to it.
type world struct {
	namespace, trial string
	levels           ingress.Levels
	root             string // certificate of the authority, in PEM; "" without TLS
	secrets          []*unstructured.Unstructured
}

// newWorld makes the certificates of a trial.
func newWorld(namespace, trial string, l ingress.Levels, now time.Time) (*world, error) {
	w := &world{namespace: namespace, trial: trial, levels: l}
	if l.Certificates == 0 {
		return w, nil
	}
	a, err := newAuthority(now)
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	w.root = a.pem
	for i := range l.Certificates {
		var hosts []string
		for n := i; n < l.Listeners; n += l.Certificates {
			hosts = append(hosts, w.listenerHost(n))
		}
		certificate, key, err := a.issue(fmt.Sprintf("certificate %d", i), hosts)
		if err != nil {
			return nil, fmt.Errorf("certificates: %w", err)
		}
		secret := w.object("v1", "Secret", certificateName(i), nil)
		secret.Object["type"] = "kubernetes.io/tls"
		secret.Object["data"] = map[string]any{"tls.crt": base64.StdEncoding.EncodeToString(certificate), "tls.key": base64.StdEncoding.EncodeToString(key)}
		w.secrets = append(w.secrets, secret)
	}
	return w, nil
}

// name is the name of the Gateway.
func (w *world) name() string { return "gateway-" + w.trial }

// port is the port of all listeners.
func (w *world) port() int {
	if w.levels.Certificates > 0 {
		return httpsPort
	}
	return httpPort
}

func certificateName(i int) string { return fmt.Sprintf("certificate-%04d", i) }

func listenerName(n int) string { return fmt.Sprintf("l%05d", n) }

// listenerHost returns the host name of a listener, a wildcard.
func (w *world) listenerHost(n int) string { return "*." + listenerName(n) + "." + domain }

// host returns the host of a route by its name.
func (w *world) host(route string, n int) string {
	return route + "." + listenerName(n%w.levels.Listeners) + "." + domain
}

func (w *world) object(apiVersion, kind, name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind,
		"metadata": map[string]any{"name": name, "namespace": w.namespace, "labels": map[string]any{trialLabel: w.trial}}}}
	if spec != nil {
		o.Object["spec"] = spec
	}
	return o
}

func (w *world) listener(n int) map[string]any {
	l := map[string]any{"name": listenerName(n), "hostname": w.listenerHost(n), "port": int64(w.port()), "protocol": "HTTP"}
	if c := w.levels.Certificates; c > 0 {
		l["protocol"] = "HTTPS"
		l["tls"] = map[string]any{"mode": "Terminate", "certificateRefs": []any{map[string]any{"name": certificateName(n % c)}}}
	}
	return l
}

// gateway returns the Gateway, before an ingress completes it, with its first listeners.
func (w *world) gateway() *unstructured.Unstructured {
	spec := map[string]any{"listeners": w.listeners(0)}
	if w.levels.Listeners > ownListeners {
		spec["allowedListeners"] = map[string]any{"namespaces": map[string]any{"from": "Same"}}
	}
	return w.object(gatewayAPI, "Gateway", w.name(), spec)
}

// sets returns the ListenerSets with the other listeners.
func (w *world) sets() (out []*unstructured.Unstructured) {
	for first := ownListeners; first < w.levels.Listeners; first += ownListeners {
		out = append(out, w.object(gatewayAPI, "ListenerSet", w.setName(first), map[string]any{
			"parentRef": map[string]any{"name": w.name(), "kind": "Gateway", "group": "gateway.networking.k8s.io"}, "listeners": w.listeners(first)}))
	}
	return out
}

func (w *world) setName(n int) string { return fmt.Sprintf("%s-%03d", w.name(), n/ownListeners) }

func (w *world) listeners(first int) (out []any) {
	for n := first; n < min(first+ownListeners, w.levels.Listeners); n++ {
		out = append(out, w.listener(n))
	}
	return out
}

// route returns a route, which is attached to listener n modulo their number.
func (w *world) route(name string, n int) *unstructured.Unstructured {
	at := n % w.levels.Listeners
	parent := map[string]any{"name": w.name(), "kind": "Gateway", "group": "gateway.networking.k8s.io", "sectionName": listenerName(at)}
	if at >= ownListeners {
		parent["name"], parent["kind"] = w.setName(at), "ListenerSet"
	}
	return w.object(gatewayAPI, "HTTPRoute", name, map[string]any{
		"parentRefs": []any{parent}, "hostnames": []any{w.host(name, n)},
		"rules": []any{map[string]any{"backendRefs": []any{map[string]any{"name": roleBackend, "port": int64(httpPort)}}}},
	})
}

func firstRoute(n int) string { return fmt.Sprintf("r%05d", n) }

func addedRoute(n int) string { return fmt.Sprintf("added%05d", n) }

// unattached changes a route's listener to one that does not exist.
func unattached(route *unstructured.Unstructured) {
	parents, _, _ := unstructured.NestedSlice(route.Object, "spec", "parentRefs")
	parents[0].(map[string]any)["sectionName"] = "missing"
	_ = unstructured.SetNestedSlice(route.Object, parents, "spec", "parentRefs")
}

// authority signs the certificates of one trial. Its key is never stored.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         string
	now         time.Time
}

// certificatesLast is the validity of a trial's certificates.
const certificatesLast = 24 * time.Hour

func newAuthority(now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a := &authority{key: key, now: now}
	template := a.template("authority of a trial")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	a.certificate, err = x509.ParseCertificate(der)
	a.pem = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return a, err
}

func (a *authority) template(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)) // its reader never fails
	return &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: a.now.Add(-time.Minute), NotAfter: a.now.Add(certificatesLast)} // the clocks of nodes differ
}

// issue makes a key and a certificate for hosts, in PEM.
func (a *authority) issue(name string, hosts []string) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := a.template(name)
	template.DNSNames, template.KeyUsage, template.ExtKeyUsage = hosts, x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &private.PublicKey, a.key)
	if err != nil {
		return nil, nil, err
	}
	text, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}), nil
}
