// Command lab measures the local lab against its targets, on this machine: how long it
// takes to start (with components built and images imported), also with an ambient mesh
// if MESHTRIAL_ZTUNNEL names a folder with ztunnel, and to stop; how long 50 injected
// pods take from creation until they are ready; how narrow the interval of the study
// quick is; and how large the program is, which is the image of every pod.
//
// It starts and ends its own labs, so none may be running; it needs root, and a built
// bin/meshtrial in the working directory.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/meshtrial/meshtrial/bench/internal/labs"
	"github.com/meshtrial/meshtrial/bench/internal/table"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/record"
)

// Targets, in seconds; the interval's width as a percentage of its estimate; the program
// in MB.
const (
	upTarget      = 15.0
	ambientTarget = 25.0
	downTarget    = 2.0
	podsTarget    = 40.0
	wideTarget    = 15.0
	sizeTarget    = 57.0
)

const pods = 50

func main() {
	var rounds int
	var quick bool
	table.Program{
		Name: "lab",
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&rounds, "rounds", 3, "labs to start and end")
			f.BoolVar(&quick, "quick", true, "run the study quick in the last lab")
		},
		Setup: func(ctx context.Context) (func() error, error) { // in any case, no lab remains
			return func() error { return meshtrial(context.WithoutCancel(ctx), nil, "lab", "down", "--json") }, nil
		},
		Title: func() string { return fmt.Sprintf("local lab, %d rounds", rounds) },
		Parts: []table.Part{{Name: "lab", Run: func(ctx context.Context) ([]table.Row, error) { return measure(ctx, rounds, quick) }}},
	}.Main()
}

func measure(ctx context.Context, rounds int, quick bool) ([]table.Row, error) {
	var ups, downs, ready []float64
	width := 0.0
	for round := range rounds {
		took, err := up(ctx)
		if err != nil {
			return nil, err
		}
		ups = append(ups, took)
		seconds, err := fifty(ctx)
		if err != nil {
			return nil, err
		}
		ready = append(ready, seconds)
		if quick && round == rounds-1 {
			if width, err = quickWidth(ctx); err != nil {
				return nil, err
			}
		}
		if took, err = down(ctx); err != nil {
			return nil, err
		}
		downs = append(downs, took)
	}
	program, err := os.Stat(labs.Program)
	if err != nil {
		return nil, err
	}
	rows := []table.Row{
		table.Of("program", "MB", float64(program.Size())/1e6).AtMost(sizeTarget),
		table.Of("lab up, Istio available", "s", ups...).AtMost(upTarget),
		table.Of("lab down", "s", downs...).AtMost(downTarget),
		table.Of(fmt.Sprintf("%d injected pods ready", pods), "s", ready...).AtMost(podsTarget),
	}
	if quick {
		rows = append(rows, table.Of("quick: width of the interval of both sidecars' p50 overhead", "%", 100*width).AtMost(wideTarget))
	}
	dir := os.Getenv("MESHTRIAL_ZTUNNEL")
	if dir == "" {
		fmt.Fprintln(os.Stderr, "lab up --ambient is not measured: MESHTRIAL_ZTUNNEL names no folder with ztunnel")
		return rows, nil
	}
	took, err := ambient(ctx, dir, rounds)
	return append(rows, table.Of("lab up --ambient, ztunnel ready", "s", took...).AtMost(ambientTarget)), err
}

// up starts a lab, and returns the seconds that the lab reports.
func up(ctx context.Context, args ...string) (float64, error) {
	var said struct {
		UpS float64 `json:"up_s"`
	}
	err := meshtrial(ctx, &said, append([]string{"lab", "up", "--json"}, args...)...)
	return said.UpS, err
}

// down ends a lab, and returns the seconds likewise.
func down(ctx context.Context) (float64, error) {
	var said struct {
		DownS float64 `json:"down_s"`
	}
	err := meshtrial(ctx, &said, "lab", "down", "--json")
	return said.DownS, err
}

// ambient starts and ends labs with an ambient mesh, whose ztunnel is in dir, and returns
// the seconds that each took to start. It excludes the first one, for which components
// may have to be built.
func ambient(ctx context.Context, dir string, rounds int) ([]float64, error) {
	var ups []float64
	for range rounds + 1 {
		took, err := up(ctx, "--ztunnel", dir)
		if err != nil {
			return nil, err
		}
		if _, err := down(ctx); err != nil {
			return nil, err
		}
		ups = append(ups, took)
	}
	return ups[1:], nil
}

// meshtrial runs the program and decodes its JSON into answer, if given.
func meshtrial(ctx context.Context, answer any, args ...string) error {
	var printed bytes.Buffer
	if _, err := labs.Run(ctx, &printed, args...); err != nil {
		return err
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(printed.Bytes(), answer)
}

// podsYAML is a Deployment of injected pods that do nothing.
const podsYAML = `
apiVersion: v1
kind: Namespace
metadata: {name: bench, labels: {istio-injection: enabled}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: idle, namespace: bench}
spec:
  replicas: %d
  selector: {matchLabels: {app: idle}}
  template:
    metadata:
      labels: {app: idle}
      annotations: {sidecar.istio.io/proxyCPU: 10m, sidecar.istio.io/proxyMemory: 32Mi}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: pause, image: %q}]
`

// podsLimit bounds the wait for the pods.
const podsLimit = 5 * time.Minute

// fifty creates the pods and returns the seconds until all are ready.
func fifty(ctx context.Context) (float64, error) {
	l, err := local.Open("")
	if err != nil {
		return 0, err
	}
	applier, err := lab.NewApplier(l.RESTConfig())
	if err != nil {
		return 0, err
	}
	client, err := kubernetes.NewForConfig(l.RESTConfig())
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, podsLimit)
	defer cancel()
	yaml := fmt.Appendf(nil, podsYAML, pods, components.PauseRef)
	begin := time.Now()
	if err := applier.Apply(ctx, yaml); err != nil {
		return 0, err
	}
	if err := lab.WaitPods(ctx, client, "bench", "app=idle", pods); err != nil {
		return 0, err
	}
	seconds := time.Since(begin).Seconds()
	return seconds, applier.Delete(ctx, yaml)
}

// quickWidth runs the study quick and returns the width of the interval of
// what both sidecars add at p50, as a share of the estimate.
func quickWidth(ctx context.Context) (float64, error) {
	dir, err := os.MkdirTemp("", "meshtrial-bench-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	// The previous pods are still ending, and would interfere.
	if err := wake.Pause(ctx, 20*time.Second); err != nil {
		return 0, err
	}
	begin := time.Now()
	var findings record.Findings
	if err := meshtrial(ctx, &findings, "run", "quick", "--json", "--out", filepath.Join(dir, "run")); err != nil {
		return 0, err
	}
	fmt.Fprintf(os.Stderr, "quick took %.0f s, %d blocks, %d of %d trials valid\n", time.Since(begin).Seconds(),
		findings.Validity.Blocks, findings.Validity.Valid, findings.Validity.Trials)
	for _, f := range findings.Findings {
		if f.Name == "latency_p50_overhead" && f.Cell["sidecars"] == "both" {
			fmt.Fprintf(os.Stderr, "both sidecars add %.0f us (%.0f..%.0f) at p50: %s\n", f.Estimate, f.Low, f.High, f.Verdict)
			if f.Verdict != record.VerdictReal {
				return 0, fmt.Errorf("quick gave no figure for both sidecars: %s", f.Verdict)
			}
			return (f.High - f.Low) / f.Estimate, nil
		}
	}
	return 0, errors.New("quick gave no overhead of both sidecars")
}
