//go:build integration

package runner_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/store"
)

// slowTold is a study in which a pod that serves requests goes while istiod
// tells nobody for 2.5 s.
const slowTold = `
name: slow-told
question: What do requests meet?
control: {changes: 1, settle: 2m, quiet: 500ms, idle: 0s, traffic: {rate: 50, connections: 400}}
settings: {services: 2, proxies: 2, change: endpoints-replace, change_rate: 1, debounce_after: 2500ms}
blocks: {min: 1, max: 1}
`

// TestControlTraffic lets a pod go under real requests: some meet it, the
// accounts of generator, sidecar's log and sidecar's counter agree, and nothing
// stays behind.
func TestControlTraffic(t *testing.T) {
	b := newBench(t)
	path, out := filepath.Join(b.dir, "slow-told.yaml"), filepath.Join(b.dir, "slow-told")
	if err := os.WriteFile(path, []byte(slowTold), 0o644); err != nil {
		t.Fatal(err)
	}
	code, text := b.meshtrial(t, "run", path, "--out", out)
	measured(t, code, text)
	run, notes, err := store.Load(t.Context(), out)
	if err != nil || len(notes) > 0 || len(run.Trials) != 1 || run.Trials[0].Control == nil || run.Trials[0].Control.Traffic == nil {
		t.Fatalf("%v, %v, %d trials:\n%s", err, notes, len(run.Trials), text)
	}
	x := run.Trials[0].Control.Traffic
	if x.Requests < 100 || x.Gone != 1 || x.Completed+x.FailedTotal()+x.Unfinished != x.Requests {
		t.Errorf("%d requests, %d completed, %v failed, %d unfinished; %d endpoints went", x.Requests, x.Completed, x.Failed, x.Unfinished, x.Gone)
	}
	// In 2.5 s there are 125 requests, half of them for the pod that went.
	if x.PhantomRequests < 10 || x.PhantomFailures+x.PhantomHidden < 5 || x.LastPhantomUS < 1e6 {
		t.Errorf("%d met an endpoint that was gone, the last after %.0f us: %d failed, %d were saved", x.PhantomRequests, x.LastPhantomUS, x.PhantomFailures, x.PhantomHidden)
	}
	if x.PhantomRequests != x.PhantomServed+x.PhantomHidden+x.PhantomFailures+x.PhantomOpen || x.Residual != 0 {
		t.Errorf("fates that do not add up, or failures nobody knows of: %+v", x)
	}
	checks := map[string]record.Check{}
	for _, c := range run.Trials[0].Validity.Checks {
		checks[c.Name] = c
	}
	for _, name := range []string{"traffic-account", "traffic-log", "committed", "account"} {
		if c := checks[name]; !c.OK {
			t.Errorf("%s: %s", name, c.Detail)
		}
	}
	b.undone(t)
}
