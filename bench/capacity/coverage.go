package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/meshtrial/meshtrial/advise/capacity/fit"
	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/advise/capacity/world"
	"github.com/meshtrial/meshtrial/bench/internal/table"
	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

const (
	leastCovered = 0.85 // minimum share of truths within 90% intervals
	spreadOfCost = 3    // costs are within this factor of the assumed ones
	noise        = 0.06 // of each figure of a trial
	reproduced   = 0.05 // maximum error of a fitted cell
	// leastReproduced is the minimum share of fitted cells: near its limit a mesh is in one of
	// two states, and quantiles of convergence jump by a group of turns.
	leastReproduced = 0.95
	largest         = 100 // proxies and services of the largest fitted cell
)

// design is a study that a model is fitted to.
type design struct {
	name  string
	cells []record.Cell
	bend  float64 // see [world.Random]
}

func cell(name string, proxies, services int, rate, change string) record.Cell {
	return study.ControlPlane.Completed(record.Cell{"variant": name, controlplane.FactorProxies: fmt.Sprint(proxies), controlplane.FactorServices: fmt.Sprint(services),
		controlplane.FactorNamespaces: "4", controlplane.FactorChangeRate: rate, controlplane.FactorChange: change})
}

// designs returns studies shaped like capacity-holdout, a third as large, and single cells of
// it.
func designs() []design {
	several := []record.Cell{cell("a", 17, 17, "2", "mixed"), cell("b", largest, 17, "2", "mixed"), cell("c", 17, largest, "2", "mixed"),
		cell("d", largest, largest, "1", "mixed"), cell("e", largest, largest, "6", "mixed"), cell("f", largest, largest, "6", "virtualservice")}
	return []design{
		{"six cells", several, 0},
		{"six cells, costs bend", several, 0.15},
		{"one size, calm", several[3:4], 0},
		{"one size, overlapping", several[4:5], 0},
		{"one size, costs bend", several[3:4], 0.15},
	}
}

// covered counts predictions within their intervals.
type covered struct{ within, all int }

func (c covered) share() float64 { return float64(c.within) / float64(max(c.all, 1)) }

// figure is a prediction for a mesh a given factor beyond the largest cell.
type figure struct {
	beyond int
	output string
}

var beyonds = []int{4, 8}

// coverage fits models to the runs of synthetic istiods, and counts how often the 90% intervals
// of predictions beyond the largest cell include what that istiod does. Worlds are numbered
// from first.
func coverage(ctx context.Context, d design, first uint64, worlds int) (map[figure]covered, error) {
	out := map[figure]covered{}
	for seed := range uint64(worlds) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := cover(d, first+seed, out); err != nil {
			return nil, fmt.Errorf("world %d: %w", first+seed, err)
		}
	}
	return out, nil
}

func cover(d design, seed uint64, out map[figure]covered) error {
	rng := rand.New(rand.NewPCG(seed, 0x636f766572))
	w := world.Random(rng, spreadOfCost, d.bend)
	run, err := w.Run(d.cells, world.Trials{Blocks: 3, Noise: noise, Seed: seed, Changes: func(rate float64) int { return int(16 * rate) }})
	if err != nil {
		return err
	}
	m, err := fit.Fit([]record.Run{run}, fit.Options{Seed: 1, Draws: 60})
	if err != nil {
		return err
	}
	moreServices := rng.IntN(2) == 0
	for _, times := range beyonds {
		mesh := model.Default()
		mesh.Proxies, mesh.Services, mesh.Namespaces, mesh.Rate, mesh.Mix = largest*times, largest, 4, 1, m.Mix
		mesh.Beside, mesh.ConnectionAge, mesh.Horizon = true, 0, 120
		if moreServices {
			mesh.Services *= times
		}
		p, err := m.Predict(mesh, model.Options{Seed: 1, Draws: 30})
		if err != nil {
			return err
		}
		truth := w.At(mesh)
		r, err := truth.Simulate(mesh, 1000+seed) // with changes other than the prediction's
		if err != nil {
			return err
		}
		for k, y := range truth.Simulated(mesh, r) {
			f := figure{times, model.Outputs[k].Name}
			c := out[f]
			c.all++
			if i := p.Outputs[k].Interval; i.Low <= y && y <= i.High {
				c.within++
			}
			out[f] = c
		}
	}
	return nil
}

// coverages returns rows for all designs and sizes.
func coverages(ctx context.Context, first uint64, worlds int) ([]table.Row, error) {
	var rows []table.Row
	for _, d := range designs() {
		got, err := coverage(ctx, d, first, worlds)
		if err != nil {
			return rows, err
		}
		for _, times := range beyonds {
			for _, o := range model.Outputs {
				rows = append(rows, table.Of(fmt.Sprintf("%s, %d times: %s", d.name, times, o.Name), "ratio", got[figure{times, o.Name}].share()).AtLeast(leastCovered))
			}
		}
	}
	return rows, nil
}

// cellsReproduced counts how often a model's error is small on the cells that it was fitted to.
func cellsReproduced(ctx context.Context, first uint64, worlds int) ([]table.Row, error) {
	out := map[string]covered{}
	for seed := range uint64(worlds) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		seed += first - 1
		rng := rand.New(rand.NewPCG(seed, 7))
		run, err := world.Random(rng, spreadOfCost, 0).Run(world.Cells(rng, 1+int(seed)%3), world.Trials{Blocks: 2, Changes: func(float64) int { return 20 }, Seed: seed})
		if err != nil {
			return nil, err
		}
		m, err := fit.Fit([]record.Run{run}, fit.Options{Seed: 1, Draws: 2})
		if err != nil {
			return nil, err
		}
		fitted, _, err := fit.Against(m, run, model.Options{Seed: 1, Draws: 1})
		if err != nil {
			return nil, err
		}
		for _, c := range fitted {
			for _, a := range c.Outputs {
				n := out[a.Output]
				n.all++
				if off := a.Predicted/a.Measured - 1; off >= -reproduced && off <= reproduced {
					n.within++
				}
				out[a.Output] = n
			}
		}
	}
	var rows []table.Row
	for _, o := range model.Outputs {
		if n := out[o.Name]; n.all > 0 {
			rows = append(rows, table.Of(fmt.Sprintf("%d fitted cells, within 5%%: %s", n.all, o.Name), "ratio", n.share()).AtLeast(leastReproduced))
		}
	}
	return rows, nil
}
