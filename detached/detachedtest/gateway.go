package detachedtest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// What a [Gateway] has: one bucket, and one who may use it.
const (
	Bucket = "runs"
	Access = "mesh"
	Secret = "trial"
)

// Gateway is a real store that speaks S3, on a folder and by TLS.
type Gateway struct {
	Endpoint string // https://HOST:PORT
	CA       string // the certificate of its authority, as PEM
	Root     string // the folder; a bucket is a folder in it

	program, address string
	sidecar          string // a folder for what it notes of objects
	cert, key        string // files
	cmd              *exec.Cmd
	said             bytes.Buffer // all that it said, however often it was started
}

// NewGateway builds the store of the Go module in folder source. It is to listen at an
// address of host, and ends with the test at the latest.
func NewGateway(t testing.TB, source string, host net.IP) *Gateway {
	t.Helper()
	dir := t.TempDir()
	g := &Gateway{program: filepath.Join(dir, "versitygw"), Root: filepath.Join(dir, "root"), sidecar: filepath.Join(dir, "sidecar"), cert: filepath.Join(dir, "cert"), key: filepath.Join(dir, "key")}
	build := exec.Command("go", "build", "-o", g.program, "github.com/versity/versitygw/cmd/versitygw")
	build.Dir = source
	build.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the store: %v\n%s", err, out)
	}
	g.certify(t, host)
	l, err := net.Listen("tcp", net.JoinHostPort(host.String(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	g.address = l.Addr().String()
	g.Endpoint = "https://" + g.address
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{g.Root, g.sidecar} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		g.Stop()
		if t.Failed() {
			t.Logf("the store said:\n%s", &g.said)
		}
	})
	return g
}

func (g *Gateway) certify(t testing.TB, host net.IP) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{host}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	g.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
	for path, text := range map[string]string{g.cert: g.CA, g.key: string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Start has the store listen, with the bucket there; secret is what it takes for the key.
func (g *Gateway) Start(t testing.TB, secret string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(g.Root, Bucket), 0o755); err != nil {
		t.Fatal(err)
	}
	g.cmd = exec.Command(g.program, "--access", Access, "--secret", secret, "--port", g.address, "--cert", g.cert, "--key", g.key, "posix", "--sidecar", g.sidecar, g.Root)
	g.cmd.Stdout, g.cmd.Stderr = &g.said, &g.said
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // of an interrupted test too
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		conn, err := net.Dial("tcp", g.address)
		if err == nil {
			conn.Close()
			return
		}
		if time.Since(begin) > time.Minute {
			g.Stop()
			t.Fatalf("the store does not listen: %v\n%s", err, &g.said)
		}
	}
}

// Signal sends the store a signal.
func (g *Gateway) Signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := g.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// Stop ends the store without a word, if it runs.
func (g *Gateway) Stop() {
	if g.cmd != nil {
		_ = g.cmd.Process.Kill()
		_ = g.cmd.Wait()
		g.cmd = nil
	}
}
