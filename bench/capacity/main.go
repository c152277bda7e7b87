// Command capacity measures the simulation of the push pipeline against its
// target: an hour of a mesh of 100,000 proxies in a minute on one core, in
// meshes that keep up and one that does not.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/bench/internal/table"
)

// limit is how long a simulated hour may take, seconds.
const limit = 60

func main() { os.Exit(table.Main("bench capacity", run)) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("capacity", flag.ContinueOnError)
	flags.SetOutput(stderr)
	proxies := flags.Int("proxies", 100_000, "proxies of the mesh")
	jsonFile := flags.String("json", "", "also write the results to this file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	runtime.GOMAXPROCS(1)
	rows, err := table.Run(ctx, "hour", []table.Part{{Name: "hour", Run: func(context.Context) ([]table.Row, error) { return hours(*proxies) }}})
	return table.Report(stdout, fmt.Sprintf("an hour of %d proxies, simulated on one core", *proxies), rows, err, *jsonFile, struct {
		Schema  int         `json:"schema"`
		Results []table.Row `json:"results"`
	}{1, rows})
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
