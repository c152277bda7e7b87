package detached

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/journal"
	"github.com/meshtrial/meshtrial/testing/must"
)

// begin creates the ClusterRole of a run, which comes before everything else.
func begin(t *testing.T, c *Cluster, s Spec, ago time.Duration) {
	t.Helper()
	anchor, _, err := s.objects(nil)
	must.OK(t, err)
	anchor.SetCreationTimestamp(metav1.NewTime(time.Now().Add(-ago)))
	must.OK(t, must.Err(c.create(t.Context(), anchor)))
}

// If the start of a run was killed before its Job was created, its rights are listed. Such a
// run is not waited for, and can be removed.
func TestKilledAsItBegan(t *testing.T) {
	c, kube := fake(disk())
	s := spec(t)
	begin(t, c, s, time.Hour)
	must.OK(t, journal.Reserve(t.Context(), kube))
	runs, err := c.List(t.Context(), s.Namespace)
	if err != nil || len(runs) != 1 {
		t.Fatalf("%+v, %v", runs, err)
	}
	r := runs[0]
	if r.Name != s.Run || r.Study != "p" || r.Namespace != s.Namespace || r.State != NoJob || !r.Ended() {
		t.Errorf("%+v", r)
	}
	if others, err := c.List(t.Context(), "elsewhere"); err != nil || len(others) > 0 {
		t.Errorf("in another namespace: %+v, %v", others, err)
	}
	_, followed := c.Follow(t.Context(), r, io.Discard, func(string) {})
	fetched := c.Fetch(t.Context(), r, filepath.Join(t.TempDir(), "r"), func(string) {})
	for what, err := range map[string]error{"followed": followed, "fetched": fetched} {
		if errs.Code(err) != errs.CodeUsage || !strings.Contains(errs.Hint(err), "runs delete "+s.Run) {
			t.Errorf("%s: %v (hint %q)", what, err, errs.Hint(err))
		}
	}
	if last, err := c.Delete(t.Context(), r, false, func(string) {}); err != nil || !last {
		t.Errorf("removed: %v, the last one: %t", err, last)
	}
	if left, err := c.anchors(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// An API server that does not answer for a moment does not end the removal of a run, after which
// nothing would release the journal's namespace.
func TestRemovedAcrossAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, kube := fake(disk())
		s := spec(t)
		begin(t, c, s, time.Hour)
		must.OK(t, journal.Reserve(t.Context(), kube))
		runs, err := c.List(t.Context(), s.Namespace)
		must.OK(t, err)
		outage := 2
		kube.PrependReactor("get", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) {
			outage--
			return outage >= 0, nil, errors.New("connection refused")
		})
		if last, err := c.Delete(t.Context(), runs[0], false, func(string) {}); err != nil || !last {
			t.Errorf("removed: %v, the last one: %t", err, last)
		}
	})
}

// A run that is just being started cannot be removed by accident.
func TestBeingBegun(t *testing.T) {
	c, _ := fake(disk())
	s := spec(t)
	begin(t, c, s, 0)
	runs, err := c.List(t.Context(), "")
	if err != nil || len(runs) != 1 || runs[0].State != NoJob || runs[0].Ended() {
		t.Fatalf("%+v, %v", runs, err)
	}
	if _, err := c.Delete(t.Context(), runs[0], true, func(string) {}); err != nil {
		t.Errorf("by force: %v", err)
	}
}

// A run that is being started while the last one is removed keeps its rights: their namespace
// stays.
func TestUnreserveBesideABeginningRun(t *testing.T) {
	c, kube := fake(disk())
	s := spec(t)
	must.OK(t, journal.Reserve(t.Context(), kube))
	begin(t, c, s, 0)
	if last, err := c.unreserve(t.Context()); err != nil || last {
		t.Errorf("beside it: %t, %v", last, err)
	}
	must.OK(t, c.remove(t.Context(), "meshtrial:"+s.Namespace+":"+s.Name()))
	if last, err := c.unreserve(t.Context()); err != nil || !last {
		t.Errorf("without it: %t, %v", last, err)
	}
}
