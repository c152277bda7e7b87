package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/meshtrial/meshtrial/bench/internal/table"
	"github.com/meshtrial/meshtrial/record"
)

// contender is a way of running a generator.
type contender struct {
	name string
	run  func(context.Context) (trial, error)
}

// trials runs every contender once per round and returns the trials by
// contender.
func (b *bench) trials(ctx context.Context, what string, contenders []contender) ([][]trial, error) {
	return table.Rounds(what, b.rounds, len(contenders), func(i int) (trial, error) {
		t, err := contenders[i].run(ctx)
		if err != nil {
			err = fmt.Errorf("%s: %w", contenders[i].name, err)
		}
		return t, err
	})
}

// speed compares generators at full speed.
func (b *bench) speed(ctx context.Context) ([]table.Row, error) {
	trials, err := b.trials(ctx, "as fast as possible", []contender{
		{"meshtrial", func(ctx context.Context) (trial, error) { return b.ours(ctx, b.url, "--rate", "max") }},
		{"wrk", b.wrkMax},
		{"fortio", func(ctx context.Context) (trial, error) { return b.fortioAt(ctx, 0) }},
	})
	if err != nil {
		return nil, err
	}
	return []table.Row{
		table.Of("max: meshtrial", "us CPU/request", table.Each(trials[0], trial.micros)...),
		table.Of("max: wrk", "us CPU/request", table.Each(trials[1], trial.micros)...),
		table.Of("max: fortio", "us CPU/request", table.Each(trials[2], trial.micros)...),
		table.Of("max: requests/CPU-s over wrk's", "ratio", table.Ratios(trials[0], trials[1], trial.perCPU)...).AtLeast(0.9),
		table.Of("max: requests/CPU-s over fortio's", "ratio", table.Ratios(trials[0], trials[2], trial.perCPU)...).AtLeast(1.2),
	}, nil
}

// pacedRate is the rate of the paced comparison.
const pacedRate = 5000

// paced compares generators at a fixed rate. fortio has two schedules: by
// default its connections fire together, which corresponds to our burst; with
// -uniform they are spread, which is its closest to a Poisson process.
func (b *bench) paced(ctx context.Context) ([]table.Row, error) {
	rate := strconv.Itoa(pacedRate)
	ours := func(arrival string) func(context.Context) (trial, error) {
		return func(ctx context.Context) (trial, error) {
			return b.ours(ctx, b.url, "--rate", rate, "--arrival", arrival)
		}
	}
	trials, err := b.trials(ctx, "paced", []contender{
		{"meshtrial poisson", ours("poisson")},
		{"fortio", func(ctx context.Context) (trial, error) { return b.fortioAt(ctx, pacedRate) }},
		{"meshtrial uniform", ours("uniform")},
		{"fortio -uniform", func(ctx context.Context) (trial, error) { return b.fortioAt(ctx, pacedRate, "-uniform") }},
		{"meshtrial burst", ours("burst")},
	})
	if err != nil {
		return nil, err
	}
	return []table.Row{
		table.Of("5000 rps: meshtrial, Poisson", "us CPU/request", table.Each(trials[0], trial.micros)...),
		table.Of("5000 rps: meshtrial, uniform", "us CPU/request", table.Each(trials[2], trial.micros)...),
		table.Of("5000 rps: meshtrial, burst", "us CPU/request", table.Each(trials[4], trial.micros)...),
		table.Of("5000 rps: fortio (bursts)", "us CPU/request", table.Each(trials[1], trial.micros)...),
		table.Of("5000 rps: fortio -uniform", "us CPU/request", table.Each(trials[3], trial.micros)...),
		table.Of("5000 rps: Poisson over fortio's", "ratio", table.Ratios(trials[0], trials[1], trial.perCPU)...).AtLeast(2.5),
		table.Of("5000 rps: Poisson over fortio -uniform's", "ratio", table.Ratios(trials[0], trials[3], trial.perCPU)...),
		table.Of("5000 rps: uniform over fortio -uniform's", "ratio", table.Ratios(trials[2], trials[3], trial.perCPU)...),
		table.Of("5000 rps: burst over fortio's", "ratio", table.Ratios(trials[4], trials[1], trial.perCPU)...),
	}, nil
}

// lag measures how late the engine itself is.
func (b *bench) lag(ctx context.Context) ([]table.Row, error) {
	var out []table.Row
	for _, rate := range []int{1000, 2000, 5000} {
		trials, err := b.trials(ctx, fmt.Sprintf("lag at %d rps", rate), []contender{{"meshtrial", func(ctx context.Context) (trial, error) {
			return b.ours(ctx, b.url, "--rate", strconv.Itoa(rate))
		}}})
		if err != nil {
			return nil, err
		}
		lag := func(q record.Quantile) []float64 {
			return table.Each(trials[0], func(t trial) float64 { return t.report.Lag.At(q) })
		}
		out = append(out,
			table.Of(fmt.Sprintf("lag p50 at %d rps", rate), "us", lag(0.5)...),
			table.Of(fmt.Sprintf("lag p99 at %d rps", rate), "us", lag(0.99)...).AtMost(100))
	}
	return out, nil
}
