package local

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net"
	"time"

	"sigs.k8s.io/yaml"
)

// validity of a lab's certificates. Each lab has new keys, and lives for hours.
const validity = 365 * 24 * time.Hour

// authority is a certificate authority with its key.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
	now  time.Time
}

// keyPair is a certificate and its key, PEM encoded.
type keyPair struct{ cert, key []byte }

func newAuthority(name string, now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := certTemplate(now)
	if err != nil {
		return nil, err
	}
	template.Subject = pkix.Name{CommonName: name}
	template.IsCA = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{cert: cert, key: key, pem: certPEM(der), now: now}, nil
}

func certTemplate(now time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber:          serial,
		NotBefore:             now.Add(-5 * time.Minute),
		NotAfter:              now.Add(validity),
		BasicConstraintsValid: true,
	}, nil
}

// client issues a client certificate for a Kubernetes user in groups.
func (a *authority) client(user string, groups ...string) (keyPair, error) {
	return a.issue(pkix.Name{CommonName: user, Organization: groups}, x509.ExtKeyUsageClientAuth, nil, nil)
}

// server issues a serving certificate.
func (a *authority) server(name string, dns []string, ips []net.IP) (keyPair, error) {
	return a.issue(pkix.Name{CommonName: name}, x509.ExtKeyUsageServerAuth, dns, ips)
}

func (a *authority) issue(subject pkix.Name, usage x509.ExtKeyUsage, dns []string, ips []net.IP) (keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, err
	}
	template, err := certTemplate(a.now)
	if err != nil {
		return keyPair{}, err
	}
	template.Subject = subject
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{usage}
	template.DNSNames, template.IPAddresses = dns, ips
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return keyPair{}, err
	}
	encoded, err := keyPEM(key)
	return keyPair{certPEM(der), encoded}, err
}

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// keyPEM encodes a key in the form that every Kubernetes program reads.
func keyPEM(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

type apiUser struct {
	user   string
	groups []string
}

// Users of the lab's API beside the kubelets: the certificates' names and groups are the ones
// that Kubernetes' built-in roles expect.
var apiUsers = map[string]apiUser{
	"admin":                   {"meshtrial-admin", []string{"system:masters"}},
	"kube-controller-manager": {"system:kube-controller-manager", nil},
	"kube-scheduler":          {"system:kube-scheduler", nil},
	"kube-proxy":              {"system:kube-proxy", nil},
	"kwok":                    {kwokUser, nil},
}

// kubeletClientUser is the API server towards the kubelet.
const (
	kubeletClientUser = "kube-apiserver-kubelet-client"
	kwokUser          = "kwok-controller"
)

// keySet is the keys of one machine of a lab: files by name, and kubeconfigs by user.
type keySet struct{ files, kubeconfigs map[string][]byte }

// pkiFiles makes all keys and certificates of a lab: its own, and those of each node by
// name. A single node's are among the lab's; several nodes have only their own.
func pkiFiles(addresses network, nodes []Node, now time.Time) (own keySet, ofNodes map[string]keySet, err error) {
	ca, err := newAuthority("meshtrial lab", now)
	if err != nil {
		return own, nil, err
	}
	if own, err = ca.controlKeys(addresses); err != nil {
		return own, nil, err
	}
	ofNodes = map[string]keySet{}
	for _, n := range nodes {
		keys, err := ca.nodeKeys(n, addresses.apiURL())
		if err != nil {
			return own, nil, err
		}
		if len(nodes) == 1 {
			maps.Copy(own.files, keys.files)
			maps.Copy(own.kubeconfigs, keys.kubeconfigs)
			break
		}
		keys.files["ca.crt"] = ca.pem
		keys.kubeconfigs["kube-proxy"] = own.kubeconfigs["kube-proxy"]
		ofNodes[n.Name] = keys
	}
	return own, ofNodes, nil
}

// nodeKeys are a kubelet's serving certificate and its identity for the API.
func (a *authority) nodeKeys(n Node, apiURL string) (keySet, error) {
	server, err := a.server("kubelet", []string{n.Name}, []net.IP{n.Address.AsSlice()})
	if err != nil {
		return keySet{}, fmt.Errorf("certificate of node %s: %w", n.Name, err)
	}
	user := "system:node:" + n.Name
	client, err := a.client(user, "system:nodes")
	if err != nil {
		return keySet{}, fmt.Errorf("certificate of %s: %w", user, err)
	}
	kubeconfig, err := kubeconfigYAML(apiURL, a.pem, user, client)
	return keySet{
		files:       map[string][]byte{"kubelet-server.crt": server.cert, "kubelet-server.key": server.key},
		kubeconfigs: map[string][]byte{"kubelet": kubeconfig},
	}, err
}

// controlKeys are those of the control plane, of its users, and of the
// administrator.
func (a *authority) controlKeys(addresses network) (keySet, error) {
	front, err := newAuthority("meshtrial lab front proxy", a.now)
	if err != nil {
		return keySet{}, err
	}
	caKey, err := keyPEM(a.key)
	if err != nil {
		return keySet{}, err
	}
	accounts, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keySet{}, err
	}
	accountsKey, err := keyPEM(accounts)
	if err != nil {
		return keySet{}, err
	}
	files := map[string][]byte{"ca.crt": a.pem, "ca.key": caKey, "front-proxy-ca.crt": front.pem, "service-accounts.key": accountsKey}
	node, err := addresses.node()
	if err != nil {
		return keySet{}, err
	}
	service, err := addresses.apiService()
	if err != nil {
		return keySet{}, err
	}
	pairs := []struct {
		name string
		make func() (keyPair, error)
	}{
		{"apiserver", func() (keyPair, error) {
			return a.server("kube-apiserver", apiNames, []net.IP{node, service, loopback})
		}},
		{"kubelet-client", func() (keyPair, error) { return a.client(kubeletClientUser) }},
		{"front-proxy-client", func() (keyPair, error) { return front.client("front-proxy-client") }},
	}
	for _, p := range pairs {
		pair, err := p.make()
		if err != nil {
			return keySet{}, fmt.Errorf("certificate %s: %w", p.name, err)
		}
		files[p.name+".crt"], files[p.name+".key"] = pair.cert, pair.key
	}
	kubeconfigs := map[string][]byte{}
	for name, who := range apiUsers {
		pair, err := a.client(who.user, who.groups...)
		if err != nil {
			return keySet{}, fmt.Errorf("certificate of %s: %w", name, err)
		}
		if kubeconfigs[name], err = kubeconfigYAML(addresses.apiURL(), a.pem, who.user, pair); err != nil {
			return keySet{}, err
		}
	}
	return keySet{files, kubeconfigs}, nil
}

var (
	loopback = net.IPv4(127, 0, 0, 1)
	apiNames = []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "localhost", nodeName}
)

// kubeconfigYAML is a self-contained kubeconfig.
func kubeconfigYAML(server string, ca []byte, user string, pair keyPair) ([]byte, error) {
	b64 := base64.StdEncoding.EncodeToString
	return yaml.Marshal(map[string]any{
		"apiVersion": "v1",
		"kind":       "Config",
		"clusters": []any{map[string]any{"name": "meshtrial", "cluster": map[string]any{
			"server": server, "certificate-authority-data": b64(ca)}}},
		"users": []any{map[string]any{"name": user, "user": map[string]any{
			"client-certificate-data": b64(pair.cert), "client-key-data": b64(pair.key)}}},
		"contexts": []any{map[string]any{"name": "meshtrial", "context": map[string]any{
			"cluster": "meshtrial", "user": user}}},
		"current-context": "meshtrial",
	})
}
