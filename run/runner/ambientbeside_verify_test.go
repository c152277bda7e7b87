//go:build verify

package runner_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// TestShippedAmbientBesideSidecars: if istiod does not skip sidecars, each change of a pod
// pushes workloads and routes to all of them, whereas without ambient mode it pushes neither.
// If it does skip them, routes are pushed no more often than without ambient mode. Ztunnels
// receive each change, none is missed, and istiod's counts match. Sidecars whose scope
// excludes the endpoints do not receive the workloads either (istio/istio#61648, which the
// pinned istiod lacks), and the trial says so. This holds even on a machine that is too busy
// to measure times.
func TestShippedAmbientBesideSidecars(t *testing.T) {
	const sidecars, changes = 20, 10
	b := newBench(t)
	out := filepath.Join(b.dir, "ambient-beside-sidecars")
	code, said := b.meshtrial(t, "run", "ambient-beside-sidecars", "--out", out, "--set", "blocks.min=1", "--set", "blocks.max=1", "--set", "blocks.limit=20m", "--set", "control.changes=10",
		"--set", "proxies=20", "--set", "services=20", "--set", "endpoints=2", "--set", "namespaces=2", "--set", "variant=[sidecars,ambient,every-address,with-ztunnels,with-ztunnels-scoped]")
	measured(t, code, said)
	run, _, err := store.Load(t.Context(), out)
	must.OK(t, err)
	of, warnings := map[string]*record.Control{}, map[string]string{}
	for _, trial := range run.Trials {
		variant := trial.Cell[study.FactorVariant]
		for _, c := range trial.Validity.Checks {
			if !c.OK && slices.Contains([]string{"account", "committed", "connected", "understood", "accepted", "searched", "pushes", "mesh hbone"}, c.Name) {
				t.Errorf("%s: %s: %s", variant, c.Name, c.Detail)
			}
		}
		of[variant], warnings[variant] = trial.Control, note.Words(trial.Validity.Warnings)
		missed, had := 0, 0
		for _, e := range run.Events {
			if e.Trial != trial.ID {
				continue
			}
			missed += len(e.Missed)
			for _, p := range e.Seen.Proxy {
				if trial.Control.IsZtunnel(p) {
					had++
				}
			}
		}
		if ztunnels := trial.Control.Ztunnels; missed > 0 || had < ztunnels*changes/2 {
			t.Errorf("%s: %d changes missed; %d ztunnels had %d in all", variant, missed, ztunnels, had)
		}
	}
	without, ambient, every, beside, scoped := of["sidecars"], of["ambient"], of["every-address"], of["with-ztunnels"], of["with-ztunnels-scoped"]
	if without == nil || ambient == nil || every == nil || beside == nil || scoped == nil {
		t.Fatalf("trials of %d variants\n%s", len(of), said)
	}
	pushes := func(c *record.Control, kind string) float64 { return c.Istiod[`pilot_xds_pushes{type="`+kind+`"}`] }
	for _, kind := range []string{"wds", "rds"} {
		if n := pushes(without, kind); n > sidecars {
			t.Errorf("%v pushes of %s without ambient mode, where endpoints alone change", n, kind)
		}
		// Changes come every half second and are pushed individually, some of them in two
		// steps.
		if n := pushes(every, kind); n < sidecars*changes/2 {
			t.Errorf("%v pushes of %s to %d sidecars for %d changes", n, kind, sidecars, changes)
		}
	}
	for variant, c := range map[string]*record.Control{"ambient": ambient, "with-ztunnels": beside} {
		if n, most := pushes(c, "rds"), max(sidecars, pushes(without, "rds")); n > most {
			t.Errorf("%s: %v pushes of routes, and without ambient mode %v", variant, n, pushes(without, "rds"))
		}
	}
	if beside.Ztunnels != 3 || beside.ZtunnelWire["wds"].Acks < 3*changes/2 || beside.ZtunnelConfig["wds"] == 0 || every.ZtunnelWire != nil {
		t.Errorf("ztunnels received %+v and hold %v", beside.ZtunnelWire, beside.ZtunnelConfig)
	}
	if w := warnings["with-ztunnels-scoped"]; !strings.Contains(w, "proxies that subscribe to all workloads differ from ztunnels") {
		t.Errorf("sidecars with a scope lack no workloads, it seems: %s", w)
	}
	b.gone(t)
}
