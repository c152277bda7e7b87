package trial

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/meshtrial/meshtrial/drive/load"
	"github.com/meshtrial/meshtrial/kinds/dataplane"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/stat"
)

// warmUp waits until latency and CPU are steady, at least the study's minimum and at most its
// maximum. It returns the number of the generator's finished intervals.
func (t *trialRun) warmUp(ctx context.Context) (record.Warmup, int, error) {
	s := t.o.Study
	begin := time.Now()
	told := begin
	var latency, cpu []float64
	share, err := t.watchCPU(ctx)
	if err != nil {
		return record.Warmup{}, 0, err
	}
	ticker := time.NewTicker(dataplane.Of(s).Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return record.Warmup{}, 0, ctx.Err()
		case <-ticker.C:
		}
		asked := time.Now()
		ended, err := t.intervals(ctx, len(latency))
		if err != nil {
			return record.Warmup{}, 0, err
		}
		used := math.NaN()
		if share != nil {
			if used, err = share(ctx); err != nil {
				return record.Warmup{}, 0, err
			}
		}
		t.slowest = max(t.slowest, time.Since(asked)/2) // of two queries
		for _, iv := range ended {
			latency = append(latency, median(iv))
			cpu = append(cpu, used)
		}
		elapsed := time.Since(begin)
		if time.Since(told) >= tellEvery && len(latency) > 0 {
			told = time.Now()
			t.d.tell(runner.Event{Stage: runner.StageWarming, Text: warmingWords(elapsed, latency[len(latency)-1], used)})
		}
		warm := record.Warmup{Seconds: elapsed.Seconds()}
		if elapsed < s.Warmup.Min {
			continue
		}
		steady := stat.Warmup{Names: []string{"latency", "CPU"}}.Detect(latency, cpu)
		if share == nil {
			steady = stat.Warmup{Names: []string{"latency"}}.Detect(latency)
		}
		warm.Steady, warm.Why = steady.OK, steady.Why
		if !steady.OK && elapsed < s.Warmup.Max {
			continue
		}
		if !steady.OK {
			warm.Why = fmt.Sprintf("not steady after %.1f s: %s", elapsed.Seconds(), steady.Why)
		}
		return warm, len(latency), nil
	}
}

// tellEvery is the minimum interval between reports of a warm-up's progress.
const tellEvery = time.Second

// warmingWords describes a warm-up's progress: the last interval's median, in nanoseconds, and the
// CPUs used; NaN if unknown.
func warmingWords(elapsed time.Duration, medianNS, cpus float64) string {
	out := fmt.Sprintf("warming up for %.0f s", elapsed.Seconds())
	if !math.IsNaN(medianNS) {
		out += fmt.Sprintf(": p50 %v", time.Duration(medianNS).Round(time.Microsecond))
	}
	if !math.IsNaN(cpus) {
		out += fmt.Sprintf(", %.1f CPUs", cpus)
	}
	return out
}

// watchCPU returns a function that returns the CPU used by the trial's parts on the server's node
// since its last call, in CPUs. It returns nil with kubelets, whose samples are too rare.
func (t *trialRun) watchCPU(ctx context.Context) (func(context.Context) (float64, error), error) {
	if t.d.Kubelets {
		return nil, nil
	}
	node := t.server.pod.Node
	targets := without(t.targets[node], unpassed...) // those may end meanwhile
	look := func(ctx context.Context) (observe.Snapshot, error) {
		shot, err := t.d.Observers[node].Snapshot(ctx, targets, false)
		if err != nil {
			err = fmt.Errorf("watch CPU: %w", err)
		}
		return shot, err
	}
	last, err := look(ctx)
	return func(ctx context.Context) (float64, error) {
		shot, err := look(ctx)
		share := cpuShare(last, shot)
		last = shot
		return share, err
	}, err
}

// median returns an interval's latency, or NaN if nothing completed in it.
func median(iv load.Summary) float64 {
	if iv.Completed == 0 {
		return math.NaN()
	}
	return iv.P50NS
}

// cpuShare returns the CPU used by the trial's parts between two snapshots, in CPUs.
func cpuShare(before, after observe.Snapshot) float64 {
	elapsed := float64(after.StartNS-before.StartNS-(after.SteppedNS-before.SteppedNS)) / 1e9
	if elapsed <= 0 {
		return math.NaN()
	}
	total := 0.0
	for name, sample := range after.Targets {
		cpu, err := sample.Since(before.Targets[name])
		if err != nil {
			return math.NaN()
		}
		switch partOf(name) {
		case record.PartControl, record.PartIdleNode: // neither follows the requests
		default:
			total += cpu.TotalS()
		}
	}
	return total / elapsed
}
