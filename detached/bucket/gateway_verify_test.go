//go:build verify

package bucket

import (
	"context"
	"maps"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/meshtrial/meshtrial/detached/detachedtest"
	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/store"
)

// open is a bucket of a store, by a key that may be wrong.
func open(t *testing.T, g *detachedtest.Gateway, secret string) *Bucket {
	t.Helper()
	b, err := Open(keys(t, map[string]string{KeyEndpoint: g.Endpoint, KeyAccess: detachedtest.Access, KeySecret: secret, KeyCA: g.CA, KeyRegion: "us-east-1"}), "s3://"+detachedtest.Bucket+"/mesh", "r1")
	if err != nil {
		t.Fatal(err)
	}
	b.tryAgain = 100 * time.Millisecond
	return b
}

// A real store takes a run, also files that are sent in parts; it is killed, hangs, and comes
// back each time; and what it has becomes the same directory again.
func TestGateway(t *testing.T) {
	g := detachedtest.NewGateway(t, "gateway", net.IPv4(127, 0, 0, 1))
	g.Start(t, detachedtest.Secret)
	b, dir := open(t, g, detachedtest.Secret), filepath.Join(t.TempDir(), "r1")
	m, err := b.Mirror(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	run := map[string]string{store.FileTrials: "{}\n", store.FileHeader: "{}", "hist/a.hlog": "#", "empty": "", "requests/large": strings.Repeat("0123456789abcdef", 40<<20/16)}
	detachedtest.Write(t, dir, run)
	if err := m.Send(t.Context()); err != nil {
		t.Fatal(err)
	}

	// A pod that is killed while it sends a file leaves the parts that it has sent.
	core := minio.Core{Client: b.client}
	leave := func() {
		id, err := core.NewMultipartUpload(t.Context(), b.name, b.prefix+"requests/large", minio.PutObjectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := core.PutObjectPart(t.Context(), b.name, b.prefix+"requests/large", id, 1, strings.NewReader(run["requests/large"][:inParts]), inParts, minio.PutObjectPartOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	parts := func(want int) {
		t.Helper()
		n := 0
		for upload := range b.client.ListIncompleteUploads(t.Context(), b.name, b.prefix, true) {
			if n++; upload.Err != nil {
				t.Fatal(upload.Err)
			}
		}
		if n != want {
			t.Errorf("%d files are there in part, want %d", n, want)
		}
	}
	leave()
	parts(1)
	run["requests/large"] += "more"
	detachedtest.Write(t, dir, map[string]string{"requests/large": run["requests/large"]})
	if err := m.Send(t.Context()); err != nil {
		t.Fatal(err)
	}
	parts(0)

	b.answerTime = 2 * time.Second
	for _, away := range []struct {
		how        string
		begin, end func()
	}{
		{"was killed", g.Stop, func() { g.Start(t, detachedtest.Secret) }},
		{"hung", func() { g.Signal(t, syscall.SIGSTOP) }, func() { g.Signal(t, syscall.SIGCONT) }},
	} {
		away.begin()
		run[store.FileTrials] += "{}\n"
		detachedtest.Write(t, dir, map[string]string{store.FileTrials: run[store.FileTrials]})
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
		away.end()
		if err := <-sent; err != nil {
			t.Fatalf("a store that %s: %v", away.how, err)
		}
	}

	moved := filepath.Join(t.TempDir(), "r1")
	if err := b.Restore(t.Context(), moved, func() {}); err != nil || !maps.Equal(detachedtest.Contents(t, moved), run) {
		t.Errorf("what came back is not what was sent (%v)", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := open(t, g, "wrong").Restore(ctx, moved, func() {}); err == nil || errs.Hint(err) == "" {
		t.Errorf("by a wrong key: %v", err)
	}
	leave()
	if err := b.Remove(t.Context(), func() {}); err != nil {
		t.Fatal(err)
	}
	parts(0)
	if left, err := b.list(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
