//go:build verify

package bucket

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"maps"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/store"
)

// gateway is a real store that speaks S3, on a folder and by TLS.
type gateway struct {
	program, root, address string
	cert, key              string // files
	cmd                    *exec.Cmd
	said                   *bytes.Buffer
}

func newGateway(t *testing.T) *gateway {
	t.Helper()
	dir := t.TempDir()
	g := &gateway{program: filepath.Join(dir, "versitygw"), root: filepath.Join(dir, "root"), cert: filepath.Join(dir, "cert"), key: filepath.Join(dir, "key")}
	build := exec.Command("go", "build", "-o", g.program, "github.com/versity/versitygw/cmd/versitygw")
	build.Dir = "gateway"
	build.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the store: %v\n%s", err, out)
	}
	g.certify(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g.address = l.Addr().String()
	if err := errors.Join(l.Close(), os.MkdirAll(filepath.Join(g.root, "runs"), 0o755), os.MkdirAll(filepath.Join(dir, "sidecar"), 0o755)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.stop)
	return g
}

func (g *gateway) certify(t *testing.T) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{g.cert: {Type: "CERTIFICATE", Bytes: cert}, g.key: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func (g *gateway) start(t *testing.T) {
	t.Helper()
	g.cmd, g.said = exec.Command(g.program, "--access", "mesh", "--secret", "trial", "--port", g.address, "--cert", g.cert, "--key", g.key,
		"posix", "--sidecar", filepath.Join(filepath.Dir(g.root), "sidecar"), g.root), &bytes.Buffer{}
	g.cmd.Stdout, g.cmd.Stderr = g.said, g.said
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
			t.Fatalf("the store does not listen: %v\n%s", err, g.said)
		}
	}
}

func (g *gateway) stop() {
	if g.cmd != nil {
		_ = g.cmd.Process.Kill()
		_ = g.cmd.Wait()
		g.cmd = nil
	}
}

func (g *gateway) open(t *testing.T, secret string) *Bucket {
	t.Helper()
	ca, err := os.ReadFile(g.cert)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open(keys(t, map[string]string{KeyEndpoint: "https://" + g.address, KeyAccess: "mesh", KeySecret: secret, KeyCA: string(ca), KeyRegion: "us-east-1"}), "s3://runs/mesh", "r1")
	if err != nil {
		t.Fatal(err)
	}
	b.tryAgain = 100 * time.Millisecond
	return b
}

// A real store takes a run, also files that are sent in parts; it is killed and comes back;
// and what it has becomes the same directory again.
func TestGateway(t *testing.T) {
	g := newGateway(t)
	g.start(t)
	b, dir := g.open(t, "trial"), filepath.Join(t.TempDir(), "r1")
	m, err := b.Mirror(t.Context(), dir)
	if err != nil {
		t.Fatalf("%v\n%s", err, g.said)
	}
	run := map[string]string{store.FileTrials: "{}\n", store.FileHeader: "{}", "hist/a.hlog": "#", "empty": "", "requests/large": strings.Repeat("0123456789abcdef", 40<<20/16)}
	write(t, dir, run)
	if err := m.Send(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, g.said)
	}

	g.stop()
	run[store.FileTrials] += "{}\n"
	write(t, dir, map[string]string{store.FileTrials: run[store.FileTrials]})
	waiting := make(chan struct{}, 1)
	b.Tell = func(string) {
		select {
		case waiting <- struct{}{}:
		default:
		}
	}
	sent := make(chan error, 1)
	go func() { sent <- m.Send(t.Context()) }()
	<-waiting
	g.start(t)
	if err := <-sent; err != nil {
		t.Fatalf("a store that came back: %v\n%s", err, g.said)
	}

	moved := filepath.Join(t.TempDir(), "r1")
	if err := b.Restore(t.Context(), moved, func() {}); err != nil || !maps.Equal(read(t, moved), run) {
		t.Errorf("what came back is not what was sent (%v)", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := g.open(t, "wrong").Restore(ctx, moved, func() {}); err == nil || errs.Hint(err) == "" {
		t.Errorf("by a wrong key: %v", err)
	}
	if err := b.Remove(t.Context(), func() {}); err != nil {
		t.Fatal(err)
	}
	if left, err := b.list(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
