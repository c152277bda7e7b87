package local

import (
	"crypto/x509"
	"encoding/pem"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/meshtrial/meshtrial/testing/must"
)

var testNetwork = network{
	Host: netip.MustParsePrefix("10.254.77.1/30"), Node: netip.MustParsePrefix("10.254.77.2/30"),
	Pods: netip.MustParsePrefix("10.160.0.0/16"), Services: netip.MustParsePrefix("10.96.0.0/16"),
}

var testNodes = testNetwork.nodesAt([]place{{}})

func parseCert(t *testing.T, data []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(data)
	if block == nil {
		t.Fatalf("no PEM: %q", data)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	must.OK(t, err)
	return cert
}

func TestCertificates(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	keys, ofNodes, err := pkiFiles(testNetwork, testNodes, now)
	if err != nil || len(ofNodes) > 0 {
		t.Fatalf("%d sets of nodes' keys, %v", len(ofNodes), err)
	}
	files, kubeconfigs := keys.files, keys.kubeconfigs
	pool := func(name string) *x509.CertPool {
		pool := x509.NewCertPool()
		pool.AddCert(parseCert(t, files[name]))
		return pool
	}
	lab, front := pool("ca.crt"), pool("front-proxy-ca.crt")
	server := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	client := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	for _, test := range []struct {
		file  string
		roots *x509.CertPool
		name  string
		usage []x509.ExtKeyUsage
		good  bool
	}{
		{"apiserver.crt", lab, "kubernetes.default.svc", server, true},
		{"apiserver.crt", lab, "10.254.77.2", server, true},
		{"apiserver.crt", lab, "10.96.0.1", server, true},
		{"apiserver.crt", lab, "127.0.0.1", server, true},
		{"apiserver.crt", lab, "10.254.77.1", server, false},
		{"apiserver.crt", front, "10.254.77.2", server, false},
		{"apiserver.crt", lab, "10.254.77.2", client, false},
		{"kubelet-server.crt", lab, "10.254.77.2", server, true},
		{"kubelet-client.crt", lab, "", client, true},
		{"kubelet-client.crt", lab, "", server, false},
		{"front-proxy-client.crt", front, "", client, true},
		{"front-proxy-client.crt", lab, "", client, false},
	} {
		_, err := parseCert(t, files[test.file]).Verify(x509.VerifyOptions{Roots: test.roots, DNSName: test.name, KeyUsages: test.usage, CurrentTime: now})
		if (err == nil) != test.good {
			t.Errorf("%s as %q for %v: %v, want it good: %t", test.file, test.name, test.usage, err, test.good)
		}
	}
	users := maps.Clone(apiUsers)
	users["kubelet"] = apiUser{"system:node:lab", []string{"system:nodes"}}
	for name, who := range users {
		config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfigs[name])
		if err != nil {
			t.Fatalf("kubeconfig of %s: %v", name, err)
		}
		cert := parseCert(t, config.CertData)
		if cert.Subject.CommonName != who.user || !slices.Equal(cert.Subject.Organization, who.groups) {
			t.Errorf("%s is %v", name, cert.Subject)
		}
		if _, err := cert.Verify(x509.VerifyOptions{Roots: lab, KeyUsages: client, CurrentTime: now}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if config.Insecure || config.Host != "https://10.254.77.2:6443" || len(config.CAData) == 0 {
			t.Errorf("kubeconfig of %s: insecure %t, host %s", name, config.Insecure, config.Host)
		}
		if name != "admin" && slices.Contains(cert.Subject.Organization, "system:masters") {
			t.Errorf("%s may do everything", name)
		}
	}
	again, _, err := pkiFiles(testNetwork, testNodes, now)
	must.OK(t, err)
	for name := range files {
		if strings.HasSuffix(name, ".key") && string(files[name]) == string(again.files[name]) {
			t.Errorf("%s is not random", name)
		}
	}
}
