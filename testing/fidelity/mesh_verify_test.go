//go:build verify

package fidelity

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"google.golang.org/grpc/credentials"

	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// mesh is a lab with a recorder in front of its istiod.
type mesh struct {
	lab      *local.Lab
	kube     kubernetes.Interface
	applier  *lab.Applier
	recorder *Recorder
	address  string // the recorder's, HOST:PORT
	root     string // istiod's certificate authority, PEM
}

// recorderName is the recorder's name for pods, and in its certificate.
const recorderName = "recorder.fidelity.svc"

// newMesh returns a lab with a recorder on the host's end of its link.
func newMesh(t *testing.T, ctx context.Context) *mesh {
	t.Helper()
	m := &mesh{lab: labtest.Start(t)}
	labtest.Namespace(t, m.lab, "fidelity")
	var err error
	m.kube, err = kubernetes.NewForConfig(m.lab.RESTConfig())
	must.OK(t, err)
	m.applier, err = lab.NewApplier(m.lab.RESTConfig())
	must.OK(t, err)
	istiod, err := m.kube.CoreV1().Services("istio-system").Get(ctx, "istiod", metav1.GetOptions{})
	must.OK(t, err)
	secret, err := m.kube.CoreV1().Secrets("istio-system").Get(ctx, "istio-ca-secret", metav1.GetOptions{})
	must.OK(t, err)
	m.root = string(secret.Data["ca-cert.pem"])
	ca, err := tls.X509KeyPair(secret.Data["ca-cert.pem"], secret.Data["ca-key.pem"])
	must.OK(t, err)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(secret.Data["ca-cert.pem"]) {
		t.Fatal("no certificate in istio-ca-secret")
	}
	m.recorder, err = NewRecorder(Options{
		Upstream:    net.JoinHostPort(istiod.Spec.ClusterIP, "15012"),
		UpstreamTLS: credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: "istiod.istio-system.svc"}),
		TLS:         credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{certificate(t, ca)}}),
	})
	must.OK(t, err)
	t.Cleanup(func() { m.recorder.Close() })
	return m
}

// listen serves pods, and creates the Service through which they find the
// recorder.
func (m *mesh) listen(t *testing.T, ctx context.Context) {
	t.Helper()
	nodes, err := m.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	must.OK(t, err)
	host := ""
	for _, node := range nodes.Items {
		for _, a := range node.Status.Addresses {
			if a.Type == corev1.NodeInternalIP && node.Name == "lab" {
				// The route to the node shows by which address it knows us.
				c, err := net.Dial("udp", net.JoinHostPort(a.Address, "9"))
				must.OK(t, err)
				host = c.LocalAddr().(*net.UDPAddr).IP.String()
				c.Close()
			}
		}
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	must.OK(t, err)
	m.address = l.Addr().String()
	go m.recorder.Serve(l) // until the recorder is closed
	m.apply(t, ctx, fmt.Sprintf(`
apiVersion: v1
kind: Namespace
metadata: {name: fidelity, labels: {istio-injection: enabled}}
---
apiVersion: v1
kind: Service
metadata: {name: recorder, namespace: fidelity}
spec: {ports: [{name: grpc-xds, port: 15012}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: recorder, namespace: fidelity, labels: {kubernetes.io/service-name: recorder}}
addressType: IPv4
ports: [{name: grpc-xds, port: %d}]
endpoints: [{addresses: [%s]}]
`, l.Addr().(*net.TCPAddr).Port, host))
}

func (m *mesh) apply(t *testing.T, ctx context.Context, yaml string) {
	t.Helper()
	must.OK(t, m.applier.Apply(ctx, []byte(yaml)))
}

// service returns a Service without selector, with endpoints.
func service(name string, port int, endpoints ...string) string {
	text := fmt.Sprintf(`
---
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: fidelity}
spec: {ports: [{name: http, port: %[2]d}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s, namespace: fidelity, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{name: http, port: %[2]d}]
endpoints:
`, name, port)
	for _, e := range endpoints {
		text += fmt.Sprintf("- {addresses: [%s]}\n", e)
	}
	return text
}

// client returns a Deployment of one pod with a sidecar that gets its
// configuration through the recorder, and its Service.
func client(name, mode string, dns bool) string {
	metadata := ""
	if dns {
		metadata = `, ISTIO_META_DNS_CAPTURE: "true"`
	}
	return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: fidelity}
spec: {ports: [{name: http, port: 80}], selector: {app: %[1]s}}
---`, name) + proxied(name, mode, metadata, "", fmt.Sprintf("{name: pause, image: %q, ports: [{name: http, containerPort: 80}]}", components.PauseRef))
}

// gateway returns a Deployment of one pod that istiod's injector turns into a
// gateway (`pilot-agent proxy router`), with its configuration through the
// recorder.
func gateway(name, mode string) string {
	return proxied(name, mode, "", "inject.istio.io/templates: gateway",
		"{name: istio-proxy, image: auto, imagePullPolicy: IfNotPresent, resources: {requests: {cpu: 10m, memory: 40Mi}}}")
}

// proxied returns a Deployment of one pod whose proxy connects to the recorder.
func proxied(name, mode, metadata, annotation, container string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: fidelity}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata:
      labels: {app: %[1]s}
      annotations:
        proxy.istio.io/config: |
          discoveryAddress: %[2]s:15012
          proxyMetadata: {ISTIO_DELTA_XDS: "%[3]v"%[4]s}
        %[5]s
    spec:
      terminationGracePeriodSeconds: 1
      containers: [%[6]s]
`, name, recorderName, mode != ModeSotW, metadata, annotation, container)
}

// exposed returns a Gateway on a gateway's pods, and a VirtualService that
// leads from there to a service.
func exposed(gateway, service string, port int) string {
	return fmt.Sprintf(`
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: %[2]s, namespace: fidelity}
spec:
  selector: {app: %[1]s}
  servers: [{port: {number: 8080, name: http, protocol: HTTP}, hosts: [%[2]s.example]}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: %[2]s, namespace: fidelity}
spec:
  hosts: [%[2]s.example]
  gateways: [%[2]s]
  http: [{route: [{destination: {host: %[2]s, port: {number: %[3]d}}}]}]
`, gateway, service, port)
}

// certificate issues the recorder's certificate, for its name and this machine's
// loopback.
func certificate(t *testing.T, ca tls.Certificate) tls.Certificate {
	t.Helper()
	parent, err := x509.ParseCertificate(ca.Certificate[0])
	must.OK(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	template := certificateOf("recorder")
	template.DNSNames, template.IPAddresses = []string{recorderName}, []net.IP{net.IPv4(127, 0, 0, 1)}
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, ca.PrivateKey)
	must.OK(t, err)
	return tls.Certificate{Certificate: [][]byte{der, ca.Certificate[0]}, PrivateKey: key}
}

// certificateOf begins a certificate.
func certificateOf(name string) *x509.Certificate {
	return &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(24 * time.Hour)}
}
