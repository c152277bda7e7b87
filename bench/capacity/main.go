// Command capacity compares the capacity model with its targets: an hour of a mesh of 100,000
// proxies simulated in a minute on one core, in meshes that keep up and one that does not;
// models that reproduce the cells that they were fitted to; and prediction intervals that
// include the truth in synthetic worlds, 4 and 8 times beyond the measured range.
package main

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"time"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/advise/capacity/push"
	"github.com/meshtrial/meshtrial/bench/internal/table"

	// The kinds register themselves for study files.
	_ "github.com/meshtrial/meshtrial/kinds/controlplane"
	_ "github.com/meshtrial/meshtrial/kinds/dataplane"
	_ "github.com/meshtrial/meshtrial/kinds/resilience"
)

// limit is the maximum time to simulate an hour, in seconds.
const limit = 60

func main() {
	var proxies, worlds int
	var first uint64
	table.Program{
		Name: "capacity",
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&proxies, "proxies", 100_000, "proxies of the mesh")
			f.IntVar(&worlds, "worlds", 100, "made-up worlds of each part")
			f.Uint64Var(&first, "first-world", 1, "number of the first world: others than those that the fit was tried on")
		},
		Setup: func(context.Context) (func() error, error) {
			runtime.GOMAXPROCS(1)
			return nil, nil
		},
		Title: func() string {
			return fmt.Sprintf("capacity: an hour of %d proxies on one core, and %d made-up worlds", proxies, worlds)
		},
		Parts: []table.Part{
			{Name: "hour", Run: func(context.Context) ([]table.Row, error) { return hours(proxies) }},
			{Name: "cells", Run: func(ctx context.Context) ([]table.Row, error) { return cellsReproduced(ctx, first, worlds) }},
			{Name: "coverage", Run: func(ctx context.Context) ([]table.Row, error) { return coverages(ctx, first, worlds) }},
		},
	}.Main()
}

func hours(proxies int) ([]table.Row, error) {
	var rows []table.Row
	for _, m := range []struct {
		name     string
		replicas int
		cores    float64
		rate     float64
		visible  float64
	}{
		{"one istiod of 64 CPUs, a change a second that all need", 1, 64, 1, 1},
		{"ten of 16, a change a second that all need", 10, 16, 1, 1},
		{"ten of 16, 20 changes a second, each for a twentieth", 10, 16, 20, 0.05},
		{"one of 4, 5 changes a second: it cannot keep up", 1, 4, 5, 1},
	} {
		mesh := model.Default()
		mesh.Proxies, mesh.Services, mesh.Replicas, mesh.Cores, mesh.Rate, mesh.Visible = proxies, 50_000, m.replicas, m.cores, m.rate, m.visible
		mesh.Mix = map[string]float64{model.MixEndpoints: 9, model.MixConfiguration: 1}
		mesh.Horizon, mesh.ConnectionAge = 3600, 0
		v := model.Assumed()
		v[model.CPUPerServiceOf(push.RDS)] = 0 // with 50,000 services none of these would keep up
		begin := time.Now()
		r, err := v.Simulate(mesh, 1)
		if err != nil {
			return nil, err
		}
		took := time.Since(begin).Seconds()
		pairs := r.Needed
		if pairs == 0 || r.Changes == 0 {
			return nil, fmt.Errorf("%s: nothing was simulated", m.name)
		}
		rows = append(rows, table.Of(fmt.Sprintf("%s: %.3g pairs, %.3g turns", m.name, pairs, r.Turns), "s", took).AtMost(limit))
	}
	return rows, nil
}
