package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/meshmark/meshmark/load"
	"github.com/meshmark/meshmark/load/arrival"
)

// truthCase is a server of known service times under a known schedule.
type truthCase struct {
	name        string
	rate        float64
	seconds     float64
	connections int
	service     service
}

// service says how long the server works on each request, by its place in
// the order of arrival.
type service struct {
	Seed   uint64  `json:"seed"`
	Law    string  `json:"law"` // fixed, exponential, lognormal
	MeanUS float64 `json:"mean_us"`
	Sigma  float64 `json:"sigma"` // of the logarithm
	// StallAt is the request, if not negative, whose service takes StallMS
	// longer.
	StallAt int     `json:"stall_at"`
	StallMS float64 `json:"stall_ms"`
}

// times returns the service times in ns, one after the other.
func (s service) times() func() int64 {
	rng := rand.New(rand.NewPCG(s.Seed, 0x736572766963))
	k := -1
	return func() int64 {
		us := s.MeanUS
		switch s.Law {
		case "exponential":
			us *= rng.ExpFloat64()
		case "lognormal":
			us *= math.Exp(s.Sigma*rng.NormFloat64() - s.Sigma*s.Sigma/2)
		}
		if k++; k == s.StallAt {
			us += s.StallMS * 1e3
		}
		return int64(us * 1e3)
	}
}

var truthCases = []truthCase{
	{"M/D/1", 400, 20, 64, service{Seed: 1, Law: "fixed", MeanUS: 1500, StallAt: -1}},
	{"M/M/1", 400, 20, 64, service{Seed: 2, Law: "exponential", MeanUS: 1500, StallAt: -1}},
	{"M/G/1 lognormal", 300, 20, 64, service{Seed: 3, Law: "lognormal", MeanUS: 1500, Sigma: 0.8, StallAt: -1}},
	{"one 1 s stall at 1000 rps", 1000, 20, 16, service{Seed: 4, Law: "fixed", MeanUS: 200, StallAt: 5000, StallMS: 1000}},
}

// truthSeed is the seed of the schedules.
const truthSeed = 11

// oracle returns the sorted latencies in ns that a server which takes one
// request at a time, in the order of arrival, must give (Lindley 1952):
// each begins when it arrives or when the one before it is done.
func (c truthCase) oracle() []float64 {
	schedule := arrival.Poisson(arrival.Shape{Kind: arrival.Constant, RateRPS: c.rate}, c.seconds, truthSeed)
	next := c.service.times()
	var out []float64
	free := int64(0)
	for {
		r, ok := schedule.Next()
		if !ok {
			slices.Sort(out)
			return out
		}
		free = max(free, r.Offset) + next()
		out = append(out, float64(free-r.Offset))
	}
}

// at returns the value at percentile p of sorted values.
func at(sorted []float64, p float64) float64 {
	return sorted[min(len(sorted)-1, max(0, int(math.Ceil(p/100*float64(len(sorted))))-1))]
}

// truth runs each case and compares every percentile with the oracle's: the
// result is the error beyond nothing, in units of what is allowed, 1% and
// 20 us.
func (b *bench) truth(ctx context.Context) ([]result, error) {
	var out []result
	for _, c := range truthCases {
		fmt.Fprintf(b.log, "truth: %s\n", c.name)
		report, err := b.truthRun(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("truth: %s: %w", c.name, err)
		}
		want := c.oracle()
		if int(report.Completed) != len(want) {
			return nil, fmt.Errorf("truth: %s: %d completed, the schedule has %d", c.name, report.Completed, len(want))
		}
		for _, q := range []struct {
			name string
			p    float64
			got  float64 // us
		}{{"p50", 50, report.Intended.P50}, {"p90", 90, report.Intended.P90}, {"p99", 99, report.Intended.P99}, {"p99.9", 99.9, report.Intended.P999}} {
			exact := at(want, q.p) / 1e3
			r := summary(fmt.Sprintf("truth, %s: %s error (oracle %s us)", c.name, q.name, number(exact)), "us", []float64{math.Abs(q.got - exact)})
			out = append(out, r.atMost(math.Round(0.01*exact+20)))
		}
	}
	return append(out, histogramError()), nil
}

// truthRun starts the server, a process of its own, and loads it.
func (b *bench) truthRun(ctx context.Context, c truthCase) (load.Report, error) {
	self, err := os.Executable()
	if err != nil {
		return load.Report{}, err
	}
	cmd := pinned(ctx, b.serverCPU, self, serverMode)
	cmd.Stderr = b.log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return load.Report{}, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return load.Report{}, err
	}
	if err := cmd.Start(); err != nil {
		return load.Report{}, err
	}
	defer endServer(cmd)
	if err := json.NewEncoder(stdin).Encode(c.service); err != nil {
		return load.Report{}, err
	}
	address, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return load.Report{}, fmt.Errorf("the server did not start: %w", err)
	}
	t, err := b.ours(ctx, "http://"+strings.TrimSpace(address)+"/",
		"--rate", strconv.FormatFloat(c.rate, 'f', -1, 64), "--seed", strconv.Itoa(truthSeed),
		"--duration", fmt.Sprintf("%gs", c.seconds), "--connections", strconv.Itoa(c.connections))
	return t.report, err
}

func endServer(cmd *exec.Cmd) {
	_ = cmd.Process.Signal(syscall.SIGKILL)
	_ = cmd.Wait()
}

// histogramError is the largest error of a percentile read from a histogram
// of a million lognormal values, against the values themselves.
func histogramError() result {
	const n = 1_000_000
	rng := rand.New(rand.NewPCG(5, 6))
	h := load.NewHistogram()
	values := make([]float64, n)
	for i := range values {
		v := int64(1e6 * math.Exp(1.5*rng.NormFloat64()))
		_ = h.RecordValue(v) // far within the range
		values[i] = float64(v)
	}
	slices.Sort(values)
	s := load.Summarise(h)
	worst := 0.0
	for _, q := range []struct{ p, got float64 }{{50, s.P50}, {90, s.P90}, {99, s.P99}, {99.9, s.P999}} {
		exact := at(values, q.p) / 1e3
		worst = max(worst, math.Abs(q.got-exact)/exact*100)
	}
	return summary("histogram: error of a percentile", "%", []float64{worst}).atMost(0.1)
}
