package local

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// validity of a lab's certificates. Each lab has new keys and lives for hours.
const validity = 365 * 24 * time.Hour

// keyPair is a key and its certificate, also in PEM encoding.
type keyPair struct {
	cert            *x509.Certificate
	key             *ecdsa.PrivateKey
	certPEM, keyPEM []byte
}

// newAuthority makes a certificate authority.
func newAuthority(name string, now time.Time) (*keyPair, error) {
	return issue(nil, x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-5 * time.Minute), NotAfter: now.Add(validity),
		IsCA: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
	})
}

// client issues a client certificate for a Kubernetes user in groups.
func (a *keyPair) client(user string, groups ...string) (*keyPair, error) {
	return a.end(pkix.Name{CommonName: user, Organization: groups}, x509.ExtKeyUsageClientAuth, nil, nil)
}

// server issues a server certificate.
func (a *keyPair) server(name string, dns []string, ips ...net.IP) (*keyPair, error) {
	return a.end(pkix.Name{CommonName: name}, x509.ExtKeyUsageServerAuth, dns, ips)
}

// end issues a certificate that cannot sign others.
func (a *keyPair) end(subject pkix.Name, usage x509.ExtKeyUsage, dns []string, ips []net.IP) (*keyPair, error) {
	return issue(a, x509.Certificate{
		Subject: subject, NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage}, DNSNames: dns, IPAddresses: ips,
	})
}

// issue makes a key and its certificate, signed by an authority or self-signed if that is
// nil. The serial number is random.
func issue(by *keyPair, template x509.Certificate) (*keyPair, error) {
	failed := func(err error) (*keyPair, error) {
		return nil, fmt.Errorf("certificate of %s: %w", template.Subject.CommonName, err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return failed(err)
	}
	template.BasicConstraintsValid = true
	parent, signer := &template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, parent, key.Public(), signer)
	if err != nil {
		return failed(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return failed(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key) // the format that every Kubernetes program reads
	if err != nil {
		return failed(err)
	}
	encode := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	return &keyPair{cert, key, encode("CERTIFICATE", der), encode("EC PRIVATE KEY", keyDER)}, nil
}

type apiUser struct {
	user   string
	groups []string
}

// Users of the lab's API other than the kubelets. The certificates' names and groups are the
// ones that Kubernetes' built-in roles expect.
var apiUsers = map[string]apiUser{
	"admin":                   {"meshtrial-admin", []string{"system:masters"}},
	"kube-controller-manager": {"system:kube-controller-manager", nil},
	"kube-scheduler":          {"system:kube-scheduler", nil},
	"kube-proxy":              {"system:kube-proxy", nil},
	"kwok":                    {kwokUser, nil},
}

// kubeletClientUser is the API server's user towards the kubelet.
const (
	kubeletClientUser = "kube-apiserver-kubelet-client"
	kwokUser          = "kwok-controller"
)

// keySet holds the keys of one machine of a lab: files by name, and kubeconfigs by user.
type keySet struct{ files, kubeconfigs map[string][]byte }

// add adds the files of a key and its certificate.
func (s keySet) add(name string, pair *keyPair) {
	s.files[name+".crt"], s.files[name+".key"] = pair.certPEM, pair.keyPEM
}

// pkiFiles makes all keys and certificates of a lab: its own, and those of each node by name.
// A single node's keys are among the lab's; several nodes have only their own.
func pkiFiles(addresses network, nodes []Node, now time.Time) (own keySet, ofNodes map[string]keySet, err error) {
	ca, err := newAuthority("meshtrial lab", now)
	if err != nil {
		return own, nil, err
	}
	if own, err = ca.controlKeys(addresses, now); err != nil {
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
		keys.files["ca.crt"] = ca.certPEM
		keys.kubeconfigs["kube-proxy"] = own.kubeconfigs["kube-proxy"]
		ofNodes[n.Name] = keys
	}
	return own, ofNodes, nil
}

// nodeKeys returns a kubelet's serving certificate and its API identity.
func (a *keyPair) nodeKeys(n Node, apiURL string) (keySet, error) {
	server, err1 := a.server("kubelet", []string{n.Name}, n.Address.AsSlice())
	client, err2 := a.client("system:node:"+n.Name, "system:nodes")
	if err := errors.Join(err1, err2); err != nil {
		return keySet{}, err
	}
	kubeconfig, err := kubeconfigOf(apiURL, a, client)
	out := keySet{files: map[string][]byte{}, kubeconfigs: map[string][]byte{"kubelet": kubeconfig}}
	out.add("kubelet-server", server)
	return out, err
}

// controlKeys returns the keys of the control plane, of its users, and of the administrator.
func (a *keyPair) controlKeys(addresses network, now time.Time) (keySet, error) {
	front, err1 := newAuthority("meshtrial lab front proxy", now)
	accounts, err2 := newAuthority("service accounts", now) // only the key is used
	if err := errors.Join(err1, err2); err != nil {
		return keySet{}, err
	}
	server, err1 := a.server("kube-apiserver", apiNames, addresses.Node.Addr().AsSlice(), addresses.apiService().AsSlice(), loopback)
	kubelet, err2 := a.client(kubeletClientUser)
	proxy, err3 := front.client("front-proxy-client")
	if err := errors.Join(err1, err2, err3); err != nil {
		return keySet{}, err
	}
	out := keySet{kubeconfigs: map[string][]byte{}, files: map[string][]byte{
		"ca.crt": a.certPEM, "ca.key": a.keyPEM, "front-proxy-ca.crt": front.certPEM, "service-accounts.key": accounts.keyPEM}}
	out.add("apiserver", server)
	out.add("kubelet-client", kubelet)
	out.add("front-proxy-client", proxy)
	for name, who := range apiUsers {
		user, err := a.client(who.user, who.groups...)
		if err == nil {
			out.kubeconfigs[name], err = kubeconfigOf(addresses.apiURL(), a, user)
		}
		if err != nil {
			return keySet{}, err
		}
	}
	return out, nil
}

var (
	loopback = net.IPv4(127, 0, 0, 1)
	apiNames = []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "localhost", nodeName}
)

// kubeconfigOf returns a self-contained kubeconfig of a user.
func kubeconfigOf(server string, ca, user *keyPair) ([]byte, error) {
	const name = "meshtrial"
	who := user.cert.Subject.CommonName
	return clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: server, CertificateAuthorityData: ca.certPEM}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{who: {ClientCertificateData: user.certPEM, ClientKeyData: user.keyPEM}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: who}},
		CurrentContext: name,
	})
}
