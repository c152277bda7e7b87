//go:build verify

package runner_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
	"k8s.io/client-go/dynamic"
)

// TestLabGoesWhileSomebodyWaits: a run waits for another one, which started the
// lab and takes it down at its end. The waiting run reports that, and what to do.
func TestLabGoesWhileSomebodyWaits(t *testing.T) {
	m, dir := labtest.New(t), t.TempDir()
	text := "name: first\nquestion: Who takes the lab down?\nmesh: none\nsettings: {sidecars: none, rate: 100}\nfactors: {connections: [1, 2]}\nblocks: {min: 2, max: 2}\nwarmup: {min: 1s, max: 2s}\nwindow: 5s\ninterval: 1s\n"
	file := labtest.Study(t, text)
	first := m.Command(t, "run", file, "--out", filepath.Join(dir, "first"))
	said, ended := labtest.Background(t, first)
	atWork := func() bool {
		l, err := local.Open(m.State())
		if err != nil {
			return false
		}
		kube, err := dynamic.NewForConfig(l.RESTConfig())
		must.OK(t, err)
		holder, err := journal.At(t.Context(), kube)
		return err == nil && holder != nil
	}
	for !atWork() {
		select {
		case <-ended:
			t.Fatalf("nobody has the Lease of a lab:\n%s", said)
		case <-time.After(100 * time.Millisecond):
		}
	}
	code, text := m.Run(t, "run", file, "--out", filepath.Join(dir, "second"), "--wait", "10m")
	<-ended
	t.Logf("%s", text)
	if code != errs.CodeFailure || !strings.Contains(text, "waiting for the cluster: run ") || !strings.Contains(text, "the lab was stopped meanwhile") || !strings.Contains(text, "--keep-lab") {
		t.Errorf("exit code %d\n%s\nthe first one:\n%s", code, text, said)
	}
}
