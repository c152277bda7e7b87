package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/detached"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/testing/must"
)

// The pod receives every option that matters there, and none that names files on this machine.
func TestPodArgs(t *testing.T) {
	want := RunOptions{Where: Where{Lab: lab.KindCluster}, Image: "registry.example/meshtrial:1", Observe: record.ObservedKubelet, PullSecret: "team/registry", Revision: "canary",
		MeshWide: true, OwnLab: true, Wait: time.Hour, Limits: []string{"unattributed=60%", "schedule-lag=0.5"}}
	o := want
	o.Kubeconfig, o.Context = "k", "c"
	args, err := o.podArgs(detached.Spec{Run: "r", Namespace: "n"})
	must.OK(t, err)
	var got RunOptions
	if err := json.Unmarshal([]byte(args[len(args)-1]), &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if got.headerLab() != lab.KindLocal {
		t.Errorf("a run in the user's own lab is said to be in a lab that is %s", got.headerLab())
	}
}

// An attempt continues with the trials that exist. If the previous attempt had not created a run
// yet, it starts afresh.
func TestTakeUp(t *testing.T) {
	const text = "name: p\nquestion: q?\nfactors: {sidecars: [none, both]}\n"
	dir := filepath.Join(t.TempDir(), "run")
	given := t.TempDir()
	for _, name := range []string{store.FileStudy, store.FileResolved} {
		must.OK(t, os.WriteFile(filepath.Join(given, name), []byte(text), 0o644))
	}
	f := RunOptions{}
	if n, err := f.takeUp(given, dir, false); n != 0 || err != nil || f.Out != dir || f.Resume != "" || f.Study == nil || f.Wait != 0 {
		t.Errorf("nothing there: %d, %v, %+v", n, err, f)
	}
	must.OK(t, os.MkdirAll(filepath.Join(dir, "hist"), 0o755))
	// Another run may hold the cluster.
	if n, err := f.takeUp(given, dir, true); n != 0 || err != nil || store.Vacant(f.Out) != nil || f.Wait != 24*time.Hour {
		t.Errorf("half a run: %d, %v, %v, it waits %v", n, err, store.Vacant(f.Out), f.Wait)
	}
	d, err := store.Create(dir, record.Header{Kind: "data-plane", RunID: "r", Seed: 1}, []byte(text), []byte(text))
	must.OK(t, err)
	must.OK(t, d.Append(record.Trial{ID: "b0-t0"}))
	must.OK(t, d.Close())
	f = RunOptions{}
	if n, err := f.takeUp(given, dir, false); n != 1 || err != nil || f.Resume != dir || f.Out != "" || f.Study == nil || f.Wait != 24*time.Hour {
		t.Errorf("a run with a trial: %d, %v, %+v", n, err, f)
	}
	f = RunOptions{Wait: 48 * time.Hour}
	if _, err := f.takeUp(given, dir, true); err != nil || f.Wait != 48*time.Hour {
		t.Errorf("it waits %v, %v", f.Wait, err)
	}
}

// A run in which no further trial could be completed is not tried again.
func TestFinalIfFatal(t *testing.T) {
	failed := errors.New("no waypoint")
	if err := finalIfFatal(failed); err != failed {
		t.Errorf("a failure that the next pod may not have: %v", err)
	}
	if err := finalIfFatal(nil); err != nil {
		t.Errorf("no failure: %v", err)
	}
	last := errs.Code(detached.Final(failed))
	err := finalIfFatal(fmt.Errorf("the run did not finish: %w", runner.Fatal(failed)))
	if !errors.Is(err, failed) || errs.Code(err) != last || last == errs.CodeFailure {
		t.Errorf("code %d, want %d: %v", errs.Code(err), last, err)
	}
}
