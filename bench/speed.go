package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/meshtrial/meshtrial/bench/internal/table"
)

// contender is a way to run a generator.
type contender struct {
	name string
	run  func(context.Context) (trial, error)
}

// rounds runs every contender once a round, in an order that rotates, and
// returns the trials by contender.
func (b *bench) rounds(ctx context.Context, what string, n int, contenders []contender) ([][]trial, error) {
	out := make([][]trial, len(contenders))
	for round := range n {
		fmt.Fprintf(b.log, "%s: round %d of %d\n", what, round+1, n)
		for i := range contenders {
			k := (i + round) % len(contenders)
			t, err := contenders[k].run(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", what, contenders[k].name, err)
			}
			out[k] = append(out[k], t)
		}
	}
	return out, nil
}

// ratios returns requests a CPU-second of a over those of b, round by round.
func ratios(a, b []trial) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i].perCPU() / b[i].perCPU()
	}
	return out
}

func costs(trials []trial) []float64 {
	out := make([]float64, len(trials))
	for i, t := range trials {
		out[i] = t.cpu * 1e6 / t.requests
	}
	return out
}

// speed compares generators as fast as they can.
func (b *bench) speed(ctx context.Context, n int) ([]table.Row, error) {
	trials, err := b.rounds(ctx, "as fast as possible", n, []contender{
		{"meshtrial", func(ctx context.Context) (trial, error) { return b.ours(ctx, b.url, "--rate", "max") }},
		{"wrk", b.wrkMax},
		{"fortio", func(ctx context.Context) (trial, error) { return b.fortioAt(ctx, 0) }},
	})
	if err != nil {
		return nil, err
	}
	return []table.Row{
		table.Of("max: meshtrial", "us CPU/request", costs(trials[0])...),
		table.Of("max: wrk", "us CPU/request", costs(trials[1])...),
		table.Of("max: fortio", "us CPU/request", costs(trials[2])...),
		table.Of("max: requests/CPU-s over wrk's", "ratio", ratios(trials[0], trials[1])...).AtLeast(0.9),
		table.Of("max: requests/CPU-s over fortio's", "ratio", ratios(trials[0], trials[2])...).AtLeast(1.2),
	}, nil
}

// pacedRate is the rate of the paced comparison.
const pacedRate = 5000

// paced compares generators at a fixed rate. fortio has two schedules: by
// default its connections fire together, which is our burst; with -uniform
// they are spread, which is the nearest it has to a Poisson process. What
// the kernel charges for a wake-up alone is set beside: a schedule of single
// requests cannot cost less, one of bursts shares it.
func (b *bench) paced(ctx context.Context, n int) ([]table.Row, error) {
	rate := strconv.Itoa(pacedRate)
	ours := func(arrival string) func(context.Context) (trial, error) {
		return func(ctx context.Context) (trial, error) {
			return b.ours(ctx, b.url, "--rate", rate, "--arrival", arrival)
		}
	}
	trials, err := b.rounds(ctx, "paced", n, []contender{
		{"meshtrial poisson", ours("poisson")},
		{"fortio", func(ctx context.Context) (trial, error) { return b.fortioAt(ctx, pacedRate) }},
		{"meshtrial uniform", ours("uniform")},
		{"fortio -uniform", func(ctx context.Context) (trial, error) { return b.fortioAt(ctx, pacedRate, "-uniform") }},
		{"meshtrial burst", ours("burst")},
	})
	if err != nil {
		return nil, err
	}
	floor, err := wakeCost(b.clientCPU, pacedRate, n)
	if err != nil {
		return nil, fmt.Errorf("paced: %w", err)
	}
	return []table.Row{
		table.Of("5000 rps: being woken alone, Poisson, nothing sent", "us CPU/request", floor...),
		table.Of("5000 rps: meshtrial, Poisson", "us CPU/request", costs(trials[0])...),
		table.Of("5000 rps: meshtrial, uniform", "us CPU/request", costs(trials[2])...),
		table.Of("5000 rps: meshtrial, burst", "us CPU/request", costs(trials[4])...),
		table.Of("5000 rps: fortio (bursts)", "us CPU/request", costs(trials[1])...),
		table.Of("5000 rps: fortio -uniform", "us CPU/request", costs(trials[3])...),
		table.Of("5000 rps: Poisson over fortio's", "ratio", ratios(trials[0], trials[1])...).AtLeast(2.5),
		table.Of("5000 rps: Poisson over fortio -uniform's", "ratio", ratios(trials[0], trials[3])...),
		table.Of("5000 rps: uniform over fortio -uniform's", "ratio", ratios(trials[2], trials[3])...),
		table.Of("5000 rps: burst over fortio's", "ratio", ratios(trials[4], trials[1])...),
	}, nil
}

// lag measures how late the engine itself is.
func (b *bench) lag(ctx context.Context, n int) ([]table.Row, error) {
	var out []table.Row
	for _, rate := range []int{1000, 2000, 5000} {
		trials, err := b.rounds(ctx, fmt.Sprintf("lag at %d rps", rate), n, []contender{{"meshtrial", func(ctx context.Context) (trial, error) {
			return b.ours(ctx, b.url, "--rate", strconv.Itoa(rate))
		}}})
		if err != nil {
			return nil, err
		}
		var p50, p99 []float64
		for _, t := range trials[0] {
			p50 = append(p50, t.report.Lag.At(0.5))
			p99 = append(p99, t.report.Lag.At(0.99))
		}
		out = append(out,
			table.Of(fmt.Sprintf("lag p50 at %d rps", rate), "us", p50...),
			table.Of(fmt.Sprintf("lag p99 at %d rps", rate), "us", p99...).AtMost(100))
	}
	return out, nil
}
